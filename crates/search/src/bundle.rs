//! Actors that must be together: looked at as one, because the first alone would take a place where the rest
//! does not fit.

use std::collections::BTreeMap;

use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use placement::{Criterion, Snapshot, State};
use strum::IntoEnumIterator;

use crate::emptiest::{LOOKED_AT, emptiest};

/// The bundles of a snapshot: actors that `together` ties, directly or through others. Fixed actors are in none.
pub(crate) struct Bundles<'a> {
    snapshot: &'a Snapshot,
    list: Vec<Bundle>,
    /// By actor.
    bundle_of: IxVec<ActorIx, Option<usize>>,
}

struct Bundle {
    /// The hardest to place first.
    members: Vec<ActorIx>,
    /// The units of each place that could take them all.
    places: Vec<Vec<UnitIx>>,
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
        let mut head: IxVec<ActorIx, ActorIx> = ActorIx::first(snapshot.actors()).collect();
        let mut widest: BTreeMap<ActorIx, Scope> = BTreeMap::new();
        for relation in problem.relations.iter().filter(|relation| !relation.apart) {
            let heads: Vec<ActorIx> = relation.actors.iter().map(|&actor| head[actor]).collect();
            let Some(&first) = heads.iter().min() else { continue };
            let scopes = heads.iter().filter_map(|old| widest.get(old).copied());
            let scope = scopes.fold(relation.scope, Scope::max);
            head.iter_mut().filter(|h| heads.contains(h)).for_each(|h| *h = first);
            widest.insert(first, scope);
        }
        let mut members: BTreeMap<ActorIx, Vec<ActorIx>> = BTreeMap::new();
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
            members.entry(head[actor]).or_default().push(actor);
        }
        let mut found = Self { snapshot, list: Vec::new(), bundle_of: IxVec::of(None, snapshot.actors()) };
        for (head, mut members) in members.into_iter().filter(|(_, members)| members.len() > 1) {
            members.sort_by_key(|&actor| (feasible_units(snapshot, actor), actor));
            for &actor in &members {
                found.bundle_of[actor] = Some(found.list.len());
            }
            let mut places: BTreeMap<PlaceIx, Vec<UnitIx>> = BTreeMap::new();
            for unit in problem.capacity.positions() {
                places.entry(problem.place(widest[&head], unit)).or_default().push(unit);
            }
            found.list.push(Bundle { members, places: places.into_values().collect() });
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

    /// Gives places to the members that have none, as many as can be, where they cost least.
    pub fn settle(&self, bundle: usize, state: &mut State) {
        let best = self.best(bundle, state);
        for (actor, unit) in best.into_iter().flat_map(|found| found.places) {
            state.put(actor, unit);
        }
    }

    /// The same without a look at what that costs: in the emptiest of a few places that take them all, from another one on at each
    /// turn; where none does, as many as can be.
    pub fn settle_anywhere(&self, bundle: usize, state: &mut State, turn: usize) {
        let bundle = &self.list[bundle];
        let waiting = bundle.waiting(state);
        let (before, from) = bundle.places.split_at(turn % bundle.places.len().max(1));
        let mut best: Option<Anywhere> = None;
        let mut looked_at = 0;
        for units in from.iter().chain(before) {
            let found = try_anywhere(&waiting, units, state, turn);
            looked_at += usize::from(found.0 == 0);
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
            if looked_at == LOOKED_AT {
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
    pub fn best(&self, bundle: usize, state: &mut State) -> Option<Settlement> {
        let bundle = &self.list[bundle];
        let waiting = bundle.waiting(state);
        let mut best: Option<Settlement> = None;
        for units in &bundle.places {
            let found = self.try_place(&waiting, units, state);
            if !found.places.is_empty() && best.as_ref().is_none_or(|best| found.price < best.price) {
                best = Some(found);
            }
        }
        best
    }

    /// Places one member after the other on the cheapest of `units`, then takes them off again.
    fn try_place(&self, waiting: &[ActorIx], units: &[UnitIx], state: &mut State) -> Settlement {
        let mut built = Build::new(self.snapshot);
        for &actor in waiting {
            let feasible = units.iter().copied().filter(|&unit| state.admits(actor, unit));
            // Without the price of moves: from one state the same ways are tried wherever the actors come from, so
            // that a plan which was carried out is not found wanting by a way that was not seen before.
            let cost = |unit: &UnitIx| {
                let price = state.price_if(actor, *unit, |criterion| criterion != Criterion::Migration);
                (price, state.fullness_with(actor, *unit))
            };
            let place = feasible.min_by_key(cost);
            built.put(state, actor, place);
        }
        built.undo(state)
    }
}

/// A way to place a bundle that was not priced: members without a place, how full a unit becomes, and who goes where. Less is better.
type Anywhere = (usize, i64, Vec<(ActorIx, UnitIx)>);

/// Places one member after the other on the emptiest of a few of `units` that take it, from another one on each, then takes them off
/// again.
fn try_anywhere(waiting: &[ActorIx], units: &[UnitIx], state: &mut State, turn: usize) -> Anywhere {
    let (mut fullness, mut places) = (0, Vec::new());
    for (turn, &actor) in (turn..).zip(waiting) {
        let (before, from) = units.split_at(turn % units.len().max(1));
        if let Some((of_unit, unit)) = emptiest(state, actor, from.iter().chain(before)) {
            fullness = of_unit.max(fullness);
            places.push((actor, unit));
            state.put(actor, unit);
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
