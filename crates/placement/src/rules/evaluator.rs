//! Incremental evaluation of a policy's rules.

use std::collections::BTreeSet;

use crate::Assignment;
use crate::ix::{ActorIx, UnitIx};
use crate::rules::ground::{NONE, Rules};

impl Rules {
    /// The violations of an assignment, as sentences.
    pub fn violations(&self, assignment: &Assignment) -> Vec<String> {
        let evaluator = RuleEvaluator::of(self, assignment);
        let says = evaluator.broken().map(|demand| self.demands[demand].says.clone());
        says.collect()
    }

    /// The same, with or without limits of the file.
    pub(crate) fn broken(&self, assignment: &Assignment, with_limits: bool) -> Vec<String> {
        let evaluator = RuleEvaluator::of(self, assignment);
        let demands = evaluator.broken().map(|demand| &self.demands[demand]);
        demands
            .filter(|demand| with_limits || demand.limit.is_none())
            .map(|demand| demand.says.clone())
            .collect()
    }

    /// The penalties of an assignment.
    pub fn penalty(&self, assignment: &Assignment) -> i64 {
        RuleEvaluator::of(self, assignment).penalty()
    }
}

/// The value of [`Rules`] under an assignment, updated move by move.
#[derive(Clone, Debug)]
pub struct RuleEvaluator<'a> {
    rules: &'a Rules,
    /// Cases that are ignored, by position.
    waived: BTreeSet<usize>,
    /// By body: the sum of its true literals.
    sums: Vec<i64>,
    /// By atom: the number of true bodies that derive it, or whether an input is chosen.
    support: Vec<u32>,
    /// By case: the amount of its violation; 0 if satisfied.
    degrees: Vec<i64>,
    /// Their sum, in a wider type.
    degree: i128,
    penalty: i64,
    excused: i64,
    /// Atoms that changed, with their new value; empty between calls.
    changed: Vec<(u32, bool)>,
}

impl<'a> RuleEvaluator<'a> {
    /// With no actor placed.
    pub fn new(rules: &'a Rules) -> Self {
        Self::without(rules, BTreeSet::new())
    }

    /// With no actor placed, ignoring these cases, by position.
    pub fn without(rules: &'a Rules, waived: BTreeSet<usize>) -> Self {
        let mut evaluator = Self {
            rules,
            waived,
            sums: Vec::with_capacity(rules.ground.len()),
            support: vec![0; rules.demand_of.len()],
            degrees: vec![0; rules.demands.len()],
            degree: 0,
            penalty: 0,
            excused: 0,
            changed: Vec::new(),
        };
        for rule in &rules.ground {
            let denied = rule.body.iter().filter(|(literal, _)| *literal < 0);
            evaluator.sums.push(denied.map(|(_, weight)| weight).sum());
        }
        for body in 0..rules.ground.len() {
            let rule = &rules.ground[body];
            // Changes made by propagation are counted already.
            let denied: i64 = rule.body.iter().filter(|(l, _)| *l < 0).map(|(_, weight)| weight).sum();
            if denied >= rule.lower {
                evaluator.gain(rule.head);
            }
        }
        evaluator.settle();
        evaluator
    }

    /// With the placements of an assignment.
    pub fn of(rules: &'a Rules, assignment: &Assignment) -> Self {
        let mut evaluator = Self::new(rules);
        for (actor, place) in assignment.enumerate() {
            if let Some(unit) = *place {
                evaluator.put(actor, unit);
            }
        }
        evaluator
    }

    /// Places an unplaced actor.
    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        if let Some(atom) = self.rules.input(actor, unit) {
            self.gain(atom);
            self.settle();
        }
    }

    /// Removes an actor from its unit.
    pub fn take(&mut self, actor: ActorIx, unit: UnitIx) {
        if let Some(atom) = self.rules.input(actor, unit) {
            self.lose(atom);
            self.settle();
        }
    }

    /// The total violation: 0 if all cases are satisfied, at least 1 for each violated one, more the further a count or sum is from
    /// its bound.
    pub fn degree(&self) -> i64 {
        i64::try_from(self.degree).unwrap_or(i64::MAX)
    }

    /// Σ penalties.
    pub fn penalty(&self) -> i64 {
        self.penalty
    }

    /// The number of actors in grandfathered violations.
    pub fn excused(&self) -> i64 {
        self.excused
    }

    /// Whether an atom holds.
    pub(crate) fn holds(&self, atom: u32) -> bool {
        self.support[atom as usize] > 0
    }

    /// The sum of a body's true literals.
    pub(crate) fn sum(&self, body: u32) -> i64 {
        self.sums[body as usize]
    }

    /// Positions of the violated cases.
    pub fn broken(&self) -> impl Iterator<Item = usize> {
        self.degrees.iter().enumerate().filter(|(_, degree)| **degree > 0).map(|(demand, _)| demand)
    }

    fn gain(&mut self, atom: u32) {
        let support = &mut self.support[atom as usize];
        *support += 1;
        if *support == 1 {
            self.changed.push((atom, true));
        }
    }

    fn lose(&mut self, atom: u32) {
        let support = &mut self.support[atom as usize];
        *support -= 1;
        if *support == 0 {
            self.changed.push((atom, false));
        }
    }

    /// Propagates all changes. Changes are sums, so their order is irrelevant, and propagation terminates because the rules are
    /// acyclic.
    fn settle(&mut self) {
        let rules = self.rules;
        while let Some((atom, holds)) = self.changed.pop() {
            let at = atom as usize;
            self.penalty += if holds { rules.penalty_of[at] } else { -rules.penalty_of[at] };
            self.excused += if holds { rules.excuse_of[at] } else { -rules.excuse_of[at] };
            self.measure(rules.demand_of[at]);
            for &(body, weight) in &rules.uses[rules.first_use[at]..rules.first_use[at + 1]] {
                let rule = &rules.ground[body as usize];
                let before = self.sums[body as usize];
                let after = if holds { before + weight } else { before - weight };
                self.sums[body as usize] = after;
                match (before >= rule.lower, after >= rule.lower) {
                    (false, true) => self.gain(rule.head),
                    (true, false) => self.lose(rule.head),
                    _ => {}
                }
                self.measure(rules.degree_of[body as usize]);
            }
        }
    }

    /// Updates the violation of a case.
    fn measure(&mut self, demand: u32) {
        if demand == NONE {
            return;
        }
        let rules = self.rules;
        let at = demand as usize;
        let degree = if self.support[rules.demands[at].atom as usize] == 0 || self.waived.contains(&at) {
            0
        } else {
            let missed = rules.measured_by[at].map_or(1, |(body, too_little)| {
                let (sum, lower) = (self.sums[body as usize], rules.ground[body as usize].lower);
                if too_little { lower - sum } else { sum - lower + 1 }
            });
            missed.max(1)
        };
        self.degree += i128::from(degree) - i128::from(self.degrees[at]);
        self.degrees[at] = degree;
    }
}
