//! Measures the requirements on search and explanations, in one table.

mod deadline;
mod impossible;
mod memory;
mod policy;
mod proofs;
mod same;
mod shortage;
mod start;

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use placement::Snapshot;

use crate::bench::Instance;

/// Why a measurement failed.
pub type Problem = Box<dyn Error>;

/// Selection and effort of the measurements.
#[derive(Clone, Debug)]
pub struct Acceptance {
    /// The folder of the instances.
    pub instances: PathBuf,
    /// Path of `kubectl-cairn`.
    pub cairn: PathBuf,
    /// Repetitions of measurements that report a maximum.
    pub runs: usize,
    /// Factor on search budgets; 1 is the full form.
    pub scale: f64,
    /// Names of the rows to measure; empty for all.
    pub only: Vec<String>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Margin or ratio.
    pub margin: String,
    /// The requirement.
    pub what: &'static str,
    /// The instances.
    pub subject: String,
    /// Further measurements.
    pub measured: String,
    /// Number of runs.
    pub runs: usize,
}

/// A measurement; it reports each row as soon as it is complete.
type Measure = fn(&Acceptance, &mut dyn FnMut(Row)) -> Result<(), Problem>;

/// All measurements by name.
const ALL: [(&str, Measure); 8] = [
    ("start", start::measure),
    ("proofs", proofs::measure),
    ("shortage", shortage::measure),
    ("same", same::measure),
    ("impossible", impossible::measure),
    ("policy", policy::measure),
    ("memory", memory::measure),
    ("deadline", deadline::measure),
];

impl Acceptance {
    /// Runs the selected measurements and reports each row as soon as it is complete.
    ///
    /// # Errors
    /// A program cannot be run, or returns a wrong answer.
    pub fn measure(&self, mut report: impl FnMut(&Row)) -> Result<Vec<Row>, Problem> {
        if let Some(unknown) = self.only.iter().find(|name| ALL.iter().all(|(known, _)| known != name)) {
            let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown measurement `{unknown}`; use one of {}", known.join(", ")).into());
        }
        let mut rows = Vec::new();
        for (name, measure) in ALL {
            if self.only.is_empty() || self.only.iter().any(|only| only == name) {
                measure(self, &mut |row| {
                    report(&row);
                    rows.push(row);
                })?;
            }
        }
        Ok(rows)
    }

    fn instance(&self, name: &str) -> Result<PathBuf, Problem> {
        let files = Instance::files(&self.instances)?;
        let found = files.into_iter().find(|file| Instance::name(file) == name);
        found.ok_or_else(|| format!("no instance {name} in {}", self.instances.display()).into())
    }

    /// The instance as plain JSON, as `kubectl-cairn` does not decompress files.
    fn unpacked(&self, name: &str) -> Result<Scratch, Problem> {
        Scratch::new(name, &Instance::read(&self.instance(name)?)?.snapshot)
    }

    fn scaled(&self, seconds: f64) -> f64 {
        seconds * self.scale
    }

    /// Plans a snapshot on the command line and returns the output.
    fn plan(&self, snapshot: &Path, more: &[&str]) -> Result<Vec<u8>, Problem> {
        let mut command = Command::new(&self.cairn);
        command.args(["plan", "-o", "json", "--snapshot"]).arg(snapshot).args(more);
        let output = command.output().map_err(|problem| {
            format!("{}: {problem}; build it into the same folder", self.cairn.display())
        })?;
        // A plan with unplaced actors is an answer too.
        if !matches!(output.status.code(), Some(0 | 2)) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("kubectl-cairn plan of {}: {said}", snapshot.display()).into());
        }
        Ok(output.stdout)
    }
}

impl Row {
    /// The row as Markdown.
    pub fn line(&self) -> String {
        let Self { margin, what, subject, measured, runs } = self;
        format!("| {margin} | {what} | {subject} | {measured} | {runs} |")
    }
}

/// A snapshot in a temporary file that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, snapshot: &Snapshot) -> Result<Self, Problem> {
        let file = std::env::temp_dir().join(format!("bench-placement-{}-{name}.json", std::process::id()));
        std::fs::write(&file, snapshot.write())?;
        Ok(Self(file))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover temporary file does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The table, headed by its provenance.
pub fn markdown(rows: &[Row], command: &str, commit: &str) -> String {
    let mut text = String::from(
        "# Acceptance benchmarks\n\nThe first column is the margin to a target, or a ratio. Each benchmark is defined in a file of \
         `crates/baselines/src/acceptance`.\n",
    );
    if !commit.is_empty() {
        write!(text, "\nCommit `{commit}`; seeds 1 to the number of runs unless stated.\n").expect(INTO_TEXT);
    }
    write!(
        text,
        "\n    {command}\n\n| margin | benchmark | instance | measured | runs |\n|---:|---|---|---|---:|\n"
    )
    .expect(INTO_TEXT);
    for row in rows {
        writeln!(text, "{}", row.line()).expect(INTO_TEXT);
    }
    text
}

const INTO_TEXT: &str = "writing into a string does not fail";

/// Values between two limits, evenly spaced on a logarithmic scale; every prefix is evenly spread as well.
#[expect(clippy::disallowed_methods, reason = "budgets of measurements")]
fn spread(from: f64, to: f64) -> impl Iterator<Item = f64> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let shares = std::iter::successors(Some(0.5), |share: &f64| Some((share + GOLDEN).fract()));
    shares.map(move |share| from * (to / from).powf(share))
}

/// A percentile; 0 for an empty slice.
fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(0.0)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let mut values: Vec<f64> = (1..=50).rev().map(f64::from).collect();
        let found = [50, 99, 100].map(|percent| format!("{}", percentile(&mut values, percent)));
        assert_eq!(found, ["25", "50", "50"]);
        assert!(percentile(&mut [], 99).abs() < f64::EPSILON);
    }

    #[test]
    fn spread_values_stay_within_the_limits() {
        let values: Vec<f64> = spread(0.2, 5.0).take(100).collect();
        assert!(values.iter().all(|value| (0.2..=5.0).contains(value)), "{values:?}");
        let low = values.iter().filter(|value| **value < 1.0).count();
        assert!((48..=52).contains(&low), "{low}");
    }
}
