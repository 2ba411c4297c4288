//! Measurements of a run.

use std::collections::BTreeMap;

use serde::Serialize;

/// An executed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Index of the instance, by arrival.
    pub instance: usize,
    /// Index of its application in the workload.
    pub application: usize,
    /// Index of the frame.
    pub frame: u32,
    /// Index of the task in its graph.
    pub task: usize,
    /// Index of its processing element in the pool.
    pub pe: usize,
    /// Time at which it entered the ready queue, in nanoseconds.
    pub ready: u64,
    /// Start time.
    pub start: u64,
    /// End time.
    pub end: u64,
}

/// Totals of a run; times in nanoseconds, summed over applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measures {
    /// Number of instances.
    pub applications: u64,
    /// Number of executed tasks over all frames.
    pub tasks: u64,
    /// Σ (last end - first start) of each instance.
    pub execution_ns: u64,
    /// Σ (end - start) of all tasks.
    pub cumulative_ns: u64,
    /// Scheduling overhead: total time of all scheduling rounds.
    pub overhead_ns: u64,
    /// Σ (start - end of the previous task on the processing element).
    pub dispatch_ns: u64,
    /// Makespan: last end - first start of all tasks.
    pub end_to_end_ns: u64,
    /// Number of scheduling rounds.
    pub rounds: u64,
    /// Number of evaluations of a processing element or kind.
    pub looks: u64,
    /// Busy time of each processing element.
    pub busy_ns: BTreeMap<String, u64>,
}

impl Measures {
    /// Mean utilization (busy time over makespan) of the processing elements whose names begin with `title`.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
    pub fn utilisation(&self, title: &str) -> f64 {
        let busy: Vec<u64> =
            self.busy_ns.iter().filter(|(name, _)| name.starts_with(title)).map(|(_, busy)| *busy).collect();
        busy.iter().sum::<u64>() as f64 / (self.end_to_end_ns.max(1) as f64 * busy.len().max(1) as f64)
    }
}
