//! Progress of long work, on standard error, where a person looks at it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One line that is written over again and again.
pub struct Progress {
    what: &'static str,
    shown: bool,
    last: AtomicUsize,
}

impl Progress {
    /// Nothing is shown where standard error is no terminal.
    pub fn new(what: &'static str) -> Self {
        Self { what, shown: std::io::stderr().is_terminal(), last: AtomicUsize::new(0) }
    }

    /// `done` of `all` pieces are ready; shown at every thousandth.
    pub fn tell(&self, done: usize, all: usize) {
        let part = done * 1000 / all.max(1);
        if self.shown && part > self.last.fetch_max(part, Ordering::Relaxed) {
            let filled = "#".repeat(part / 25);
            // That nobody can read it is no error.
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
