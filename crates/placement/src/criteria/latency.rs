//! `latency`: the longest path that messages take.

use super::encoding::sum_of_bits;
use super::{Amounts, Class, Encoding, Facts, Figure, FileSums, Measure, Placed, Step};
use crate::file::SnapshotFile;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::room::Rooms;
use crate::{Assignment, Snapshot};

/// The most that a path can cost.
fn latest(world: &Encoding) -> i64 {
    let messages = i64::try_from(world.snapshot.longest_path()).expect("a count of actors is small");
    messages.saturating_mul(world.most_message())
}

/// What a message is to a judge beside the bits of a path, in facts.
const PER_MESSAGE: usize = 8;

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
        Some(Box::new(Whereabouts(IxVec::of(None, snapshot.actors()))))
    }

    fn looks_at(&self, snapshot: &Snapshot) -> usize {
        let sent = ActorIx::first(snapshot.actors()).map(|actor| snapshot.sends_to(actor).len());
        snapshot.actors() + sent.sum::<usize>()
    }

    // Ties to what is fixed, and links, are looked at anyway.
    fn tells_apart(&self, _: &Snapshot, _: &Rooms, _: UnitIx) -> Vec<Option<i64>> {
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

    // To find what the path to each costs is a search of its own; to see that it is right is not.
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

    fn settled(&self, _: &Encoding, _: i64) -> i64 {
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

/// Where actors are.
#[derive(Clone)]
struct Whereabouts(Assignment);

impl Figure for Whereabouts {
    fn count(&mut self, _: &Snapshot, step: &Step) {
        self.0[step.actor] = step.comes.then_some(step.unit);
    }

    fn value(&self, snapshot: &Snapshot) -> i64 {
        longest(snapshot, |actor| self.0[actor])
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let after = step.comes.then_some(step.unit);
        longest(snapshot, |actor| if actor == step.actor { after } else { self.0[actor] })
    }

    fn boxed(&self) -> Box<dyn Figure> {
        Box::new(self.clone())
    }
}

fn longest(snapshot: &Snapshot, place: impl Fn(ActorIx) -> Option<UnitIx>) -> i64 {
    let paths = &snapshot.problem().paths;
    paths.longest(|from, to| Some(snapshot.exchange_cost(place(from)?, place(to)?)))
}

impl Snapshot {
    /// How many messages the longest path has, where a level names `latency`; 0 otherwise.
    pub fn longest_path(&self) -> usize {
        usize::try_from(self.problem.paths.longest(|_, _| Some(1))).expect("a count of messages is small")
    }

    /// Whom an actor sends messages to, ascending, where a level names `latency`; nobody otherwise.
    pub fn sends_to(&self, actor: ActorIx) -> &[ActorIx] {
        self.problem.paths.next(actor)
    }
}
