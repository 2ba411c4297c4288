//! Client of the solver process: starts it, reads its models, ends it.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::child::{ARGUMENT, Job, Line, Terms};
use crate::engine::Outcome;
use crate::sandbox::Limits;

/// How often the caller's `stop` is polled while the solver works.
const POLL: Duration = Duration::from_millis(2);

/// How long to wait for the last output of a process, and for its exit.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long to wait for bounds after the signal to stop; a process that is still grounding has none.
const LAST_BOUND: Duration = Duration::from_millis(100);

/// The size of the chunks in which a job is written, in bytes, so that no job is in memory twice.
const PIECE: usize = 64 << 10;

/// How much of the standard error of a process is kept, in bytes.
const KEPT: u64 = 4096;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Normally.
    Finished(Outcome),
    /// The caller's `stop` returned true.
    Stopped,
    /// The failure, as a sentence; models found before it are valid.
    Lost(String),
}

/// The caller's instruction to a process that computes bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundCommand {
    /// Continue.
    Continue,
    /// Report the bounds known so far.
    Report,
    /// Abandon the job.
    Abandon,
}

/// A running solver process, which does one job after the other. Dropping it kills and reaps it, on every path.
#[derive(Debug)]
pub(crate) struct Solver {
    child: Child,
    jobs: Sender<Vec<u8>>,
    lines: Receiver<Result<Line, String>>,
    words: Receiver<String>,
}

/// Passes chunks to the writing thread.
struct Pieces<'a>(&'a Sender<Vec<u8>>);

