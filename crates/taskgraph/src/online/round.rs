//! A scheduling round: the scheduler's view, its actions, and their cost.

use super::cache::Cache;
use super::classes::{Class, Classes, NEVER};
use crate::Costs;

/// A task in the ready queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The runtime's handle.
    pub token: u64,
    /// Its class in [`Classes::all`].
    pub class: u32,
    /// Key of the schedule cache: equal for the same task of every instance of an application.
    pub origin: u32,
}

/// A task dispatched to a processing element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The task.
    pub task: Ready,
    /// Processing element, by position in the pool.
    pub pe: usize,
    /// Dispatch time, in nanoseconds.
    pub at: u64,
}

/// The schedulers' view of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Expected time at which each processing element is free: max(dispatch, previous) + estimate; never corrected.
    pub available: Vec<u64>,
    /// Processing elements that accept tasks: all of them with queues; without queues, the idle ones.
    pub open: Vec<bool>,
    /// Whether processing elements have queues.
    pub queueing: bool,
}

/// A round: a scheduler dispatches tasks of the queue, and the clock is charged for it.
#[derive(Debug)]
pub struct Round<'a> {
    /// The clock, in nanoseconds.
    pub now: u64,
    /// Number of evaluations of a processing element or kind.
    pub evaluations: u64,
    /// Dispatched tasks, in order.
    pub dispatched: Vec<Dispatch>,
    pub(super) classes: &'a Classes,
    costs: Costs,
    pub(super) pool: &'a mut Pool,
    pub(super) queue: &'a mut Vec<Ready>,
    taken: Vec<bool>,
}

impl<'a> Round<'a> {
    /// A round that begins at `now`.
    pub fn new(
        now: u64,
        classes: &'a Classes,
        costs: Costs,
        pool: &'a mut Pool,
        queue: &'a mut Vec<Ready>,
    ) -> Self {
        let taken = vec![false; queue.len()];
        Self { now, evaluations: 0, dispatched: Vec::new(), classes, costs, pool, queue, taken }
    }

    /// Lets `cache`, if any, then `scheduler` dispatch tasks; the others stay in the queue.
    pub fn run(&mut self, scheduler: &mut dyn Scheduler, mut cache: Option<&mut Cache>) {
        if let Some(cache) = cache.as_deref_mut() {
            self.serve(cache);
        }
        let cached = self.dispatched.len();
        if cached < self.queue.len() {
            scheduler.schedule(self);
        }
        if let Some(cache) = cache {
            self.dispatched[cached..].iter().for_each(|one| cache.learn(one.task.origin, one.pe));
        }
        let mut taken = self.taken.iter();
        self.queue.retain(|_| !taken.next().expect("one mark per task of the queue"));
    }

    /// Dispatches every task with a cached decision, in queue order.
    fn serve(&mut self, cache: &Cache) {
        for position in 0..self.queue.len() {
            self.charge_evaluations(1);
            let decided = cache.decision(self.queue[position].origin);
            // A task of the same name in another application of the same name may be incompatible.
            if let Some(pe) = decided.filter(|pe| self.class(position).on[*pe] != NEVER) {
                self.dispatch(position, pe);
            }
        }
    }

    pub(super) fn pes(&self) -> usize {
        self.pool.available.len()
    }

    /// Remaining tasks, by position in the queue.
    pub(super) fn left(&self) -> Vec<usize> {
        (0..self.queue.len()).filter(|position| !self.taken[*position]).collect()
    }

    pub(super) fn class(&self, position: usize) -> &'a Class {
        &self.classes.all[self.queue[position].class as usize]
    }

    pub(super) fn charge_evaluations(&mut self, count: u64) {
        self.evaluations += count;
        self.now = self.now.saturating_add(self.costs.look.saturating_mul(count));
    }

    pub(super) fn compare(&mut self, count: u64) {
        self.now = self.now.saturating_add(self.costs.compare.saturating_mul(count));
    }

    /// Whether no processing element accepts tasks any more.
    pub(super) fn full(&self) -> bool {
        !self.pool.queueing && !self.pool.open.contains(&true)
    }

    /// Dispatches a task, unless the processing element rejects it.
    pub(super) fn dispatch(&mut self, position: usize, pe: usize) -> bool {
        if !self.pool.open[pe] {
            return false;
        }
        self.now = self.now.saturating_add(self.costs.assign);
        let estimate = self.class(position).on[pe];
        self.pool.available[pe] = self.pool.available[pe].max(self.now).saturating_add(estimate);
        self.pool.open[pe] = self.pool.queueing;
        self.taken[position] = true;
        self.dispatched.push(Dispatch { task: self.queue[position], pe, at: self.now });
        true
    }
}

/// Decides where ready tasks run. The name is the value of `--scheduler`.
pub trait Scheduler: Send {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// Dispatches tasks of the round's queue.
    fn schedule(&mut self, round: &mut Round<'_>);
}
