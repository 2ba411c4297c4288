//! `greedy`: keeps what runs, places the rest where it costs least, then makes every improving move.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::construction::bundle::{BundlePlacement, Bundles};
use crate::construction::emptiest::{ProbeBudget, emptiest};
use crate::stop_clock::{Expired, StopClock, TIES_PER_PRICE};
use crate::strategies::repair::repair_violations;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Answer, Budget, FoundBy, Snapshot, SolveError, Stage, State, StoppedBy, Strategy};

/// Keeps what runs where that is feasible, places the rest one by one where the cost vector grows least, then moves
/// single actors and whole bundles as long as that improves the vector.
///
/// A unit of effort is the evaluation of one actor or bundle; each is evaluated once, whatever the effort. Without
/// effort, or where time runs out before that, actors are placed wherever there is room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn summary(&self) -> &'static str {
        "keeps what runs, places the rest where it costs least, then makes every improving move"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        Ok(repair_violations(snapshot, self.construct(snapshot, budget), budget))
    }
}

impl Greedy {
    /// The answer before the repair under a policy's rules, as a start for other searches.
    pub fn construct(&self, snapshot: &Snapshot, budget: &Budget) -> Answer {
        construct(snapshot, budget, true)
    }

    /// The same as if no movable actor ran anywhere.
    pub fn construct_anew(&self, snapshot: &Snapshot, budget: &Budget) -> Answer {
        construct(snapshot, budget, false)
    }
}

fn construct<'a>(snapshot: &'a Snapshot, budget: &Budget, keep_running: bool) -> Answer {
    let start = |mut state: State<'a>, mut clock: Option<&mut StopClock>| {
        let kept = if keep_running { keep_running_actors(&mut state, snapshot, &mut clock) } else { Ok(()) };
        let order = ActorOrder::new(snapshot, &state);
        let clock = StopClock::of_prices(snapshot, budget.stop);
        (Work { left: budget.effort.unwrap_or(u64::MAX), done: 0, clock }, state, order, kept)
    };
    let bundles = Bundles::new(snapshot);
    let mut clock = StopClock::new(budget.stop);
    let (mut work, mut state, mut order, kept) = start(State::new(snapshot), Some(&mut clock));
    // Effort does not cut it short: actors that are priced first would gain at the expense of others.
    let mut is_cut = kept.is_err() || work.is_over();
    while !is_cut && let Some(actor) = order.next(snapshot) {
        let placed = match bundles.of(actor) {
            // The other members of the bundle are placed with it.
            Some(bundle) if state.place(actor).is_none() => {
                bundles.place_bundle(bundle, &mut state, &mut work.clock)
            }
            _ => place(&mut state, snapshot, actor, &mut work.clock),
        };
        work.spend();
        is_cut = placed.is_err() || order.left > 0 && work.clock.check().is_err();
    }
    if is_cut {
        // A construction that the clock cuts short is discarded. All actors are placed where room is found quickly, so
        // that none is left out needlessly.
        (work, state, order, _) = start(State::without_channels(snapshot), None);
        let mut probes = ProbeBudget::new();
        for (turn, actor) in order.into_sorted(snapshot).into_iter().enumerate() {
            match bundles.of(actor) {
                Some(bundle) if state.place(actor).is_none() => {
                    bundles.place_bundle_anywhere(bundle, &mut state, turn, &mut probes);
                }
                _ => place_anywhere(&mut state, snapshot, (actor, turn), &mut probes),
            }
        }
    }
    let improved = improve(&mut state, snapshot, &bundles, &mut work);
    Answer {
        assignment: state.assignment,
        bound: BTreeMap::new(),
        optimal: false,
        effort: work.done,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        stopped_by: if improved || work.left == 0 { StoppedBy::Effort } else { StoppedBy::Deadline },
    }
}

struct Work<'a> {
    left: u64,
    done: u64,
    clock: StopClock<'a>,
}

impl Work<'_> {
    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.done += 1;
    }

    fn is_over(&mut self) -> bool {
        self.left == 0 || self.clock.check().is_err()
    }
}

/// Actors that are not fixed.
fn movable(snapshot: &Snapshot) -> impl Iterator<Item = ActorIx> {
    ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor))
}

/// Places actors where they are, running ones before arriving ones. Without a clock all of them.
fn keep_running_actors(
    state: &mut State,
    snapshot: &Snapshot,
    clock: &mut Option<&mut StopClock>,
) -> Result<(), Expired> {
    let mut actors: Vec<ActorIx> = movable(snapshot).collect();
    actors.sort_by_key(|actor| snapshot.running(*actor).is_none());
    for actor in actors {
        if let Some(unit) = snapshot.problem().current[actor]
            && state.admits(actor, unit)
        {
            if let Some(clock) = clock {
                clock.spend(placement_work(snapshot, actor))?;
            }
            state.put(actor, unit);
        }
    }
    Ok(())
}

