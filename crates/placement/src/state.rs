//! An assignment under construction, with the sums that make a single step cheap to judge.
//!
//! Strategies share it; the checker does not.

use std::collections::BTreeMap;

use crate::criteria::{Class, Figure, Measure, PairSums, Step};
use crate::ix::{ActorIx, IxVec, NodeIx, PlaceIx, RelationIx, ResourceIx, UnitIx};
use crate::{Assignment, Criterion, Snapshot};

/// An assignment with loads, remaining resources and overloads kept up to date.
pub struct State<'a> {
    snapshot: &'a Snapshot,
    /// Where everybody is.
    pub assignment: Assignment,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u64>,
    unit_left: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    node_left: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
    /// By cap and place: watts.
    drawn: Vec<IxVec<PlaceIx, i64>>,
    /// By relation and place: how many of its actors are there.
    relation_places: IxVec<RelationIx, BTreeMap<PlaceIx, usize>>,
    /// The levels' criteria with what each needs to be priced.
    levels: Vec<Vec<Term>>,
}

/// A criterion of a level.
struct Term {
    criterion: Criterion,
    measure: &'static dyn Measure,
    /// By actor: where it would cost nothing, and what it costs elsewhere. Empty where the criterion has no such.
    homes: IxVec<ActorIx, Vec<(UnitIx, i64)>>,
    figure: Option<Box<dyn Figure>>,
}

impl Term {
    fn new(snapshot: &Snapshot, criterion: Criterion) -> Self {
        let measure = criterion.measure();
        let mut homes = IxVec::new();
        if measure.class() == Class::Actors {
            homes = IxVec::of(Vec::new(), snapshot.actors());
            for home in measure.homes(snapshot) {
                homes[home.actor].push((home.unit, home.price));
            }
        }
        Self { criterion, measure, homes, figure: measure.figure(snapshot) }
    }
}

impl<'a> State<'a> {
    /// Fixed actors at their places, nobody else anywhere.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let units = snapshot.units();
        let mut state = Self {
            snapshot,
            assignment: vec![None; snapshot.actors()],
            load: IxVec::of(0, units),
            hosted: IxVec::of(0, units),
            unit_left: snapshot.problem.unit_provides.clone(),
            node_left: snapshot.problem.node_provides.clone(),
            drawn: snapshot.problem.caps.iter().map(|cap| IxVec::of(0, cap.limit.len())).collect(),
            relation_places: IxVec::of(BTreeMap::new(), snapshot.problem.relations.len()),
            levels: snapshot
                .objectives()
                .levels()
                .iter()
                .map(|level| level.iter().map(|criterion| Term::new(snapshot, *criterion)).collect())
                .collect(),
        };
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
        let step = self.step(actor, unit, sign > 0);
        for figure in self.levels.iter_mut().flatten().filter_map(|term| term.figure.as_mut()) {
            figure.count(self.snapshot, &step);
        }
        if let Some(needs) = self.snapshot.problem.implementation(actor, unit) {
            self.load[unit] += sign * needs.work;
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
        for &relation in &problem.relations_of[actor] {
            let place = problem.place(problem.relations[relation].scope, unit);
            let count = self.relation_places[relation].entry(place).or_default();
            *count = count.saturating_add_signed(isize::try_from(sign).expect("sign is 1 or -1"));
            if *count == 0 {
                self.relation_places[relation].remove(&place);
            }
        }
    }

    /// What a unit becomes when the actor comes to it or leaves it.
    fn step(&self, actor: ActorIx, unit: UnitIx, comes: bool) -> Step {
        let work = self.snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let (load, hosted) = (self.load[unit], self.hosted[unit]);
        let sign = if comes { 1 } else { -1 };
        Step {
            actor,
            unit,
            comes,
            load: (load, load + sign * work),
            hosted: (hosted, hosted.saturating_add_signed(sign)),
        }
    }

    /// The value of a criterion that is a figure of the whole; 0 where no level names it.
    pub fn of_the_whole(&self, criterion: Criterion) -> i64 {
        let mut terms = self.levels.iter().flatten();
        let figure = terms.find(|term| term.criterion == criterion).and_then(|term| term.figure.as_ref());
        figure.map_or(0, |figure| figure.value(self.snapshot))
    }

    /// The vector's levels that the actor decides if it were on `unit`: figures of the whole, the rest its own.
    ///
    /// Two results for the same state and actor compare as the vectors of the whole would.
    pub fn price(&self, actor: ActorIx, unit: UnitIx) -> Vec<i64> {
        self.price_if(actor, unit, |_| true)
    }

    /// The price with some criteria left out.
    pub fn price_if(&self, actor: ActorIx, unit: UnitIx, counts: impl Fn(Criterion) -> bool) -> Vec<i64> {
        let pairs = self.pairs(actor, unit);
        let step = self.step(actor, unit, true);
        let of = |term: &Term| match term.measure.class() {
            Class::Pairs => term.measure.of_pairs(&pairs),
            Class::Actors => {
                let missed = term.homes[actor].iter().filter(|(home, _)| *home != unit);
                missed.map(|(_, price)| price).sum()
            }
            Class::Places => {
                let figure = term.figure.as_ref();
                figure.map_or(0, |figure| figure.with(self.snapshot, &step) - figure.value(self.snapshot))
            }
            Class::Whole => term.figure.as_ref().map_or(0, |figure| figure.with(self.snapshot, &step)),
        };
        let level = |level: &Vec<Term>| level.iter().filter(|term| counts(term.criterion)).map(of).sum();
        self.levels.iter().map(level).collect()
    }

    /// What the actor's pairs would come to with it on the unit.
    fn pairs(&self, actor: ActorIx, unit: UnitIx) -> PairSums {
        let mut pairs = PairSums::default();
        for edge in &self.snapshot.problem.edges[actor] {
            let Some(other) = self.place(edge.peer) else { continue };
            if other == unit {
                pairs.together += edge.interference;
            } else {
                pairs.exchanged += edge.rate * self.snapshot.problem.exchange_cost(unit, other);
                pairs.apart += edge.annoyance;
            }
        }
        pairs
    }

    /// Work of the unit over its capacity, in thousandths: for choosing among equals.
    pub fn fullness_with(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        let work = self.snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let thousandths =
            i128::from(self.load[unit] + work) * 1000 / i128::from(self.snapshot.problem.capacity[unit]);
        i64::try_from(thousandths).unwrap_or(i64::MAX)
    }
}
