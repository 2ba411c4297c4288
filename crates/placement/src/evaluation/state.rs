//! An assignment under construction, with incremental sums that make single moves cheap to evaluate.
//!
//! Strategies share it; the checker does not use it.

use crate::constraints::relations::ColocationCounts;
use crate::constraints::resources::Remaining;
use crate::constraints::slots::has_slot;
use crate::constraints::{ViolationTracker, violation_trackers};
use crate::criteria::{CriterionClass, IncrementalTerm, Measure, PairSums, Step};
use crate::evaluation::group_costs::ChannelSums;
use crate::ix::{ActorIx, IxVec, NodeIx, RelationIx, ResourceIx, UnitIx};
use crate::{Assignment, Criterion, Snapshot};

/// An assignment with incrementally updated loads, remaining resources and overloads.
pub struct State<'a> {
    snapshot: &'a Snapshot,
    /// The placements.
    pub assignment: Assignment,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u64>,
    remaining: Remaining,
    company: ColocationCounts,
    /// The cost of group channels that no edge represents.
    channels: Option<Box<ChannelSums>>,
    /// Constraints with running totals, by position in the file.
    limits: Vec<(usize, Box<dyn ViolationTracker>)>,
    /// The levels' criteria with their state.
    levels: Vec<Vec<CriterionTerm>>,
}

/// A criterion of a level.
struct CriterionTerm {
    criterion: Criterion,
    measure: &'static dyn Measure,
    /// By actor: the unit where it costs nothing, and its cost elsewhere. Empty for other criteria.
    homes: IxVec<ActorIx, Vec<(UnitIx, i64)>>,
    figure: Option<Box<dyn IncrementalTerm>>,
}

impl CriterionTerm {
    fn new(snapshot: &Snapshot, criterion: Criterion) -> Self {
        let measure = criterion.measure();
        let mut homes = IxVec::new();
        if measure.class() == CriterionClass::Actors {
            homes = IxVec::of(Vec::new(), snapshot.actors());
            for home in measure.preferred_units(snapshot) {
                homes[home.actor].push((home.unit, home.price));
            }
        }
        Self { criterion, measure, homes, figure: measure.incremental_term(snapshot) }
    }
}

