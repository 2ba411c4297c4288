//! What is to be said of a pool.

use std::collections::BTreeMap;
use std::fmt;

/// The conditions that say what is wrong with a pool.
pub const POOL_PROBLEMS: [&str; 6] = ["Ambiguous", "Degraded", "Invalid", "NoTopology", "Overlap", "Stale"];

/// How a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Units that the pool's nodes and devices make.
    pub units: usize,
    /// Units that can be used: healthy, and offered by the kubelet.
    pub healthy: usize,
    /// What is wrong, by the type of the condition.
    pub problems: BTreeMap<&'static str, PoolProblem>,
}

impl PoolReport {
    /// Adds what is said of further nodes.
    pub(crate) fn add(&mut self, more: &Self) {
        self.units += more.units;
        self.healthy += more.healthy;
        for (type_, problem) in &more.problems {
            let told = self.problems.entry(type_);
            told.and_modify(|told| told.others += 1 + problem.others).or_insert_with(|| problem.clone());
        }
    }

    pub(crate) fn add_problem(&mut self, type_: &'static str, text: String) {
        debug_assert!(POOL_PROBLEMS.contains(&type_), "{type_} is not among those that people can look up");
        let told = self.problems.entry(type_);
        told.and_modify(|problem| problem.others += 1).or_insert(PoolProblem { text, others: 0 });
    }
}

/// What is wrong with a pool, once for all the places where it is.
///
/// Its text for people is that of the first place, and how many more there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolProblem {
    /// In plain words, with the name of the first node.
    pub text: String,
    /// How often it is so elsewhere.
    pub others: usize,
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.others > 0 {
            write!(f, " (and the like {} more times in this pool)", self.others)?;
        }
        Ok(())
    }
}
