//! The encoding of criteria for ASP solvers: the facts of each, and bounds of its sums.
//!
//! Facts use typed positions, which the writer turns into symbols. Every criterion encodes itself, so no other code
//! enumerates criteria.

use std::collections::{BTreeMap, BTreeSet};

use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::problem::room::Rooms;
use crate::{Assignment, Edge, Problem, Snapshot};

/// A term of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The symbol of an actor; a fixed one is declared with the fact.
    Actor(ActorIx),
    /// The symbol of a unit.
    Unit(UnitIx),
    /// A number.
    Number(i64),
}

impl From<ActorIx> for Term {
    fn from(actor: ActorIx) -> Self {
        Self::Actor(actor)
    }
}

impl From<UnitIx> for Term {
    fn from(unit: UnitIx) -> Self {
        Self::Unit(unit)
    }
}

impl From<i64> for Term {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A sink of facts: predicate and terms, in any order, duplicates allowed.
pub type Listener<'a> = &'a mut dyn FnMut(&'static str, &[Term]);

/// A writer of facts.
pub struct Facts<'a> {
    listener: Listener<'a>,
    /// Units whose actors' work is needed.
    pub weighed: BTreeSet<UnitIx>,
    /// Whether exchange costs are needed.
    pub exchange_costs: bool,
}

impl<'a> Facts<'a> {
    /// Writes facts to a sink.
    pub fn new(listener: Listener<'a>) -> Self {
        Self { listener, weighed: BTreeSet::new(), exchange_costs: false }
    }

    /// Writes one fact.
    pub fn say<const N: usize>(&mut self, name: &'static str, terms: [Term; N]) {
        (self.listener)(name, &terms);
    }

    /// Writes the bits of a number up to `most`: owner, index, and value.
    pub fn bits(&mut self, name: &'static str, of: &[Term], most: i64) {
        for bit in 0..i64::BITS - most.leading_zeros() {
            let own = [Term::Number(bit.into()), Term::Number(1 << bit)];
            (self.listener)(name, &[of, &own].concat());
        }
    }
}

/// The sum of all bits of a number up to `most`, which is what a program sums.
pub fn sum_of_bits(most: i64) -> i64 {
    most.saturating_mul(2)
}

/// How the values of a criterion shrink if numbers of the file are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Like work and capacities.
    Work,
    /// Like its own numbers ([`Measure::divide`](super::Measure::divide)).
    Own,
    /// Not at all: it counts, or is rounded itself.
    Indivisible,
}

/// A snapshot being encoded.
#[derive(Clone, Copy)]
pub struct Encoding<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The headroom of its limits.
    pub rooms: &'a Rooms,
    /// The finished placement, if one is verified rather than searched for.
    finished: Option<&'a Finished<'a>>,
}

/// A finished placement: units without movable actors need few facts.
pub struct Finished<'a> {
    /// The placements.
    pub assignment: &'a Assignment,
    /// By unit: whether it hosts a movable actor.
    hosts: IxVec<UnitIx, bool>,
    /// By unit: whether it hosts any actor.
    holds: IxVec<UnitIx, bool>,
}

impl<'a> Finished<'a> {
    /// That of an assignment.
    pub fn new(snapshot: &Snapshot, assignment: &'a Assignment) -> Self {
        let (problem, none) = (snapshot.problem(), IxVec::of(false, snapshot.units()));
        let (mut hosts, mut holds) = (none.clone(), none);
        for (actor, unit) in assignment.enumerate() {
            if let Some(unit) = *unit {
                holds[unit] = true;
                hosts[unit] |= !problem.fixed[actor];
            }
        }
        Self { assignment, hosts, holds }
    }

    /// The number of units in use.
    pub fn units(&self) -> usize {
        self.holds.iter().filter(|holds| **holds).count()
    }
}

impl<'a> Encoding<'a> {
    /// The encoding of a search.
    pub fn new(snapshot: &'a Snapshot, rooms: &'a Rooms) -> Self {
        Self { snapshot, rooms, finished: None }
    }

    /// The encoding of a verification: facts that require other placements are omitted.
    #[must_use]
    pub fn of(self, finished: Option<&'a Finished<'a>>) -> Self {
        Self { finished, ..self }
    }

    /// Whether a movable actor can be on a unit.
    pub fn can_host(&self, unit: UnitIx) -> bool {
        self.finished.is_none_or(|finished| finished.hosts[unit])
    }

    /// Whether any actor can be on a unit, fixed ones included.
    pub fn can_hold(&self, unit: UnitIx) -> bool {
        self.finished.is_none_or(|finished| finished.holds[unit])
    }

    /// The possible units of an actor.
    pub fn homes(&self, actor: ActorIx) -> &'a [UnitIx] {
        match self.finished {
            None => self.snapshot.candidates(actor),
            Some(finished) => finished.assignment[actor].as_slice(),
        }
    }
}

