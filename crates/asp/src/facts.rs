//! Encodes a snapshot as facts (sorted text of escaped symbols), and decodes a model to an assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use placement::criteria::encoding::Term;
use placement::criteria::{Encoding, Facts, Finished};
use placement::ix::{ActorIx, IxVec, KindIx, ResourceIx, SetIx, UnitIx};
use placement::room::Rooms;
use placement::{Assignment, Cost, Criterion, Implementation, Snapshot, constraints};
use policy::string;

use crate::group_counts::{GroupUnitCounts, JudgingBatch};
use crate::ruled;
use crate::symmetry::Symmetry;
use crate::writer::Writer;

/// With more actors than this, identical units are not ordered: proofs are out of reach, and the order costs an atom for
/// each actor and unit.
const MOST_RANKED: usize = 64;

/// A snapshot encoded for a program.
pub(crate) struct Encoded<'a> {
    snapshot: &'a Snapshot,
    /// Facts, one per line, sorted.
    pub facts: String,
    /// Symbols of the movable actors, in the order of [`placement::Problem::movable`].
    pub actors: Vec<String>,
    /// Symbols of all units.
    pub units: Vec<String>,
    /// By component of the vector: the constant cost of fixed actors, which the program leaves out.
    constant_part: Vec<i64>,
}

impl<'a> Encoded<'a> {
    /// Encodes a snapshot whose numbers fit, with an initial assignment.
    pub fn new(snapshot: &'a Snapshot, start: &Assignment) -> Self {
        let write = |writer: &mut Writer, world: &Encoding| {
            let symmetry = Symmetry::new(snapshot, world.rooms);
            let spare = symmetry.spare();
            writer.actors(|unit| !spare.contains(&unit));
            writer.symmetry(&symmetry);
            writer.start(&symmetry.ordered(start));
        };
        Self::written(snapshot, snapshot.objectives().levels(), &ALL_PAIRS, None, write)
    }

    /// Encodes a finished placement with some of the levels, some of the pairs, and the counts of groups.
    pub fn judged(
        snapshot: &'a Snapshot,
        levels: &[Vec<Criterion>],
        finished: &Finished,
        pairs: &Range<usize>,
        counts: &GroupUnitCounts,
    ) -> Self {
        let assignment = finished.assignment;
        Self::written(snapshot, levels, pairs, Some(finished), |writer, world| {
            writer.judged(world, assignment);
            writer.counted(counts);
            let mut say = |name, terms: &[Term]| writer.say(name, terms);
            let mut facts = Facts::new(&mut say);
            for criterion in levels.iter().flatten() {
                criterion.measure().witness(world, assignment, &mut facts);
            }
        })
    }

    /// The facts by which a finished placement costs what some of its pairs and group channels cost. Their actors are fixed;
    /// feasibility is verified with the other runs.
    pub fn of_batch(
        snapshot: &Snapshot,
        levels: &[Vec<Criterion>],
        assignment: &Assignment,
        batch: &JudgingBatch,
        counts: &GroupUnitCounts,
    ) -> String {
        let rooms = Rooms::new(snapshot.problem());
        let world = Encoding::new(snapshot, &rooms);
        let mut writer = Writer::new(snapshot);
        let mut ends = BTreeSet::new();
        let criteria = levels.iter().flatten().filter(|criterion| sums_pairs(**criterion));
        say_criteria(&world, criteria, &batch.pairs, &mut |name, terms: &[Term]| {
            for term in terms {
                if let Term::Actor(actor) = term {
                    ends.insert(*actor);
                }
            }
            writer.say(name, terms);
        });
        let mut units = writer.rows(counts, &batch.rows);
        for actor in ends {
            if let Some(unit) = assignment[actor] {
                writer.say("fixed", &[actor.into(), unit.into()]);
                units.insert(unit);
            }
        }
        writer.levels(levels);
        writer.units(|unit| units.contains(&unit));
        writer.exchange_costs(|unit| units.contains(&unit));
        writer.sorted().0
    }

