//! Equal seed and effort give equal plans, also if the effort comes from a run with a time limit.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Acceptance, Problem, Row, Scratch, spread};

/// Maximum number of runs.
const MOST: usize = 20;
/// Effort: a search through all of its stages.
const EFFORT: &str = "20000";

pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let runs = acceptance.runs.min(MOST);
    for name in ["P-64x11-s1", "C-128x16-s1"] {
        let file = acceptance.unpacked(name)?;
        let mut bytes = BTreeSet::new();
        for _ in 0..runs {
            bytes.insert(acceptance.plan(&file.0, &["--seed", "7", "--effort", EFFORT])?);
        }
        report(Row {
            margin: format!("{} of {runs}", runs + 1 - bytes.len()),
            what: "determinism: identical output for one seed and effort",
            subject: format!("{name}, seed 7, effort {EFFORT}"),
            measured: format!("different outputs: {}", bytes.len()),
            runs,
        });
        let (mut equal, mut stopped) = (0, 0);
        for budget in spread(acceptance.scaled(0.2), acceptance.scaled(5.0)).take(runs) {
            let clocked = plan(acceptance, &file, &["--budget", &format!("{budget:.3}s")])?;
            let effort = clocked["effort"].to_string();
            let replayed = plan(acceptance, &file, &["--effort", &effort])?;
            equal += usize::from(clocked["assignments"] == replayed["assignments"]);
            stopped += usize::from(clocked["stoppedBy"] == "deadline");
        }
        report(Row {
            margin: format!("{equal} of {runs}"),
            what: "determinism: identical plan when the effort of a deadline-stopped search is replayed",
            subject: format!("{name}, seed 7, budgets 0.2 to 5 s"),
            measured: format!("{stopped} stopped by the deadline"),
            runs,
        });
    }
    Ok(())
}

fn plan(acceptance: &Acceptance, file: &Scratch, more: &[&str]) -> Result<Value, Problem> {
    let printed = acceptance.plan(&file.0, &[&["--seed", "7"], more].concat())?;
    Ok(serde_json::from_slice(&printed)?)
}
