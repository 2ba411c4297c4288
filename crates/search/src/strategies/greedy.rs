//! `greedy`: keep what runs, place the rest where it costs least, then take every step that pays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::construction::bundle::{Bundles, Settlement};
use crate::construction::emptiest::{Looks, emptiest};
use crate::stop_clock::{Clock, Cut};
use crate::strategies::repair::repair_violations;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Answer, Budget, FoundBy, Snapshot, SolveError, Stage, State, StoppedBy, Strategy};

/// Keeps what runs where that is feasible, places the rest one by one where the vector grows least, then moves single actors, and
/// whole bundles of actors that must be together, as long as that makes the vector smaller.
///
/// A piece of effort is one actor, or one bundle, looked at; each is looked at once, whatever the effort. Without effort, or where the time is
/// over before that, everybody goes wherever there is room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn summary(&self) -> &'static str {
        "keeps what runs, places the rest where it costs least, then takes every single step that pays"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        Ok(repair_violations(snapshot, self.construct(snapshot, budget), budget))
    }
}

impl Greedy {
    /// Its answer before the repair under a policy's rules, for whoever searches on from it.
    pub fn construct(&self, snapshot: &Snapshot, budget: &Budget) -> Answer {
        construct(snapshot, budget, true)
    }

    /// The same as if nothing that can move ran anywhere.
    pub fn construct_anew(&self, snapshot: &Snapshot, budget: &Budget) -> Answer {
        construct(snapshot, budget, false)
    }
}

fn construct(snapshot: &Snapshot, budget: &Budget, keeps: bool) -> Answer {
    let begun = || {
        let mut state = State::new(snapshot);
        if keeps {
            keep_what_runs(&mut state, snapshot);
        }
        let order = Order::new(snapshot, &state);
        let clock = Clock::of_prices(snapshot, budget.stop);
        (Work { left: budget.effort.unwrap_or(u64::MAX), done: 0, clock }, state, order)
    };
    let bundles = Bundles::new(snapshot);
    let (mut work, mut state, mut order) = begun();
    // An effort does not cut it short: who is priced first would gain what the others pay.
    let mut is_cut = work.is_over();
    while !is_cut && let Some(actor) = order.next(snapshot) {
        let placed = match bundles.of(actor) {
            // The rest of the bundle finds its place taken care of when its turn comes.
            Some(bundle) if state.place(actor).is_none() => {
                bundles.place_bundle(bundle, &mut state, &mut work.clock)
            }
            _ => place(&mut state, snapshot, actor, &mut work.clock),
        };
        work.spend();
        is_cut = placed.is_err() || order.left > 0 && work.clock.look().is_err();
    }
    if is_cut {
        // What a clock cut short counts for nothing. Everybody is placed all the same, as far as a place is found quickly: an answer would
        // leave out actors that have room.
        (work, state, order) = begun();
        let mut looks = Looks::new();
        for (turn, actor) in order.rest(snapshot).into_iter().enumerate() {
            match bundles.of(actor) {
                Some(bundle) if state.place(actor).is_none() => {
                    bundles.place_bundle_anywhere(bundle, &mut state, turn, &mut looks);
                }
                _ => place_anywhere(&mut state, snapshot, (actor, turn), &mut looks),
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
    clock: Clock<'a>,
}

impl Work<'_> {
    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.done += 1;
    }

    fn is_over(&mut self) -> bool {
        self.left == 0 || self.clock.look().is_err()
    }
}

/// Those that are not fixed.
fn movable(snapshot: &Snapshot) -> impl Iterator<Item = ActorIx> {
    ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor))
}

fn keep_what_runs(state: &mut State, snapshot: &Snapshot) {
    for actor in movable(snapshot) {
        if let Some(unit) = snapshot.problem().current[actor]
            && state.admits(actor, unit)
        {
            state.put(actor, unit);
        }
    }
}

/// Who is placed next: the choosy before the easy, then whoever is tied most to what has a place already.
struct Order {
    /// Entries that were overtaken by a stronger pull are skipped.
    turns: BinaryHeap<Turn>,
    is_waiting: IxVec<ActorIx, bool>,
    /// How many are waiting.
    left: usize,
    pull: IxVec<ActorIx, i64>,
    /// Most work that the actor is on any kind.
    heaviest: IxVec<ActorIx, i64>,
}

/// Who is sooner is greater.
type Turn = (bool, bool, i64, i64, Reverse<ActorIx>);

