//! Schedulers that work while graphs run: rounds over a queue of ready tasks.
//!
//! The rules are those of CEDR (Mack et al., ACM TECS 2022, section 2.5, and its published code). A [`Round`] holds
//! what a scheduler sees and counts what it does: simulated runtimes charge for it, real ones measure it.

mod cache;
mod eft;
mod etf;
mod etf_indexed;
mod heft_rt;
mod met;
mod simple;

use std::collections::BTreeMap;

pub use cache::Cache;
pub use eft::Eft;
pub use etf::Etf;
pub use etf_indexed::EtfIndexed;
pub use heft_rt::HeftRt;
pub use met::Met;
pub use simple::Simple;

use crate::{Costs, FileError, Implementation, Kind, Platform, Task};

/// An estimate that no task has: the processing element cannot run it.
pub const NEVER: u64 = u64::MAX;

/// What schedulers know of all tasks whose estimates are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The estimate on each processing element of the pool, in nanoseconds; [`NEVER`] where it cannot run.
    pub on: Vec<u64>,
    /// How many kinds the tasks name, in the pool or not.
    pub kinds: u64,
    /// The kind of least estimate among those of the pool, by position in [`Platform::kinds`]; ties: the first.
    pub quickest: usize,
    /// The mean estimate over all kinds, rounded down.
    pub mean: u64,
}

/// The classes of a pool, each once.
#[derive(Clone, Debug)]
pub struct Classes {
    kinds: Vec<Kind>,
    of: Vec<usize>,
    known: BTreeMap<Vec<(Kind, u64)>, u32>,
    all: Vec<Class>,
}

impl Classes {
    /// No class yet, for the pool of `platform`.
    pub fn new(platform: &Platform) -> Self {
        let kinds: Vec<Kind> = platform.kinds().into_iter().map(|(kind, _)| kind).collect();
        let find =
            |kind: &Kind| kinds.iter().position(|k| k == kind).expect("every kind of the pool is listed");
        let of = platform.pes().iter().map(|pe| find(&pe.kind)).collect();
        Self { kinds, of, known: BTreeMap::new(), all: Vec::new() }
    }

    /// The class of a task with these implementations, made when it is the first.
    ///
    /// # Errors
    /// When the pool has no processing element of any of its kinds.
    pub fn intern(&mut self, task: &Task, on: &BTreeMap<Kind, Implementation>) -> Result<u32, FileError> {
        let key: Vec<(Kind, u64)> = on.iter().map(|(kind, one)| (kind.clone(), one.expected_ns())).collect();
        if let Some(class) = self.known.get(&key) {
            return Ok(*class);
        }
        let by_kind: Vec<u64> =
            self.kinds.iter().map(|kind| on.get(kind).map_or(NEVER, Implementation::expected_ns)).collect();
        let Some(quickest) = (0..by_kind.len()).filter(|k| by_kind[*k] != NEVER).min_by_key(|k| by_kind[*k])
        else {
            let names: Vec<&str> = on.keys().map(Kind::as_str).collect();
            return Err(FileError::new(
                format!("task {}", task.id),
                format!("runs on {} only, and the platform has none of these", names.join(", ")),
                "add such a processing element, or an implementation for what there is",
            ));
        };
        let total: u128 = key.iter().map(|(_, estimate)| u128::from(*estimate)).sum();
        let class = Class {
            on: self.of.iter().map(|kind| by_kind[*kind]).collect(),
            kinds: key.len() as u64,
            quickest,
            mean: u64::try_from(total / key.len() as u128).unwrap_or(NEVER - 1),
        };
        let number = u32::try_from(self.all.len()).expect("fewer classes than tasks");
        self.all.push(class);
        self.known.insert(key, number);
        Ok(number)
    }

    /// All classes, by number.
    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// The kind of each processing element, by position in [`Platform::kinds`].
    pub fn kinds_of_pes(&self) -> &[usize] {
        &self.of
    }
}

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
    classes: &'a Classes,
    costs: Costs,
    pool: &'a mut Pool,
    queue: &'a mut Vec<Ready>,
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
            cache.serve(self);
        }
        let cached = self.handed.len();
        if cached < self.queue.len() {
            scheduler.schedule(self);
        }
        if let Some(cache) = cache {
            self.handed[cached..].iter().for_each(|one| cache.learn(one));
        }
        let mut taken = self.taken.iter();
        self.queue.retain(|_| !taken.next().expect("one mark per task of the queue"));
    }

    fn pes(&self) -> usize {
        self.pool.available.len()
    }

    /// Tasks that are left, by position in the queue.
    fn left(&self) -> Vec<usize> {
        (0..self.queue.len()).filter(|position| !self.taken[*position]).collect()
    }

    fn class(&self, position: usize) -> &'a Class {
        &self.classes.all[self.queue[position].class as usize]
    }

    fn look(&mut self, count: u64) {
        self.looks += count;
        self.now = self.now.saturating_add(self.costs.look.saturating_mul(count));
    }

    fn compare(&mut self, count: u64) {
        self.now = self.now.saturating_add(self.costs.compare.saturating_mul(count));
    }

    /// Whether no processing element takes work any more.
    fn full(&self) -> bool {
        !self.pool.queueing && !self.pool.open.contains(&true)
    }

    /// Hands a task over, unless the processing element refuses.
    fn hand_over(&mut self, position: usize, pe: usize) -> bool {
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

/// The names of all schedulers, in the order in which they are listed to people.
pub const SCHEDULERS: [&str; 6] = ["SIMPLE", "MET", "EFT", "ETF", "ETF_INDEXED", "HEFT_RT"];

/// A scheduler by its name, as it is before its first round.
pub fn scheduler(name: &str) -> Option<Box<dyn Scheduler>> {
    Some(match name {
        "SIMPLE" => Box::new(Simple::default()),
        "MET" => Box::new(Met::default()),
        "EFT" => Box::new(Eft),
        "ETF" => Box::new(Etf),
        "ETF_INDEXED" => Box::new(EtfIndexed),
        "HEFT_RT" => Box::new(HeftRt),
        _ => return None,
    })
}
