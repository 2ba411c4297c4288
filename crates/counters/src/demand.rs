//! Demand of engines with logical time.

/// Tasks of each actor per window at the common pace of all actors.
///
/// `kept` are the tasks executed and not rolled back, `progress` is the logical time passed, both over `windows` windows.
/// Running ahead does not increase demand: demand is tasks per logical time. Executions that were not rolled back,
/// divided by the progress of logical time, do not depend on the assignment. An actor without progress has no demand.
pub fn demand(kept: &[f64], progress: &[f64], windows: f64) -> Vec<f64> {
    let rate = |(kept, far): (&f64, &f64)| if *far > 0.0 { kept / far } else { 0.0 };
    let rates: Vec<f64> = kept.iter().zip(progress).map(rate).collect();
    let (sum, of_rates) = (kept.iter().sum::<f64>(), rates.iter().sum::<f64>());
    if of_rates <= 0.0 {
        return kept.iter().map(|kept| kept / windows).collect();
    }
    rates.iter().map(|rate| rate * sum / of_rates / windows).collect()
}
