//! Time to plan a small application.

use std::time::Instant;

use super::{Acceptance, Problem, Row, milliseconds, percentile};

/// `kubectl-cairn plan` of eight actors on four units, from process start to exit.
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let file = acceptance.unpacked("P-8x4-s1")?;
    let mut times = Vec::new();
    for _ in 0..acceptance.runs {
        let started = Instant::now();
        acceptance.plan(&file.0, &[])?;
        times.push(milliseconds(started.elapsed()));
    }
    report(Row {
        margin: format!("{:.0} ms", percentile(&mut times, 50)),
        what: "start: median time of `kubectl-cairn plan`, process start to proven plan",
        subject: "P-8x4-s1".to_owned(),
        measured: format!(
            "p99 {:.0} ms, max {:.0} ms",
            percentile(&mut times, 99),
            percentile(&mut times, 100)
        ),
        runs: acceptance.runs,
    });
    Ok(())
}
