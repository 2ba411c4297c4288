//! Actors that must be together: looked at as one, because the first alone would take a place where the rest
//! does not fit.

use std::collections::BTreeMap;

use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use placement::{Criterion, Snapshot, State};
use strum::IntoEnumIterator;

use crate::construction::emptiest::{LOOKED_AT, Looks, PUT, emptiest};
use crate::stop_clock::{Clock, Cut};
use crate::union_find::find_root;

/// The bundles of a snapshot: actors that `together` ties, directly or through others. Fixed actors are in none.
pub(crate) struct Bundles<'a> {
    snapshot: &'a Snapshot,
    list: Vec<Bundle>,
    /// By actor.
    bundle_of: IxVec<ActorIx, Option<usize>>,
    /// By what the members share: the units of each place.
    places: BTreeMap<Scope, Vec<Vec<UnitIx>>>,
}

struct Bundle {
    /// The hardest to place first.
    members: Vec<ActorIx>,
    /// One place of which takes them all.
    scope: Scope,
}

impl Bundle {
    /// The members that have no place.
    fn waiting(&self, state: &State) -> Vec<ActorIx> {
        self.members.iter().copied().filter(|&actor| state.place(actor).is_none()).collect()
    }
}

/// A way to place a bundle.
#[derive(Debug)]
pub(crate) struct Settlement {
    /// Who goes where; members that are left out find no place.
    pub places: Vec<(ActorIx, UnitIx)>,
    /// Less is better.
    pub price: SettlementPrice,
}

/// Members without a place, the levels that the bundle decides, and how many leave where they were.
pub(crate) type SettlementPrice = (usize, Vec<i64>, usize);

