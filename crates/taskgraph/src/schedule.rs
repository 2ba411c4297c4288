//! Schedules and their checker.

use std::fmt;

use crate::{Graph, Platform};

/// Time and place of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The task, by position in the graph.
    pub task: usize,
    /// Its processing elements, by position in the platform; more than one in the model `parallel` only.
    pub pes: Vec<usize>,
    /// Start time, in the cost model's unit.
    pub start: f64,
    /// End time.
    pub end: f64,
}

/// A mapping with start and end of every task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// One slot per task, in any order.
    pub slots: Vec<Slot>,
}

/// Constraints on a schedule.
pub trait CostModel {
    /// Duration of `task` on `pes`; `None` if incompatible.
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64>;

    /// Minimum time between the end of an edge's predecessor, on `from`, and the start of its successor, on `to`.
    fn delay(&self, edge: usize, from: &[usize], to: &[usize]) -> f64;
}

/// A violation of a schedule's constraints.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// A task without a slot.
    Missing {
        /// The task.
        task: usize,
    },
    /// A task with two slots.
    Twice {
        /// The task.
        task: usize,
    },
    /// A slot of a task or on a processing element that does not exist.
    Unknown {
        /// The slot, by position.
        slot: usize,
    },
    /// A task on an incompatible processing element.
    Unsupported {
        /// The task.
        task: usize,
        /// Its processing elements.
        pes: Vec<usize>,
    },
    /// A task with a wrong duration.
    Duration {
        /// The task.
        task: usize,
        /// Duration of its slot.
        found: f64,
        /// Duration by the cost model.
        expected: f64,
    },
    /// A task that starts before its data arrive.
    Early {
        /// The edge, by position.
        edge: usize,
        /// Start of the successor.
        start: f64,
        /// Arrival of the data.
        ready: f64,
    },
    /// Two overlapping tasks on a processing element.
    Overlap {
        /// The processing element.
        pe: usize,
        /// The task that starts first.
        first: usize,
        /// The task that starts before the first one ends.
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

/// Relative tolerance for the equality of times.
const TOLERANCE: f64 = 1e-9;

fn before(a: f64, b: f64) -> bool {
    a < b - TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

impl Schedule {
    /// Makespan: end of the last task.
    pub fn makespan(&self) -> f64 {
        self.slots.iter().map(|slot| slot.end).fold(0.0, f64::max)
    }

    /// All violations: missing, duplicate or incompatible tasks, wrong durations, early starts, and overlaps on a processing
    /// element. Empty means feasible.
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

/// Pairs of slots that overlap on a processing element; slots of length zero never overlap.
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
