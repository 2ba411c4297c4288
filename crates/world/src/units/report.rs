//! Reports on pools.

use std::collections::BTreeMap;
use std::fmt;

/// Condition types that report a problem of a pool.
pub const POOL_PROBLEMS: [&str; 6] = ["Ambiguous", "Degraded", "Invalid", "NoTopology", "Overlap", "Stale"];

/// Report on a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Number of units.
    pub units: usize,
    /// Number of usable units: healthy and offered by the kubelet.
    pub healthy: usize,
    /// Problems by condition type.
    pub problems: BTreeMap<&'static str, PoolProblem>,
}

impl PoolReport {
    /// Merges the report of other nodes.
    pub(crate) fn add(&mut self, more: &Self) {
        self.units += more.units;
        self.healthy += more.healthy;
        for (type_, problem) in &more.problems {
            let entry = self.problems.entry(type_);
            entry.and_modify(|entry| entry.others += 1 + problem.others).or_insert_with(|| problem.clone());
        }
    }

    pub(crate) fn add_problem(&mut self, type_: &'static str, text: String) {
        debug_assert!(POOL_PROBLEMS.contains(&type_), "{type_} is not a known problem of pools");
        let entry = self.problems.entry(type_);
        entry.and_modify(|problem| problem.others += 1).or_insert(PoolProblem { text, others: 0 });
    }
}

/// A problem of a pool, aggregated over nodes.
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
