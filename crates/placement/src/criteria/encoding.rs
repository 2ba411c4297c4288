//! Criteria for a solver of logic programs: what each says of a world in facts, and how large its sums can be.
//!
//! Facts speak of typed positions; whoever writes them down makes symbols of these. Every criterion brings its own, so
//! that nobody has to know which criteria there are.

use std::collections::{BTreeMap, BTreeSet};

use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::room::Rooms;
use crate::{Assignment, Edge, Problem, Snapshot};

/// A term of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The symbol of an actor; a fixed one is made known with the fact.
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

/// Whom facts are told: predicate and terms, in any order; the same may be said twice.
pub type Listener<'a> = &'a mut dyn FnMut(&'static str, &[Term]);

/// Facts in the making.
pub struct Facts<'a> {
    listener: Listener<'a>,
    /// Units of which the work that actors ask of them has to be known.
    pub weighed: BTreeSet<UnitIx>,
    /// Whether exchange costs have to be known.
    pub exchange_costs: bool,
}

impl<'a> Facts<'a> {
    /// Facts for a listener, who hears each as it is said.
    pub fn new(listener: Listener<'a>) -> Self {
        Self { listener, weighed: BTreeSet::new(), exchange_costs: false }
    }

    /// Says one.
    pub fn say<const N: usize>(&mut self, name: &'static str, terms: [Term; N]) {
        (self.listener)(name, &terms);
    }

    /// Says the bits of a number up to `most`: what they belong to, which, and what it is worth.
    pub fn bits(&mut self, name: &'static str, of: &[Term], most: i64) {
        for bit in 0..i64::BITS - most.leading_zeros() {
            let own = [Term::Number(bit.into()), Term::Number(1 << bit)];
            (self.listener)(name, &[of, &own].concat());
        }
    }
}

/// All bits of a number up to `most` together: the sum that a program forms of them.
pub fn sum_of_bits(most: i64) -> i64 {
    most.saturating_mul(2)
}

/// By what the values of a criterion become smaller when numbers of the file are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// As work and capacities do.
    Work,
    /// As its own numbers do ([`Measure::divide`](super::Measure::divide)).
    Own,
    /// By nothing: it counts, or is rounded itself.
    Indivisible,
}

/// A world that is written down.
#[derive(Clone, Copy)]
pub struct Encoding<'a> {
    /// The world.
    pub snapshot: &'a Snapshot,
    /// What fixed actors leave of its limits.
    pub rooms: &'a Rooms,
    /// Where everybody is, where that is asked about and nothing is searched.
    finished: Option<&'a Finished<'a>>,
}

/// A finished placement: of a unit where nobody is who can be elsewhere, little has to be said.
pub struct Finished<'a> {
    /// Where everybody is.
    pub assignment: &'a Assignment,
    /// Whether anybody is on a unit who can be elsewhere.
    hosts: IxVec<UnitIx, bool>,
    /// Whether anybody is.
    holds: IxVec<UnitIx, bool>,
}

impl<'a> Finished<'a> {
    /// That of a world.
    pub fn new(snapshot: &Snapshot, assignment: &'a Assignment) -> Self {
        let (problem, nobody) = (snapshot.problem(), IxVec::of(false, snapshot.units()));
        let (mut hosts, mut holds) = (nobody.clone(), nobody);
        for (actor, unit) in assignment.enumerate() {
            if let Some(unit) = *unit {
                holds[unit] = true;
                hosts[unit] |= !problem.fixed[actor];
            }
        }
        Self { assignment, hosts, holds }
    }

    /// On how many units anybody is.
    pub fn units(&self) -> usize {
        self.holds.iter().filter(|holds| **holds).count()
    }
}

impl<'a> Encoding<'a> {
    /// A world in which places are searched.
    pub fn new(snapshot: &'a Snapshot, rooms: &'a Rooms) -> Self {
        Self { snapshot, rooms, finished: None }
    }

    /// One in which everybody is where it is: what needs somebody to be where nobody is goes unsaid.
    #[must_use]
    pub fn of(self, finished: Option<&'a Finished<'a>>) -> Self {
        Self { finished, ..self }
    }

    /// Whether somebody who can be elsewhere can come to be on a unit.
    pub fn can_host(&self, unit: UnitIx) -> bool {
        self.finished.is_none_or(|finished| finished.hosts[unit])
    }

    /// Whether anybody can, fixed actors included.
    pub fn can_hold(&self, unit: UnitIx) -> bool {
        self.finished.is_none_or(|finished| finished.holds[unit])
    }

    /// Where an actor can come to be.
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

    /// Ties of which at least one end can be elsewhere, each once: the smaller actor, and the tie.
    pub fn open_edges(&self) -> impl Iterator<Item = (ActorIx, &Edge)> {
        let problem = self.problem();
        let of = move |(actor, edges)| {
            let edges: &Vec<Edge> = edges;
            edges.iter().filter(move |edge| edge.peer > actor).map(move |edge| (actor, edge))
        };
        let edges = problem.edges.enumerate().flat_map(of);
        edges.filter(|(actor, edge)| !(problem.fixed[*actor] && problem.fixed[edge.peer]))
    }

    /// Says of those of them that it counts what one is worth.
    pub fn say_edges(&self, facts: &mut Facts, name: &'static str, value: impl Fn(&Edge) -> i64) {
        for (actor, edge) in self.open_edges() {
            let value = value(edge);
            if value > 0 {
                facts.say(name, [actor.into(), edge.peer.into(), value.into()]);
            }
        }
    }

    /// What one message can cost at most, over all classes and the correction for a pair of units.
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

    /// Watts of a unit for everybody who could be there, by unit; those that draw none are left out.
    pub fn meters(&self) -> Vec<(UnitIx, i64)> {
        let problem = self.problem();
        let wanted = problem.capacity.positions().filter(|unit| self.rooms.work[*unit].wanted > 0);
        let most = wanted
            .map(|unit| (unit, problem.draw(unit, self.rooms.most_load(problem, unit), false)))
            .filter(|(_, most)| *most > 0);
        most.collect()
    }

    /// Watts that a unit draws as soon as somebody comes who is not there yet.
    pub fn idle_watts(&self, unit: UnitIx) -> i64 {
        if self.rooms.hosts_fixed[unit] { 0 } else { self.problem().draw(unit, 0, true) }
    }

    /// Says what the watts of some units are made of: for their load, and for being in use.
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

    /// Watts that units draw whoever comes, their load counted where no meter counts it.
    pub fn settled_watts(&self, meters: &BTreeMap<UnitIx, i64>, unit: UnitIx) -> i64 {
        let problem = self.problem();
        let load = if meters.contains_key(&unit) { 0 } else { self.rooms.fixed_load(problem, unit) };
        problem.draw(unit, load, self.rooms.hosts_fixed[unit])
    }

    /// The most that all units can draw beside what is settled.
    pub fn most_watts(&self) -> i64 {
        let idle = self.problem().capacity.positions().map(|unit| self.idle_watts(unit));
        let loads = self.meters().into_iter().map(|(_, most)| sum_of_bits(most));
        idle.chain(loads).fold(0, i64::saturating_add)
    }

    /// The largest sum of numbers of work that the rules of watts form.
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
