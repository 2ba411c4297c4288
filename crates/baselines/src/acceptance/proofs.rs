//! Time to prove optimality of small snapshots, whatever the scale of their numbers.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use placement::Snapshot;
use placement::file::SnapshotFile;
use serde_json::Value;

use super::{Acceptance, Problem, Row, Scratch, percentile};

/// Actors, units, and the required proof time in seconds.
const SIZES: [(usize, usize, f64); 4] = [(16, 5, 0.2), (20, 5, 1.0), (24, 6, 5.0), (28, 7, 5.0)];
/// The generator's first seed.
const FIRST: usize = 101;
/// Maximum number of snapshots per size.
const MOST: usize = 20;
/// Scale of messages and drags, as in measured data.
const UNITS: (u64, u64) = (1000, 100);

/// `kubectl-cairn plan` of snapshots from `generate.py P`, original and scaled, from process start to the proof.
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let runs = acceptance.runs.min(MOST);
    for (actors, units, seconds) in SIZES {
        let (mut plain, mut larger, mut alike) = (Proofs::default(), Proofs::default(), 0);
        for seed in FIRST..FIRST + runs {
            let small = drawn(acceptance, [actors, units, seed])?;
            let mut large = small.clone();
            large.messages.iter_mut().for_each(|message| message.count *= UNITS.0);
            large.annoyance.iter_mut().for_each(|pair| pair.drag *= UNITS.1);
            let communication = plain.plan(acceptance, small, seconds)?;
            alike += usize::from(larger.plan(acceptance, large, seconds)? == communication * UNITS.0);
        }
        let in_larger = format!(", counts × {}, drags × {}", UNITS.0, UNITS.1);
        let alike = format!(", {alike} with the same communication");
        for (proofs, numbers, same) in [(plain, "", ""), (larger, in_larger.as_str(), alike.as_str())] {
            let Proofs { mut times, proven, provers } = proofs;
            let by: Vec<String> = provers.iter().map(|(by, count)| format!("{count} by {by}")).collect();
            let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
            let (median, slowest) = (percentile(&mut times, 50), percentile(&mut times, 100));
            report(Row {
                margin: format!("{proven} of {runs}{by}"),
                what: "proofs: instances proven optimal within the budget, process start included",
                subject: format!("{actors} actors on {units} units, {seconds} s{numbers}"),
                measured: format!("median {median:.3} s, max {slowest:.3} s{same}"),
                runs,
            });
        }
    }
    Ok(())
}

/// Planning times in seconds, and the number of proofs.
#[derive(Default)]
struct Proofs {
    times: Vec<f64>,
    proven: usize,
    /// The number of proofs by what proved them (`provenBy`).
    provers: BTreeMap<String, usize>,
}

impl Proofs {
    /// The communication of a plan.
    fn plan(&mut self, acceptance: &Acceptance, file: SnapshotFile, seconds: f64) -> Result<u64, Problem> {
        let scratch = Scratch::new("proofs", &Snapshot::new(file)?)?;
        let started = Instant::now();
        let printed = acceptance.plan(&scratch.0, &["--budget", &format!("{seconds}s")])?;
        let took = started.elapsed().as_secs_f64();
        let plan: Value = serde_json::from_slice(&printed)?;
        self.times.push(took);
        if plan["optimal"] == true && took <= seconds {
            self.proven += 1;
            let by = plan["provenBy"].as_str().unwrap_or("unknown");
            *self.provers.entry(by.to_owned()).or_default() += 1;
        }
        plan["objective"]["communication"].as_u64().ok_or_else(|| "a plan says no communication".into())
    }
}

/// Output of `generate.py P ACTORS UNITS SEED` in the folder of the instances.
fn drawn(acceptance: &Acceptance, numbers: [usize; 3]) -> Result<SnapshotFile, Problem> {
    let script = acceptance.instances.join("generate.py");
    let mut command = Command::new("python3");
    command.arg(&script).arg("P").args(numbers.map(|number| number.to_string()));
    let output = command.output().map_err(|problem| format!("python3: {problem}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {said}", script.display()).into());
    }
    Ok(Snapshot::read(&String::from_utf8(output.stdout)?)?.file().clone())
}
