//! The checker: what an assignment breaks, whoever proposed it.
//!
//! It reads the file, by code of its own, and shares nothing with the [`Problem`](crate::Problem) that strategies read:
//! what their bookkeeping gets wrong is found here. Rules bind placed actors only, and nothing is held against actors
//! that are `fixed`: at least one that is not must take part.

use std::collections::BTreeMap;
use std::fmt;

use crate::file::{CapScope, Constraint, Scope, SnapshotFile};
use crate::reading::{Reading, number};
use crate::{Assignment, Snapshot};

/// One thing that an assignment breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What kind of rule it is.
    pub rule: Rule,
    /// What is wrong, in plain words.
    pub says: String,
}

/// The kinds of rules that an assignment can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Rule {
    /// The assignment is not about this snapshot.
    Malformed,
    /// The actor has no implementation for the unit's kind.
    Kind,
    /// A fixed actor is not where it stays.
    Fixed,
    /// More actors than slots.
    Slots,
    /// A unit or node gives more of a resource than it has left.
    Resource,
    /// A place draws more power than a cap allows.
    Power,
    /// A constraint of the snapshot.
    Constraint,
    /// A rule of the policy.
    Policy,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// How much is wanted of each resource at one place, and whether anybody who is not fixed wants some.
type Wanted<'a> = BTreeMap<&'a str, (i64, bool)>;

/// One check of one assignment.
struct Check<'a> {
    snapshot: &'a Snapshot,
    file: &'a SnapshotFile,
    reading: &'a Reading,
    assignment: &'a Assignment,
    found: Vec<Violation>,
}

impl Snapshot {
    /// Everything that the assignment breaks; empty when it is feasible.
    pub fn violations(&self, assignment: &Assignment) -> Vec<Violation> {
        if let Some(problem) = self.malformed(assignment) {
            return vec![Violation { rule: Rule::Malformed, says: problem }];
        }
        let (file, reading) = (self.file(), self.reading());
        let mut check = Check { snapshot: self, file, reading, assignment, found: Vec::new() };
        check.actors();
        check.units();
        check.nodes();
        check.relations();
        check.power();
        let mut found = check.found;
        let of_policy = self.rules().map(|rules| rules.violations(assignment)).unwrap_or_default();
        found.extend(of_policy.into_iter().map(|says| Violation { rule: Rule::Policy, says }));
        found
    }

    fn malformed(&self, assignment: &Assignment) -> Option<String> {
        if assignment.len() != self.actors() {
            return Some(format!("{} places for {} actors", assignment.len(), self.actors()));
        }
        let unknown = assignment.iter().flatten().find(|unit| **unit >= self.units())?;
        Some(format!("there is no unit at position {unknown}"))
    }
}

impl<'a> Check<'a> {
    fn breaks(&mut self, rule: Rule, says: String) {
        self.found.push(Violation { rule, says });
    }

    /// Who is placed where, by position of the actor.
    fn placed(&self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        self.assignment.iter().enumerate().filter_map(|(actor, place)| Some((actor, (*place)?)))
    }

    fn is_fixed(&self, actor: usize) -> bool {
        self.file.actors[actor].fixed
    }

    fn actors(&mut self) {
        let file = self.file;
        for (actor, place) in self.assignment.iter().enumerate() {
            let (given, home) = (&file.actors[actor], self.reading.home[actor]);
            if given.fixed {
                if let Some(home) = home.filter(|home| Some(*home) != *place) {
                    let (id, home) = (&given.id, &file.units[home].id);
                    self.breaks(
                        Rule::Fixed,
                        format!("{id} belongs to another application and stays on {home}"),
                    );
                }
                continue;
            }
            let Some(at) = *place else { continue };
            let unit = &file.units[at];
            if !given.runs_on.contains_key(&unit.kind) {
                let says =
                    format!("{} cannot run on {}: no implementation for {}", given.id, unit.id, unit.kind);
                self.breaks(Rule::Kind, says);
            }
            for &position in &self.reading.about[actor] {
                let is_named = self.reading.named[&position].contains(&at);
                let obeys = match &file.constraints[position] {
                    Constraint::Never { except_current, .. } => {
                        !is_named || (*except_current && home == Some(at))
                    }
                    _ => is_named,
                };
                if !obeys {
                    let says = format!("{} not on {}: {}", given.id, unit.id, self.snapshot.says(position));
                    self.breaks(Rule::Constraint, says);
                }
            }
        }
    }

