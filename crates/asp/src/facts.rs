//! A snapshot as facts: sorted text made of escaped symbols, and the way back from a model to an assignment.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Scope};
use placement::{Assignment, Cost, Criterion, Snapshot};
use policy::{actor, string};

use crate::criteria::Extras;
use crate::room::{Room, Rooms};
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
    /// Actors that can be elsewhere, by position in the snapshot.
    movable: Vec<usize>,
    /// Symbols of `movable`.
    pub actors: Vec<String>,
    /// Symbols of all units.
    pub units: Vec<String>,
    /// By component of the vector: what fixed actors cost among themselves, which the program leaves out.
    settled: Vec<i64>,
}

impl<'a> Encoded<'a> {
    /// Writes the facts of a snapshot whose numbers fit, with an assignment to start from.
    pub fn new(snapshot: &'a Snapshot, start: &Assignment) -> Self {
        let movable: Vec<usize> = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
        let rooms = Rooms::new(snapshot);
        let extras = Extras::new(snapshot, &rooms);
        // A policy's rules can tell any unit from any other.
        let symmetry = if snapshot.rules().is_some() {
            Symmetry::none()
        } else {
            Symmetry::new(snapshot, &rooms, &movable)
        };
        let mut writer = Writer {
            snapshot,
            actors: (0..snapshot.actors()).map(|position| actor(snapshot.actor_id(position))).collect(),
            units: (0..snapshot.units()).map(|position| string(snapshot.unit_id(position))).collect(),
            lines: Vec::new(),
        };
        writer.levels();
        writer.units();
        writer.actors(&movable, &symmetry.spare());
        writer.symmetry(&movable, &symmetry);
        writer.start(&movable, &symmetry.ordered(start));
        writer.edges();
        writer.exchange_costs();
        writer.limits(&rooms, &extras);
        writer.extras(&extras, &rooms);
        writer.constraints();
        let settled = settled(snapshot, &extras);
        let Writer { actors, units, mut lines, .. } = writer;
        lines.sort_unstable();
        lines.dedup();
        lines.extend(snapshot.rules().map(|rules| ruled::text(snapshot, rules, &actors, &units)));
        let actors = movable.iter().map(|&position| actors[position].clone()).collect();
        Self { snapshot, facts: lines.concat(), movable, actors, units, settled }
    }

