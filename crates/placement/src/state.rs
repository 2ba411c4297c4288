//! An assignment under construction, with the sums that make a single step cheap to judge.
//!
//! Strategies share it; the checker does not.

use std::collections::BTreeMap;

use crate::file::Scope;
use crate::ix::{ActorIx, GroupIx, IxVec, NodeIx, PlaceIx, RelationIx, ResourceIx, UnitIx};
use crate::weighted::preferences;
use crate::{Assignment, Criterion, Snapshot};

/// What a placed actor adds to the criteria of its ties.
#[derive(Clone, Copy, Debug, Default)]
struct Ties {
    communication: i64,
    annoyance: i64,
    interference: i64,
}

/// An assignment with loads, remaining resources and overloads kept up to date.
pub struct State<'a> {
    snapshot: &'a Snapshot,
    /// Whether a level names it.
    bottleneck: bool,
    /// Where everybody is.
    pub assignment: Assignment,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u64>,
    unit_left: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    node_left: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
    overloads: Counts,
    /// All 0 where no level names `bottleneck`.
    fullness: Counts,
    /// By cap and place: watts.
    drawn: Vec<IxVec<PlaceIx, i64>>,
    /// By group: how many of its actors are in each zone.
    group_zones: IxVec<GroupIx, BTreeMap<PlaceIx, i64>>,
    /// By relation and place: how many of its actors are there.
    relation_places: IxVec<RelationIx, BTreeMap<PlaceIx, usize>>,
    preferences: BTreeMap<ActorIx, Vec<(UnitIx, i64)>>,
}