    fn units(&mut self) {
        let file = self.file;
        let mut hosted = vec![(0u64, false); file.units.len()];
        let mut wanted: Vec<Wanted> = vec![BTreeMap::new(); file.units.len()];
        for (actor, unit) in self.placed() {
            let (given, is_free) = (&file.actors[actor], !self.is_fixed(actor));
            hosted[unit] = (hosted[unit].0 + 1, hosted[unit].1 | is_free);
            if let Some(way) = given.runs_on.get(&file.units[unit].kind) {
                want(&mut wanted[unit], &given.requires, is_free);
                want(&mut wanted[unit], &way.requires, is_free);
            }
        }
        for (unit, (given, (count, takes_part))) in file.units.iter().zip(hosted).enumerate() {
            if let Some(slots) = given.slots.filter(|slots| takes_part && count > *slots) {
                self.breaks(Rule::Slots, format!("{} hosts {count} actors and has {slots} slots", given.id));
            }
            let reserved = self.reading.reserved.get(&unit);
            let left = |resource: &str| {
                let provided = given.provides.get(resource).map_or(0, |quantity| number(*quantity));
                provided - reserved.and_then(|all| all.get(resource)).copied().unwrap_or(0)
            };
            self.resources(&given.id, &wanted[unit], left);
        }
    }

    fn nodes(&mut self) {
        let file = self.file;
        let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
        for (actor, unit) in self.placed() {
            let unit = &file.units[unit];
            if let Some(way) = file.actors[actor].runs_on.get(&unit.kind) {
                want(wanted.entry(&unit.node).or_default(), &way.node_requires, !self.is_fixed(actor));
            }
        }
        for (node, wanted) in &wanted {
            let provides = self.reading.listed.get(*node).map(|position| &file.nodes[*position].provides);
            let left = |resource: &str| {
                provides.and_then(|provides| provides.get(resource)).map_or(0, |quantity| number(*quantity))
            };
            self.resources(node, wanted, left);
        }
    }

    /// What only fixed actors want is not held against anybody.
    fn resources(&mut self, place: &str, wanted: &Wanted, left: impl Fn(&str) -> i64) {
        for (resource, (sum, takes_part)) in wanted {
            let left = left(resource);
            if *takes_part && *sum > left {
                self.breaks(Rule::Resource, format!("{place}: {sum} of {resource} wanted, {left} left"));
            }
        }
    }

    /// Whether two units are at one place.
    fn is_same_place(&self, scope: Scope, a: usize, b: usize) -> bool {
        let (one, other) = (&self.file.units[a], &self.file.units[b]);
        a == b
            || match scope {
                Scope::Unit => false,
                Scope::Numa => one.numa.is_some() && one.numa == other.numa && one.node == other.node,
                Scope::Node => one.node == other.node,
                Scope::Zone => one.zone.is_some() && one.zone == other.zone,
            }
    }

    fn relations(&mut self) {
        for (&position, actors) in &self.reading.related {
            let (apart, scope) = match &self.file.constraints[position] {
                Constraint::Apart { on, .. } => (true, *on),
                Constraint::Together { on, .. } => (false, *on),
                _ => continue,
            };
            let placed: Vec<(usize, usize)> =
                actors.iter().filter_map(|&actor| Some((actor, self.assignment[actor]?))).collect();
            let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
                let clash = |&&(b, at_b): &&(usize, usize)| {
                    self.is_same_place(scope, at_a, at_b) == apart && !(self.is_fixed(a) && self.is_fixed(b))
                };
                placed[i + 1..].iter().find(clash).map(|&(b, _)| (a, b))
            });
            if let Some((a, b)) = broken {
                let (a, b) = (&self.file.actors[a].id, &self.file.actors[b].id);
                let says = format!("{a}, {b}: {}", self.snapshot.says(position));
                self.found.push(Violation { rule: Rule::Constraint, says });
            }
        }
    }

    /// By unit: watts, with all who are placed, or with the fixed ones alone.
    fn watts(&self, all: bool) -> Vec<i64> {
        let mut load = vec![(0i128, false); self.file.units.len()];
        for (actor, given) in self.file.actors.iter().enumerate() {
            let place = if all { self.assignment[actor] } else { self.reading.home[actor] };
            if let Some(unit) = place.filter(|_| all || given.fixed) {
                let way = given.runs_on.get(&self.file.units[unit].kind);
                load[unit] = (load[unit].0 + way.map_or(0, |way| i128::from(way.work)), true);
            }
        }
        let draws = self.file.units.iter().zip(load).map(|(unit, (load, in_use))| {
            let idle = if in_use { unit.idle_watts.unwrap_or(0) } else { 0 };
            let full = i128::from(unit.power_watts.unwrap_or(0));
            let share = (load * full + i128::from(unit.capacity) - 1) / i128::from(unit.capacity);
            i64::try_from(share).expect("worlds whose watts could pass 2^53 are refused on input")
                + number(idle)
        });
        draws.collect()
    }

    /// What fixed actors draw by themselves, beyond a cap or not, may be drawn.
    fn power(&mut self) {
        let caps = self.file.constraints.iter().enumerate();
        let caps: Vec<(usize, CapScope, i64)> = caps
            .filter_map(|(position, constraint)| match constraint {
                Constraint::PowerCap { on, max, .. } => Some((position, *on, number(*max))),
                _ => None,
            })
            .collect();
        if caps.is_empty() {
            return;
        }
        let (all, fixed) = (self.watts(true), self.watts(false));
        for (position, on, max) in caps {
            // In the order in which units name the places.
            let mut drawn: Vec<(&str, bool, i64, i64)> = Vec::new();
            for (unit, given) in self.file.units.iter().enumerate() {
                let (name, is_named) = match on {
                    CapScope::All => ("all units", true),
                    CapScope::Node => (given.node.as_str(), true),
                    CapScope::Zone => (given.zone.as_deref().unwrap_or(&given.id), given.zone.is_some()),
                };
                match drawn.iter_mut().find(|(known, named, ..)| (*known, *named) == (name, is_named)) {
                    Some(place) => (place.2, place.3) = (place.2 + all[unit], place.3 + fixed[unit]),
                    None => drawn.push((name, is_named, all[unit], fixed[unit])),
                }
            }
            for (place, _, drawn, fixed) in drawn {
                let limit = max.max(fixed);
                if drawn > limit {
                    let says = format!(
                        "{place}: {drawn} W drawn, {limit} W allowed: {}",
                        self.snapshot.says(position)
                    );
                    self.breaks(Rule::Power, says);
                }
            }
        }
    }
}

