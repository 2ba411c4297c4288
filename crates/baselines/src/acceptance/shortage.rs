//! Overload under a shortage of one kind, compared with the longest-processing-time-first rule.

use std::collections::BTreeMap;

use placement::Snapshot;
use serde_json::Value;

use super::{Acceptance, Problem, Row, Scratch};
use crate::bench::{Instance, ratio};

/// Wall clock of a search, in seconds.
const BUDGET: f64 = 5.0;
/// Maximum number of searches per instance.
const MOST: usize = 3;

/// Overload of plans of the shortage instances, the worst over some seeds, relative to [`longest_first`].
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let files = Instance::files(&acceptance.instances)?;
    let runs = acceptance.runs.min(MOST);
    for file in files.iter().filter(|file| Instance::name(file).starts_with("F-")) {
        let Instance { name, snapshot } = Instance::read(file)?;
        let scratch = Scratch::new(&name, &snapshot)?;
        let budget = format!("{}s", acceptance.scaled(BUDGET));
        let mut found = Vec::new();
        for seed in 1..=runs {
            let more = ["--seed", &seed.to_string(), "--budget", &budget];
            let plan: Value = serde_json::from_slice(&acceptance.plan(&scratch.0, &more)?)?;
            found.push(plan["objective"]["overload"].as_i64().ok_or("a plan says no overload")?);
        }
        let (worst, longest_first) =
            (found.iter().max().copied().unwrap_or_default(), longest_first(&snapshot));
        report(Row {
            margin: format!("{:.4}", ratio(worst, longest_first)),
            what: "shortage: overload ÷ that of longest-processing-time-first",
            subject: format!("{name}, {budget}"),
            measured: format!("{found:?} against {longest_first}"),
            runs,
        });
    }
    Ok(())
}

/// Largest overload of a unit if the actors bound to each kind are assigned longest first, each to the least loaded unit of
/// that kind (Graham 1969).
fn longest_first(snapshot: &Snapshot) -> i64 {
    let file = snapshot.file();
    let mut works: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for actor in file.actors.iter().filter(|actor| actor.runs_on.len() == 1) {
        for (kind, how) in &actor.runs_on {
            works.entry(kind).or_default().push(how.work.cast_signed());
        }
    }
    let of_kind = |(kind, mut works): (&str, Vec<i64>)| {
        let units = file.units.iter().filter(|unit| unit.kind == kind);
        let mut left: Vec<i64> = units.map(|unit| unit.capacity.cast_signed()).collect();
        works.sort_unstable_by_key(|work| -work);
        for work in works {
            *left.iter_mut().max()? -= work;
        }
        Some(-*left.iter().min()?)
    };
    works.into_iter().filter_map(of_kind).fold(0, i64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_jobs_are_assigned_first_on_the_scarce_kind() {
        let snapshot = testkit::line::world(
            "g:gpu:5 h:gpu:5 u:cpu:9",
            "a:gpu=4 b:gpu=3 c:gpu=3 d:gpu=2 e:gpu=2 f:gpu=1,cpu=1 k:cpu=1",
            "",
        );
        // 4 and 2, 3 and 3, and 2 more on either.
        assert_eq!(longest_first(&snapshot), 3);
    }
}
