//! Schedules, and the judge of them.

use std::fmt;

use crate::{Graph, Platform};

/// When a task runs, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The task, by position in the graph.
    pub task: usize,
    /// The processing elements it holds, by position in the platform; more than one in the model `parallel` only.
    pub pes: Vec<usize>,
    /// When it starts, in the cost model's unit.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// A mapping with start and end of every task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// One slot per task, in any order.
    pub slots: Vec<Slot>,
}

/// What a schedule has to respect.
pub trait CostModel {
    /// How long `task` runs on `pes`; `None` where it cannot.
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64>;

    /// The time between the end of an edge's first task, on `from`, and the earliest start of its second, on `to`.
    fn delay(&self, edge: usize, from: &[usize], to: &[usize]) -> f64;
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// A task without a slot.
    Missing {
        /// The task.
        task: usize,
    },
    /// A task with two.
    Twice {
        /// The task.
        task: usize,
    },
    /// A slot of a task or on a processing element that does not exist.
    Unknown {
        /// The slot, by position.
        slot: usize,
    },
    /// A task where it cannot run.
    Unsupported {
        /// The task.
        task: usize,
        /// Where it was put.
        pes: Vec<usize>,
    },
    /// A task that takes longer or shorter than it should.
    Duration {
        /// The task.
        task: usize,
        /// What its slot says.
        found: f64,
        /// What the cost model says.
        expected: f64,
    },
    /// A task that starts before its data are there.
    Early {
        /// The edge, by position.
        edge: usize,
        /// When its second task starts.
        start: f64,
        /// When the data are there.
        ready: f64,
    },
    /// Two tasks on one processing element at once.
    Overlap {
        /// The processing element.
        pe: usize,
        /// The task that started first.
        first: usize,
        /// The one that started before it ended.
        second: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { task } => write!(f, "task {task} is not scheduled"),
            Self::Twice { task } => write!(f, "task {task} is scheduled twice"),
            Self::Unknown { slot } => {
                write!(f, "slot {slot} names a task or processing element that is none")
            }
            Self::Unsupported { task, pes } => write!(f, "task {task} cannot run on {pes:?}"),
            Self::Duration { task, found, expected } => {
                write!(f, "task {task} runs for {found}, and should for {expected}")
            }
            Self::Early { edge, start, ready } => {
                write!(f, "edge {edge}: its second task starts at {start}, its data are there at {ready}")
            }
            Self::Overlap { pe, first, second } => {
                write!(f, "tasks {first} and {second} run on processing element {pe} at once")
            }
        }
    }
}

/// How far apart two times may be that ought to be equal, relative to the larger.
const TOLERANCE: f64 = 1e-9;

fn before(a: f64, b: f64) -> bool {
    a < b - TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

impl Schedule {
    /// When the last task ends.
    pub fn makespan(&self) -> f64 {
        self.slots.iter().map(|slot| slot.end).fold(0.0, f64::max)
    }

    /// Everything that is wrong: tasks missing, twice, where they cannot run, too long or short, before their data,
    /// or on a processing element that is taken. Empty means feasible.
    pub fn violations(&self, graph: &Graph, platform: &Platform, costs: &dyn CostModel) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut slots: Vec<Option<&Slot>> = vec![None; graph.tasks().len()];
        for (position, slot) in self.slots.iter().enumerate() {
            let sound = slot.task < slots.len()
                && !slot.pes.is_empty()
                && slot.pes.iter().all(|pe| *pe < platform.pes().len())
                && slot.start.is_finite()
                && slot.end.is_finite();
            if !sound {
                found.push(Violation::Unknown { slot: position });
                continue;
            }
            if slots[slot.task].replace(slot).is_some() {
                found.push(Violation::Twice { task: slot.task });
            }
            match costs.duration(slot.task, &slot.pes) {
                None => found.push(Violation::Unsupported { task: slot.task, pes: slot.pes.clone() }),
                Some(expected) => {
                    let length = slot.end - slot.start;
                    if before(slot.end, slot.start + expected) || before(slot.start + expected, slot.end) {
                        found.push(Violation::Duration { task: slot.task, found: length, expected });
                    }
                }
            }
        }
        for (task, slot) in slots.iter().enumerate() {
            if slot.is_none() {
                found.push(Violation::Missing { task });
            }
        }
        for (edge, ends) in graph.edges().iter().enumerate() {
            if let (Some(from), Some(to)) = (slots[ends.from], slots[ends.to]) {
                let ready = from.end + costs.delay(edge, &from.pes, &to.pes);
                if before(to.start, ready) {
                    found.push(Violation::Early { edge, start: to.start, ready });
                }
            }
        }
        let known = |slot: &&Slot| slot.task < graph.tasks().len();
        found.extend(overlaps(self.slots.iter().filter(known), platform.pes().len()));
        found
    }
}

/// Pairs of slots that hold one processing element at the same time; slots of length zero hold nothing.
pub fn overlaps<'a>(slots: impl IntoIterator<Item = &'a Slot>, pes: usize) -> Vec<Violation> {
    let mut on: Vec<Vec<&Slot>> = vec![Vec::new(); pes];
    for slot in slots {
        if slot.end > slot.start {
            for pe in slot.pes.iter().filter(|pe| **pe < pes) {
                on[*pe].push(slot);
            }
        }
    }
    let mut found = Vec::new();
    for (pe, mut slots) in on.into_iter().enumerate() {
        slots.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
        let mut last: Option<&Slot> = None;
        for slot in slots {
            if let Some(first) = last.filter(|last| before(slot.start, last.end)) {
                found.push(Violation::Overlap { pe, first: first.task, second: slot.task });
            }
            last = Some(last.filter(|last| last.end > slot.end).unwrap_or(slot));
        }
    }
    found
}
