//! A snapshot as facts: sorted text made of escaped symbols, and the way back from a model to an assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use placement::criteria::encoding::Term;
use placement::criteria::{Encoding, Facts, Finished};
use placement::ix::{ActorIx, IxVec, KindIx, ResourceIx, SetIx, UnitIx};
use placement::room::Rooms;
use placement::{Assignment, Cost, Criterion, Implementation, Snapshot, constraints};
use policy::string;

use crate::crowds::{Crowds, Part};
use crate::ruled;
use crate::symmetry::Symmetry;
use crate::writer::Writer;

/// Actors above which the order among identical units is not searched for: proofs are out of reach, and it costs an
/// atom for each actor and unit.
const MOST_RANKED: usize = 64;

/// A snapshot as a program sees it.
pub(crate) struct Encoded<'a> {
    snapshot: &'a Snapshot,
    /// Facts, one on a line, sorted.
    pub facts: String,
    /// Symbols of the actors that can be elsewhere, in the order of [`placement::Problem::movable`].
    pub actors: Vec<String>,
    /// Symbols of all units.
    pub units: Vec<String>,
    /// By component of the vector: what fixed actors cost among themselves, which the program leaves out.
    settled: Vec<i64>,
}

impl<'a> Encoded<'a> {
    /// Writes the facts of a snapshot whose numbers fit, with an assignment to start from.
    pub fn new(snapshot: &'a Snapshot, start: &Assignment) -> Self {
        let write = |writer: &mut Writer, world: &Encoding| {
            let symmetry = Symmetry::new(snapshot, world.rooms);
            let spare = symmetry.spare();
            writer.actors(|unit| !spare.contains(&unit));
            writer.symmetry(&symmetry);
            writer.start(&symmetry.ordered(start));
        };
        Self::written(snapshot, snapshot.objectives().levels(), &EVERY_TIE, None, write)
    }

    /// Writes the facts of a finished placement, with some of the levels and some of the ties, and who makes up crowds.
    pub fn judged(
        snapshot: &'a Snapshot,
        levels: &[Vec<Criterion>],
        finished: &Finished,
        ties: &Range<usize>,
        crowds: &Crowds,
    ) -> Self {
        let assignment = finished.assignment;
        Self::written(snapshot, levels, ties, Some(finished), |writer, world| {
            writer.judged(world, assignment);
            writer.counted(crowds);
            let mut say = |name, terms: &[Term]| writer.say(name, terms);
            let mut facts = Facts::new(&mut say);
            for criterion in levels.iter().flatten() {
                criterion.measure().witness(world, assignment, &mut facts);
            }
        })
    }

    /// The facts by which a finished placement costs what some of its ties and channels do, and nothing else: who has to do
    /// with these stays where it is, and whether it may be there is asked with the rest.
    pub fn of_part(
        snapshot: &Snapshot,
        levels: &[Vec<Criterion>],
        assignment: &Assignment,
        part: &Part,
        crowds: &Crowds,
    ) -> String {
        let rooms = Rooms::new(snapshot.problem());
        let world = Encoding::new(snapshot, &rooms);
        let mut writer = Writer::new(snapshot);
        let mut ends = BTreeSet::new();
        let criteria = levels.iter().flatten().filter(|criterion| adds_ties(**criterion));
        say_criteria(&world, criteria, &part.ties, &mut |name, terms: &[Term]| {
            for term in terms {
                if let Term::Actor(actor) = term {
                    ends.insert(*actor);
                }
            }
            writer.say(name, terms);
        });
        let mut units = writer.rows(crowds, &part.rows);
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
        ties: &Range<usize>,
        finished: Option<&Finished>,
        write: impl FnOnce(&mut Writer, &Encoding),
    ) -> Self {
        let rooms = Rooms::new(snapshot.problem());
        let world = Encoding::new(snapshot, &rooms).of(finished);
        let mut writer = Writer::new(snapshot);
        let (mut weighed, exchange_costs) =
            say_criteria(&world, levels.iter().flatten(), ties, &mut |name, terms: &[Term]| {
                writer.say(name, terms);
            });
        let mut say = |name, terms: &[Term]| writer.say(name, terms);
        let mut facts = Facts::new(&mut say);
        constraints::facts(&world, &mut facts);
        weighed.extend(facts.weighed);
        writer.levels(levels);
        // One there has to be: of several zones the fullest is one.
        writer.units(|unit| unit == UnitIx::new(0) || world.can_hold(unit));
        write(&mut writer, &world);
        if exchange_costs {
            writer.exchange_costs(|unit| world.can_hold(unit));
        }
        writer.work(&world, &weighed);
        writer.limits(&world);
        writer.relations();
        let settled = settled(&world);
        let (mut facts, Writer { problem, actors, units, .. }) = writer.sorted();
        facts.extend(snapshot.rules().map(|rules| {
            let placed = finished.map(|finished| finished.assignment);
            ruled::text(snapshot, rules, placed, &actors, &units)
        }));
        let actors = problem.movable.iter().map(|&actor| actors[actor].clone()).collect();
        Self { snapshot, facts, actors, units: units.raw().to_vec(), settled }
    }

