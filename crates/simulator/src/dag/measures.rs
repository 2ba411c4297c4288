//! What a run is measured by.

use std::collections::BTreeMap;

use serde::Serialize;

/// One task that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The instance, from 0, by arrival.
    pub instance: usize,
    /// Its application, by position in the workload.
    pub application: usize,
    /// The frame, from 0.
    pub frame: u32,
    /// The task, by position in its graph.
    pub task: usize,
    /// Where it ran, by position in the pool.
    pub pe: usize,
    /// When it joined the ready queue, in nanoseconds.
    pub ready: u64,
    /// When it started.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// What a run comes to; times in nanoseconds, summed over applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measures {
    /// How many instances ran.
    pub applications: u64,
    /// How many tasks ran, in every frame.
    pub tasks: u64,
    /// Last end - first start of each instance.
    pub execution_ns: u64,
    /// Σ (end - start) of all tasks.
    pub cumulative_ns: u64,
    /// Time that rounds took.
    pub overhead_ns: u64,
    /// Σ (start - end of the task before on that processing element).
    pub dispatch_ns: u64,
    /// Last end - first start of all.
    pub end_to_end_ns: u64,
    /// How many rounds there were.
    pub rounds: u64,
    /// How often a processing element or kind was looked at.
    pub looks: u64,
    /// Time that each processing element worked.
    pub busy_ns: BTreeMap<String, u64>,
}

impl Measures {
    /// Busy time over end-to-end time of the processing elements whose names begin with `title`, on average.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn utilisation(&self, title: &str) -> f64 {
        let busy: Vec<u64> =
            self.busy_ns.iter().filter(|(name, _)| name.starts_with(title)).map(|(_, busy)| *busy).collect();
        busy.iter().sum::<u64>() as f64 / (self.end_to_end_ns.max(1) as f64 * busy.len().max(1) as f64)
    }
}
