//! One round: what a scheduler sees, what it may do, and what that costs.

use super::cache::Cache;
use super::classes::{Class, Classes, NEVER};
use crate::Costs;

/// A task that waits to be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What the runtime knows it by.
    pub token: u64,
    /// Its class in [`Classes::all`].
    pub class: u32,
    /// The same for the same task of every instance of an application: what schedules are cached by.
    pub origin: u32,
}

/// A task that was given to a processing element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The task.
    pub task: Ready,
    /// Where, by position in the pool.
    pub pe: usize,
    /// When, in nanoseconds.
    pub at: u64,
}

/// The pool as schedulers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// When each processing element is expected to be free: max(hand-over, before) + estimate; never corrected.
    pub available: Vec<u64>,
    /// Which take work: all with queues before them; without, those that have none.
    pub open: Vec<bool>,
    /// Whether there are queues.
    pub queueing: bool,
}

/// One round: a scheduler hands over tasks of the queue, and the clock counts what that costs.
#[derive(Debug)]
pub struct Round<'a> {
    /// The clock, in nanoseconds.
    pub now: u64,
    /// How many processing elements and kinds were looked at.
    pub looks: u64,
    /// What was handed over, in order.
    pub handed: Vec<HandOver>,
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
        Self { now, looks: 0, handed: Vec::new(), classes, costs, pool, queue, taken }
    }

    /// Has `cache`, if any, then `scheduler` hand tasks over; what is not handed over stays in the queue.
    pub fn run(&mut self, scheduler: &mut dyn Scheduler, mut cache: Option<&mut Cache>) {
        if let Some(cache) = cache.as_deref_mut() {
            self.serve(cache);
        }
        let cached = self.handed.len();
        if cached < self.queue.len() {
            scheduler.schedule(self);
        }
        if let Some(cache) = cache {
            self.handed[cached..].iter().for_each(|one| cache.learn(one.task.origin, one.pe));
        }
        let mut taken = self.taken.iter();
        self.queue.retain(|_| !taken.next().expect("one mark per task of the queue"));
    }

    /// Hands over every task that has been decided upon before, in the queue's order.
    fn serve(&mut self, cache: &Cache) {
        for position in 0..self.queue.len() {
            self.look(1);
            let decided = cache.decision(self.queue[position].origin);
            // An application of the same name may have a task of the same name that runs elsewhere.
            if let Some(pe) = decided.filter(|pe| self.class(position).on[*pe] != NEVER) {
                self.hand_over(position, pe);
            }
        }
    }

    pub(super) fn pes(&self) -> usize {
        self.pool.available.len()
    }

    /// Tasks that are left, by position in the queue.
    pub(super) fn left(&self) -> Vec<usize> {
        (0..self.queue.len()).filter(|position| !self.taken[*position]).collect()
    }

    pub(super) fn class(&self, position: usize) -> &'a Class {
        &self.classes.all[self.queue[position].class as usize]
    }

    pub(super) fn look(&mut self, count: u64) {
        self.looks += count;
        self.now = self.now.saturating_add(self.costs.look.saturating_mul(count));
    }

    pub(super) fn compare(&mut self, count: u64) {
        self.now = self.now.saturating_add(self.costs.compare.saturating_mul(count));
    }

    /// Whether no processing element takes work any more.
    pub(super) fn full(&self) -> bool {
        !self.pool.queueing && !self.pool.open.contains(&true)
    }

    /// Hands a task over, unless the processing element refuses.
    pub(super) fn hand_over(&mut self, position: usize, pe: usize) -> bool {
        if !self.pool.open[pe] {
            return false;
        }
        self.now = self.now.saturating_add(self.costs.assign);
        let estimate = self.class(position).on[pe];
        self.pool.available[pe] = self.pool.available[pe].max(self.now).saturating_add(estimate);
        self.pool.open[pe] = self.pool.queueing;
        self.taken[position] = true;
        self.handed.push(HandOver { task: self.queue[position], pe, at: self.now });
        true
    }
}

/// Decides which ready task goes where. The name is what `--scheduler` takes.
pub trait Scheduler: Send {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// Hands over tasks of the round's queue.
    fn schedule(&mut self, round: &mut Round<'_>);
}
