//! The checker: the violations of an assignment, whichever strategy proposed it.
//!
//! It reads the file with its own code, independent of the [`Problem`](crate::Problem) that strategies use, and so detects errors
//! in their incremental state. Rules bind placed actors only, and `fixed` actors cause no violation among themselves:
//! at least one movable actor must take part.

use crate::checker::checked::{Checked, Rule, Violation};
use crate::{Assignment, Snapshot, constraints};

impl Snapshot {
    /// All violations of the assignment; empty if it is feasible.
    pub fn violations(&self, assignment: &Assignment) -> Vec<Violation> {
        self.violations_after(&self.checker_index().running, assignment)
    }

    /// The same, with limits of the file grandfathered for the placements `before`, a part of the file's current placement.
    pub fn violations_after(&self, before: &Assignment, assignment: &Assignment) -> Vec<Violation> {
        if let Some(problem) = self.malformed(assignment) {
            return vec![Violation { rule: Rule::Malformed, says: problem }];
        }
        let (file, index, suspended) = (self.file(), self.checker_index(), self.inherited());
        let checked = Checked {
            file,
            index,
            assignment,
            now: before,
            suspended,
            ruled: &self.problem.suspended_limits,
        };
        let mut found = constraints::check(&checked);
        // Limits of the file in the rules have been checked by the file.
        let of_policy =
            self.rules().map(|rules| rules.broken(assignment, suspended.is_some())).unwrap_or_default();
        found.extend(of_policy.into_iter().map(|says| Violation { rule: Rule::Policy, says }));
        found
    }

    fn malformed(&self, assignment: &Assignment) -> Option<String> {
        if assignment.len() != self.actors() {
            return Some(format!("{} places for {} actors", assignment.len(), self.actors()));
        }
        let unknown = assignment.iter().flatten().find(|unit| unit.at() >= self.units())?;
        Some(format!("there is no unit at position {}", unknown.at()))
    }

    /// A constraint as a sentence: its own reason, otherwise what it demands.
    pub fn says(&self, constraint: usize) -> String {
        constraints::says(self.file(), constraint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::evaluation::state::State;
    use crate::file::format::Scope;
    use crate::ix::{ActorIx, IxVec, UnitIx};

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
        let digit = |number: usize, actor: ActorIx| number / choices.pow(actor.raw()) % choices;
        let place = |number, actor| {
            let home = snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
            home.or_else(|| digit(number, actor).checked_sub(1).map(UnitIx::new))
        };
        all.map(|number| ActorIx::first(snapshot.actors()).map(|actor| place(number, actor)).collect())
            .collect()
    }

    /// Whether the incremental state admits the placements one after the other.
    fn is_admitted(snapshot: &Snapshot, assignment: &Assignment) -> bool {
        let mut state = State::new(snapshot);
        let mut placed = assignment.enumerate().filter_map(|(actor, place)| Some((actor, (*place)?)));
        placed.all(|(actor, unit)| {
            let admits = state.place(actor) == Some(unit) || state.admits(actor, unit);
            if admits && state.place(actor).is_none() {
                state.put(actor, unit);
            }
            admits
        })
    }

    /// The checker finds what a search with a corrupted incremental state would miss.
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