impl<'a> Bundles<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let problem = snapshot.problem();
        // The smallest actor of each bundle stands for it until the bundles are numbered.
        let mut heads: IxVec<ActorIx, ActorIx> = ActorIx::first(snapshot.actors()).collect();
        let mut widest: BTreeMap<ActorIx, Scope> = BTreeMap::new();
        for relation in problem.relations.iter().filter(|relation| !relation.apart) {
            let tied: Vec<ActorIx> =
                relation.actors.iter().map(|&actor| find_root(&mut heads, actor)).collect();
            let Some(&first) = tied.iter().min() else { continue };
            let scopes = tied.iter().filter_map(|old| widest.get(old).copied());
            let scope = scopes.fold(relation.scope, Scope::max);
            for old in tied {
                heads[old] = first;
            }
            widest.insert(first, scope);
        }
        let mut members: BTreeMap<ActorIx, Vec<ActorIx>> = BTreeMap::new();
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
            members.entry(find_root(&mut heads, actor)).or_default().push(actor);
        }
        let bundle_of = IxVec::of(None, snapshot.actors());
        let mut found = Self { snapshot, list: Vec::new(), bundle_of, places: BTreeMap::new() };
        // Of actors that run on the same kinds under the same rules one is looked at.
        let mut alike = BTreeMap::new();
        let mut choice = |actor: ActorIx| {
            let kinds: Vec<bool> = problem.implementations[actor].iter().map(Option::is_some).collect();
            let key = (kinds, &problem.rules_of[actor]);
            *alike.entry(key).or_insert_with(|| feasible_units(snapshot, actor))
        };
        for (head, mut members) in members.into_iter().filter(|(_, members)| members.len() > 1) {
            members.sort_by_cached_key(|&actor| (choice(actor), actor));
            for &actor in &members {
                found.bundle_of[actor] = Some(found.list.len());
            }
            let scope = widest[&head];
            found.places.entry(scope).or_insert_with(|| places_of(snapshot, scope));
            found.list.push(Bundle { members, scope });
        }
        found
    }

    /// The bundle that an actor belongs to; most belong to none.
    pub fn of(&self, actor: ActorIx) -> Option<usize> {
        self.bundle_of[actor]
    }

    pub fn all(&self) -> std::ops::Range<usize> {
        0..self.list.len()
    }

    /// Gives places to the members that have none, as many as can be, where they cost least; nothing has changed where the clock ends
    /// that.
    pub fn place_bundle(&self, bundle: usize, state: &mut State, clock: &mut Clock) -> Result<(), Cut> {
        let best = self.best(bundle, state, clock)?;
        for (actor, unit) in best.into_iter().flat_map(|found| found.places) {
            state.put(actor, unit);
        }
        Ok(())
    }

    /// The same without a look at what that costs: in the emptiest of a few places that take them all, from another one on at each
    /// turn; where none of those does that may be looked at, as many as can be.
    pub fn place_bundle_anywhere(&self, bundle: usize, state: &mut State, turn: usize, looks: &mut Looks) {
        let bundle = &self.list[bundle];
        let places = &self.places[&bundle.scope];
        let waiting = bundle.waiting(state);
        looks.begin(waiting.len());
        let (before, from) = places.split_at(turn % places.len().max(1));
        let mut best: Option<Anywhere> = None;
        let mut looked_at = 0;
        for units in from.iter().chain(before) {
            let most_missing = best.as_ref().map_or(waiting.len(), |(missing, ..)| *missing);
            let found = try_anywhere((waiting.as_slice(), most_missing), units, state, turn, looks);
            looked_at += usize::from(found.0 == 0);
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
            if looked_at == LOOKED_AT || looks.are_over() {
                break;
            }
        }
        for (actor, unit) in best.into_iter().flat_map(|(.., places)| places) {
            state.put(actor, unit);
        }
    }

    /// Takes all members off, and says where they were and what that cost.
    pub fn take(&self, bundle: usize, state: &mut State) -> Settlement {
        let members = &self.list[bundle].members;
        let were: Vec<(ActorIx, Option<UnitIx>)> =
            members.iter().map(|&actor| (actor, state.take(actor))).collect();
        let mut built = Build::new(self.snapshot);
        for (actor, place) in were {
            built.put(state, actor, place);
        }
        built.undo(state)
    }

    /// The best way to place the members that have no place, the state left as it was; `None` if no place takes
    /// any of them.
    pub fn best(
        &self,
        bundle: usize,
        state: &mut State,
        clock: &mut Clock,
    ) -> Result<Option<Settlement>, Cut> {
        let bundle = &self.list[bundle];
        let waiting = bundle.waiting(state);
        let mut best: Option<Settlement> = None;
        for units in &self.places[&bundle.scope] {
            let found = self.try_place(&waiting, units, state, clock)?;
            if !found.places.is_empty() && best.as_ref().is_none_or(|best| found.price < best.price) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Places one member after the other on the cheapest of `units`, then takes them off again.
    fn try_place(
        &self,
        waiting: &[ActorIx],
        units: &[UnitIx],
        state: &mut State,
        clock: &mut Clock,
    ) -> Result<Settlement, Cut> {
        let mut built = Build::new(self.snapshot);
        let mut tried = Ok(());
        for &actor in waiting {
            match self.cheapest(state, actor, units, clock) {
                Ok(place) => built.put(state, actor, place),
                Err(cut) => {
                    tried = Err(cut);
                    break;
                }
            }
        }
        let settlement = built.undo(state);
        tried.map(|()| settlement)
    }

    /// The unit that takes the actor for least, without the price of moves: from one state the same ways are tried wherever the actors
    /// come from, so that a plan which was carried out is not found wanting by a way that was not seen before.
    fn cheapest(
        &self,
        state: &State,
        actor: ActorIx,
        units: &[UnitIx],
        clock: &mut Clock,
    ) -> Result<Option<UnitIx>, Cut> {
        let cost = |unit: UnitIx| {
            let price = || state.price_if(actor, unit, |criterion| criterion != Criterion::Migration);
            state.admits(actor, unit).then(|| (price(), state.fullness_with(actor, unit)))
        };
        let found = clock.cheapest(self.snapshot, (actor, units), cost)?;
        Ok(found.map(|(_, unit)| unit))
    }
}

/// The units of each place of a scope.
fn places_of(snapshot: &Snapshot, scope: Scope) -> Vec<Vec<UnitIx>> {
    let problem = snapshot.problem();
    let mut places: BTreeMap<PlaceIx, Vec<UnitIx>> = BTreeMap::new();
    for unit in problem.capacity.positions() {
        places.entry(problem.place(scope, unit)).or_default().push(unit);
    }
    places.into_values().collect()
}

/// A way to place a bundle that was not priced: members without a place, how full a unit becomes, and who goes where. Less is better.
type Anywhere = (usize, i64, Vec<(ActorIx, UnitIx)>);

/// Places one member after the other on the emptiest of a few of `units` that take it, from another one on each, then takes them off
/// again. It ends where more find no place than did in another one.
fn try_anywhere(
    (waiting, most_missing): (&[ActorIx], usize),
    units: &[UnitIx],
    state: &mut State,
    turn: usize,
    looks: &mut Looks,
) -> Anywhere {
    let (mut fullness, mut places) = (0, Vec::new());
    for (looked_at, &actor) in waiting.iter().enumerate() {
        if looked_at - places.len() > most_missing {
            break;
        }
        let (before, from) = units.split_at((turn + looked_at) % units.len().max(1));
        if let Some((of_unit, unit)) = emptiest(state, actor, from.iter().chain(before), looks) {
            fullness = of_unit.max(fullness);
            places.push((actor, unit));
            state.put(actor, unit);
            looks.take(PUT);
        }
    }
    for &(actor, _) in &places {
        state.take(actor);
    }
    (waiting.len() - places.len(), fullness, places)
}

/// On how many units an actor may be wherever it runs now: what may only stay where it is has no more choice for that,
/// and the order of a bundle is the same when a plan was carried out.
fn feasible_units(snapshot: &Snapshot, actor: ActorIx) -> usize {
    let problem = snapshot.problem();
    let allows = |unit: UnitIx| problem.rules_of[actor].iter().all(|&rule| problem.rules[rule].allows[unit]);
    let runs_on = |unit: UnitIx| problem.implementation(actor, unit).is_some();
    problem.capacity.positions().filter(|&unit| runs_on(unit) && allows(unit)).count()
}

/// A settlement in the making, priced step by step.
struct Build<'a> {
    snapshot: &'a Snapshot,
    places: Vec<(ActorIx, UnitIx)>,
    levels: Vec<i64>,
    missing: usize,
    leaving: usize,
}