/// The time of placing an actor, in prices: each channel of its group changes the price of every unit.
fn placement_work(snapshot: &Snapshot, actor: ActorIx) -> usize {
    let channels = &snapshot.problem().channels;
    let updated = if channels.are_whole() { channels.of_actor(actor).len() * snapshot.units() } else { 0 };
    1 + updated / TIES_PER_PRICE
}

/// The order of placement: actors with few candidates first, then those tied most to placed actors.
struct ActorOrder {
    /// Entries that a stronger pull has superseded are skipped.
    queue: BinaryHeap<Priority>,
    is_waiting: IxVec<ActorIx, bool>,
    /// Number of waiting actors.
    left: usize,
    pull: IxVec<ActorIx, i64>,
    /// The actor's largest work on any kind.
    heaviest: IxVec<ActorIx, i64>,
}

/// Greater is sooner.
type Priority = (bool, bool, i64, i64, Reverse<ActorIx>);

impl ActorOrder {
    fn new(snapshot: &Snapshot, state: &State) -> Self {
        let actors = ActorIx::first(snapshot.actors());
        let pull = |actor: ActorIx| {
            let placed = |peer: ActorIx| state.place(peer).is_some();
            snapshot.problem().edges[actor]
                .iter()
                .filter(|edge| placed(edge.peer))
                .map(|edge| edge.rate)
                .sum()
        };
        let heaviest = |actor: ActorIx| {
            let implementations = snapshot.problem().implementations[actor].iter().flatten();
            implementations.map(|needs| needs.work).max().unwrap_or(0)
        };
        let mut order = Self {
            queue: BinaryHeap::new(),
            is_waiting: actors.clone().map(|actor| state.place(actor).is_none()).collect(),
            left: 0,
            pull: actors.clone().map(pull).collect(),
            heaviest: actors.map(heaviest).collect(),
        };
        order.queue = order.waiting().map(|actor| order.priority(snapshot, actor)).collect();
        order.left = order.queue.len();
        order
    }

    fn next(&mut self, snapshot: &Snapshot) -> Option<ActorIx> {
        loop {
            let (.., pull, _, Reverse(actor)) = self.queue.pop()?;
            if !self.is_waiting[actor] || pull != self.pull[actor] {
                continue;
            }
            self.is_waiting[actor] = false;
            self.left -= 1;
            for edge in &snapshot.problem().edges[actor] {
                self.pull[edge.peer] += edge.rate;
                if edge.rate > 0 && self.is_waiting[edge.peer] {
                    self.queue.push(self.priority(snapshot, edge.peer));
                }
            }
            return Some(actor);
        }
    }

    /// All waiting actors in the present order.
    fn into_sorted(self, snapshot: &Snapshot) -> Vec<ActorIx> {
        let mut waiting: Vec<ActorIx> = self.waiting().collect();
        waiting.sort_by_cached_key(|actor| Reverse(self.priority(snapshot, *actor)));
        waiting
    }

    fn waiting(&self) -> impl Iterator<Item = ActorIx> {
        self.is_waiting.enumerate().filter(|(_, is_waiting)| **is_waiting).map(|(actor, _)| actor)
    }

    fn priority(&self, snapshot: &Snapshot, actor: ActorIx) -> Priority {
        let problem = snapshot.problem();
        let is_constrained = problem.candidates(actor).len() <= 1;
        let has_relations = !problem.relations_of[actor].is_empty();
        (is_constrained, has_relations, self.pull[actor], self.heaviest[actor], Reverse(actor))
    }
}

/// The price of a place: the cost vector, then whether the actor leaves where it was.
type Price = (Vec<i64>, bool);

fn price(state: &State, snapshot: &Snapshot, actor: ActorIx, unit: UnitIx) -> Price {
    let leaves = snapshot.problem().current[actor].is_some_and(|current| current != unit);
    (state.price(actor, unit), leaves)
}

/// The feasible unit with the smallest price; of equal ones the emptiest, then the first.
fn cheapest(
    state: &State,
    snapshot: &Snapshot,
    actor: ActorIx,
    clock: &mut StopClock,
) -> Result<Option<(Price, UnitIx)>, Expired> {
    let cost = |unit: UnitIx| {
        let is_feasible = state.admits(actor, unit);
        is_feasible.then(|| (price(state, snapshot, actor, unit), state.fullness_with(actor, unit)))
    };
    let found = clock.cheapest(snapshot, (actor, snapshot.problem().candidates(actor)), cost)?;
    Ok(found.map(|((price, _), unit)| (price, unit)))
}

