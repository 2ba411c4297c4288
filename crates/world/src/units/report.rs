//! Reports on pools.

use std::collections::BTreeMap;
use std::fmt;

/// Condition types that report a problem of a pool.
pub const POOL_PROBLEMS: [&str; 7] =
    ["Ambiguous", "Degraded", "Invalid", "NoTopology", "Overlap", "Stale", "Unsupported"];

/// Condition types that are information about a pool, which stays ready.
pub const POOL_NOTES: [&str; 10] = [
    "IncompletePool",
    "MissingReplicas",
    "MixedLocality",
    "MixedModels",
    "MultiNodeDevices",
    NO_MATCH,
    "NotPinnable",
    "SharedDevices",
    "UnreportedDomain",
    "UnusedReplicas",
];

/// Information that a node offers the resource of a pool, which selects none of its devices.
pub(crate) const NO_MATCH: &str = "NoMatchingDevice";

/// Problems of single nodes: the other units of the pool are not affected.
const OF_NODES: [&str; 2] = ["Ambiguous", "Unsupported"];

/// Report on a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Number of units.
    pub units: usize,
    /// Number of usable units: healthy and offered by the kubelet.
    pub healthy: usize,
    /// Problems by condition type.
    pub problems: BTreeMap<&'static str, PoolProblem>,
    /// Information by condition type.
    pub notes: BTreeMap<&'static str, PoolProblem>,
}

impl PoolReport {
    /// Whether the pool is ready: it has usable units, and no problem but that some nodes offer none.
    pub fn is_ready(&self) -> bool {
        self.healthy > 0 && self.problems.keys().all(|type_| OF_NODES.contains(type_))
    }

    /// The problem for which the pool is not ready.
    pub fn main_problem(&self) -> Option<(&'static str, &PoolProblem)> {
        let mut problems = self.problems.iter().filter(|_| !self.is_ready());
        let first = problems.clone().find(|(type_, _)| !OF_NODES.contains(type_));
        first.or_else(|| problems.next()).map(|(type_, problem)| (*type_, problem))
    }

    /// Merges the report of other nodes.
    pub(crate) fn add(&mut self, more: &Self) {
        self.units += more.units;
        self.healthy += more.healthy;
        for (all, more) in [(&mut self.problems, &more.problems), (&mut self.notes, &more.notes)] {
            for (type_, problem) in more {
                let entry = all.entry(type_);
                entry.and_modify(|it| it.others += 1 + problem.others).or_insert_with(|| problem.clone());
            }
        }
    }

    /// Drops notes that only explain why a pool has no unit, if it has one or a problem.
    pub(crate) fn drop_explained(&mut self) {
        if self.units > 0 || !self.problems.is_empty() {
            self.notes.remove(NO_MATCH);
        }
    }

    pub(crate) fn add_problem(&mut self, type_: &'static str, text: String) {
        debug_assert!(POOL_PROBLEMS.contains(&type_), "{type_} is not a known problem of pools");
        let text = one_line(text);
        let entry = self.problems.entry(type_);
        entry.and_modify(|problem| problem.others += 1).or_insert(PoolProblem { text, others: 0 });
    }

    pub(crate) fn add_note(&mut self, type_: &'static str, text: String) {
        debug_assert!(POOL_NOTES.contains(&type_), "{type_} is not a known note on pools");
        let text = one_line(text);
        let entry = self.notes.entry(type_);
        entry.and_modify(|note| note.others += 1).or_insert(PoolProblem { text, others: 0 });
    }
}

/// A text without line breaks, such as those of a selector: a message of a condition is one line.
pub(crate) fn one_line(text: String) -> String {
    if !text.contains('\n') {
        return text;
    }
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A problem of a pool, or information about it, aggregated over nodes.
///
/// Displayed as the first occurrence and the number of further ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolProblem {
    /// Description of the first occurrence, with its node.
    pub text: String,
    /// Number of further occurrences.
    pub others: usize,
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.others > 0 {
            write!(f, " (and {} more in this pool)", self.others)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        let mut report = PoolReport::default();
        report.add_problem("Invalid", "`a == 1 &&\n  b == 2\n` cannot be evaluated".to_owned());
        assert_eq!(report.problems["Invalid"].text, "`a == 1 && b == 2 ` cannot be evaluated");
    }
}
