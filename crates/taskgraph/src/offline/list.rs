//! List scheduling: the schedule of a mapping of model `work`.
//!
//! Priority is the upward rank (own time + the maximum of transfer and the successor's rank). Among ready tasks the
//! highest rank is first, ties by index; each starts when its processing element is free and its data have arrived.
//! Gaps are not filled. A task occupies its processing element while it computes and then while it sends, edge
//! by edge; hence the makespan is never below the objective.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::cost::WorkModel;
use crate::{CostModel, Schedule, Slot};

/// The schedule of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Slot of each task and data store: computing and sending.
    pub schedule: Schedule,
    /// The makespan.
    pub makespan: f64,
}

/// A ready task with its rank.
#[derive(PartialEq)]
struct ReadyTask {
    rank: f64,
    task: usize,
}

impl Eq for ReadyTask {}

impl PartialOrd for ReadyTask {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReadyTask {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(other.task.cmp(&self.task))
    }
}

/// The list schedule of a mapping.
pub fn schedule(model: &WorkModel, mapping: &[usize]) -> Listed {
    let tasks = model.tasks();
    let ranks = upward_ranks(model, mapping);
    let mut waits: Vec<usize> =
        (0..tasks).map(|task| ordering(model, model.incoming(task)).count()).collect();
    let mut data_at = vec![0.0_f64; tasks];
    let mut free_at = vec![0.0_f64; model.pes()];
    let mut ready: BinaryHeap<ReadyTask> = (0..tasks)
        .filter(|task| waits[*task] == 0)
        .map(|task| ReadyTask { rank: ranks[task], task })
        .collect();
    let mut slots = Vec::with_capacity(tasks);
    while let Some(ReadyTask { task, .. }) = ready.pop() {
        let pe = mapping[task];
        let start = free_at[pe].max(data_at[task]);
        let mut now = start + model.own(task, pe);
        for &edge in model.outgoing(task) {
            now += model.transfer(edge, mapping);
            let to = model.edges()[edge].to;
            if !model.edges()[edge].ordering {
                continue;
            }
            data_at[to] = data_at[to].max(now);
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(ReadyTask { rank: ranks[to], task: to });
            }
        }
        free_at[pe] = now;
        slots.push(Slot { task, pes: vec![pe], start, end: now });
    }
    // A load and a chain of equal summands may differ in the last bit, due to the order of addition.
    let last = free_at.into_iter().fold(0.0, f64::max);
    Listed { schedule: Schedule { slots }, makespan: last.max(model.objective(mapping)) }
}

/// Upward rank by task.
fn upward_ranks(model: &WorkModel, mapping: &[usize]) -> Vec<f64> {
    let tasks = model.tasks();
    let mut ranks = vec![0.0; tasks];
    let mut waits: Vec<usize> =
        (0..tasks).map(|task| ordering(model, model.outgoing(task)).count()).collect();
    let mut free: Vec<usize> = (0..tasks).filter(|task| waits[*task] == 0).collect();
    while let Some(task) = free.pop() {
        let ways = ordering(model, model.outgoing(task));
        let longest = ways.map(|edge| model.transfer(edge, mapping) + ranks[model.edges()[edge].to]);
        ranks[task] = model.own(task, mapping[task]) + longest.fold(0.0, f64::max);
        for edge in ordering(model, model.incoming(task)) {
            let from = model.edges()[edge].from;
            waits[from] -= 1;
            if waits[from] == 0 {
                free.push(from);
            }
        }
    }
    ranks
}

fn ordering<'a>(model: &'a WorkModel, edges: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    edges.iter().copied().filter(|&edge| model.edges()[edge].ordering)
}

/// Checks schedules of a mapping: tasks last for their computing and sending, and a message arrives once it is sent, which
/// may be before its sender has sent everything.
pub struct Sending<'a> {
    /// The model.
    pub model: &'a WorkModel,
    /// The mapping.
    pub mapping: &'a [usize],
}

impl CostModel for Sending<'_> {
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64> {
        (pes == [self.mapping[task]]).then(|| self.model.latency(task, self.mapping))
    }

    fn delay(&self, edge: usize, _: &[usize], _: &[usize]) -> f64 {
        let from = self.model.edges()[edge].from;
        let later = self.model.outgoing(from).iter().skip_while(|other| **other != edge).skip(1);
        -later.map(|&other| self.model.transfer(other, self.mapping)).sum::<f64>()
    }
}