impl Order {
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
            turns: BinaryHeap::new(),
            is_waiting: actors.clone().map(|actor| state.place(actor).is_none()).collect(),
            left: 0,
            pull: actors.clone().map(pull).collect(),
            heaviest: actors.map(heaviest).collect(),
        };
        order.turns = order.waiting().map(|actor| order.turn(snapshot, actor)).collect();
        order.left = order.turns.len();
        order
    }

    fn next(&mut self, snapshot: &Snapshot) -> Option<ActorIx> {
        loop {
            let (.., pull, _, Reverse(actor)) = self.turns.pop()?;
            if !self.is_waiting[actor] || pull != self.pull[actor] {
                continue;
            }
            self.is_waiting[actor] = false;
            self.left -= 1;
            for edge in &snapshot.problem().edges[actor] {
                self.pull[edge.peer] += edge.rate;
                if edge.rate > 0 && self.is_waiting[edge.peer] {
                    self.turns.push(self.turn(snapshot, edge.peer));
                }
            }
            return Some(actor);
        }
    }

    /// All who are left, in the order of now.
    fn rest(self, snapshot: &Snapshot) -> Vec<ActorIx> {
        let mut waiting: Vec<ActorIx> = self.waiting().collect();
        waiting.sort_by_cached_key(|actor| Reverse(self.turn(snapshot, *actor)));
        waiting
    }

    fn waiting(&self) -> impl Iterator<Item = ActorIx> {
        self.is_waiting.enumerate().filter(|(_, is_waiting)| **is_waiting).map(|(actor, _)| actor)
    }

    fn turn(&self, snapshot: &Snapshot, actor: ActorIx) -> Turn {
        let problem = snapshot.problem();
        let choosy = problem.candidates(actor).len() <= 1;
        let bound = !problem.relations_of[actor].is_empty();
        (choosy, bound, self.pull[actor], self.heaviest[actor], Reverse(actor))
    }
}

/// What a place costs an actor: its price, and among equals whether it leaves where it was.
type Price = (Vec<i64>, bool);

fn price(state: &State, snapshot: &Snapshot, actor: ActorIx, unit: UnitIx) -> Price {
    let leaves = snapshot.problem().current[actor].is_some_and(|current| current != unit);
    (state.price(actor, unit), leaves)
}

/// The feasible unit with the smallest price; among equals the emptiest, then the first.
fn cheapest(
    state: &State,
    snapshot: &Snapshot,
    actor: ActorIx,
    clock: &mut Clock,
) -> Result<Option<(Price, UnitIx)>, Cut> {
    let cost = |unit: UnitIx| {
        let is_feasible = state.admits(actor, unit);
        is_feasible.then(|| (price(state, snapshot, actor, unit), state.fullness_with(actor, unit)))
    };
    let found = clock.cheapest(snapshot, (actor, snapshot.problem().candidates(actor)), cost)?;
    Ok(found.map(|((price, _), unit)| (price, unit)))
}

/// Places the actor where it is cheapest, if it has no place; nothing has changed where the clock ends that.
fn place(state: &mut State, snapshot: &Snapshot, actor: ActorIx, clock: &mut Clock) -> Result<(), Cut> {
    if state.place(actor).is_none()
        && let Some((_, unit)) = cheapest(state, snapshot, actor, clock)?
    {
        state.put(actor, unit);
    }
    Ok(())
}

/// Places the actor on one of a few units that take it, from another one on at each turn.
fn place_anywhere(
    state: &mut State,
    snapshot: &Snapshot,
    (actor, turn): (ActorIx, usize),
    looks: &mut Looks,
) {
    if state.place(actor).is_some() {
        return;
    }
    looks.begin(1);
    let candidates = snapshot.problem().candidates(actor);
    let (before, from) = candidates.split_at(turn % candidates.len().max(1));
    if let Some((_, unit)) = emptiest(state, actor, from.iter().chain(before), looks) {
        state.put(actor, unit);
    }
}

/// Takes steps that pay until none is left; false when the budget ended it first.
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

/// Moves the actor to where it is cheapest, or gives it a place if it has none; false when nothing changed.
///
/// It also goes back to where it was when that costs the same: a plan that is carried out leaves no idle move. Where the clock ends it,
/// it stays.
fn improve_one(
    state: &mut State,
    snapshot: &Snapshot,
    actor: ActorIx,
    clock: &mut Clock,
) -> Result<bool, Cut> {
    let Some(home) = state.take(actor) else {
        place(state, snapshot, actor, clock)?;
        return Ok(state.place(actor).is_some());
    };
    let stay = price(state, snapshot, actor, home);
    let found = cheapest(state, snapshot, actor, clock);
    let better = found.map(|found| found.filter(|(price, _)| *price < stay).map(|(_, unit)| unit));
    state.put(actor, better.ok().flatten().unwrap_or(home));
    better.map(|unit| unit.is_some())
}

/// Moves a whole bundle to where it is cheapest; false when nothing changed. Where the clock ends it, it stays.
fn improve_bundle(
    state: &mut State,
    bundles: &Bundles,
    bundle: usize,
    clock: &mut Clock,
) -> Result<bool, Cut> {
    let stay = bundles.take(bundle, state);
    let (Settlement { places, .. }, has_moved) = match bundles.best(bundle, state, clock) {
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

    /// Who comes next is whom a look at all who wait finds.
    #[test]
    fn the_next_is_whoever_is_sooner_than_all_others() {
        for seed in 0..4 {
            for snapshot in [
                testkit::heavy_tails(120, 12, seed),
                testkit::neighbours(6, 8, 12, seed),
                crate::tests::world(&mut fastrand::Rng::with_seed(seed), r#""communication""#),
            ] {
                let mut order = Order::new(&snapshot, &State::new(&snapshot));
                for left in (0..=order.left).rev() {
                    let waiting = order.waiting();
                    let sooner = waiting.max_by_key(|actor| order.turn(&snapshot, *actor));
                    assert_eq!((order.left, sooner.is_some()), (left, left > 0), "seed {seed}");
                    assert_eq!(order.next(&snapshot), sooner, "seed {seed}, {left} left");
                }
            }
        }
    }
}