impl<'a> Build<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let levels = vec![0; snapshot.objectives().levels().len()];
        Self { snapshot, places: Vec::new(), levels, missing: 0, leaving: 0 }
    }

    fn put(&mut self, state: &mut State, actor: ActorIx, place: Option<UnitIx>) {
        let current = self.snapshot.problem().current[actor];
        self.leaving += usize::from(current.is_some() && current != place);
        let Some(unit) = place else {
            self.missing += 1;
            if current.is_some() {
                self.add(Criterion::Migration, self.snapshot.move_cost(actor));
            }
            return;
        };
        // Figures of the whole count once, at the end.
        let own = state.price_if(actor, unit, |criterion| !criterion.is_of_the_whole());
        self.levels.iter_mut().zip(own).for_each(|(level, own)| *level += own);
        self.places.push((actor, unit));
        state.put(actor, unit);
    }

    fn add(&mut self, criterion: Criterion, value: i64) {
        let levels = self.snapshot.objectives().levels();
        if let Some(level) = levels.iter().position(|level| level.contains(&criterion)) {
            self.levels[level] += value;
        }
    }

    fn undo(mut self, state: &mut State) -> Settlement {
        for criterion in Criterion::iter().filter(|criterion| criterion.is_of_the_whole()) {
            self.add(criterion, state.of_the_whole(criterion));
        }
        for &(actor, _) in &self.places {
            state.take(actor);
        }
        Settlement { places: self.places, price: (self.missing, self.levels, self.leaving) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Actors that must be on one node, on so many nodes of two units.
    fn together(actors: usize, nodes: usize) -> Snapshot {
        let unit = |at: usize| format!("u{at}:cpu:{}:node=n{}", 10 * actors, at / 2);
        let units: Vec<String> = (0..2 * nodes).map(unit).collect();
        let names: Vec<String> = (0..actors).map(|actor| format!("a{actor}")).collect();
        let all: Vec<String> = names.iter().map(|name| format!("{name}:cpu=1")).collect();
        let rule = format!("together node {}", names.join(" "));
        testkit::line::world(&units.join(" "), &all.join(" "), &rule)
    }

    #[test]
    fn the_clock_is_looked_at_while_a_bundle_is_priced_and_what_it_ends_leaves_no_trace() {
        let snapshot = together(300, 40);
        let bundles = Bundles::new(&snapshot);
        let mut state = State::new(&snapshot);
        let looks = Cell::new(0);
        let count = || {
            looks.set(looks.get() + 1);
            false
        };
        let whole = bundles.best(0, &mut state, &mut Clock::of_prices(&snapshot, &count)).unwrap().unwrap();
        assert_eq!(whole.places.len(), 300);
        // 300 members on 80 units.
        let all = looks.get();
        assert!(all >= 5, "{all} looks");
        for until in 0..all {
            let asked = Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() > until
            };
            let mut clock = Clock::of_prices(&snapshot, &stop);
            assert!(bundles.place_bundle(0, &mut state, &mut clock).is_err());
            assert_eq!(asked.get(), until + 1, "it ends at the look that says stop");
            assert!(state.assignment.iter().all(Option::is_none));
        }
        let mut clock = Clock::of_prices(&snapshot, &|| false);
        assert_eq!(bundles.best(0, &mut state, &mut clock).unwrap().unwrap().places, whole.places);
    }

    /// However late it is, each bundle is given a few looks of its own.
    #[test]
    fn where_looks_are_over_a_bundle_is_placed_if_room_is_near() {
        let snapshot = together(300, 40);
        let (mut state, mut looks) = (State::new(&snapshot), Looks::new());
        assert!(!looks.take(usize::MAX) && looks.are_over());
        Bundles::new(&snapshot).place_bundle_anywhere(0, &mut state, 7, &mut looks);
        assert!(state.assignment.iter().all(Option::is_some));
        assert_eq!(snapshot.violations(&state.assignment), []);
        let full: Vec<String> = (0..200).map(|at| format!("u{at}:cpu:9:slots=0")).collect();
        let units = format!("{} v:cpu:9", full.join(" "));
        let snapshot = testkit::line::world(&units, "a:cpu=1 b:cpu=1", "together unit a b");
        let bundles = Bundles::new(&snapshot);
        for (mut looks, finds) in [(looks, false), (Looks::new(), true)] {
            let mut state = State::new(&snapshot);
            bundles.place_bundle_anywhere(0, &mut state, 0, &mut looks);
            assert_eq!(state.assignment.iter().all(Option::is_some), finds);
            assert_eq!(snapshot.violations(&state.assignment), []);
        }
    }

    /// Through others, and across scopes: the widest counts.
    #[test]
    fn bundles_are_tied_through_others() {
        let snapshot = testkit::line::world(
            "u:cpu:9:node=n,zone=z v:cpu:9:node=m,zone=z w:cpu:9:node=o",
            "a:cpu=1 b:cpu=1 c:cpu=1 d:cpu=1 e:cpu=1 f:cpu=1",
            "together unit e d; together unit b c; together zone d c; apart unit a f",
        );
        let bundles = Bundles::new(&snapshot);
        let of = |actor: usize| bundles.of(ActorIx::new(actor));
        assert_eq!([0, 1, 2, 3, 4, 5].map(of), [None, Some(0), Some(0), Some(0), Some(0), None]);
        assert_eq!(bundles.list[0].members, [1, 2, 3, 4].map(ActorIx::new));
        assert_eq!(bundles.list[0].scope, Scope::Zone);
        assert_eq!(bundles.places.len(), 1);
        let units = [vec![UnitIx::new(2)], vec![UnitIx::new(0), UnitIx::new(1)]];
        assert_eq!(bundles.places[&Scope::Zone], units);
    }
}
