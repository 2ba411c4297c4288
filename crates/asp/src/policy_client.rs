//! Client of the solver process that evaluates a policy: one question, one answer, within a deadline.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use policy::Verdict;

use crate::worker::{ARGUMENT, PolicyJob};

/// Sends a job and waits for at most `patience`. On return the process has ended and is reaped.
///
/// # Errors
/// What failed, as a sentence.
pub(crate) fn ask(executable: &Path, job: &PolicyJob, patience: Duration) -> Result<Verdict, String> {
    let text = serde_json::to_vec(job).map_err(|e| format!("cannot write the job: {e}"))?;
    let child = Command::new(executable)
        .arg0("cairn-policy")
        .arg(ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", executable.display()))?;
    let mut worker = Worker(child);
    let (stdin, stdout) = (worker.0.stdin.take(), worker.0.stdout.take());
    thread::spawn(move || {
        // A process that exits before it has read its job breaks the pipe; its exit status is reported instead.
        let _ = stdin.map(|mut stdin| stdin.write_all(&text));
    });
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut answer));
        // The receiver is gone after a time-out.
        let _ = sender.send(read.map(|_| answer));
    });
    let answer = match receiver.recv_timeout(patience) {
        Err(RecvTimeoutError::Timeout) => {
            return Err(format!("clingo took more than {} ms", patience.as_millis()));
        }
        Err(RecvTimeoutError::Disconnected) => return Err("the solver's answer was lost".to_owned()),
        Ok(answer) => answer.map_err(|e| format!("cannot read from the solver: {e}"))?,
    };
    if answer.is_empty() {
        let status = worker.0.wait().map_err(|e| e.to_string())?;
        return Err(format!("the solver exited without an answer: {status}"));
    }
    serde_json::from_slice::<Result<Verdict, String>>(&answer)
        .map_err(|e| format!("the solver sent an invalid answer: {e}"))?
}

/// A running process. Dropping it kills and reaps it, on every path.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only for a process that is already reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
