//! Actors that must be together are placed as one; the first alone could take a place where the rest does not fit.

use std::collections::BTreeMap;

use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use placement::{Criterion, Snapshot, State};
use strum::IntoEnumIterator;

use crate::construction::emptiest::{COMPARED, PROBES_PER_PLACEMENT, ProbeBudget, emptiest};
use crate::stop_clock::{Expired, StopClock};
use crate::union_find::find_root;

/// The bundles of a snapshot: actors connected by `together`, directly or transitively. Fixed actors are in none.
pub(crate) struct Bundles<'a> {
    snapshot: &'a Snapshot,
    list: Vec<Bundle>,
    /// Bundle by actor.
    bundle_of: IxVec<ActorIx, Option<usize>>,
    /// By scope: the units of each place.
    places: BTreeMap<Scope, Vec<Vec<UnitIx>>>,
}

struct Bundle {
    /// The hardest to place first.
    members: Vec<ActorIx>,
    /// The scope whose one place holds them all.
    scope: Scope,
}

impl Bundle {
    /// The members without a place.
    fn waiting(&self, state: &State) -> Vec<ActorIx> {
        self.members.iter().copied().filter(|&actor| state.place(actor).is_none()).collect()
    }
}

/// A placement of a bundle.
#[derive(Debug)]
pub(crate) struct BundlePlacement {
    /// Members that are left out have no place.
    pub places: Vec<(ActorIx, UnitIx)>,
    /// Less is better.
    pub price: BundlePrice,
}

/// Members without a place, the levels that the bundle decides, and how many members move.
pub(crate) type BundlePrice = (usize, Vec<i64>, usize);

