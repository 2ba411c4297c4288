//! `latency`: the longest path that messages take.

use super::{Amounts, Class, Figure, FileSums, Measure, Placed, Step};
use crate::file::SnapshotFile;
use crate::{Assignment, Snapshot};

/// Σ exchange costs along the most expensive path of messages between actors that have a place.
pub(super) struct Latency;

impl Measure for Latency {
    fn class(&self) -> Class {
        Class::Whole
    }

    fn value(&self, placed: &Placed) -> i64 {
        longest(placed.snapshot, |actor| placed.assignment[actor])
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.snapshot.actors() as i128 * amounts.message
    }

    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        Some(("messages", "latency", sums.message.saturating_mul(file.actors.len() as u128)))
    }

    fn figure(&self, snapshot: &Snapshot) -> Option<Box<dyn Figure>> {
        Some(Box::new(Whereabouts(vec![None; snapshot.actors()])))
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/latency.lp")
    }
}

/// Where actors are.
#[derive(Clone)]
struct Whereabouts(Assignment);

impl Figure for Whereabouts {
    fn count(&mut self, _: &Snapshot, step: &Step) {
        self.0[step.actor.at()] = step.comes.then_some(step.unit.at());
    }

    fn value(&self, snapshot: &Snapshot) -> i64 {
        longest(snapshot, |actor| self.0[actor])
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let after = step.comes.then_some(step.unit.at());
        longest(snapshot, |actor| if actor == step.actor.at() { after } else { self.0[actor] })
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn boxed(&self) -> Box<dyn Figure> {
        Box::new(self.clone())
    }
}

fn longest(snapshot: &Snapshot, place: impl Fn(usize) -> Option<usize>) -> i64 {
    let paths = &snapshot.problem().paths;
    paths.longest(|from, to| Some(snapshot.exchange_cost(place(from)?, place(to)?)))
}

impl Snapshot {
    /// How many messages the longest path has, where a level names `latency`; 0 otherwise.
    pub fn longest_path(&self) -> usize {
        usize::try_from(self.problem.paths.longest(|_, _| Some(1))).expect("a count of messages is small")
    }

    /// Whom an actor sends messages to, ascending, where a level names `latency`; nobody otherwise.
    pub fn sends_to(&self, actor: usize) -> &[usize] {
        self.problem.paths.next(actor)
    }
}
