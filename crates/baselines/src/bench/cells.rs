//! Cells of the report's tables.

use std::collections::BTreeSet;

use super::{Cell, Record, Summary};

/// Distinct values over all cells, in first-seen order.
pub(super) fn in_order<T: PartialEq>(summaries: &[Summary], of: impl Fn(&Cell) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for item in summaries.iter().flat_map(|summary| &summary.cells).map(of) {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// The budgets of all cells, ascending.
pub(super) fn budgets(summaries: &[Summary]) -> Vec<f64> {
    let mut all: Vec<f64> =
        summaries.iter().flat_map(|summary| &summary.cells).map(|c| c.budget_seconds).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// The best vector, without the number of unplaced actors if it is 0.
pub(super) fn best(summary: &Summary) -> String {
    let star = if summary.beaten { "\\*" } else { "" };
    format!("{}{star}", vector(&summary.best))
}

/// Level values in order, without the number of unplaced actors if it is 0.
pub(super) fn vector(values: &[i64]) -> String {
    let outcome = if values.first() == Some(&0) { &values[1..] } else { values };
    outcome.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ")
}

/// The median's ratio, marked if every run proved it or if it rests on one seed.
pub(super) fn outcome(summary: &Summary, cell: &Cell) -> String {
    let is_proven = cell.runs.iter().all(|run| run.optimal);
    let provers: BTreeSet<&str> = cell.runs.iter().filter_map(|run| run.proven_by.as_deref()).collect();
    let by =
        if provers.is_empty() { String::new() } else { format!(" {}", Vec::from_iter(provers).join(", ")) };
    let proven = if is_proven { format!(" ✓{by}") } else { String::new() };
    let alone = if cell.runs.len() == 1 { " ¹" } else { "" };
    format!("{}{proven}{alone}", held(summary, cell.median()))
}

/// A run's ratio, with its level if it is not the expected one; without a ratio, the reason.
pub(super) fn held(summary: &Summary, run: &Record) -> String {
    let Some(ratio) = summary.ratio(run) else { return summary.misses(run) };
    match summary.differing_level(run).filter(|level| Some(*level) != summary.deciding_level()) {
        Some(level) => format!("{ratio:.4} {}", summary.levels[level]),
        None => format!("{ratio:.4}"),
    }
}

/// Why writing to a string cannot fail.
pub(super) const INTO_TEXT: &str = "writing into a string does not fail";
