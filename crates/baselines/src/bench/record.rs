//! One line of the results: one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The commit that was measured; empty in rows from before this was written down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// The instance's name.
    pub instance: String,
    /// How many actors it has.
    pub actors: usize,
    /// How many units it has.
    pub units: usize,
    /// The strategy's name.
    pub strategy: String,
    /// Wall clock that it was given, in seconds.
    pub budget_seconds: f64,
    /// Whether that is processor time instead, as much as two processors have in so many seconds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_processor: bool,
    /// The seed that it was given.
    pub seed: u64,
    /// The keys of the levels, `unplaced` first.
    pub levels: Vec<String>,
    /// The value of each level; empty where there is no feasible answer.
    pub vector: Vec<i64>,
    /// Proven lower bounds by key of the level, as the strategy gave them.
    pub bound: BTreeMap<String, i64>,
    /// Whether the strategy proved its answer.
    pub optimal: bool,
    /// Effort that replays the answer.
    pub effort: u64,
    /// Which part of the search found it.
    pub stage: String,
    /// What ended the search.
    pub stopped_by: String,
    /// Of the actors that run somewhere, how many stay there; absent where none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<f64>,
    /// Wall clock of planning, in seconds: from the snapshot in memory to the judged plan.
    pub wall_seconds: f64,
    /// How much of that clingo took to judge the finished plan; 0 in rows from before this was written down.
    #[serde(default)]
    pub judged_seconds: f64,
    /// Processor time of planning in seconds, children included.
    pub cpu_seconds: f64,
    /// Peak memory of the process in MiB, and added to it that of the largest that it started, once [`apart`](super::apart) has
    /// watched them.
    pub peak_memory_mib: u64,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Record {
    /// Whether this is the run of a strategy on an instance with a budget and a seed.
    pub fn is(&self, instance: &str, strategy: &str, budget_seconds: f64, seed: u64) -> bool {
        (self.instance.as_str(), self.strategy.as_str(), self.seed) == (instance, strategy, seed)
            && self.budget_seconds.total_cmp(&budget_seconds).is_eq()
    }

    /// Rows of one commit: of `commit`, or of the last row where none is named. Of a run that was made twice the later row
    /// counts; a row that says no commit is of none.
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

    /// By how much the budget was passed, in seconds, the judgement of the finished plan apart.
    pub fn overshoot_seconds(&self) -> f64 {
        (self.wall_seconds - self.judged_seconds - self.budget_seconds).max(0.0)
    }
}