/// Adds what somebody wants.
fn want<'a>(wanted: &mut Wanted<'a>, of: &'a BTreeMap<String, u64>, is_free: bool) {
    for (resource, quantity) in of.iter().filter(|(_, quantity)| **quantity > 0) {
        let entry = wanted.entry(resource).or_default();
        *entry = (entry.0 + number(*quantity), entry.1 | is_free);
    }
}

impl Snapshot {
    /// A constraint in plain words: its own reason, else what it demands.
    pub fn says(&self, constraint: usize) -> String {
        let scope = |scope: &Scope| match scope {
            Scope::Numa => "NUMA domain".to_owned(),
            other => other.to_string(),
        };
        let (reason, demands) = match &self.file().constraints[constraint] {
            Constraint::Apart { on, reason, .. } => (reason, format!("each on a {} of its own", scope(on))),
            Constraint::Together { on, reason, .. } => (reason, format!("all on one {}", scope(on))),
            Constraint::Pin { unit, reason, .. } => (reason, format!("pinned to {unit}")),
            Constraint::Only { reason, .. } => {
                (reason, format!("kept to other places by constraints[{constraint}]"))
            }
            Constraint::Never { reason, .. } => (reason, format!("kept away by constraints[{constraint}]")),
            Constraint::Prefer { unit, .. } => (&None, format!("prefers {unit}")),
            Constraint::Reserve { unit, resource, .. } => {
                (&None, format!("{resource} of {unit} is reserved"))
            }
            Constraint::PowerCap { on: CapScope::All, max, reason } => {
                (reason, format!("at most {max} W in all"))
            }
            Constraint::PowerCap { on, max, reason } => (reason, format!("at most {max} W on each {on}")),
        };
        reason.clone().unwrap_or(demands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::ix::{ActorIx, IxVec, UnitIx};
    use crate::state::State;

    const WORLD: &str = r#"{"version":1,"name":"a world in which every kind of rule can be broken",
        "nodes":[{"id":"m","provides":{"licence":1}},{"id":"n","provides":{"licence":1}}],
        "units":[
            {"id":"u","kind":"cpu","node":"m","zone":"east","capacity":9,"slots":2,"provides":{"memory":4},"powerWatts":90},
            {"id":"v","kind":"gpu","node":"m","zone":"east","capacity":9,"provides":{"memory":4},"powerWatts":90},
            {"id":"w","kind":"cpu","node":"n","zone":"west","capacity":9,"provides":{"memory":4},"powerWatts":90}],
        "actors":[
            {"id":"a","runsOn":{"cpu":{"work":3,"nodeRequires":{"licence":1}}},"requires":{"memory":2}},
            {"id":"b","runsOn":{"cpu":3,"gpu":3},"requires":{"memory":3}},
            {"id":"c","runsOn":{"cpu":{"work":3,"nodeRequires":{"licence":1}},"gpu":3}},
            {"id":"d","runsOn":{"cpu":3,"gpu":3}},
            {"id":"e","runsOn":{"cpu":1},"fixed":true,"current":"w"},
            {"id":"f","runsOn":{"cpu":1,"gpu":1}}],
        "exchangeCost":{"otherKind":1},
        "constraints":[
            {"type":"apart","on":"node","actors":["c","f"]},
            {"type":"together","on":"zone","actors":["a","c"]},
            {"type":"pin","actor":"d","unit":"w"},
            {"type":"only","actors":["c"],"units":["u","v"]},
            {"type":"never","actors":["b"],"zones":["west"]},
            {"type":"reserve","unit":"u","resource":"memory","quantity":1},
            {"type":"powerCap","on":"node","max":80}],
        "objectives":["overload"]}"#;

    fn everywhere(snapshot: &Snapshot) -> Vec<Assignment> {
        let choices = snapshot.units() + 1;
        let all = 0..choices.pow(u32::try_from(snapshot.actors()).unwrap_or(u32::MAX));
        let digit =
            |number: usize, actor: usize| number / choices.pow(u32::try_from(actor).unwrap_or(0)) % choices;
        let place = |number, actor| {
            let home = snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
            home.or_else(|| digit(number, actor).checked_sub(1))
        };
        all.map(|number| (0..snapshot.actors()).map(|actor| place(number, actor)).collect()).collect()
    }

    /// Whether the bookkeeping that strategies share lets everybody be there, one after the other.
    fn is_admitted(snapshot: &Snapshot, assignment: &Assignment) -> bool {
        let mut state = State::new(snapshot);
        let placed = ActorIx::first(snapshot.actors()).zip(assignment);
        let mut placed = placed.filter_map(|(actor, place)| Some((actor, UnitIx::new((*place)?))));
        placed.all(|(actor, unit)| {
            let admits = state.place(actor) == Some(unit) || state.admits(actor, unit);
            if admits && state.place(actor).is_none() {
                state.put(actor, unit);
            }
            admits
        })
    }

    /// What a search would overlook if its bookkeeping were wrong in one way, the checker finds all the same.
    #[test]
    fn what_the_bookkeeping_of_searches_hides_is_found() {
        type Mutation = (&'static str, fn(&mut Problem));
        let whole = Snapshot::read(WORLD).expect("the world is sound");
        let none_is_hidden = |_: &mut Problem| {};
        let mutations: [Mutation; 9] = [
            ("rules of single actors", |p| p.rules_of.iter_mut().for_each(Vec::clear)),
            ("one rule", |p| {
                p.rules.iter_mut().take(1).for_each(|rule| rule.allows.iter_mut().for_each(|a| *a = true));
            }),
            ("relations", |p| p.relations_of.iter_mut().for_each(Vec::clear)),
            ("the scope of relations", |p| {
                p.relations.iter_mut().for_each(|given| given.scope = Scope::Unit);
            }),
            ("caps", |p| p.caps.clear()),
            ("what is reserved", |p| p.unit_provides.iter_mut().flatten().for_each(|left| *left += 2)),
            ("nodes' resources", |p| p.node_provides.iter_mut().flatten().for_each(|left| *left += 9)),
            ("kinds", |p| {
                p.unit_kind = IxVec::of(p.unit_kind[UnitIx::new(0)], p.unit_kind.len());
            }),
            ("needs", |p| {
                for way in p.implementations.iter_mut().flatten().flatten() {
                    way.requires.clear();
                }
            }),
        ];
        let assignments: Vec<Assignment> = everywhere(&whole);
        let truth: Vec<Vec<Violation>> = assignments.iter().map(|places| whole.violations(places)).collect();
        assert!(truth.iter().any(Vec::is_empty) && truth.iter().any(|found| found.len() > 3));
        let hidden = |mutate: &dyn Fn(&mut Problem)| {
            let mut mutant = whole.clone();
            mutate(&mut mutant.problem);
            let judged = assignments.iter().zip(&truth);
            let overlooked = judged.filter(|(places, truth)| {
                assert_eq!(mutant.violations(places), **truth, "{places:?}");
                !truth.is_empty() && is_admitted(&mutant, places)
            });
            overlooked.count()
        };
        assert_eq!(hidden(&none_is_hidden), 0, "a sound bookkeeping overlooks nothing");
        for (name, mutate) in mutations {
            assert!(hidden(&mutate) > 0, "{name}: the mutation hides nothing, so the test shows nothing");
        }
    }
}
