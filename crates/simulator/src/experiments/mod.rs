//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod cedr;
mod chart;
mod semi_static;

use std::error::Error;
use std::path::{Path, PathBuf};

/// What goes wrong in an experiment; people read it, nobody matches on it.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name on the command line and the stem of the files that it writes.
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// Runs it.
    pub run: fn(&Setting) -> Result<(), Failure>,
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

/// Every experiment, in the order in which they are listed to people.
pub const ALL: &[Experiment] = &[
    cedr::SWEEP,
    cedr::SLICES,
    cedr::UTILISATION,
    cedr::GANTT,
    cedr::CACHE,
    cedr::QUEUES,
    cedr::STREAMING,
    cedr::GPU,
    annealing::TABLES,
    semi_static::EXAMPLE,
    semi_static::SAMPLING,
    semi_static::GRAPHS,
    semi_static::COST,
    semi_static::SINGLE,
    semi_static::TIME,
];

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// The mean, and the half width of its 95 % interval by the normal distribution; 0 for fewer than two values.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = real(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() < 2 { 0.0 } else { 1.96 * (squares / (count - 1.0) / count).sqrt() })
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn real(count: usize) -> f64 {
    count as f64
}