/// Places the actor where it is cheapest, if it has no place. Changes nothing where the clock ends it.
fn place(
    state: &mut State,
    snapshot: &Snapshot,
    actor: ActorIx,
    clock: &mut StopClock,
) -> Result<(), Expired> {
    if state.place(actor).is_none()
        && let Some((_, unit)) = cheapest(state, snapshot, actor, clock)?
    {
        clock.spend(placement_work(snapshot, actor))?;
        state.put(actor, unit);
    }
    Ok(())
}

/// Places the actor on one of a few units that admit it, starting at another candidate each turn.
fn place_anywhere(
    state: &mut State,
    snapshot: &Snapshot,
    (actor, turn): (ActorIx, usize),
    probes: &mut ProbeBudget,
) {
    if state.place(actor).is_some() {
        return;
    }
    probes.start_actors(1);
    let candidates = snapshot.problem().candidates(actor);
    let (before, from) = candidates.split_at(turn % candidates.len().max(1));
    if let Some((_, unit)) = emptiest(state, actor, from.iter().chain(before), probes) {
        state.put(actor, unit);
    }
}

/// Makes improving moves until none is left; false when the budget ended it first.
fn improve(state: &mut State, snapshot: &Snapshot, bundles: &Bundles, work: &mut Work) -> bool {
    let movable: Vec<ActorIx> = movable(snapshot).collect();
    loop {
        let mut improved = false;
        for &actor in &movable {
            if work.is_over() {
                return false;
            }
            let Ok(has_moved) = improve_one(state, snapshot, actor, &mut work.clock) else { return false };
            work.spend();
            improved |= has_moved;
        }
        for bundle in bundles.all() {
            if work.is_over() {
                return false;
            }
            let Ok(has_moved) = improve_bundle(state, bundles, bundle, &mut work.clock) else { return false };
            work.spend();
            improved |= has_moved;
        }
        if !improved {
            return true;
        }
    }
}

/// Moves the actor to where it is cheapest, or places it if it is unplaced; false when nothing changed.
///
/// At equal cost the actor returns to where it was, so that a plan that was carried out leaves no idle move. Where the
/// clock ends it, the actor stays.
fn improve_one(
    state: &mut State,
    snapshot: &Snapshot,
    actor: ActorIx,
    clock: &mut StopClock,
) -> Result<bool, Expired> {
    clock.spend(placement_work(snapshot, actor))?;
    let Some(current) = state.take(actor) else {
        place(state, snapshot, actor, clock)?;
        return Ok(state.place(actor).is_some());
    };
    let stay = price(state, snapshot, actor, current);
    let found = cheapest(state, snapshot, actor, clock);
    let better = found.map(|found| found.filter(|(price, _)| *price < stay).map(|(_, unit)| unit));
    state.put(actor, better.ok().flatten().unwrap_or(current));
    better.map(|unit| unit.is_some())
}

/// Moves a whole bundle to where it is cheapest; false when nothing changed. Where the clock ends it, it stays.
fn improve_bundle(
    state: &mut State,
    bundles: &Bundles,
    bundle: usize,
    clock: &mut StopClock,
) -> Result<bool, Expired> {
    let stay = bundles.take(bundle, state);
    let (BundlePlacement { places, .. }, has_moved) = match bundles.best(bundle, state, clock) {
        Ok(Some(better)) if better.price < stay.price => (better, Ok(true)),
        Ok(_) => (stay, Ok(false)),
        Err(cut) => (stay, Err(cut)),
    };
    for (actor, unit) in places {
        state.put(actor, unit);
    }
    has_moved
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next actor is the maximum over all waiting ones.
    #[test]
    fn the_next_actor_has_the_highest_priority() {
        for seed in 0..4 {
            for snapshot in [
                testkit::heavy_tails(120, 12, seed),
                testkit::neighbours(6, 8, 12, seed),
                crate::tests::world(&mut fastrand::Rng::with_seed(seed), r#""communication""#),
            ] {
                let mut order = ActorOrder::new(&snapshot, &State::new(&snapshot));
                for left in (0..=order.left).rev() {
                    let waiting = order.waiting();
                    let sooner = waiting.max_by_key(|actor| order.priority(&snapshot, *actor));
                    assert_eq!((order.left, sooner.is_some()), (left, left > 0), "seed {seed}");
                    assert_eq!(order.next(&snapshot), sooner, "seed {seed}, {left} left");
                }
            }
        }
    }
}