    fn written(
        snapshot: &'a Snapshot,
        levels: &[Vec<Criterion>],
        pairs: &Range<usize>,
        finished: Option<&Finished>,
        write: impl FnOnce(&mut Writer, &Encoding),
    ) -> Self {
        let rooms = Rooms::new(snapshot.problem());
        let world = Encoding::new(snapshot, &rooms).of(finished);
        let mut writer = Writer::new(snapshot);
        let (mut weighed, exchange_costs) =
            say_criteria(&world, levels.iter().flatten(), pairs, &mut |name, terms: &[Term]| {
                writer.say(name, terms);
            });
        let mut say = |name, terms: &[Term]| writer.say(name, terms);
        let mut facts = Facts::new(&mut say);
        constraints::facts(&world, &mut facts);
        weighed.extend(facts.weighed);
        writer.levels(levels);
        // There has to be one: of several zones the fullest represents the others.
        writer.units(|unit| unit == UnitIx::new(0) || world.can_hold(unit));
        write(&mut writer, &world);
        if exchange_costs {
            writer.exchange_costs(|unit| world.can_hold(unit));
        }
        writer.work(&world, &weighed);
        writer.limits(&world);
        writer.relations();
        let constant_part = constant_part(&world);
        let (mut facts, Writer { problem, actors, units, .. }) = writer.sorted();
        facts.extend(snapshot.rules().map(|rules| {
            let placed = finished.map(|finished| finished.assignment);
            ruled::text(snapshot, rules, placed, &actors, &units)
        }));
        let actors = problem.movable.iter().map(|&actor| actors[actor].clone()).collect();
        Self { snapshot, facts, actors, units: units.raw().to_vec(), constant_part }
    }

    /// Decodes a model: by position in `actors`, the position of a unit.
    pub fn assignment(&self, places: &[Option<usize>]) -> Option<Assignment> {
        let known = |place: &Option<usize>| place.is_none_or(|unit| unit < self.units.len());
        if places.len() != self.actors.len() || !places.iter().all(known) {
            return None;
        }
        let mut assignment = alone(self.snapshot);
        for (actor, &place) in self.snapshot.problem().movable.iter().zip(places) {
            assignment[*actor] = place.map(UnitIx::new);
        }
        Some(assignment)
    }

    /// The vector of the program's sums: without the constant 1 of each level, with the constant part of fixed actors.
    pub fn vector(&self, sums: &[i64]) -> Vec<i64> {
        let constant_part = self.constant_part.iter().copied().chain(std::iter::repeat(0));
        sums.iter().zip(constant_part).map(|(sum, constant_part)| sum - 1 + constant_part).collect()
    }

    /// The sums of a model with this vector: the inverse of [`Encoded::vector`].
    pub fn sums(&self, vector: &[i64]) -> Vec<i64> {
        let constant_part = self.constant_part.iter().copied().chain(std::iter::repeat(0));
        vector.iter().zip(constant_part).map(|(value, constant_part)| value + 1 - constant_part).collect()
    }
}

/// All pairs.
pub(crate) const ALL_PAIRS: Range<usize> = 0..usize::MAX;

/// Whether a criterion is a sum over pairs, so that batches of them can be added.
fn sums_pairs(criterion: Criterion) -> bool {
    matches!(criterion, Criterion::Communication | Criterion::Annoyance | Criterion::Interference)
}

/// Writes the facts of criteria, limited to a range of pairs for those that are sums over pairs. Returns the units whose load
/// is weighed, and whether exchange costs are needed.
fn say_criteria<'c>(
    world: &Encoding,
    criteria: impl Iterator<Item = &'c Criterion>,
    pairs: &Range<usize>,
    fact: &mut dyn FnMut(&'static str, &[Term]),
) -> (BTreeSet<UnitIx>, bool) {
    let (mut weighed, mut exchange_costs, mut said) = (BTreeSet::new(), false, 0);
    for &criterion in criteria {
        let mut say = |name: &'static str, terms: &[Term]| {
            let is_pairwise = sums_pairs(criterion);
            if !is_pairwise || pairs.contains(&said) {
                fact(name, terms);
            }
            said += usize::from(is_pairwise);
        };
        let mut facts = Facts::new(&mut say);
        criterion.measure().facts(world, &mut facts);
        exchange_costs |= facts.exchange_costs;
        weighed.append(&mut facts.weighed);
    }
    (weighed, exchange_costs)
}

/// The number of pairs that the criteria of a snapshot sum.
pub(crate) fn pairs(world: &Encoding) -> usize {
    let mut count = 0;
    let mut say = |_, _: &[Term]| count += 1;
    let mut facts = Facts::new(&mut say);
    for criterion in
        world.snapshot.objectives().levels().iter().flatten().filter(|criterion| sums_pairs(**criterion))
    {
        criterion.measure().facts(world, &mut facts);
    }
    count
}

/// The exact vector of an assignment, including the penalties of `prefer`.
pub fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}