impl<'a> State<'a> {
    /// Fixed actors on their units, all others unplaced.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self::with_channels(
            snapshot,
            ChannelSums::new(&snapshot.problem.channels, snapshot.units()).map(Box::new),
        )
    }

    /// The same without the cost of group channels, whose update takes long where groups have many: for placing without prices.
    pub fn without_channels(snapshot: &'a Snapshot) -> Self {
        Self::with_channels(snapshot, None)
    }

    fn with_channels(snapshot: &'a Snapshot, channels: Option<Box<ChannelSums>>) -> Self {
        let units = snapshot.units();
        let mut state = Self {
            snapshot,
            assignment: IxVec::of(None, snapshot.actors()),
            load: IxVec::of(0, units),
            hosted: IxVec::of(0, units),
            remaining: Remaining::new(&snapshot.problem),
            company: ColocationCounts::new(&snapshot.problem),
            channels,
            limits: violation_trackers(snapshot),
            levels: snapshot
                .objectives()
                .levels()
                .iter()
                .map(|level| level.iter().map(|criterion| CriterionTerm::new(snapshot, *criterion)).collect())
                .collect(),
        };
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| snapshot.is_fixed(*actor)) {
            let home =
                snapshot.problem.current[actor].expect("a fixed actor without a place is refused on input");
            state.change(actor, home, true);
            state.assignment[actor] = Some(home);
        }
        state.keep();
        state
    }

    /// A whole assignment.
    pub fn of(snapshot: &'a Snapshot, assignment: &Assignment) -> Self {
        let mut state = Self::new(snapshot);
        for (actor, place) in assignment.enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor)) {
            if let Some(unit) = *place {
                state.change(actor, unit, true);
                state.assignment[actor] = Some(unit);
            }
        }
        state.keep();
        state
    }

    /// The unit of an actor.
    #[inline]
    pub fn place(&self, actor: ActorIx) -> Option<UnitIx> {
        self.assignment[actor]
    }

    /// Whether the unplaced actor may be put on the unit.
    pub fn admits(&self, actor: ActorIx, unit: UnitIx) -> bool {
        let problem = &self.snapshot.problem;
        self.snapshot.problem.implementation(actor, unit).is_some()
            && self.has_slot(unit)
            && self.missing(actor, unit).is_none()
            && problem.rules_of[actor].iter().all(|&rule| problem.obeys(actor, unit, &problem.rules[rule]))
            && self.broken_relation(actor, unit).is_none()
            && (self.limits.is_empty() || self.passed_limits(actor, unit).next().is_none())
    }

    /// Other constraints that the unplaced actor would violate on the unit.
    pub fn passed_limits(&self, actor: ActorIx, unit: UnitIx) -> impl Iterator<Item = usize> {
        let step = self.step(actor, unit, true);
        let passed = self.limits.iter().filter(move |(_, excess)| excess.refuses(self.snapshot, &step));
        passed.map(|(constraint, _)| *constraint)
    }

    /// Whether the unit has a free slot.
    pub fn has_slot(&self, unit: UnitIx) -> bool {
        has_slot(self.snapshot, unit, self.hosted[unit])
    }

    /// The first resource that is insufficient for the actor: whether it is the node's, its name, the requirement and
    /// the remainder.
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
        self.remaining.missing(&self.snapshot.problem, actor, unit)
    }

    /// The number of actors on the unit.
    pub fn hosted_on(&self, unit: UnitIx) -> usize {
        usize::try_from(self.hosted[unit]).expect("there are no more than actors")
    }

    /// What is left of a unit's resource; negative if it is overcommitted.
    pub fn left_on(&self, unit: UnitIx, resource: ResourceIx) -> i64 {
        let (snapshot, left) = (self.snapshot, self.remaining.unit[unit][resource]);
        left - snapshot.problem.unit_provides[unit][resource] + snapshot.provided_on(unit, resource)
    }

    /// What is left of a node's resource; negative if it is overcommitted.
    pub fn left_at(&self, node: NodeIx, resource: ResourceIx) -> i64 {
        let (snapshot, left) = (self.snapshot, self.remaining.node[node][resource]);
        left - snapshot.problem.node_provides[node][resource] + snapshot.provided_at(node, resource)
    }

    /// The first `apart` or `together` that the unplaced actor would violate on the unit.
    pub fn broken_relation(&self, actor: ActorIx, unit: UnitIx) -> Option<RelationIx> {
        self.broken_relations(actor, unit).next()
    }

    /// Every such rule.
    pub fn broken_relations(&self, actor: ActorIx, unit: UnitIx) -> impl Iterator<Item = RelationIx> {
        self.company.broken(&self.snapshot.problem, actor, unit)
    }

    /// Places an unplaced actor.
    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.change(actor, unit, true);
        self.assignment[actor] = Some(unit);
        self.keep();
    }

    /// Removes an actor from its unit, and returns the unit.
    pub fn take(&mut self, actor: ActorIx) -> Option<UnitIx> {
        let unit = self.assignment[actor].take()?;
        self.change(actor, unit, false);
        self.keep();
        Some(unit)
    }

    /// Commits the changes: the present placement is kept for some time.
    fn keep(&mut self) {
        let figures = self.levels.iter_mut().flatten().filter_map(|term| term.figure.as_mut());
        figures.for_each(|figure| figure.keep(self.snapshot));
    }

    fn change(&mut self, actor: ActorIx, unit: UnitIx, comes: bool) {
        let problem = &self.snapshot.problem;
        let step = self.step(actor, unit, comes);
        for figure in self.levels.iter_mut().flatten().filter_map(|term| term.figure.as_mut()) {
            figure.count(self.snapshot, &step);
        }
        self.limits.iter_mut().for_each(|(_, excess)| excess.count(self.snapshot, &step));
        self.remaining.count(problem, actor, unit, step.sign());
        self.company.count(problem, actor, unit, comes);
        if let Some(sums) = &mut self.channels {
            let (from, to) = if comes { (UnitIx::NONE, unit) } else { (unit, UnitIx::NONE) };
            sums.follow(&problem.channels, actor, from, to, |a, b| problem.exchange_cost(a, b));
        }
        (self.load[unit], self.hosted[unit]) = (step.load.1, step.hosted.1);
    }

    /// The unit after the actor is added or removed.
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

    /// The value of a criterion with a global term; 0 if no level names it.
    pub fn value_of(&self, criterion: Criterion) -> i64 {
        let mut terms = self.levels.iter().flatten();
        let figure = terms.find(|term| term.criterion == criterion).and_then(|term| term.figure.as_ref());
        figure.map_or(0, |figure| figure.value(self.snapshot))
    }

    /// The levels that the actor affects if it were on `unit`: global terms, and its own share of the others.
    ///
    /// Two results for the same state and actor compare like the vectors of the whole assignments.
    pub fn price(&self, actor: ActorIx, unit: UnitIx) -> Vec<i64> {
        self.price_if(actor, unit, |_| true)
    }

    /// The price with some criteria left out.
    pub fn price_if(&self, actor: ActorIx, unit: UnitIx, counts: impl Fn(Criterion) -> bool) -> Vec<i64> {
        let pairs = self.pairs(actor, unit);
        let step = self.step(actor, unit, true);
        let of = |term: &CriterionTerm| match term.measure.class() {
            CriterionClass::Pairs => term.measure.of_pairs(&pairs),
            CriterionClass::Actors => {
                let missed = term.homes[actor].iter().filter(|(home, _)| *home != unit);
                missed.map(|(_, price)| price).sum()
            }
            CriterionClass::Places => {
                let figure = term.figure.as_ref();
                figure.map_or(0, |figure| figure.with(self.snapshot, &step) - figure.value(self.snapshot))
            }
            CriterionClass::NonAdditive => {
                term.figure.as_ref().map_or(0, |figure| figure.with(self.snapshot, &step))
            }
        };
        let level =
            |level: &Vec<CriterionTerm>| level.iter().filter(|term| counts(term.criterion)).map(of).sum();
        self.levels.iter().map(level).collect()
    }

    /// The cost of the actor's pairs with it on the unit.
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
        if let Some(sums) = &self.channels {
            let problem = &self.snapshot.problem;
            let exchange_cost = |a: UnitIx, b: UnitIx| problem.exchange_cost(a, b);
            let (exchanged, apart) = sums.at(&problem.channels, actor, unit, exchange_cost);
            pairs.exchanged += exchanged;
            pairs.apart += apart;
            // Its present unit, from which it would be removed, is left out.
            if let Some(own) = self.place(actor).filter(|own| *own != unit) {
                let among_themselves = problem.channels.between(actor, actor);
                pairs.exchanged -= among_themselves.rate * problem.exchange_cost(unit, own);
                pairs.apart -= among_themselves.apart;
            }
        }
        pairs
    }

    /// The work of the unit over its capacity, in thousandths: for tie-breaking.
    pub fn fullness_with(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        let work = self.snapshot.problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let thousandths =
            i128::from(self.load[unit] + work) * 1000 / i128::from(self.snapshot.problem.capacity[unit]);
        i64::try_from(thousandths).unwrap_or(i64::MAX)
    }
}
