//! Criteria and limits that are no sum over items and pairs. A move is evaluated by applying it and, if it is rejected,
//! reverting it.

use crate::model::{Change, Model};
use placement::constraints::{ViolationTracker, violation_trackers};
use placement::criteria::{IncrementalTerm, Step};
use placement::ix::{ActorIx, ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;
use placement::weighted::Weights;
use placement::{Criterion, RuleEvaluator, Snapshot};
use strum::IntoEnumIterator as _;

/// The weighted value of the terms, and the violation of limits.
#[derive(Clone, Copy, Default)]
struct Sums {
    value: i64,
    violation: i64,
}

/// The non-additive terms of a snapshot, for one placement.
#[derive(Clone)]
pub(crate) struct IncrementalTerms<'m> {
    snapshot: &'m Snapshot,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u32>,
    /// By criterion that is no sum over items and pairs: its weight, and its term.
    pub terms: Vec<(i64, Box<dyn IncrementalTerm>)>,
    /// Constraints whose violation is tracked incrementally.
    limits: Vec<Box<dyn ViolationTracker>>,
    /// The weights of a grandfathered actor and of a penalty, and the policy's rules.
    evaluator: Option<(i64, i64, RuleEvaluator<'m>)>,
    /// The present sums, and those before the last changes.
    now: Sums,
    before: Sums,
    /// Whether evaluation of the value is deferred.
    is_deferred: bool,
    /// By item: whether anything here depends on where it is.
    concerns: IxVec<ItemIx, bool>,
}

impl<'m> IncrementalTerms<'m> {
    /// The terms with the fixed actors at home; `None` where there are none.
    pub fn new(model: &Model<'m>) -> Option<Self> {
        let snapshot: &'m Snapshot = model.snapshot;
        let weights: &Weights = &model.weights;
        let terms = Criterion::iter().filter_map(|criterion| {
            let weight = Some(weights.of(criterion)).filter(|weight| *weight > 0)?;
            Some((weight, criterion.measure().incremental_term(snapshot)?))
        });
        let mut terms = Self {
            snapshot,
            load: IxVec::of(0, model.units),
            hosted: IxVec::of(0, model.units),
            terms: terms.collect(),
            limits: violation_trackers(snapshot).into_iter().map(|(_, excess)| excess).collect(),
            evaluator: snapshot.rules().map(|rules| {
                (weights.of(Criterion::Excused), weights.of(Criterion::Policy), RuleEvaluator::new(rules))
            }),
            now: Sums::default(),
            before: Sums::default(),
            is_deferred: false,
            concerns: IxVec::new(),
        };
        let is_needed = !terms.terms.is_empty() || terms.has_limits();
        if !is_needed {
            return None;
        }
        for (members, unit) in model.members.raw()[model.free..].iter().zip(&model.fixed_places) {
            terms.move_actors(members, NOWHERE, *unit, Self::count);
        }
        terms.now = terms.sums();
        terms.concerns = model
            .members
            .iter()
            .map(|members| members.iter().any(|actor| terms.depends_on(*actor)))
            .collect();
        Some(terms)
    }

    /// Whether anything here depends on where an actor is.
    fn depends_on(&self, actor: ActorIx) -> bool {
        let by_a_term = self.terms.iter().any(|(_, figure)| figure.concerns(self.snapshot, actor));
        let by_a_limit = self.limits.iter().any(|excess| excess.concerns(self.snapshot, actor));
        let by_a_rule = self.snapshot.rules().is_some_and(|rules| !rules.inputs(actor).is_empty());
        by_a_term || by_a_limit || by_a_rule
    }

    /// Whether anything here depends on where an item is. Moves of other items need not be applied.
    #[inline]
    pub fn concerns(&self, item: ItemIx) -> bool {
        self.concerns[item]
    }

    /// The weighted value of the terms, never negative.
    #[inline]
    pub fn value(&self) -> i64 {
        self.now.value
    }

    /// Whether there are such constraints or rules.
    pub fn has_limits(&self) -> bool {
        self.evaluator.is_some() || !self.limits.is_empty()
    }

    /// By how much such constraints and rules are violated.
    #[inline]
    pub fn violation(&self) -> i64 {
        self.now.violation
    }

    /// Applies changes. Returns the change of the value and of the violation.
    pub fn apply(&mut self, model: &Model<'m>, changes: &[Change]) -> (i64, i64) {
        self.before = self.now;
        if !self.is_deferred {
            // Everything that was applied and not reverted.
            self.terms.iter_mut().for_each(|(_, figure)| figure.keep(self.snapshot));
        }
        self.apply_changes(model, changes.iter().copied(), Self::count);
        self.now = if self.is_deferred {
            Sums { violation: self.violation_degree(), ..self.now }
        } else {
            self.sums()
        };
        (self.now.value - self.before.value, self.now.violation - self.before.violation)
    }

    /// Reverts the last changes.
    pub fn revert(&mut self, model: &Model<'m>, changes: &[Change]) {
        self.apply_changes(model, changes.iter().map(inverse), Self::count);
        self.now = self.before;
    }

    /// Defers evaluation of the value from now on; false where it was deferred already.
    pub fn defer_value(&mut self) -> bool {
        !std::mem::replace(&mut self.is_deferred, true)
    }

    /// Evaluates the value. Returns its change since evaluation was deferred.
    pub fn evaluate_value(&mut self) -> i64 {
        let before = self.now.value;
        (self.is_deferred, self.now) = (false, self.sums());
        self.now.value - before
    }

    /// Number of actors in a grandfathered violation.
    pub fn grandfathered(&self) -> i64 {
        self.evaluator.as_ref().map_or(0, |(_, _, evaluator)| evaluator.excused())
    }

    /// The same after changes.
    pub fn grandfathered_after(&mut self, model: &Model<'m>, changes: &[Change]) -> i64 {
        self.limits_after(model, changes, Self::grandfathered)
    }

    /// Whether the changes add no violation.
    pub fn adds_no_violation(&mut self, model: &Model<'m>, changes: &[Change]) -> bool {
        !self.has_limits() || self.limits_after(model, changes, Self::violation_degree) <= self.now.violation
    }

    /// What `read` returns after changes, which are reverted. Terms are slow and are not evaluated.
    fn limits_after(&mut self, model: &Model<'m>, changes: &[Change], read: fn(&Self) -> i64) -> i64 {
        self.apply_changes(model, changes.iter().copied(), Self::count_limits);
        let found = read(self);
        self.apply_changes(model, changes.iter().map(inverse), Self::count_limits);
        found
    }

    fn sums(&self) -> Sums {
        let terms: i64 = self.terms.iter().map(|(weight, figure)| weight * figure.value(self.snapshot)).sum();
        let penalty = self.evaluator.as_ref().map_or(0, |(excused, penalty, evaluator)| {
            excused * evaluator.excused() + penalty * evaluator.penalty()
        });
        Sums { value: terms + penalty, violation: self.violation_degree() }
    }

    fn violation_degree(&self) -> i64 {
        // Each number fits, but a file may have any number of them.
        let limits = self.limits.iter().map(|excess| excess.value()).fold(0, i64::saturating_add);
        limits.saturating_add(self.evaluator.as_ref().map_or(0, |(_, _, evaluator)| evaluator.degree()))
    }

    /// Applies `count` to the changes that anything here depends on.
    fn apply_changes(
        &mut self,
        model: &Model<'m>,
        changes: impl Iterator<Item = Change>,
        count: impl Fn(&mut Self, ActorIx, UnitIx, i64) + Copy,
    ) {
        for (item, from, to) in changes {
            if self.concerns[item] {
                self.move_actors(&model.members[item], from, to, count);
            }
        }
    }

    /// Moves actors; either end may be unplaced.
    fn move_actors(
        &mut self,
        actors: &[ActorIx],
        from: UnitIx,
        to: UnitIx,
        count: impl Fn(&mut Self, ActorIx, UnitIx, i64),
    ) {
        for &actor in actors {
            if from != NOWHERE {
                count(self, actor, from, -1);
            }
            if to != NOWHERE {
                count(self, actor, to, 1);
            }
        }
    }

    fn count(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let (snapshot, step) = (self.snapshot, self.step(actor, unit, sign));
        self.terms.iter_mut().for_each(|(_, figure)| figure.count(snapshot, &step));
        self.apply_to_limits(&step);
    }

    /// The same without the terms.
    fn count_limits(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let step = self.step(actor, unit, sign);
        self.apply_to_limits(&step);
    }

    /// Applies a step to limits and rules.
    fn apply_to_limits(&mut self, step: &Step) {
        let snapshot = self.snapshot;
        self.limits.iter_mut().for_each(|excess| excess.count(snapshot, step));
        if let Some((_, _, evaluator)) = &mut self.evaluator {
            if step.comes {
                evaluator.put(step.actor, step.unit);
            } else {
                evaluator.take(step.actor, step.unit);
            }
        }
    }

    /// Updates the load of a unit when an actor arrives or leaves.
    fn step(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) -> Step {
        let work = self.snapshot.problem().work(actor, unit);
        let (load, hosted) = (self.load[unit], self.hosted[unit]);
        self.load[unit] += sign * work;
        self.hosted[unit] = if sign > 0 { hosted + 1 } else { hosted - 1 };
        Step {
            actor,
            unit,
            comes: sign > 0,
            load: (load, self.load[unit]),
            hosted: (u64::from(hosted), u64::from(self.hosted[unit])),
        }
    }
}

/// The inverse of a change.
fn inverse((item, from, to): &Change) -> Change {
    (*item, *to, *from)
}

#[cfg(test)]
mod tests {
    use placement::LARGEST;

    use super::*;
    use crate::evaluation::solution::Solution;

    /// Each quota is exceeded by nearly the largest number of a file; the sum of all exceeds 64 bits.
    #[test]
    fn violations_of_many_limits_saturate() {
        let most = LARGEST - 2;
        let quota = r#"{"type":"quota","actors":["a"],"resource":"memory","max":0}"#;
        let json = format!(
            r#"{{"version":1,"units":[{{"id":"u","kind":"cpu","node":"n","capacity":1,"provides":{{"memory":{most}}}}}],
            "actors":[{{"id":"a","runsOn":{{"cpu":1}},"requires":{{"memory":{most}}}}}],"exchangeCost":{{"otherKind":1}},
            "constraints":[{}]}}"#,
            vec![quota; 1_100].join(",")
        );
        let snapshot = Snapshot::read(&json).unwrap();
        let model = Model::new(&snapshot);
        let mut solution = Solution::new(&model);
        assert_eq!(solution.apply_terms(&[(ItemIx::new(0), NOWHERE, UnitIx::new(0))]), (0, i64::MAX));
    }
}
