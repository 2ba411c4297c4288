//! How long one waits for the plan of a small application.

use std::time::Instant;

use super::{Problem, Promises, Row, milliseconds, percentile};

/// `kubectl-cairn plan` of eight actors on four units, from the start of the process to its end.
pub(super) fn measure(promises: &Promises, told: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let file = promises.unpacked("P-8x4-s1")?;
    let mut times = Vec::new();
    for _ in 0..promises.runs {
        let started = Instant::now();
        promises.plan(&file.0, &[])?;
        times.push(milliseconds(started.elapsed()));
    }
    told(Row {
        margin: format!("{:.0} ms", percentile(&mut times, 50)),
        promise: "start: median time of `kubectl-cairn plan`, from process start to proven plan",
        subject: "P-8x4-s1".to_owned(),
        measured: format!(
            "p99 {:.0} ms, largest {:.0} ms",
            percentile(&mut times, 99),
            percentile(&mut times, 100)
        ),
        runs: promises.runs,
    });
    Ok(())
}
