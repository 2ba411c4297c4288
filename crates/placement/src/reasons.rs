//! Why an actor moves, and what keeps one out, in plain words.

use std::collections::BTreeMap;

use crate::state::State;
use crate::{Assignment, Cost, Objectives, Snapshot};

impl Snapshot {
    /// What keeps an actor out that has no place: one line per cause, with how many units it concerns.
    pub fn why_unplaced(&self, actor: usize, assignment: &Assignment) -> Vec<String> {
        self.why_without(actor, &State::of(self, assignment))
    }

    pub(crate) fn why_without(&self, actor: usize, state: &State) -> Vec<String> {
        let kinds: Vec<&str> = self.file().actors[actor].runs_on.keys().map(String::as_str).collect();
        let mut lines: Vec<String> = kinds
            .iter()
            .filter(|kind| !self.file().units.iter().any(|unit| unit.kind == **kind))
            .map(|kind| format!("there is no unit of kind {kind}"))
            .collect();
        if kinds.is_empty() {
            lines.push("it has no implementation".to_owned());
        }
        let mut causes: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
        for unit in 0..self.units() {
            let given = &self.file().units[unit];
            if self.implementation(actor, unit).is_some() {
                let cause = self.obstacle(actor, unit, state);
                causes.entry((&given.kind, cause)).or_default().push(&given.id);
            }
        }
        lines.extend(causes.into_iter().map(|((kind, cause), units)| match units.as_slice() {
            [unit] => format!("{unit}: {cause}"),
            many => format!("{} units of kind {kind}: {cause}", many.len()),
        }));
        lines
    }

    /// The first thing that keeps the actor off a unit of a kind that it can run on.
    fn obstacle(&self, actor: usize, unit: usize, state: &State) -> String {
        let index = &self.index;
        let broken = index.rules_of[actor].iter().map(|&rule| &index.rules[rule]);
        if let Some(rule) = broken.into_iter().find(|rule| !index.obeys(actor, unit, rule)) {
            return self.says(rule.constraint);
        }
        if let Some(relation) = state.broken_relation(actor, unit) {
            return self.says(index.relations[relation].constraint);
        }
        if let Some(constraint) = state.passed_caps(actor, unit).next() {
            return self.says(constraint);
        }
        if let Some(slots) = self.file().units[unit].slots
            && !state.has_slot(unit)
        {
            return if slots == 1 {
                "it is taken".to_owned()
            } else {
                format!("all {slots} slots are taken")
            };
        }
        match state.missing(actor, unit) {
            Some((of_node, resource, needed, left)) => {
                let place = if of_node { "node" } else { "unit" };
                let left = left.max(0);
                format!("the {place} has {left} {resource} left, it needs {needed}")
            }
            None => "others were preferred there".to_owned(),
        }
    }

    /// Why an actor leaves a unit: that it may not stay, or what staying would cost. The state is left as it was.
    pub(crate) fn why_moved(&self, actor: usize, from: usize, to: usize, state: &mut State) -> String {
        if self.implementation(actor, from).is_none() {
            return format!("it has no implementation for {} any more", self.file().units[from].kind);
        }
        state.take(actor);
        let reason = if state.admits(actor, from) {
            self.what_it_gains(&state.price(actor, from), &state.price(actor, to))
        } else if self.candidates(actor).contains(&from) {
            format!("{} has no room for it beside the others", self.unit_id(from))
        } else {
            format!("it may not stay on {}: {}", self.unit_id(from), self.obstacle(actor, from, state))
        };
        state.put(actor, to);
        reason
    }

    fn what_it_gains(&self, stay: &[i64], go: &[i64]) -> String {
        let mut levels = self.objectives().levels().iter().zip(stay.iter().zip(go));
        match levels.find(|(_, (stay, go))| stay != go) {
            Some((level, (stay, go))) if stay > go => {
                format!("{} of the whole would be {} higher if it stayed", Objectives::key(level), stay - go)
            }
            _ => "it makes room for others".to_owned(),
        }
    }
}

impl Cost {
    /// The vector in words, `unplaced` left out when it is 0.
    pub fn in_words(&self, snapshot: &Snapshot) -> String {
        let levels = snapshot.objectives().levels().iter();
        let mut words: Vec<String> = levels
            .map(|level| {
                let value: i64 = level.iter().map(|criterion| self.of(*criterion)).sum();
                format!("{} {value}", Objectives::key(level))
            })
            .collect();
        if self.unplaced > 0 {
            words.insert(0, format!("unplaced {}", self.unplaced));
        }
        words.join(", ")
    }
}