impl Encoding<'_> {
    /// Its dense form.
    pub fn problem(&self) -> &Problem {
        self.snapshot.problem()
    }

    /// Edges with a movable end, each once: the smaller actor, and the edge.
    pub fn open_edges(&self) -> impl Iterator<Item = (ActorIx, &Edge)> {
        let problem = self.problem();
        let of = move |(actor, edges)| {
            let edges: &Vec<Edge> = edges;
            edges.iter().filter(move |edge| edge.peer > actor).map(move |edge| (actor, edge))
        };
        let edges = problem.edges.enumerate().flat_map(of);
        edges.filter(|(actor, edge)| !(problem.fixed[*actor] && problem.fixed[edge.peer]))
    }

    /// Writes the value of each of them that counts.
    pub fn say_edges(&self, facts: &mut Facts, name: &'static str, value: impl Fn(&Edge) -> i64) {
        for (actor, edge) in self.open_edges() {
            let value = value(edge);
            if value > 0 {
                facts.say(name, [actor.into(), edge.peer.into(), value.into()]);
            }
        }
    }

    /// The maximum cost of one message, over all classes and the correction for a pair of units.
    pub fn most_message(&self) -> i64 {
        let problem = self.problem();
        let kinds: BTreeSet<_> = problem.unit_kind.iter().copied().collect();
        let by_kinds = kinds.iter().flat_map(|a| kinds.iter().map(|b| problem.kind_cost(*a, *b)));
        let added = problem.added_costs();
        let pairs = problem.pair_costs().map(|(_, _, cost)| cost);
        [added.numa, added.node, added.zone, pairs.max().unwrap_or(0)]
            .into_iter()
            .fold(by_kinds.max().unwrap_or(0), i64::saturating_add)
    }

    /// The power of a unit with all its possible actors, by unit; units without power are left out.
    pub fn meters(&self) -> Vec<(UnitIx, i64)> {
        let problem = self.problem();
        let wanted = problem.capacity.positions().filter(|unit| self.rooms.work[*unit].wanted > 0);
        let most = wanted
            .map(|unit| (unit, problem.draw(unit, self.rooms.most_load(problem, unit), false)))
            .filter(|(_, most)| *most > 0);
        most.collect()
    }

    /// The power that a unit draws as soon as it hosts an actor that is not there yet.
    pub fn idle_watts(&self, unit: UnitIx) -> i64 {
        if self.rooms.hosts_fixed[unit] { 0 } else { self.problem().draw(unit, 0, true) }
    }

    /// Writes the parameters of some units' power: for their load, and for being in use.
    pub fn say_watts(&self, facts: &mut Facts, counts: impl Fn(UnitIx) -> bool) {
        let problem = self.problem();
        for (unit, most) in self.meters() {
            let (_, watts) = problem.watts[unit];
            let fixed = watts.saturating_mul(self.rooms.fixed_load(problem, unit));
            if !self.can_host(unit) && fixed == 0 {
                continue;
            }
            facts.weighed.insert(unit);
            if !counts(unit) {
                continue;
            }
            facts.say("meter", [unit.into(), watts.into(), problem.capacity[unit].into(), fixed.into()]);
            facts.bits("watt_bit", &[unit.into()], most);
        }
        for unit in problem.capacity.positions().filter(|unit| counts(*unit) && self.can_host(*unit)) {
            let idle = self.idle_watts(unit);
            if idle > 0 {
                facts.say("idle_watts", [unit.into(), idle.into()]);
            }
        }
    }

    /// The constant power of units, including load that no meter counts.
    pub fn settled_watts(&self, meters: &BTreeMap<UnitIx, i64>, unit: UnitIx) -> i64 {
        let problem = self.problem();
        let load = if meters.contains_key(&unit) { 0 } else { self.rooms.fixed_load(problem, unit) };
        problem.draw(unit, load, self.rooms.hosts_fixed[unit])
    }

    /// The maximum power of all units beyond the constant part.
    pub fn most_watts(&self) -> i64 {
        let idle = self.problem().capacity.positions().map(|unit| self.idle_watts(unit));
        let loads = self.meters().into_iter().map(|(_, most)| sum_of_bits(most));
        idle.chain(loads).fold(0, i64::saturating_add)
    }

    /// The largest sum of work that the rules of power form.
    pub fn most_work_of_watts(&self) -> i64 {
        let problem = self.problem();
        let meters = self.meters().into_iter().map(|(unit, most)| {
            let bits = problem.capacity[unit].saturating_mul(sum_of_bits(most).saturating_add(1));
            let (_, watts) = problem.watts[unit];
            watts.saturating_mul(self.rooms.most_load(problem, unit)).saturating_add(bits)
        });
        meters.max().unwrap_or(0)
    }
}