impl<'a> State<'a> {
    /// Fixed actors at their places, nobody else anywhere.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let units = snapshot.units();
        let mut state = Self {
            snapshot,
            bottleneck: snapshot.objectives().names(Criterion::Bottleneck),
            assignment: vec![None; snapshot.actors()],
            load: IxVec::of(0, units),
            hosted: IxVec::of(0, units),
            unit_left: snapshot.problem.unit_provides.clone(),
            node_left: snapshot.problem.node_provides.clone(),
            overloads: Counts::of(units),
            fullness: Counts::of(units),
            drawn: snapshot.problem.caps.iter().map(|cap| IxVec::of(0, cap.limit.len())).collect(),
            group_zones: IxVec::of(BTreeMap::new(), snapshot.groups()),
            relation_places: IxVec::of(BTreeMap::new(), snapshot.problem.relations.len()),
            preferences: BTreeMap::new(),
        };
        for (actor, unit, weight) in preferences(snapshot) {
            state.preferences.entry(actor).or_default().push((unit, weight));
        }
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| snapshot.is_fixed(actor.at())) {
            let home =
                snapshot.problem.current[actor].expect("a fixed actor without a place is refused on input");
            state.put(actor, home);
        }
        state
    }

    /// A whole assignment.
    pub fn of(snapshot: &'a Snapshot, assignment: &Assignment) -> Self {
        let mut state = Self::new(snapshot);
        for (actor, place) in assignment.iter().enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor)) {
            if let Some(unit) = *place {
                state.put(ActorIx::new(actor), UnitIx::new(unit));
            }
        }
        state
    }

    /// Where an actor is.
    #[inline]
    pub fn place(&self, actor: ActorIx) -> Option<UnitIx> {
        self.assignment[actor.at()].map(UnitIx::new)
    }

    /// Whether the actor, which has no place now, may lawfully be put on the unit.
    pub fn admits(&self, actor: ActorIx, unit: UnitIx) -> bool {
        let problem = &self.snapshot.problem;
        self.snapshot.problem.implementation(actor, unit).is_some()
            && self.has_slot(unit)
            && self.missing(actor, unit).is_none()
            && problem.rules_of[actor].iter().all(|&rule| problem.obeys(actor, unit, &problem.rules[rule]))
            && self.broken_relation(actor, unit).is_none()
            && self.passed_caps(actor, unit).next().is_none()
    }

    /// The caps on power that the actor, which has no place now, would pass on the unit: their constraints.
    pub fn passed_caps(&self, actor: ActorIx, unit: UnitIx) -> impl Iterator<Item = usize> {
        let caps = &self.snapshot.problem.caps;
        let more = if caps.is_empty() { 0 } else { self.more_power(actor, unit) };
        let passed = caps.iter().zip(&self.drawn).filter(move |(cap, drawn)| {
            let place = cap.place[unit];
            drawn[place] + more > cap.limit[place]
        });
        passed.map(|(cap, _)| cap.constraint)
    }

    /// Watts that the actor, which has no place now, would add on the unit.
    fn more_power(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        let work = self.snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        self.snapshot.problem.draw(unit, self.load[unit] + work, true) - self.power(unit)
    }

    fn power(&self, unit: UnitIx) -> i64 {
        self.snapshot.problem.draw(unit, self.load[unit], self.hosted[unit] > 0)
    }

    /// Whether the unit has a slot left.
    pub fn has_slot(&self, unit: UnitIx) -> bool {
        self.snapshot.file().units[unit.at()].slots.is_none_or(|slots| self.hosted[unit] < slots)
    }

    /// The first resource that the actor needs more of than is left: whether it is the node's, its name, how much
    /// is needed, how much is left.
    pub fn missing(&self, actor: ActorIx, unit: UnitIx) -> Option<(bool, &str, i64, i64)> {
        let (of_node, resource, needed, left) = self.all_missing(actor, unit).next()?;
        Some((of_node, self.snapshot.problem.resources[resource].as_str(), needed, left))
    }

    /// Every such resource, by position: those of the unit first.
    pub fn all_missing(
        &self,
        actor: ActorIx,
        unit: UnitIx,
    ) -> impl Iterator<Item = (bool, ResourceIx, i64, i64)> {
        let needs = self.snapshot.problem.implementation(actor, unit);
        let node = self.snapshot.problem.unit_node[unit];
        let of_unit = needs.into_iter().flat_map(|needs| needs.requires.iter().copied());
        let of_node = needs.into_iter().flat_map(|needs| needs.node_requires.iter().copied());
        let unit = of_unit.map(move |(r, needed)| (false, r, needed, self.unit_left[unit][r]));
        let node = of_node.map(move |(r, needed)| (true, r, needed, self.node_left[node][r]));
        unit.chain(node).filter(|(_, _, needed, left)| needed > left)
    }

    /// How many actors are on the unit.
    pub fn hosted_on(&self, unit: UnitIx) -> usize {
        usize::try_from(self.hosted[unit]).expect("there are no more than actors")
    }

    /// What is left of a unit's resource.
    pub fn left_on(&self, unit: UnitIx, resource: ResourceIx) -> i64 {
        self.unit_left[unit][resource]
    }

    /// What is left of a node's resource.
    pub fn left_at(&self, node: NodeIx, resource: ResourceIx) -> i64 {
        self.node_left[node][resource]
    }

    /// The first `apart` or `together` that the actor, which has no place now, would break on the unit.
    pub fn broken_relation(&self, actor: ActorIx, unit: UnitIx) -> Option<RelationIx> {
        self.broken_relations(actor, unit).next()
    }

    /// Every such rule.
    pub fn broken_relations(&self, actor: ActorIx, unit: UnitIx) -> impl Iterator<Item = RelationIx> {
        let problem = &self.snapshot.problem;
        problem.relations_of[actor].iter().copied().filter(move |&relation| {
            let (given, places) = (&problem.relations[relation], &self.relation_places[relation]);
            let here = places.contains_key(&problem.place(given.scope, unit));
            if given.apart { here } else { !(places.is_empty() || (here && places.len() == 1)) }
        })
    }

    /// Puts an actor without a place on a unit.
    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.change(actor, unit, 1);
        self.assignment[actor.at()] = Some(unit.at());
    }

    /// Takes an actor off its unit, and says which that was.
    pub fn take(&mut self, actor: ActorIx) -> Option<UnitIx> {
        let unit = UnitIx::new(self.assignment[actor.at()].take()?);
        self.change(actor, unit, -1);
        Some(unit)
    }

    fn change(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let problem = &self.snapshot.problem;
        let power = self.power(unit);
        if let Some(needs) = self.snapshot.problem.implementation(actor, unit) {
            let before = (self.overload(unit), self.full(unit));
            self.load[unit] += sign * needs.work;
            let after = (self.overload(unit), self.full(unit));
            self.overloads.change(before.0, after.0);
            self.fullness.change(before.1, after.1);
            for &(resource, quantity) in &needs.requires {
                self.unit_left[unit][resource] -= sign * quantity;
            }
            for &(resource, quantity) in &needs.node_requires {
                self.node_left[problem.unit_node[unit]][resource] -= sign * quantity;
            }
        }
        self.hosted[unit] = self.hosted[unit].saturating_add_signed(sign);
        let more = self.power(unit) - power;
        for (cap, drawn) in problem.caps.iter().zip(&mut self.drawn) {
            drawn[cap.place[unit]] += more;
        }
        if let Some(group) = self.snapshot.problem.group[actor] {
            *self.group_zones[group].entry(problem.place(Scope::Zone, unit)).or_default() += sign;
        }
        for &relation in &problem.relations_of[actor] {
            let place = problem.place(problem.relations[relation].scope, unit);
            let count = self.relation_places[relation].entry(place).or_default();
            *count = count.saturating_add_signed(isize::try_from(sign).expect("sign is 1 or -1"));
            if *count == 0 {
                self.relation_places[relation].remove(&place);
            }
        }
    }

    fn overload(&self, unit: UnitIx) -> i64 {
        (self.load[unit] - self.snapshot.problem.capacity[unit]).max(0)
    }

    fn full(&self, unit: UnitIx) -> i64 {
        if self.bottleneck { self.snapshot.fullness(unit.at(), self.load[unit]) } else { 0 }
    }

    /// The value of a criterion that is a figure of the whole.
    pub fn of_the_whole(&self, criterion: Criterion) -> i64 {
        match criterion {
            Criterion::Overload => self.overloads.most() - self.overloads.least(),
            Criterion::Bottleneck => self.fullness.most(),
            Criterion::Latency => self.snapshot.latency(&self.assignment),
            _ => 0,
        }
    }

    /// Largest minus smallest overload if `actor`, which has no place now, were on `unit`.
    fn overload_with(&self, unit: UnitIx, work: i64) -> i64 {
        let after = (self.load[unit] + work - self.snapshot.problem.capacity[unit]).max(0);
        let (least, most) = self.overloads.extremes_with(self.overload(unit), after);
        most - least
    }

    fn bottleneck_with(&self, unit: UnitIx, work: i64) -> i64 {
        let after = self.snapshot.fullness(unit.at(), self.load[unit] + work);
        self.fullness.extremes_with(self.full(unit), after).1
    }

    /// How many more of the actor's group would be in the zone that has the most of them.
    fn spread_with(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        let Some(group) = self.snapshot.problem.group[actor] else { return 0 };
        let zones = &self.group_zones[group];
        let here = zones.get(&self.snapshot.problem.place(Scope::Zone, unit)).copied().unwrap_or(0);
        i64::from(zones.values().all(|count| *count <= here))
    }

    /// The vector's levels that the actor decides if it were on `unit`: figures of the whole, the rest its own.
    ///
    /// Two results for the same state and actor compare as the vectors of the whole would.
    pub fn price(&self, actor: ActorIx, unit: UnitIx) -> Vec<i64> {
        self.price_if(actor, unit, |_| true)
    }

    /// The price with some criteria left out.
    pub fn price_if(&self, actor: ActorIx, unit: UnitIx, counts: impl Fn(Criterion) -> bool) -> Vec<i64> {
        let ties = self.ties(actor, unit);
        let snapshot = self.snapshot;
        let moved = snapshot.problem.current[actor].is_some_and(|current| current != unit);
        let work = snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let of = |criterion: &Criterion| match criterion {
            Criterion::Overload => self.overload_with(unit, work),
            Criterion::Communication => ties.communication,
            Criterion::Annoyance => ties.annoyance,
            Criterion::Interference => ties.interference,
            Criterion::Migration => i64::from(moved) * snapshot.move_cost(actor.at()),
            Criterion::Policy => self.preferences.get(&actor).map_or(0, |wishes| {
                wishes.iter().filter(|(wish, _)| *wish != unit).map(|(_, weight)| weight).sum()
            }),
            Criterion::Bottleneck => self.bottleneck_with(unit, work),
            Criterion::Consolidate => i64::from(self.hosted[unit] == 0),
            Criterion::Energy => self.more_power(actor, unit),
            Criterion::Spread => self.spread_with(actor, unit),
            Criterion::Latency => {
                let place =
                    |other: usize| if other == actor.at() { Some(unit.at()) } else { self.assignment[other] };
                snapshot.latency_where(place)
            }
        };
        let level =
            |level: &Vec<Criterion>| level.iter().filter(|criterion| counts(**criterion)).map(of).sum();
        snapshot.objectives().levels().iter().map(level).collect()
    }

    fn ties(&self, actor: ActorIx, unit: UnitIx) -> Ties {
        let mut ties = Ties::default();
        for edge in &self.snapshot.problem.edges[actor] {
            let Some(other) = self.place(edge.peer) else { continue };
            if other == unit {
                ties.interference += edge.interference;
            } else {
                ties.communication += edge.rate * self.snapshot.problem.exchange_cost(unit, other);
                ties.annoyance += edge.annoyance;
            }
        }
        ties
    }

    /// Work of the unit over its capacity, in thousandths: for choosing among equals.
    pub fn fullness_with(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        let work = self.snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let thousandths =
            i128::from(self.load[unit] + work) * 1000 / i128::from(self.snapshot.problem.capacity[unit]);
        i64::try_from(thousandths).unwrap_or(i64::MAX)
    }
}

/// How many units have each value of a figure.
#[derive(Clone, Debug)]
pub struct Counts(BTreeMap<i64, usize>);

impl Counts {
    /// All of so many units at 0.
    pub fn of(units: usize) -> Self {
        Self(BTreeMap::from([(0, units)]))
    }

    /// One unit's value changes.
    pub fn change(&mut self, from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(count) = self.0.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&from);
            }
        }
        *self.0.entry(to).or_default() += 1;
    }

    /// The smallest.
    pub fn least(&self) -> i64 {
        self.0.keys().next().copied().unwrap_or(0)
    }

    /// The largest.
    pub fn most(&self) -> i64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// The smallest and the largest value if one unit's changed.
    fn extremes_with(&self, before: i64, after: i64) -> (i64, i64) {
        let alone = self.0.get(&before) == Some(&1);
        // With the unit's own value taken out when it was the only one, and its new value put in.
        let stays = |value: &&i64| !(alone && **value == before);
        let least = self.0.keys().find(stays).map_or(after, |value| after.min(*value));
        let most = self.0.keys().rev().find(stays).map_or(after, |value| after.max(*value));
        (least, most)
    }
}
