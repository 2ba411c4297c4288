//! What is asked of the search and of its reasons, measured: one table.

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

/// Why something could not be measured.
pub type Problem = Box<dyn Error>;

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct Acceptance {
    /// The folder of the instances.
    pub instances: PathBuf,
    /// `kubectl-cairn`.
    pub cairn: PathBuf,
    /// How often what is told by its largest value is run.
    pub runs: usize,
    /// How many times the budgets of searches; 1 is the full form.
    pub scale: f64,
    /// Only these rows, by name; all where there is none.
    pub only: Vec<String>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The margin or the ratio.
    pub margin: String,
    /// What is asked.
    pub what: &'static str,
    /// Of what.
    pub subject: String,
    /// What else was measured.
    pub measured: String,
    /// How often it was run.
    pub runs: usize,
}

/// How something is measured; each row is told of as soon as it is known.
type Measure = fn(&Acceptance, &mut dyn FnMut(Row)) -> Result<(), Problem>;

/// What can be measured, by name.
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
    /// Measures what is asked for, and tells each row as soon as it is known.
    ///
    /// # Errors
    /// When something cannot be run, or gives an answer that is wrong.
    pub fn measure(&self, mut told: impl FnMut(&Row)) -> Result<Vec<Row>, Problem> {
        if let Some(unknown) = self.only.iter().find(|name| ALL.iter().all(|(known, _)| known != name)) {
            let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            return Err(format!("there is no benchmark `{unknown}`; use some of {}", known.join(", ")).into());
        }
        let mut rows = Vec::new();
        for (name, measure) in ALL {
            if self.only.is_empty() || self.only.iter().any(|only| only == name) {
                measure(self, &mut |row| {
                    told(&row);
                    rows.push(row);
                })?;
            }
        }
        Ok(rows)
    }

    fn instance(&self, name: &str) -> Result<PathBuf, Problem> {
        let files = Instance::files(&self.instances)?;
        let found = files.into_iter().find(|file| Instance::name(file) == name);
        found.ok_or_else(|| format!("there is no instance {name} in {}", self.instances.display()).into())
    }

    /// The instance as plain JSON: `kubectl-cairn` unpacks nothing.
    fn unpacked(&self, name: &str) -> Result<Scratch, Problem> {
        Scratch::new(name, &Instance::read(&self.instance(name)?)?.snapshot)
    }

    fn scaled(&self, seconds: f64) -> f64 {
        seconds * self.scale
    }

    /// Plans a snapshot on the command line, and gives back what was printed.
    fn plan(&self, snapshot: &Path, more: &[&str]) -> Result<Vec<u8>, Problem> {
        let mut command = Command::new(&self.cairn);
        command.args(["plan", "-o", "json", "--snapshot"]).arg(snapshot).args(more);
        let output = command.output().map_err(|problem| {
            format!("{}: {problem}; build it beside this program", self.cairn.display())
        })?;
        // Something without a place is an answer too.
        if !matches!(output.status.code(), Some(0 | 2)) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("kubectl-cairn plan of {}: {said}", snapshot.display()).into());
        }
        Ok(output.stdout)
    }
}

impl Row {
    /// The line of Markdown.
    pub fn line(&self) -> String {
        let Self { margin, what, subject, measured, runs } = self;
        format!("| {margin} | {what} | {subject} | {measured} | {runs} |")
    }
}

/// A snapshot in a file that is gone when it is no longer used.
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
        // What is left behind in a folder for temporary files does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The table with a head that says how it came about.
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

/// Values that lie evenly between two on a scale of ratios, in an order in which any first few do.
fn spread(from: f64, to: f64) -> impl Iterator<Item = f64> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let shares = std::iter::successors(Some(0.5), |share: &f64| Some((share + GOLDEN).fract()));
    shares.map(move |share| from * (to / from).powf(share))
}

/// The value that so many of a hundred do not pass; 0 of none.
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
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=50).rev().map(f64::from).collect();
        let told = [50, 99, 100].map(|percent| format!("{}", percentile(&mut values, percent)));
        assert_eq!(told, ["25", "50", "50"]);
        assert!(percentile(&mut [], 99).abs() < f64::EPSILON);
    }

    #[test]
    fn what_is_spread_stays_between_its_ends() {
        let values: Vec<f64> = spread(0.2, 5.0).take(100).collect();
        assert!(values.iter().all(|value| (0.2..=5.0).contains(value)), "{values:?}");
        let low = values.iter().filter(|value| **value < 1.0).count();
        assert!((48..=52).contains(&low), "{low}");
    }
}
