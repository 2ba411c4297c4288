//! Where an experiment writes, and how much it does.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What goes wrong in an experiment; people read it, nobody matches on it.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name on the command line and the stem of the files that it writes.
    pub name: &'static str,
    /// One line for people who choose; its first word is the paper, and names the folder of the results.
    pub summary: &'static str,
    /// Runs it.
    pub run: fn(&Setting) -> Result<(), Failure>,
}

impl Experiment {
    /// An experiment by its parts.
    #[must_use]
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        run: fn(&Setting) -> Result<(), Failure>,
    ) -> Self {
        Self { name, summary, run }
    }
}

/// Where an experiment writes and how much it may do.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The folder of its files; it exists.
    pub out: PathBuf,
    /// How many seeds are tried where chance plays a part.
    pub seeds: u64,
    /// Whether progress is shown on standard error.
    pub progress: bool,
}

impl Setting {
    /// Says on standard error how many of all pieces are ready, where progress is shown.
    pub fn tell(&self, done: usize, all: usize) {
        if self.progress {
            // That nobody can read it is no error.
            let _ =
                write!(std::io::stderr(), "\r{done} of {all} runs {}", if done == all { "\n" } else { "" });
        }
    }

    /// Writes one file of the results.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.out.join(name);
        std::fs::write(&path, text).map_err(|source| unwritable(&path, &source))
    }
}

fn unwritable(path: &Path, source: &std::io::Error) -> Failure {
    format!("{}: {source}; name a folder that can be written to with --out", path.display()).into()
}