impl<'a> Bundles<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let problem = snapshot.problem();
        // The smallest actor of each bundle represents it until bundles are numbered.
        let mut roots: IxVec<ActorIx, ActorIx> = ActorIx::first(snapshot.actors()).collect();
        let mut widest: BTreeMap<ActorIx, Scope> = BTreeMap::new();
        for relation in problem.relations.iter().filter(|relation| !relation.apart) {
            let tied: Vec<ActorIx> =
                relation.actors.iter().map(|&actor| find_root(&mut roots, actor)).collect();
            let Some(&first) = tied.iter().min() else { continue };
            let scopes = tied.iter().filter_map(|old| widest.get(old).copied());
            let scope = scopes.fold(relation.scope, Scope::max);
            for old in tied {
                roots[old] = first;
            }
            widest.insert(first, scope);
        }
        let mut members: BTreeMap<ActorIx, Vec<ActorIx>> = BTreeMap::new();
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
            members.entry(find_root(&mut roots, actor)).or_default().push(actor);
        }
        let bundle_of = IxVec::of(None, snapshot.actors());
        let mut found = Self { snapshot, list: Vec::new(), bundle_of, places: BTreeMap::new() };
        // Actors with the same kinds and rules have the same number of feasible units.
        let mut alike = BTreeMap::new();
        let mut choice = |actor: ActorIx| {
            let kinds: Vec<bool> = problem.implementations[actor].iter().map(Option::is_some).collect();
            let key = (kinds, &problem.rules_of[actor]);
            *alike.entry(key).or_insert_with(|| feasible_unit_count(snapshot, actor))
        };
        for (root, mut members) in members.into_iter().filter(|(_, members)| members.len() > 1) {
            members.sort_by_cached_key(|&actor| (choice(actor), actor));
            for &actor in &members {
                found.bundle_of[actor] = Some(found.list.len());
            }
            let scope = widest[&root];
            found.places.entry(scope).or_insert_with(|| places_of(snapshot, scope));
            found.list.push(Bundle { members, scope });
        }
        found
    }

    /// The bundle of an actor; most have none.
    pub fn of(&self, actor: ActorIx) -> Option<usize> {
        self.bundle_of[actor]
    }

    pub fn all(&self) -> std::ops::Range<usize> {
        0..self.list.len()
    }

    /// Places as many waiting members as possible where they cost least. Changes nothing where the clock ends it.
    pub fn place_bundle(
        &self,
        bundle: usize,
        state: &mut State,
        clock: &mut StopClock,
    ) -> Result<(), Expired> {
        let best = self.best(bundle, state, clock)?;
        for (actor, unit) in best.into_iter().flat_map(|found| found.places) {
            state.put(actor, unit);
        }
        Ok(())
    }

    /// The same without pricing: in the emptiest of a few places that hold all members, starting at another place each
    /// turn. If none of those that the budget allows does, as many members as possible are placed.
    pub fn place_bundle_anywhere(
        &self,
        bundle: usize,
        state: &mut State,
        turn: usize,
        probes: &mut ProbeBudget,
    ) {
        let bundle = &self.list[bundle];
        let places = &self.places[&bundle.scope];
        let waiting = bundle.waiting(state);
        probes.start_actors(waiting.len());
        let (before, from) = places.split_at(turn % places.len().max(1));
        let mut best: Option<UnpricedPlacement> = None;
        let mut tried = 0;
        for units in from.iter().chain(before) {
            let most_missing = best.as_ref().map_or(waiting.len(), |(missing, ..)| *missing);
            let found = try_without_pricing((waiting.as_slice(), most_missing), units, state, turn, probes);
            tried += usize::from(found.0 == 0);
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
            if tried == COMPARED || probes.is_spent() {
                break;
            }
        }
        for (actor, unit) in best.into_iter().flat_map(|(.., places)| places) {
            state.put(actor, unit);
        }
    }

    /// Unplaces all members. Returns where they were and what that cost.
    pub fn take(&self, bundle: usize, state: &mut State) -> BundlePlacement {
        let members = &self.list[bundle].members;
        let were: Vec<(ActorIx, Option<UnitIx>)> =
            members.iter().map(|&actor| (actor, state.take(actor))).collect();
        let mut built = BundleBuilder::new(self.snapshot);
        for (actor, place) in were {
            built.put(state, actor, place);
        }
        built.undo(state)
    }

    /// The best placement of the waiting members, leaving the state unchanged; `None` if no place holds any of them.
    pub fn best(
        &self,
        bundle: usize,
        state: &mut State,
        clock: &mut StopClock,
    ) -> Result<Option<BundlePlacement>, Expired> {
        let bundle = &self.list[bundle];
        let waiting = bundle.waiting(state);
        let mut best: Option<BundlePlacement> = None;
        for units in &self.places[&bundle.scope] {
            let found = self.try_place(&waiting, units, state, clock)?;
            if !found.places.is_empty() && best.as_ref().is_none_or(|best| found.price < best.price) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Places one member after the other on the cheapest of `units`, then unplaces them again.
    fn try_place(
        &self,
        waiting: &[ActorIx],
        units: &[UnitIx],
        state: &mut State,
        clock: &mut StopClock,
    ) -> Result<BundlePlacement, Expired> {
        let mut built = BundleBuilder::new(self.snapshot);
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
        let placement = built.undo(state);
        tried.map(|()| placement)
    }

    /// The cheapest unit for the actor, ignoring migration. From one state the same placements are tried wherever actors
    /// come from, so that a plan that was carried out is a fixed point.
    fn cheapest(
        &self,
        state: &State,
        actor: ActorIx,
        units: &[UnitIx],
        clock: &mut StopClock,
    ) -> Result<Option<UnitIx>, Expired> {
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

/// An unpriced placement of a bundle: members without a place, fullness of the fullest unit, and places. Less is better.
type UnpricedPlacement = (usize, i64, Vec<(ActorIx, UnitIx)>);

/// Places one member after the other on the emptiest of a few of `units`, starting at another unit each time, then
/// unplaces them. Ends early where more members than in another place find none.
fn try_without_pricing(
    (waiting, most_missing): (&[ActorIx], usize),
    units: &[UnitIx],
    state: &mut State,
    turn: usize,
    probes: &mut ProbeBudget,
) -> UnpricedPlacement {
    let (mut fullness, mut places) = (0, Vec::new());
    for (tried, &actor) in waiting.iter().enumerate() {
        if tried - places.len() > most_missing {
            break;
        }
        let (before, from) = units.split_at((turn + tried) % units.len().max(1));
        if let Some((of_unit, unit)) = emptiest(state, actor, from.iter().chain(before), probes) {
            fullness = of_unit.max(fullness);
            places.push((actor, unit));
            state.put(actor, unit);
            probes.take(PROBES_PER_PLACEMENT);
        }
    }
    for &(actor, _) in &places {
        state.take(actor);
    }
    (waiting.len() - places.len(), fullness, places)
}

/// The number of units that an actor may be on, ignoring where it runs now. So the order of members is the same after a
/// plan was carried out.
fn feasible_unit_count(snapshot: &Snapshot, actor: ActorIx) -> usize {
    let problem = snapshot.problem();
    let allows = |unit: UnitIx| problem.rules_of[actor].iter().all(|&rule| problem.rules[rule].allows[unit]);
    let runs_on = |unit: UnitIx| problem.implementation(actor, unit).is_some();
    problem.capacity.positions().filter(|&unit| runs_on(unit) && allows(unit)).count()
}

/// A bundle placement under construction, priced step by step.
struct BundleBuilder<'a> {
    snapshot: &'a Snapshot,
    places: Vec<(ActorIx, UnitIx)>,
    levels: Vec<i64>,
    missing: usize,
    leaving: usize,
}

impl<'a> BundleBuilder<'a> {
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
        // Criteria of the whole count once, at the end.
        let own = state.price_if(actor, unit, |criterion| !criterion.is_non_additive());
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

    fn undo(mut self, state: &mut State) -> BundlePlacement {
        for criterion in Criterion::iter().filter(|criterion| criterion.is_non_additive()) {
            self.add(criterion, state.value_of(criterion));
        }
        for &(actor, _) in &self.places {
            state.take(actor);
        }
        BundlePlacement { places: self.places, price: (self.missing, self.levels, self.leaving) }
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
    fn pricing_a_bundle_checks_the_clock_and_an_interruption_changes_nothing() {
        let snapshot = together(300, 40);
        let bundles = Bundles::new(&snapshot);
        let mut state = State::new(&snapshot);
        let probes = Cell::new(0);
        let count = || {
            probes.set(probes.get() + 1);
            false
        };
        let whole =
            bundles.best(0, &mut state, &mut StopClock::of_prices(&snapshot, &count)).unwrap().unwrap();
        assert_eq!(whole.places.len(), 300);
        // 300 members on 80 units.
        let all = probes.get();
        assert!(all >= 5, "{all} probes");
        for until in 0..all {
            let asked = Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() > until
            };
            let mut clock = StopClock::of_prices(&snapshot, &stop);
            assert!(bundles.place_bundle(0, &mut state, &mut clock).is_err());
            assert_eq!(asked.get(), until + 1, "it ends at the check that says stop");
            assert!(state.assignment.iter().all(Option::is_none));
        }
        let mut clock = StopClock::of_prices(&snapshot, &|| false);
        assert_eq!(bundles.best(0, &mut state, &mut clock).unwrap().unwrap().places, whole.places);
    }

    /// However late it is, each bundle has a small budget of its own.
    #[test]
    fn a_bundle_is_placed_nearby_after_the_shared_budget_is_spent() {
        let snapshot = together(300, 40);
        let (mut state, mut probes) = (State::new(&snapshot), ProbeBudget::new());
        assert!(!probes.take(usize::MAX) && probes.is_spent());
        Bundles::new(&snapshot).place_bundle_anywhere(0, &mut state, 7, &mut probes);
        assert!(state.assignment.iter().all(Option::is_some));
        assert_eq!(snapshot.violations(&state.assignment), []);
        let full: Vec<String> = (0..200).map(|at| format!("u{at}:cpu:9:slots=0")).collect();
        let units = format!("{} v:cpu:9", full.join(" "));
        let snapshot = testkit::line::world(&units, "a:cpu=1 b:cpu=1", "together unit a b");
        let bundles = Bundles::new(&snapshot);
        for (mut probes, finds) in [(probes, false), (ProbeBudget::new(), true)] {
            let mut state = State::new(&snapshot);
            bundles.place_bundle_anywhere(0, &mut state, 0, &mut probes);
            assert_eq!(state.assignment.iter().all(Option::is_some), finds);
            assert_eq!(snapshot.violations(&state.assignment), []);
        }
    }

    /// Transitively and across scopes: the widest scope counts.
    #[test]
    fn bundles_are_transitive() {
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