    /// The assignment that a model stands for: by position in `actors`, the position of a unit.
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

    /// The vector that the program's sums stand for: without the point on each level, with what is settled.
    pub fn vector(&self, sums: &[i64]) -> Vec<i64> {
        let settled = self.settled.iter().copied().chain(std::iter::repeat(0));
        sums.iter().zip(settled).map(|(sum, settled)| sum - 1 + settled).collect()
    }

    /// The sums of a model whose vector this is: the way back from [`Encoded::vector`].
    pub fn sums(&self, vector: &[i64]) -> Vec<i64> {
        let settled = self.settled.iter().copied().chain(std::iter::repeat(0));
        vector.iter().zip(settled).map(|(value, settled)| value + 1 - settled).collect()
    }
}

/// All ties.
pub(crate) const EVERY_TIE: Range<usize> = 0..usize::MAX;

/// Whether a criterion is a sum over ties, so that parts of them can be added up.
fn adds_ties(criterion: Criterion) -> bool {
    matches!(criterion, Criterion::Communication | Criterion::Annoyance | Criterion::Interference)
}

/// Says what criteria speak of, of those that are sums over ties only some ties in their order: which units are weighed, and
/// whether exchange costs are asked for.
fn say_criteria<'c>(
    world: &Encoding,
    criteria: impl Iterator<Item = &'c Criterion>,
    ties: &Range<usize>,
    told: &mut dyn FnMut(&'static str, &[Term]),
) -> (BTreeSet<UnitIx>, bool) {
    let (mut weighed, mut exchange_costs, mut said) = (BTreeSet::new(), false, 0);
    for &criterion in criteria {
        let mut say = |name: &'static str, terms: &[Term]| {
            let is_tie = adds_ties(criterion);
            if !is_tie || ties.contains(&said) {
                told(name, terms);
            }
            said += usize::from(is_tie);
        };
        let mut facts = Facts::new(&mut say);
        criterion.measure().facts(world, &mut facts);
        exchange_costs |= facts.exchange_costs;
        weighed.append(&mut facts.weighed);
    }
    (weighed, exchange_costs)
}

/// How many ties the criteria of a world add up.
pub(crate) fn ties(world: &Encoding) -> usize {
    let mut count = 0;
    let mut say = |_, _: &[Term]| count += 1;
    let mut facts = Facts::new(&mut say);
    for criterion in
        world.snapshot.objectives().levels().iter().flatten().filter(|criterion| adds_ties(**criterion))
    {
        criterion.measure().facts(world, &mut facts);
    }
    count
}

/// The exact vector of an assignment, the penalties of `prefer` included.
pub fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}

/// Fixed actors where they are, nobody else anywhere.
fn alone(snapshot: &Snapshot) -> Assignment {
    let problem = snapshot.problem();
    problem.current.positions().map(|actor| problem.fixed_at(actor)).collect()
}

