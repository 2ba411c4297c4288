//! The output of grounding: ground rules, conclusions, and the resources spent.

use std::collections::{BTreeSet, HashMap};

use placement::ix::{ActorIx, UnitIx};

use crate::relation::{Relation, Truth};
use crate::term::{Refused, Terms, Value};

/// Resource limits of grounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroundBudget {
    /// Tuples visited; large terms count as several.
    pub steps: u64,
    /// Tuples, literals and computed terms stored.
    pub kept: u64,
}

impl GroundBudget {
    /// The limits that correspond to a policy's budget: about 5,000 steps a millisecond and 4,000 tuples a MiB.
    pub fn of(wall_milliseconds: u64, memory_mib: u64) -> Self {
        Self { steps: wall_milliseconds.saturating_mul(5_000), kept: memory_mib.saturating_mul(4_000) }
    }
}

/// Why grounding stopped; statements by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroundingStop {
    /// The statement during which the budget was exceeded, and by what.
    Budget(usize, String),
    /// The statement that is invalid for this snapshot, and why.
    Fault(usize, String),
}

/// Head, lower bound, and weighted literals of a rule.
pub(crate) type Rule = (u32, i64, Vec<(i32, i64)>);

/// A grounded program.
#[derive(Default)]
pub(crate) struct Grounding {
    pub terms: Terms,
    /// By statement, predicate and terms: conclusions from facts.
    pub said: BTreeSet<(usize, &'static str, Vec<Value>)>,
    /// Rules that remain, over atoms numbered from 1.
    pub rules: Vec<Rule>,
    /// Atoms that are disjunctions: they hold if any literal does, however many.
    pub alternatives: BTreeSet<u32>,
    /// Actor, unit, atom.
    pub inputs: Vec<(ActorIx, UnitIx, u32)>,
    /// Statement, values of its variables, atom.
    pub violated: Vec<(usize, Vec<Value>, u32)>,
    /// The first statement with this tuple, weight, atom.
    pub penalties: Vec<(usize, Value, u32)>,
    /// Resources spent.
    pub steps: u64,
    pub kept: u64,
}

/// Accumulates the output while a statement is grounded; relations do not change meanwhile.
pub(crate) struct Sink {
    pub terms: Terms,
    /// What is left of the budget.
    budget: GroundBudget,
    /// The next free atom.
    next: u32,
    /// The statement that is being grounded.
    at: usize,
    pub out: Grounding,
    /// Atoms of ground instances: of constraints by statement, of weak constraints by weight and terms across statements. A hash
    /// map that is never iterated.
    instances: HashMap<(Option<usize>, Vec<Value>), u32>,
}

impl Sink {
    /// An empty output within a budget.
    pub fn new(terms: Terms, budget: GroundBudget) -> Self {
        Self { terms, budget, next: 1, at: 0, out: Grounding::default(), instances: HashMap::new() }
    }

    /// The output, and what it spent of `budget`.
    pub fn finish(self, budget: GroundBudget) -> Grounding {
        let Self { terms, budget: left, out, .. } = self;
        Grounding { terms, steps: budget.steps - left.steps, kept: budget.kept - left.kept, ..out }
    }

    /// Sets the statement that is grounded from now on.
    pub fn begin(&mut self, statement: usize) {
        self.at = statement;
    }

    /// The statement that is being grounded.
    pub fn at(&self) -> usize {
        self.at
    }

    /// A new atom.
    pub fn atom(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Counts visited tuples and evaluated terms, and the terms that were stored since the last ones.
    pub fn steps(&mut self, many: u64) -> Result<(), GroundingStop> {
        let stored = self.terms.take_uncounted();
        if stored > 0 {
            self.keep(stored)?;
        }
        match self.budget.steps.checked_sub(many) {
            Some(left) => {
                self.budget.steps = left;
                Ok(())
            }
            None => Err(GroundingStop::Budget(self.at, "takes too many steps".to_owned())),
        }
    }

    /// Counts stored tuples or literals.
    pub fn keep(&mut self, much: usize) -> Result<(), GroundingStop> {
        match self.budget.kept.checked_sub(much as u64) {
            Some(left) => {
                self.budget.kept = left;
                Ok(())
            }
            None => Err(GroundingStop::Budget(self.at, "takes too much memory".to_owned())),
        }
    }

    /// Adds a rule whose whole body must hold.
    pub fn rule(&mut self, head: u32, body: Vec<i32>) {
        let lower = i64::try_from(body.len()).unwrap_or(i64::MAX);
        self.out.rules.push((head, lower, body.into_iter().map(|literal| (literal, 1)).collect()));
    }

    /// The atom of a ground instance, and whether it is new; weak constraints share instances across statements (`None`).
    pub fn instance(&mut self, statement: Option<usize>, tuple: &[Value]) -> (u32, bool) {
        let next = self.next;
        let atom = *self.instances.entry((statement, tuple.to_vec())).or_insert(next);
        self.next += u32::from(atom == next);
        (atom, atom == next)
    }

    /// Adds a conclusion; returns whether it is new.
    pub fn derive(&mut self, relation: &mut Relation, tuple: &[Value], body: Vec<i32>) -> bool {
        match (relation.find(tuple), body.is_empty()) {
            (None, true) => {
                relation.add(tuple, Truth::Certain);
                true
            }
            (None, false) => {
                let atom = self.atom();
                relation.add(tuple, Truth::Possible(atom));
                self.rule(atom, body);
                true
            }
            (Some(place), true) => {
                relation.make_certain(place);
                false
            }
            (Some(place), false) => {
                if let Truth::Possible(atom) = relation.truth(place) {
                    self.rule(atom, body);
                }
                false
            }
        }
    }

    /// Turns an undefined computation into a fault of the current statement.
    pub fn refused(&self) -> impl Fn(Refused) -> GroundingStop + use<> {
        let at = self.at;
        move |refused| GroundingStop::Fault(at, refused.says().to_owned())
    }
}

/// The positive literal of an atom.
pub(crate) fn literal(atom: u32) -> i32 {
    i32::try_from(atom).expect("the budget ends long before so many atoms")
}
