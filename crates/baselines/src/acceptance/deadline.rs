//! Search times stay within the budget.

use std::collections::BTreeMap;

use super::{Acceptance, Problem, Row, percentile, spread};
use crate::bench::{Instance, Record, apart};

/// Upper limit on actors for the instances that are reported together.
const SMALL: usize = 1_000;

/// Lateness of plans: wall clock from the snapshot in memory to the judged plan, including solver processes and grounding, minus
/// the budget. Runs that ended early with a proof are excluded.
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let mut small = Vec::new();
    for file in Instance::files(&acceptance.instances)? {
        if Instance::read(&file)?.snapshot.actors() <= SMALL {
            small.push(file);
        }
    }
    let large = vec![acceptance.instance("C-20000x4000-s1")?];
    for (files, subject, (from, to)) in [
        (small, "all instances of at most 1,000 actors in turn", (0.2, 5.0)),
        (large, "C-20000x4000-s1", (10.0, 20.0)),
    ] {
        let (mut late, mut judged) = (Vec::new(), 0.0_f64);
        let (mut worst, mut verdicts) = (None::<Record>, BTreeMap::new());
        let (from, to) = (acceptance.scaled(from), acceptance.scaled(to));
        let budgets = spread(from, to);
        let runs = files.iter().cycle().zip(budgets).zip(1..).take(acceptance.runs);
        for ((file, budget), seed) in runs {
            let record = apart(file, "asp", (budget, false), seed, "")?;
            if let Some(problem) = record.problem {
                return Err(format!("{} in {budget:.2} s: {problem}", record.instance).into());
            }
            if record.stopped_by != "deadline" {
                continue;
            }
            late.push(margin(&record));
            judged = judged.max(record.judged_seconds);
            *verdicts.entry(record.judged.clone()).or_default() += 1;
            if worst.as_ref().is_none_or(|worst| margin(worst) < margin(&record)) {
                worst = Some(record);
            }
        }
        let most = worst.as_ref().map_or("–".to_owned(), |worst| format!("{:+.3} s", margin(worst)));
        let of = worst.map_or("none".to_owned(), |worst| {
            format!("{} in {:.2} s", worst.instance, worst.budget_seconds)
        });
        report(Row {
            margin: most,
            what: "deadline: largest overrun of the budget",
            subject: format!("{subject}, budgets {from} to {to} s"),
            measured: format!(
                "p99 {:+.3} s; largest: {of}; {} of {} stopped by the deadline; the check by clingo takes at \
                 most {judged:.3} s of it; judged: {}",
                percentile(&mut late, 99),
                late.len(),
                acceptance.runs,
                counted(&verdicts)
            ),
            runs: acceptance.runs,
        });
    }
    Ok(())
}

fn margin(record: &Record) -> f64 {
    record.wall_seconds - record.budget_seconds
}

/// How many plans clingo judged how far.
fn counted(verdicts: &BTreeMap<String, usize>) -> String {
    verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
}