/// What of each level the program leaves out: it is so whoever comes.
fn settled(world: &Encoding) -> Vec<i64> {
    let snapshot = world.snapshot;
    let alone = alone(snapshot);
    // What the policy's rules cost, the program says itself.
    let of_rules = snapshot.rules().map_or(0, |rules| rules.penalty(&alone));
    let policy = snapshot.penalty(&alone) - of_rules;
    let cost = Cost { policy, unplaced: 0, ..snapshot.cost(&alone) };
    let named = snapshot.objectives().levels().iter().flatten();
    let settle = |cost: Cost, criterion: &Criterion| {
        let settled = criterion.measure().settled(world, cost.of(*criterion));
        cost.with(*criterion, settled)
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

    /// Who can be elsewhere, and where of the units that count.
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

    /// What messages cost between kinds and places, and what is added between two units of those that count.
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

    /// What actors ask of units whose load counts, by kind.
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

    /// What the actor needs on the kinds of some units.
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

    /// What an actor needs of the resources that are short somewhere, by kind of where it can be.
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

    /// Relations with at least one end that can be elsewhere; the rest of the constraints is in the candidates and in what
    /// units provide.
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
mod tests {
    use ::search::Greedy;
    use placement::{Budget, Strategy};
    use proptest::prelude::*;

    use super::*;
    use crate::engine;

    /// A bit of everything, with names to be given.
    fn world(name: impl Fn(&str) -> String) -> Snapshot {
        let json = serde_json::json!({
            "version": 1,
            "nodes": [{"id": name("n"), "provides": {"cpu": 5}}],
            "units": [
                {"id": name("u"), "kind": "cpu", "node": name("n"), "zone": name("z"), "capacity": 3, "slots": 2},
                {"id": name("v"), "kind": "gpu", "node": name("n"), "numa": name("0"), "capacity": 9},
                {"id": name("w"), "kind": "gpu", "node": name("m"), "capacity": 9, "provides": {(name("mem")): 4}}
            ],
            "actors": [
                {"id": name("a"), "runsOn": {"cpu": 2, "gpu": 1}, "current": name("v"), "moveCost": 7},
                {"id": name("b"), "runsOn": {"cpu": {"work": 2, "nodeRequires": {"cpu": 3}}, "gpu": 1}},
                {"id": name("c"), "runsOn": {"cpu": 1}, "fixed": true, "current": name("u")},
                {"id": name("d"), "runsOn": {"cpu": 1}, "fixed": true, "current": name("u")}
            ],
            "messages": [
                {"from": name("a"), "to": name("b"), "count": 2}, {"from": name("b"), "to": name("a"), "count": 3},
                {"from": name("a"), "to": name("a"), "count": 9}, {"from": name("c"), "to": name("b"), "count": 1},
                {"from": name("c"), "to": name("d"), "count": 5}
            ],
            "annoyance": [{"a": name("b"), "b": name("a"), "drag": 4}],
            "exchangeCost": {"kinds": {"cpu": {"gpu": 5}}, "otherKind": 20, "otherNode": 30,
                             "pairs": [{"a": name("v"), "b": name("w"), "cost": 11}]},
            "constraints": [{"type": "apart", "on": "unit", "actors": [name("b"), name("c")]},
                            {"type": "prefer", "actor": name("a"), "unit": name("w"), "weight": 2}]
        });
        Snapshot::read(&json.to_string()).unwrap()
    }

    fn facts(snapshot: &Snapshot) -> String {
        Encoded::new(snapshot, &snapshot.incumbent()).facts
    }

    #[test]
    fn facts_are_sorted_and_leave_out_what_cannot_matter() {
        let snapshot = world(str::to_owned);
        // Both directions are summed, messages to oneself are gone; `d` has no ties to who can move.
        insta::assert_snapshot!(facts(&snapshot));
        assert_eq!(facts(&snapshot), facts(&snapshot.clone()));
    }

    #[test]
    fn what_is_settled_is_added_again() {
        let mut file = world(str::to_owned).file().clone();
        file.actors[3].current = Some("w".into());
        file.actors[3].runs_on = file.actors[0].runs_on.clone();
        let snapshot = Snapshot::new(file).unwrap();
        // c on u and d on w: 5 messages at 5 for the kinds and 30 for the nodes.
        assert_eq!(
            Encoded::new(&snapshot, &snapshot.incumbent()).vector(&[1, 1, 1, 1, 1]),
            [0, 0, 175, 0, 0]
        );
    }

    proptest! {
        /// Whatever a name holds, each fact stays one fact, and the optimum what it is with plain names.
        #[test]
        fn names_are_never_program_text(odd in r#"[a"\\\n\r().,%:\-|&{} ]{0,9}"#) {
            let plain = world(str::to_owned);
            let hostile = world(|name| format!("{odd}{name}{odd}"));
            let text = facts(&hostile);
            for fact in text.lines() {
                let term = fact.strip_suffix('.').unwrap();
                prop_assert!(clingo::parse_term(term).is_ok(), "{fact}");
            }
            prop_assert_eq!(text.lines().count(), facts(&plain).lines().count());
            let best = |facts: &str| engine::optimum(facts).unwrap().unwrap().vector;
            prop_assert_eq!(best(&text), best(&facts(&plain)));
        }

        /// From an assignment to what a model says of it, and back.
        #[test]
        fn an_answer_is_read_back(seed: u64) {
            let snapshot = world(str::to_owned);
            let answer = Greedy.solve(&snapshot, &Budget::effort(None, seed)).unwrap().assignment;
            let encoded = Encoded::new(&snapshot, &answer);
            let movable = snapshot.problem().movable.iter();
            let places: Vec<Option<usize>> = movable.map(|actor| answer[*actor].map(UnitIx::at)).collect();
            prop_assert_eq!(encoded.assignment(&places), Some(answer));
            prop_assert_eq!(encoded.assignment(&[Some(9), None]), None);
            prop_assert_eq!(encoded.assignment(&[None]), None);
        }
    }
}