    /// The assignment that a model stands for: by position in `actors`, the position of a unit.
    pub fn assignment(&self, places: &[Option<usize>]) -> Option<Assignment> {
        let known = |place: &Option<usize>| place.is_none_or(|unit| unit < self.units.len());
        if places.len() != self.movable.len() || !places.iter().all(known) {
            return None;
        }
        let snapshot = self.snapshot;
        let home = |actor: usize| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
        let mut assignment: Assignment = (0..snapshot.actors()).map(home).collect();
        for (&actor, &place) in self.movable.iter().zip(places) {
            assignment[actor] = place;
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

/// The exact vector of an assignment, the penalties of `prefer` included.
pub fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}

/// What fixed actors cost among themselves: everything but overload, when nobody else is placed.
fn settled(snapshot: &Snapshot, extras: &Extras) -> Vec<i64> {
    let home = |actor: usize| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
    let alone: Assignment = (0..snapshot.actors()).map(home).collect();
    // What the policy's rules cost, the program says itself.
    let of_rules = snapshot.rules().map_or(0, |rules| rules.penalty(&alone));
    let policy = snapshot.penalty(&alone) - of_rules;
    let of = |criterion| extras.settled(snapshot, criterion);
    let cost = Cost {
        policy,
        unplaced: 0,
        overload: 0,
        migration: 0,
        bottleneck: 0,
        consolidate: of(Criterion::Consolidate),
        energy: of(Criterion::Energy),
        spread: of(Criterion::Spread),
        latency: 0,
        ..snapshot.cost(&alone)
    };
    cost.vector(snapshot)
}

impl Writer<'_> {
    fn levels(&mut self) {
        let levels = self.snapshot.objectives().levels().to_vec();
        self.fact("level", &[&"unplaced", &(levels.len() + 1)]);
        for (position, level) in levels.iter().enumerate() {
            for criterion in level {
                self.fact("level", &[criterion, &(levels.len() - position)]);
            }
        }
    }

    fn units(&mut self) {
        let snapshot = self.snapshot;
        for (position, unit) in snapshot.file().units.iter().enumerate() {
            let symbol = self.units[position].clone();
            self.fact("cu", &[&symbol]);
            self.fact("cu_kind", &[&symbol, &string(&unit.kind)]);
            self.fact("cu_node", &[&symbol, &string(&unit.node)]);
            if let Some(zone) = &unit.zone {
                self.fact("cu_zone", &[&symbol, &string(zone)]);
            }
            if let Some(numa) = &unit.numa {
                self.fact("cu_numa", &[&symbol, &string(numa)]);
            }
        }
    }

    fn actors(&mut self, movable: &[usize], spare: &BTreeSet<usize>) {
        let snapshot = self.snapshot;
        let mut sets = BTreeMap::new();
        for &actor in movable {
            let symbol = self.actors[actor].clone();
            let set = snapshot.candidate_set(actor);
            sets.entry(set).or_insert(actor);
            self.fact("actor", &[&symbol]);
            self.fact("of_set", &[&symbol, &set]);
            if let Some(unit) = snapshot.current(actor)
                && self.aims_at(Criterion::Migration)
            {
                self.fact("current", &[&symbol, &self.units[unit].clone()]);
                self.fact("move_cost", &[&symbol, &snapshot.move_cost(actor)]);
            }
        }
        for (set, actor) in sets {
            for unit in snapshot.candidates(actor).iter().filter(|unit| !spare.contains(unit)) {
                self.fact("candidate", &[&set, &self.units[*unit].clone()]);
            }
        }
    }

    fn symmetry(&mut self, movable: &[usize], symmetry: &Symmetry) {
        if movable.len() > MOST_RANKED {
            return;
        }
        let mut any = false;
        for (before, after) in symmetry.in_order() {
            self.fact("next", &[&self.units[before].clone(), &self.units[after].clone()]);
            any = true;
        }
        for (position, &actor) in movable.iter().enumerate().filter(|_| any) {
            self.fact("rank", &[&self.actors[actor].clone(), &(position + 1)]);
        }
    }

    fn start(&mut self, movable: &[usize], start: &Assignment) {
        for &actor in movable {
            let symbol = self.actors[actor].clone();
            match start[actor] {
                Some(unit) => self.fact("start", &[&symbol, &self.units[unit].clone()]),
                None => self.fact("start_nowhere", &[&symbol]),
            }
        }
    }

    /// Ties with at least one end that can be elsewhere; a fixed end is made known with them.
    fn edges(&mut self) {
        let snapshot = self.snapshot;
        for actor in 0..snapshot.actors() {
            for edge in snapshot.edges(actor).iter().filter(|edge| edge.peer.at() > actor) {
                if snapshot.is_fixed(actor) && snapshot.is_fixed(edge.peer.at()) {
                    continue;
                }
                let ties = [
                    (Criterion::Communication, "msg_exch_rate", edge.rate),
                    (Criterion::Annoyance, "mutual_annoyance", edge.annoyance),
                    (Criterion::Interference, "interferes", edge.interference),
                ];
                for (criterion, name, value) in ties {
                    if value > 0 && self.aims_at(criterion) {
                        self.resident(actor);
                        self.resident(edge.peer.at());
                        let (a, b) = (self.actors[actor].clone(), self.actors[edge.peer.at()].clone());
                        self.fact(name, &[&a, &b, &value]);
                    }
                }
            }
        }
    }

    fn exchange_costs(&mut self) {
        if !self.aims_at(Criterion::Communication) && !self.aims_at(Criterion::Latency) {
            return;
        }
        let snapshot = self.snapshot;
        let mut kinds: Vec<&str> = snapshot.file().units.iter().map(|unit| unit.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for a in &kinds {
            for b in &kinds {
                self.fact("kind_cost", &[&string(a), &string(b), &snapshot.kind_cost(a, b)]);
            }
        }
        let cost = &snapshot.file().exchange_cost;
        let added = [
            ("other_numa", cost.other_numa),
            ("other_node", cost.other_node),
            ("other_zone", cost.other_zone),
        ];
        for (name, value) in added.into_iter().filter(|(_, value)| *value > 0) {
            self.fact(name, &[&value]);
        }
        for pair in &cost.pairs {
            let unit = |id: &str| snapshot.unit(id).expect("the units of a checked file exist");
            let (a, b) = (unit(&pair.a), unit(&pair.b));
            let extra = snapshot.exchange_cost(a, b) - snapshot.class_cost(a, b);
            if extra != 0 {
                let (a, b) = (self.units[a].clone(), self.units[b].clone());
                self.fact("pair_extra", &[&a, &b, &extra]);
                self.fact("pair_extra", &[&b, &a, &extra]);
            }
        }
    }

    fn limits(&mut self, rooms: &Rooms, extras: &Extras) {
        let snapshot = self.snapshot;
        let mut weighed: BTreeSet<usize> = extras.full.iter().copied().collect();
        weighed.extend(extras.meters.iter().map(|(unit, _)| *unit));
        if self.aims_at(Criterion::Overload) {
            self.overload(rooms);
            weighed.extend((0..snapshot.units()).filter(|&unit| rooms.work[unit].binds()));
        }
        self.work(&weighed);
        let mut of_units = vec![false; snapshot.resources().len()];
        let mut of_nodes = of_units.clone();
        for unit in 0..snapshot.units() {
            let symbol = self.units[unit].clone();
            if let Some(slots) = rooms.slots[unit].filter(Room::binds) {
                self.fact("slots_left", &[&symbol, &slots.left]);
            }
            for (resource, room) in rooms.units[unit].iter().enumerate().filter(|(_, room)| room.binds()) {
                of_units[resource] = true;
                self.fact("unit_left", &[&symbol, &string(&snapshot.resources()[resource]), &room.left]);
            }
        }
        for (node, limits) in rooms.nodes.iter().enumerate() {
            let symbol = string(&snapshot.nodes()[node]);
            for (resource, room) in limits.iter().enumerate().filter(|(_, room)| room.binds()) {
                of_nodes[resource] = true;
                self.fact("node_left", &[&symbol, &string(&snapshot.resources()[resource]), &room.left]);
            }
        }
        for actor in (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)) {
            self.needs(actor, &of_units, &of_nodes);
        }
    }

    /// What an actor needs of the resources that are short somewhere, by kind of its candidates.
    fn needs(&mut self, actor: usize, of_units: &[bool], of_nodes: &[bool]) {
        let snapshot = self.snapshot;
        let symbol = self.actors[actor].clone();
        for (kind, unit) in kinds(snapshot, actor) {
            let Some(needs) = snapshot.implementation(actor, unit) else { continue };
            let lists =
                [("requires", &needs.requires, of_units), ("node_requires", &needs.node_requires, of_nodes)];
            for (name, list, short) in lists {
                for &(resource, quantity) in list.iter().filter(|(resource, _)| short[resource.at()]) {
                    let resource = string(&snapshot.resources()[resource.at()]);
                    self.fact(name, &[&symbol, &string(kind), &resource, &quantity]);
                }
            }
        }
    }

    fn overload(&mut self, rooms: &Rooms) {
        let snapshot = self.snapshot;
        let (most, least) = (rooms.most_overload(), rooms.least_overload());
        for unit in (0..snapshot.units()).filter(|&unit| rooms.work[unit].binds()) {
            self.fact("headroom", &[&self.units[unit].clone(), &rooms.work[unit].left]);
        }
        self.bits("most_bit", &[], most);
        self.bits("least_bit", &[], least);
    }

    /// What actors ask of units whose load counts, by kind.
    fn work(&mut self, weighed: &BTreeSet<usize>) {
        let snapshot = self.snapshot;
        for actor in (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)) {
            let mut kinds = BTreeMap::new();
            for &unit in snapshot.candidates(actor).iter().filter(|unit| weighed.contains(unit)) {
                kinds.insert(snapshot.file().units[unit].kind.as_str(), unit);
            }
            for (kind, unit) in kinds {
                let work = snapshot.implementation(actor, unit).map_or(0, |needs| needs.work);
                if work > 0 {
                    self.fact("work", &[&self.actors[actor].clone(), &string(kind), &work]);
                }
            }
        }
    }

