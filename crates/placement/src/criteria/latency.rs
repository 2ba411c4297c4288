//! `latency`: the longest path of messages.

use super::encoding::sum_of_bits;
use super::{Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, Placed, Step};
use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::problem::room::Rooms;
use crate::{Assignment, Snapshot};

/// The maximum cost of a path.
fn latest(world: &Encoding) -> i64 {
    let messages = i64::try_from(world.snapshot.longest_path()).expect("a count of actors is small");
    messages.saturating_mul(world.most_message())
}

/// The facts of a message in a verification, in addition to the bits of a path.
const PER_MESSAGE: usize = 8;

/// The number of path lengths that are copied and read while one message is priced.
const COPIED: usize = 8;
/// How often a message of a moved actor is priced: before and after, at the sender and at the receiver.
const LOOKED_AT: usize = 4;

/// Σ exchange costs along the longest path of messages between placed actors.
pub(super) struct Latency;

impl Measure for Latency {
    fn class(&self) -> CriterionClass {
        CriterionClass::NonAdditive
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

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(LatencyTerm::nowhere(snapshot.actors())))
    }

    // The effect of one actor: its messages and those of a few others, and what is copied for all.
    fn evaluation_cost(&self, snapshot: &Snapshot) -> usize {
        let sent = ActorIx::first(snapshot.actors()).map(|actor| snapshot.sends_to(actor).len());
        snapshot.actors() / COPIED + LOOKED_AT * sent.sum::<usize>() / snapshot.actors().max(1)
    }

    // Edges to fixed actors, and links, are visited anyway.
    fn symmetry_key(&self, _: &Snapshot, _: &Rooms, _: UnitIx) -> Vec<Option<i64>> {
        Vec::new()
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        facts.exchange_costs = true;
        for from in ActorIx::first(world.snapshot.actors()) {
            for &to in world.snapshot.sends_to(from) {
                let (first, second) = (from.min(to), from.max(to));
                facts.say("sends", [from.into(), to.into()]);
                facts.say("link", [first.into(), second.into()]);
            }
        }
        facts.bits("until_bit", &[], latest(world));
    }

    // Finding the path lengths is a search of its own; verifying them is not.
    fn witness(&self, world: &Encoding, assignment: &Assignment, facts: &mut Facts) {
        let snapshot = world.snapshot;
        let price = |from, to| Some(snapshot.exchange_cost(assignment[from]?, assignment[to]?));
        let (until, steps) = snapshot.problem().paths.longest_to_each(price);
        let bits = |value: i64| (0..i64::BITS).filter(move |bit| value >> bit & 1 == 1).map(i64::from);
        for (actor, value) in until.enumerate() {
            for bit in bits(*value) {
                facts.say("until_is", [actor.into(), bit.into()]);
            }
        }
        for bit in bits(until.iter().copied().max().unwrap_or(0)) {
            facts.say("latest_is", [bit.into()]);
        }
        for (from, to) in steps {
            facts.say("step_is", [from.into(), to.into()]);
        }
    }

    fn effort_to_judge(&self, world: &Encoding) -> usize {
        let messages: usize =
            ActorIx::first(world.snapshot.actors()).map(|actor| world.snapshot.sends_to(actor).len()).sum();
        let bits = usize::try_from(i64::BITS - latest(world).leading_zeros()).unwrap_or(usize::MAX);
        messages.saturating_mul(PER_MESSAGE.saturating_add(bits))
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        sum_of_bits(latest(world)).saturating_mul(2).saturating_add(world.most_message())
    }

    fn counts_exchange(&self) -> bool {
        true
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/latency.lp")
    }
}

/// Placements, and the path lengths of an earlier state.
#[derive(Clone)]
struct LatencyTerm {
    now: Assignment,
    /// The placements when paths were computed.
    then: Assignment,
    /// By actor, the length of its longest path then.
    until: IxVec<ActorIx, i64>,
    /// The longest of all.
    latest: i64,
    /// The actors moved since, and whether an actor is one of them.
    gone: Vec<ActorIx>,
    is_gone: IxVec<ActorIx, bool>,
}

impl LatencyTerm {
    /// With no actor placed.
    fn nowhere(actors: usize) -> Self {
        let nowhere = IxVec::of(None, actors);
        Self {
            now: nowhere.clone(),
            then: nowhere,
            until: IxVec::of(0, actors),
            latest: 0,
            gone: Vec::new(),
            is_gone: IxVec::of(false, actors),
        }
    }

    /// Updates `until` for the actors that are `gone` to their unit in `now`, and returns the length of the longest path.
    fn follow(
        &self,
        snapshot: &Snapshot,
        until: &mut IxVec<ActorIx, i64>,
        gone: &[ActorIx],
        now: impl Fn(ActorIx) -> Option<UnitIx>,
    ) -> i64 {
        let was = |from, to| Some(snapshot.exchange_cost(self.then[from]?, self.then[to]?));
        let is = |from, to| Some(snapshot.exchange_cost(now(from)?, now(to)?));
        snapshot.problem().paths.follow(until, gone, was, is);
        until.iter().copied().max().unwrap_or(0)
    }
}

impl IncrementalTerm for LatencyTerm {
    fn count(&mut self, _: &Snapshot, step: &Step) {
        let actor = step.actor;
        self.now[actor] = step.comes.then_some(step.unit);
        let is_gone = self.now[actor] != self.then[actor];
        if is_gone == std::mem::replace(&mut self.is_gone[actor], is_gone) {
            return;
        }
        if is_gone {
            self.gone.push(actor);
        } else if let Some(at) = self.gone.iter().rposition(|gone| *gone == actor) {
            self.gone.swap_remove(at);
        }
    }

    fn value(&self, snapshot: &Snapshot) -> i64 {
        if self.gone.is_empty() {
            return self.latest;
        }
        self.follow(snapshot, &mut self.until.clone(), &self.gone, |actor| self.now[actor])
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let after = step.comes.then_some(step.unit);
        let gone: Vec<ActorIx> = self.gone.iter().copied().chain([step.actor]).collect();
        let now = |actor| if actor == step.actor { after } else { self.now[actor] };
        self.follow(snapshot, &mut self.until.clone(), &gone, now)
    }

    fn keep(&mut self, snapshot: &Snapshot) {
        if self.gone.is_empty() {
            return;
        }
        let mut until = std::mem::take(&mut self.until);
        self.latest = self.follow(snapshot, &mut until, &self.gone, |actor| self.now[actor]);
        self.until = until;
        for actor in self.gone.drain(..) {
            (self.then[actor], self.is_gone[actor]) = (self.now[actor], false);
        }
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}

fn longest(snapshot: &Snapshot, place: impl Fn(ActorIx) -> Option<UnitIx>) -> i64 {
    let paths = &snapshot.problem().paths;
    paths.longest(|from, to| Some(snapshot.exchange_cost(place(from)?, place(to)?)))
}

impl Snapshot {
    /// The number of messages of the longest path, if a level names `latency`; otherwise 0.
    pub fn longest_path(&self) -> usize {
        usize::try_from(self.problem.paths.longest(|_, _| Some(1))).expect("a count of messages is small")
    }

    /// The receivers of an actor, ascending, if a level names `latency`; otherwise none.
    pub fn sends_to(&self, actor: ActorIx) -> &[ActorIx] {
        self.problem.paths.next(actor)
    }
}
