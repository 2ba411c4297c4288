//! Progress display on standard error, if it is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A line that is overwritten.
pub struct Progress {
    what: &'static str,
    shown: bool,
    last: AtomicUsize,
}

impl Progress {
    /// Shows nothing unless standard error is a terminal.
    pub fn new(what: &'static str) -> Self {
        Self { what, shown: std::io::stderr().is_terminal(), last: AtomicUsize::new(0) }
    }

    /// Reports `done` of `all` jobs, in steps of a thousandth.
    pub fn report(&self, done: usize, all: usize) {
        let part = done * 1000 / all.max(1);
        if self.shown && part > self.last.fetch_max(part, Ordering::Relaxed) {
            let filled = "#".repeat(part / 25);
            // Progress is best effort.
            let _ = write!(std::io::stderr(), "\r{} [{filled:40}] {done} of {all}", self.what);
        }
    }

    /// Clears the line.
    pub fn end(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