    fn constraints(&mut self) {
        let snapshot = self.snapshot;
        let mut wishes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        let known = |id: &String| snapshot.actor(id).expect("the actors of a checked file exist");
        for (position, constraint) in snapshot.file().constraints.iter().enumerate() {
            match constraint {
                Constraint::Apart { on, actors, .. } => {
                    self.relation("apart_on", position, *on, actors.iter().map(known).collect());
                }
                Constraint::Together { on, actors, .. } => {
                    self.relation("together_on", position, *on, actors.iter().map(known).collect());
                }
                Constraint::Prefer { actor, unit, weight } if self.aims_at(Criterion::Policy) => {
                    let unit = snapshot.unit(unit).expect("the units of a checked file exist");
                    *wishes.entry((known(actor), unit)).or_default() += weight;
                }
                // The rest is in the candidates and in what units provide.
                _ => {}
            }
        }
        for ((actor, unit), weight) in wishes {
            if weight > 0 && !snapshot.is_fixed(actor) {
                let (actor, unit) = (self.actors[actor].clone(), self.units[unit].clone());
                self.fact("prefer", &[&actor, &unit, &weight]);
            }
        }
    }

    fn relation(&mut self, name: &str, position: usize, on: Scope, mut members: Vec<usize>) {
        members.sort_unstable();
        members.dedup();
        if members.len() < 2 || members.iter().all(|&member| self.snapshot.is_fixed(member)) {
            return;
        }
        self.fact(name, &[&position, &on]);
        for member in members {
            self.resident(member);
            self.fact("member", &[&position, &self.actors[member].clone()]);
        }
    }
}

/// The kinds of an actor's candidates, each with one of them.
fn kinds(snapshot: &Snapshot, actor: usize) -> BTreeMap<&str, usize> {
    let kind = |&unit: &usize| (snapshot.file().units[unit].kind.as_str(), unit);
    snapshot.candidates(actor).iter().map(kind).collect()
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
            let places: Vec<Option<usize>> = encoded.movable.iter().map(|&actor| answer[actor]).collect();
            prop_assert_eq!(encoded.assignment(&places), Some(answer));
            prop_assert_eq!(encoded.assignment(&[Some(9), None]), None);
            prop_assert_eq!(encoded.assignment(&[None]), None);
        }
    }
}
