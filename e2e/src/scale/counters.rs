//! Counters of an operator: its metrics and its process statistics.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result, ensure};

use crate::{Process, process::http};

/// The number of finished searches.
pub async fn searches(operator: &Process) -> Result<f64> {
    let text = http(operator.port(8080)?, "/metrics").await?.body;
    let of_plans = text.lines().filter(|line| line.starts_with("cairn_operator_plans_total{"));
    let numbers = of_plans.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(numbers.sum())
}

/// Searches by trigger.
pub const SEARCHES: &str = "cairn_operator_searches_total{why=\"";
/// Moved actors by trigger of the search.
pub const MOVES: &str = "cairn_operator_moves_total{why=\"";

/// A counter of the operator by trigger.
pub async fn by_cause(operator: &Process, counter: &str) -> Result<BTreeMap<String, f64>> {
    let text = http(operator.port(8080)?, "/metrics").await?.body;
    let one = |line: &str| {
        let (why, number) = line.strip_prefix(counter)?.split_once("\"} ")?;
        Some((why.to_owned(), number.parse().ok()?))
    };
    Ok(text.lines().filter_map(one).collect())
}

/// The increments, without zeros.
pub fn since(before: &BTreeMap<String, f64>, now: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let added = |(why, count): (String, f64)| {
        let count = count - before.get(&why).copied().unwrap_or_default();
        (why, count)
    };
    now.into_iter().map(added).filter(|(_, count)| *count > 0.0).collect()
}

/// The CPU time of the operator and of its terminated children, in core seconds.
pub fn core_seconds(operator: &Process) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{}/stat", operator.pid()))?;
    let (_, fields) = text.rsplit_once(')').context("no name in stat")?;
    // utime, stime, cutime, cstime: fields 14 to 17, of which the first two are the name and before
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    ensure!(ticks.len() == 4, "no times in {text}");
    // in hundredths of a second, independent of the kernel's clock
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// The resident memory of the operator's process.
pub fn resident_mib(operator: &Process) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", operator.pid()))?;
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let kib: u64 = value.context("no VmRSS")?.trim().parse()?;
    Ok(kib.div_ceil(1024))
}
