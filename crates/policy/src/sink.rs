//! What writing out makes: ground rules, conclusions, and what they took.

use std::collections::{BTreeSet, HashMap};

use placement::ix::{ActorIx, UnitIx};

use crate::relation::{Relation, Truth};
use crate::term::{Refused, Terms, Value};

/// What writing out may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroundBudget {
    /// Tuples that are looked at.
    pub steps: u64,
    /// Tuples and literals that are kept.
    pub kept: u64,
}

impl GroundBudget {
    /// What fits a policy's budget: about so many steps are done in the time, and so many tuples fit the memory.
    pub fn of(wall_milliseconds: u64, memory_mib: u64) -> Self {
        Self { steps: wall_milliseconds.saturating_mul(5_000), kept: memory_mib.saturating_mul(4_000) }
    }
}

/// Why a program is not written out; statements by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// More than this budget; the statement was being written.
    Budget(usize, String),
    /// Something that makes no sense in this world.
    Fault(usize, String),
}

/// Head, how much is needed, literals with weights.
pub(crate) type Rule = (u32, i64, Vec<(i32, i64)>);

/// A program written out.
#[derive(Default)]
pub(crate) struct Grounding {
    pub terms: Terms,
    /// By statement, predicate and terms: conclusions from facts.
    pub said: BTreeSet<(usize, &'static str, Vec<Value>)>,
    /// What is left, over atoms from 1.
    pub rules: Vec<Rule>,
    /// Atoms that hold where one of several literals does, of which it is no matter how many do.
    pub alternatives: BTreeSet<u32>,
    /// Actor, unit, atom.
    pub inputs: Vec<(ActorIx, UnitIx, u32)>,
    /// Statement, values of its variables, atom.
    pub violated: Vec<(usize, Vec<Value>, u32)>,
    /// The first statement that says it, weight, atom.
    pub penalties: Vec<(usize, Value, u32)>,
    /// What was spent.
    pub steps: u64,
    pub kept: u64,
}

/// What grows while a statement is written out; relations stay as they are meanwhile.
pub(crate) struct Sink {
    pub terms: Terms,
    /// What is left of it.
    budget: GroundBudget,
    /// The next atom.
    next: u32,
    /// The statement that is being written.
    at: usize,
    pub out: Grounding,
    /// Atoms of ground instances, of constraints by statement, of weak constraints by weight and terms, whichever says them;
    /// only looked up in, never walked.
    instances: HashMap<(Option<usize>, Vec<Value>), u32>,
}

impl Sink {
    /// Nothing yet, within a budget.
    pub fn new(terms: Terms, budget: GroundBudget) -> Self {
        Self { terms, budget, next: 1, at: 0, out: Grounding::default(), instances: HashMap::new() }
    }

    /// What was made, and what it took of `budget`.
    pub fn finish(self, budget: GroundBudget) -> Grounding {
        let Self { terms, budget: left, out, .. } = self;
        Grounding { terms, steps: budget.steps - left.steps, kept: budget.kept - left.kept, ..out }
    }

    /// Says which statement is written from now on.
    pub fn begin(&mut self, statement: usize) {
        self.at = statement;
    }

    /// The statement that is being written.
    pub fn at(&self) -> usize {
        self.at
    }

    /// A new atom.
    pub fn atom(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Counts one tuple that is looked at.
    pub fn step(&mut self) -> Result<(), Stop> {
        match self.budget.steps.checked_sub(1) {
            Some(left) => {
                self.budget.steps = left;
                Ok(())
            }
            None => Err(Stop::Budget(self.at, "takes too many steps".to_owned())),
        }
    }

    /// Counts what is kept.
    pub fn keep(&mut self, much: usize) -> Result<(), Stop> {
        match self.budget.kept.checked_sub(much as u64) {
            Some(left) => {
                self.budget.kept = left;
                Ok(())
            }
            None => Err(Stop::Budget(self.at, "takes too much memory".to_owned())),
        }
    }

    /// Adds a rule whose whole body must hold.
    pub fn rule(&mut self, head: u32, body: Vec<i32>) {
        let lower = i64::try_from(body.len()).unwrap_or(i64::MAX);
        self.out.rules.push((head, lower, body.into_iter().map(|literal| (literal, 1)).collect()));
    }

    /// The atom of a ground instance, and whether it is new; of no statement where all weak constraints share it.
    pub fn instance(&mut self, statement: Option<usize>, tuple: &[Value]) -> (u32, bool) {
        let next = self.next;
        let atom = *self.instances.entry((statement, tuple.to_vec())).or_insert(next);
        self.next += u32::from(atom == next);
        (atom, atom == next)
    }

    /// Adds a conclusion; whether it is new.
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

    /// What it means here that a term is not computed.
    pub fn refused(&self) -> impl Fn(Refused) -> Stop + use<> {
        let at = self.at;
        move |refused| Stop::Fault(at, refused.says().to_owned())
    }
}

/// A literal of an atom.
pub(crate) fn literal(atom: u32) -> i32 {
    i32::try_from(atom).expect("the budget ends long before so many atoms")
}
