//! One line of the results: one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The measured commit; empty in rows of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// The instance's name.
    pub instance: String,
    /// Number of actors.
    pub actors: usize,
    /// Number of units.
    pub units: usize,
    /// The strategy's name.
    pub strategy: String,
    /// Time budget in seconds.
    pub budget_seconds: f64,
    /// Whether the budget is processor time, of two processors, instead of wall clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_processor: bool,
    /// The seed.
    pub seed: u64,
    /// Level keys, `unplaced` first.
    pub levels: Vec<String>,
    /// Level values; empty without a feasible answer.
    pub vector: Vec<i64>,
    /// Proven lower bounds by level key, from the strategy.
    pub bound: BTreeMap<String, i64>,
    /// Whether the strategy proved optimality.
    pub optimal: bool,
    /// What proved it; absent in rows of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
    /// Effort that reproduces the answer.
    pub effort: u64,
    /// The component of the search that found it.
    pub stage: String,
    /// Why the search ended.
    pub stopped_by: String,
    /// Number of running actors that stay in place; absent if none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<f64>,
    /// Planning time in seconds of wall clock: from the snapshot in memory to the judged plan.
    pub wall_seconds: f64,
    /// Time in which clingo judged the finished plan; 0 in rows of older versions.
    #[serde(default)]
    pub judged_seconds: f64,
    /// How much of the plan clingo judged; empty in rows of older versions and without a plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub judged: String,
    /// Processor time of planning in seconds, children included.
    pub cpu_seconds: f64,
    /// Peak memory of the process in MiB; [`apart`](super::apart) adds the peak of its largest child.
    pub peak_memory_mib: u64,
    /// Why the run has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Record {
    /// Whether this is the run of a strategy on an instance with this budget and seed.
    pub fn is(&self, instance: &str, strategy: &str, budget_seconds: f64, seed: u64) -> bool {
        (self.instance.as_str(), self.strategy.as_str(), self.seed) == (instance, strategy, seed)
            && self.budget_seconds.total_cmp(&budget_seconds).is_eq()
    }

    /// Rows of one commit: of `commit`, else of the last row's. A repeated run replaces the earlier row; rows without a commit
    /// are ignored.
    pub fn of_one_commit(records: Vec<Self>, commit: Option<&str>) -> Vec<Self> {
        let last = records.last().map(|record| record.commit.clone()).unwrap_or_default();
        let commit = commit.unwrap_or(&last).to_owned();
        let mut kept: Vec<Self> = Vec::new();
        for record in
            records.into_iter().filter(|record| !record.commit.is_empty() && record.commit == commit)
        {
            let same = |known: &Self| {
                known.is(&record.instance, &record.strategy, record.budget_seconds, record.seed)
                    && known.by_processor == record.by_processor
            };
            match kept.iter_mut().find(|known| same(known)) {
                Some(known) => *known = record,
                None => kept.push(record),
            }
        }
        kept
    }

    /// Time over budget in seconds, with the judgement of the finished plan.
    pub fn overshoot_seconds(&self) -> f64 {
        (self.wall_seconds - self.budget_seconds).max(0.0)
    }
}