/// Fixed actors on their units, all others unplaced.
fn alone(snapshot: &Snapshot) -> Assignment {
    let problem = snapshot.problem();
    problem.current.positions().map(|actor| problem.fixed_at(actor)).collect()
}

/// The constant part of each level, which the program leaves out.
fn constant_part(world: &Encoding) -> Vec<i64> {
    let snapshot = world.snapshot;
    let alone = alone(snapshot);
    // The program itself states what the policy's rules cost.
    let of_rules = snapshot.rules().map_or(0, |rules| rules.penalty(&alone));
    let policy = snapshot.penalty(&alone) - of_rules;
    let cost = Cost { policy, unplaced: 0, ..snapshot.cost(&alone) };
    let named = snapshot.objectives().levels().iter().flatten();
    let settle = |cost: Cost, criterion: &Criterion| {
        let constant_part = criterion.measure().constant_part(world, cost.of(*criterion));
        cost.with(*criterion, constant_part)
    };
    named.fold(cost, settle).vector(snapshot)
}

impl Writer<'_> {
    fn levels(&mut self, levels: &[Vec<Criterion>]) {
        self.fact("level", &[&"unplaced", &(levels.len() + 1)]);
        for (position, level) in levels.iter().enumerate() {
            for criterion in level {
                self.fact("level", &[criterion, &(levels.len() - position)]);
            }
        }
    }

    fn units(&mut self, wanted: impl Fn(UnitIx) -> bool) {
        let (file, names) = (self.snapshot.file(), self.units.clone());
        for (position, symbol) in names.enumerate().filter(|(position, _)| wanted(*position)) {
            let unit = &file.units[position.at()];
            self.fact("cu", &[symbol]);
            self.fact("cu_kind", &[symbol, &string(&unit.kind)]);
            self.fact("cu_node", &[symbol, &string(&unit.node)]);
            if let Some(zone) = &unit.zone {
                self.fact("cu_zone", &[symbol, &string(zone)]);
            }
            if let Some(numa) = &unit.numa {
                self.fact("cu_numa", &[symbol, &string(numa)]);
            }
        }
    }

    /// The movable actors and their candidates among the relevant units.
    fn actors(&mut self, counts: impl Fn(UnitIx) -> bool) {
        let problem = self.problem;
        let mut sets: BTreeSet<SetIx> = BTreeSet::new();
        for &actor in &problem.movable {
            let (symbol, set) = (self.actors[actor].clone(), problem.candidate_set[actor]);
            sets.insert(set);
            self.fact("actor", &[&symbol]);
            self.fact("of_set", &[&symbol, &set.raw()]);
        }
        for set in sets {
            for unit in problem.candidate_sets[set].iter().filter(|unit| counts(**unit)) {
                self.fact("candidate", &[&set.raw(), &self.units[*unit].clone()]);
            }
        }
    }

    fn judged(&mut self, world: &Encoding, assignment: &Assignment) {
        self.actors(|unit| world.can_host(unit));
        for &actor in &self.problem.movable {
            if let Some(unit) = assignment[actor] {
                self.say("judged", &[actor.into(), unit.into()]);
            }
        }
    }

    fn symmetry(&mut self, symmetry: &Symmetry) {
        let movable = &self.problem.movable;
        if movable.len() > MOST_RANKED {
            return;
        }
        let mut any = false;
        for (before, after) in symmetry.in_order() {
            self.say("next", &[before.into(), after.into()]);
            any = true;
        }
        for (rank, &actor) in (1i64..).zip(movable).filter(|_| any) {
            self.say("rank", &[actor.into(), rank.into()]);
        }
    }

    fn start(&mut self, start: &Assignment) {
        for &actor in &self.problem.movable {
            match start[actor] {
                Some(unit) => self.say("start", &[actor.into(), unit.into()]),
                None => self.say("start_nowhere", &[actor.into()]),
            }
        }
    }

    fn kind(&self, kind: KindIx) -> String {
        string(&self.problem.kinds[kind])
    }

    fn resource(&self, resource: ResourceIx) -> String {
        string(&self.problem.resources[resource])
    }

    /// Exchange costs between kinds and topology domains, and surcharges between pairs of relevant units.
    fn exchange_costs(&mut self, counts: impl Fn(UnitIx) -> bool) {
        let problem = self.problem;
        let kinds: BTreeSet<KindIx> = problem.unit_kind.iter().copied().collect();
        for &a in &kinds {
            for &b in &kinds {
                self.fact("kind_cost", &[&self.kind(a), &self.kind(b), &problem.kind_cost(a, b)]);
            }
        }
        let added = problem.added_costs();
        let added = [("other_numa", added.numa), ("other_node", added.node), ("other_zone", added.zone)];
        for (name, value) in added.into_iter().filter(|(_, value)| *value > 0) {
            self.fact(name, &[&value]);
        }
        for (a, b, _) in problem.pair_costs().filter(|(a, b, _)| counts(*a) && counts(*b)) {
            let extra = problem.exchange_cost(a, b) - problem.class_cost(a, b);
            if extra != 0 {
                self.say("pair_extra", &[a.into(), b.into(), extra.into()]);
                self.say("pair_extra", &[b.into(), a.into(), extra.into()]);
            }
        }
    }

    /// The work of actors on units whose load is weighed, by kind.
    fn work(&mut self, world: &Encoding, weighed: &BTreeSet<UnitIx>) {
        let problem = self.problem;
        for &actor in &problem.movable {
            let units = world.homes(actor).iter().filter(|unit| weighed.contains(unit));
            for (kind, needs) in self.ways(actor, units) {
                if needs.work > 0 {
                    self.fact("work", &[&self.actors[actor].clone(), &self.kind(kind), &needs.work]);
                }
            }
        }
    }

    /// The actor's requirements on the kinds of some units.
    fn ways<'u>(
        &self,
        actor: ActorIx,
        units: impl Iterator<Item = &'u UnitIx>,
    ) -> BTreeMap<KindIx, Implementation> {
        let kinds: BTreeSet<KindIx> = units.map(|unit| self.problem.unit_kind[*unit]).collect();
        let ways = &self.problem.implementations[actor];
        kinds.into_iter().filter_map(|kind| Some((kind, ways[kind].clone()?))).collect()
    }

    fn limits(&mut self, world: &Encoding) {
        let (problem, rooms) = (self.problem, world.rooms);
        let mut of_units = IxVec::of(false, problem.resources.len());
        let mut of_nodes = of_units.clone();
        for unit in problem.capacity.positions().filter(|unit| world.can_host(*unit)) {
            let symbol = self.units[unit].clone();
            if let Some(left) = rooms.slots[unit].and_then(|slots| slots.binding()) {
                self.fact("slots_left", &[&symbol, &left]);
            }
            for (resource, room) in rooms.units[unit].enumerate() {
                if let Some(left) = room.binding() {
                    of_units[resource] = true;
                    self.fact("unit_left", &[&symbol, &self.resource(resource), &left]);
                }
            }
        }
        let hosts = |node| problem.units_of_node[node].iter().any(|unit| world.can_host(*unit));
        for (node, limits) in rooms.nodes.enumerate().filter(|(node, _)| hosts(*node)) {
            for (resource, room) in limits.enumerate() {
                if let Some(left) = room.binding() {
                    of_nodes[resource] = true;
                    let node = string(&problem.nodes[node]);
                    self.fact("node_left", &[&node, &self.resource(resource), &left]);
                }
            }
        }
        for &actor in &problem.movable {
            self.needs(actor, world.homes(actor), &of_units, &of_nodes);
        }
    }

    /// The actor's requirements of scarce resources, by kind of its candidates.
    fn needs(
        &mut self,
        actor: ActorIx,
        homes: &[UnitIx],
        of_units: &IxVec<ResourceIx, bool>,
        of_nodes: &IxVec<ResourceIx, bool>,
    ) {
        let symbol = self.actors[actor].clone();
        for (kind, needs) in self.ways(actor, homes.iter()) {
            let lists =
                [("requires", &needs.requires, of_units), ("node_requires", &needs.node_requires, of_nodes)];
            for (name, list, short) in lists {
                for &(resource, quantity) in list.iter().filter(|(resource, _)| short[*resource]) {
                    let resource = self.resource(resource);
                    self.fact(name, &[&symbol, &self.kind(kind), &resource, &quantity]);
                }
            }
        }
    }

    /// Relations with at least one movable end; the other constraints are encoded in the candidates and in what units
    /// provide.
    fn relations(&mut self) {
        let problem = self.problem;
        for relation in &problem.relations {
            let members = &relation.actors;
            if members.len() < 2 || members.iter().all(|member| problem.fixed[*member]) {
                continue;
            }
            let name = if relation.apart { "apart_on" } else { "together_on" };
            self.fact(name, &[&relation.constraint, &relation.scope]);
            let number = i64::try_from(relation.constraint).expect("a count of constraints is small");
            for member in members {
                self.say("member", &[number.into(), (*member).into()]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
