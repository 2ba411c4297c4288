//! The caller's side of the solver process: start it, listen, end it.

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

/// How often the caller's `stop` is asked while the solver works.
const POLL: Duration = Duration::from_millis(2);

/// How long the last words of a process, and its end, are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long the bounds of a process are waited for that has been told to come to an end: one that still grounds has none.
const LAST_BOUND: Duration = Duration::from_millis(100);

/// How much of a job is handed over at a time, in bytes: no job stands in memory twice.
const PIECE: usize = 64 << 10;

/// How much of what a process says on standard error is kept, in bytes.
const KEPT: u64 = 4096;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Finished(Outcome),
    /// The caller's `stop` said so.
    Stopped,
    /// Whatever went wrong, in plain words; what was found before it stands.
    Lost(String),
}

/// What is wanted of a process that looks for bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// That it goes on.
    More,
    /// That it says what it knows.
    Enough,
    /// Nothing any more.
    Nothing,
}

/// A running solver process, which does one job after the other. Dropping it ends and reaps it, on every path.
#[derive(Debug)]
pub(crate) struct Solver {
    child: Child,
    jobs: Sender<Vec<u8>>,
    lines: Receiver<Result<Line, String>>,
    words: Receiver<String>,
}

/// Hands on what is written to the thread that writes.
struct Pieces<'a>(&'a Sender<Vec<u8>>);

impl Write for Pieces<'_> {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        // That thread is gone only when the pipe is broken, and that is noticed where the answer is read.
        let _ = self.0.send(piece.to_vec());
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Solver {
    /// Starts a process, which gets itself ready while the caller goes on.
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
        // Each pipe has a thread of its own, so that no full pipe blocks anybody. None is joined: they end with the
        // process, and a stranger that inherited a pipe must not hold up the caller.
        thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            // A process that ends before it has read its job breaks the pipe; how it ended says why.
            while to_write.recv().is_ok_and(|text| stdin.write_all(&text).is_ok()) {}
        });
        thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
                let line = line.map_err(|e| format!("cannot read from the solver: {e}")).and_then(|line| {
                    serde_json::from_str(&line).map_err(|e| format!("the solver said what is no answer: {e}"))
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
                // What arrived before an error is kept all the same.
                let _ = stderr.take(KEPT).read_to_end(&mut kept);
            }
            // Nobody listens when every job ended well.
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

    /// Has a job done; `found` gets each model, and an error from it ends the job.
    ///
    /// The process may be asked again only after [`Ended::Finished`].
    pub fn run<E>(
        &mut self,
        job: &Job,
        stop: &dyn Fn() -> bool,
        mut found: impl FnMut(Vec<Option<usize>>, &[i64]) -> Result<(), E>,
    ) -> Result<Ended, E> {
        if let Err(problem) = self.write(job) {
            return Ok(Ended::Lost(problem));
        }
        loop {
            if stop() {
                return Ok(Ended::Stopped);
            }
            match self.lines.recv_timeout(POLL) {
                Ok(Ok(Line::Model { places, sums })) => found(places, &sums)?,
                Ok(Ok(Line::End(outcome))) => return Ok(Ended::Finished(outcome)),
                Ok(Ok(Line::Bound(sums))) => {
                    return Ok(Ended::Lost(format!("the solver told of bounds unasked: {sums:?}")));
                }
                Ok(Ok(Line::Failed(problem)) | Err(problem)) => {
                    return Ok(Ended::Lost(self.explain(&problem)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.epitaph();
                    let problem = format!("the solver ended without an answer: {status}");
                    return Ok(Ended::Lost(self.explain(&problem)));
                }
            }
        }
    }

    /// Has a job done that looks for lower bounds; none where nothing is wanted any more, or the process does not answer in time.
    ///
    /// # Errors
    /// What went wrong, in plain words.
    pub fn bound(mut self, job: &Job, wanted: &dyn Fn() -> Wanted) -> Result<Vec<i64>, String> {
        self.write(job)?;
        let mut asked = None;
        while asked.is_none_or(|asked: Instant| asked.elapsed() < LAST_BOUND) {
            match wanted() {
                Wanted::Nothing => break,
                Wanted::Enough if asked.is_none() => {
                    asked = Some(Instant::now());
                    // The end of its input tells the process.
                    self.jobs = mpsc::channel().0;
                }
                Wanted::More | Wanted::Enough => {}
            }
            match self.lines.recv_timeout(POLL) {
                Ok(Ok(Line::Bound(sums))) => return Ok(sums),
                Ok(Ok(Line::Failed(problem)) | Err(problem)) => return Err(self.explain(&problem)),
                Ok(Ok(line)) => return Err(format!("the solver was asked for bounds and said {line:?}")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.epitaph();
                    return Err(self.explain(&format!("the solver ended without an answer: {status}")));
                }
            }
        }
        Ok(Vec::new())
    }

    /// A problem, and what the process said about it on standard error.
    fn explain(&self, problem: &str) -> String {
        match self.words.recv_timeout(LAST_WORDS) {
            Ok(words) if !words.is_empty() => format!("{problem}; {words}"),
            _ => problem.to_owned(),
        }
    }

    /// How a process ended that says nothing more; it may take a moment from its last word to its end.
    fn epitaph(&mut self) -> String {
        let asked = Instant::now();
        while asked.elapsed() < LAST_WORDS {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => thread::sleep(POLL),
                Err(problem) => return problem.to_string(),
            }
        }
        "it goes on in silence".to_owned()
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // Both fail only for a process that is reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a job ends that is given to some program of the system.
    fn lost(executable: &str) -> String {
        let job = Job { facts: "x".repeat(1 << 20), ..Job::default() };
        let ended = Solver::start(Path::new(executable), Limits::default())
            .map_or_else(Ended::Lost, |mut solver| {
                solver.run(&job, &|| false, |_, _| Ok::<(), ()>(())).unwrap()
            });
        match ended {
            Ended::Lost(problem) => problem,
            other => panic!("{executable} ended with {other:?}"),
        }
    }

    #[test]
    fn a_lost_solver_is_told_of_with_its_last_words() {
        assert!(lost("/nonexistent").starts_with("cannot start /nonexistent: No such file"));
        assert_eq!(lost("/bin/true"), "the solver ended without an answer: exit status: 0");
        let complaint = lost("/bin/cat");
        assert!(complaint.starts_with("the solver ended without an answer: exit status: 1; "), "{complaint}");
        assert!(complaint.contains("option"), "{complaint}");
        assert!(lost("/bin/echo").starts_with("the solver said what is no answer: "));
    }
}