impl Write for Pieces<'_> {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        // The thread is gone only if the pipe is broken, which the reader notices.
        let _ = self.0.send(piece.to_vec());
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Solver {
    /// Starts a process, which initializes while the caller continues.
    pub fn start(executable: &Path, limits: Limits) -> Result<Self, String> {
        let mut child = Command::new(executable)
            .arg0("cairn-solver")
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", executable.display()))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (jobs, to_write) = mpsc::channel::<Vec<u8>>();
        let (to_lines, lines) = mpsc::channel();
        let (to_words, words) = mpsc::channel();
        // Each pipe has a thread of its own, so that a full pipe blocks no other. None is joined: they end with the process, and
        // another process that inherited a pipe must not block the caller.
        thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            // A process that exits before it has read its job breaks the pipe; its exit status is reported instead.
            while to_write.recv().is_ok_and(|text| stdin.write_all(&text).is_ok()) {}
        });
        thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
                let line = line.map_err(|e| format!("cannot read from the solver: {e}")).and_then(|line| {
                    serde_json::from_str(&line).map_err(|e| format!("the solver sent an invalid answer: {e}"))
                });
                let is_last = line.is_err();
                if to_lines.send(line).is_err() || is_last {
                    return;
                }
            }
        });
        thread::spawn(move || {
            let mut kept = Vec::new();
            if let Some(stderr) = stderr {
                // Output that arrived before an error is kept.
                let _ = stderr.take(KEPT).read_to_end(&mut kept);
            }
            // The receiver is gone if every job ended normally.
            let _ = to_words.send(String::from_utf8_lossy(&kept).trim().to_owned());
        });
        let solver = Self { child, jobs, lines, words };
        solver.write(&Terms { parent: std::process::id(), limits })?;
        Ok(solver)
    }

    fn write(&self, line: &impl Serialize) -> Result<(), String> {
        let mut pieces = BufWriter::with_capacity(PIECE, Pieces(&self.jobs));
        let written = serde_json::to_writer(&mut pieces, line).map_err(std::io::Error::from);
        let written = written.and_then(|()| pieces.write_all(b"\n")).and_then(|()| pieces.flush());
        written.map_err(|e| format!("cannot write the job: {e}"))
    }

    /// Runs a job; `found` gets each model, and an error from it ends the job.
    ///
    /// The process accepts another job only after [`JobEnd::Finished`].
    pub fn run<E>(
        &mut self,
        job: &Job,
        stop: &dyn Fn() -> bool,
        mut found: impl FnMut(Vec<Option<usize>>, &[i64]) -> Result<(), E>,
    ) -> Result<JobEnd, E> {
        if let Err(problem) = self.write(job) {
            return Ok(JobEnd::Lost(problem));
        }
        loop {
            if stop() {
                return Ok(JobEnd::Stopped);
            }
            match self.lines.recv_timeout(POLL) {
                Ok(Ok(Line::Model { places, sums })) => found(places, &sums)?,
                Ok(Ok(Line::End(outcome))) => return Ok(JobEnd::Finished(outcome)),
                Ok(Ok(Line::Bound(sums))) => {
                    return Ok(JobEnd::Lost(format!("the solver sent unexpected bounds: {sums:?}")));
                }
                Ok(Ok(Line::Failed(problem)) | Err(problem)) => {
                    return Ok(JobEnd::Lost(self.explain(&problem)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.epitaph();
                    let problem = format!("the solver exited without an answer: {status}");
                    return Ok(JobEnd::Lost(self.explain(&problem)));
                }
            }
        }
    }

    /// Runs a job that computes lower bounds; `None` if it was abandoned, or the process did not answer in time.
    ///
    /// # Errors
    /// What failed, as a sentence.
    pub fn bound(mut self, job: &Job, command: &dyn Fn() -> BoundCommand) -> Result<Vec<i64>, String> {
        self.write(job)?;
        let mut asked = None;
        while asked.is_none_or(|asked: Instant| asked.elapsed() < LAST_BOUND) {
            match command() {
                BoundCommand::Abandon => break,
                BoundCommand::Report if asked.is_none() => {
                    asked = Some(Instant::now());
                    // Closing its input is the signal to stop.
                    self.jobs = mpsc::channel().0;
                }
                BoundCommand::Continue | BoundCommand::Report => {}
            }
            match self.lines.recv_timeout(POLL) {
                Ok(Ok(Line::Bound(sums))) => return Ok(sums),
                Ok(Ok(Line::Failed(problem)) | Err(problem)) => return Err(self.explain(&problem)),
                Ok(Ok(line)) => return Err(format!("the solver sent this instead of bounds: {line:?}")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.epitaph();
                    return Err(self.explain(&format!("the solver exited without an answer: {status}")));
                }
            }
        }
        Ok(Vec::new())
    }

    /// A problem, followed by what the process wrote to standard error.
    fn explain(&self, problem: &str) -> String {
        match self.words.recv_timeout(LAST_WORDS) {
            Ok(words) if !words.is_empty() => format!("{problem}; {words}"),
            _ => problem.to_owned(),
        }
    }

    /// The exit status of a process that writes no more; its exit may follow its last line by a moment.
    fn epitaph(&mut self) -> String {
        let asked = Instant::now();
        while asked.elapsed() < LAST_WORDS {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => thread::sleep(POLL),
                Err(problem) => return problem.to_string(),
            }
        }
        "it is still running, without output".to_owned()
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // Both fail only for a process that is already reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a job that is given to an arbitrary program.
    fn lost(executable: &str) -> String {
        let job = Job { facts: "x".repeat(1 << 20), ..Job::default() };
        let ended = Solver::start(Path::new(executable), Limits::default())
            .map_or_else(JobEnd::Lost, |mut solver| {
                solver.run(&job, &|| false, |_, _| Ok::<(), ()>(())).unwrap()
            });
        match ended {
            JobEnd::Lost(problem) => problem,
            other => panic!("{executable} ended with {other:?}"),
        }
    }

    #[test]
    fn a_lost_solver_is_reported_with_its_standard_error() {
        assert!(lost("/nonexistent").starts_with("cannot start /nonexistent: No such file"));
        assert_eq!(lost("/bin/true"), "the solver exited without an answer: exit status: 0");
        let complaint = lost("/bin/cat");
        assert!(
            complaint.starts_with("the solver exited without an answer: exit status: 1; "),
            "{complaint}"
        );
        assert!(complaint.contains("option"), "{complaint}");
        assert!(lost("/bin/echo").starts_with("the solver sent an invalid answer: "));
    }
}
