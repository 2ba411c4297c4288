//! A policy written out over one world: what follows from facts, and ground rules about where actors are.
//!
//! Bottom-up, one group of predicates that rest on each other after the other, joins over indexed tuples. Work and
//! memory are counted, so that what a policy takes is the same on every machine, and what has no end is stopped.
//! clingo reads every final assignment by itself; the two must agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::compile::{Compiled, Goal, compile};
use crate::facts::Fact;
use crate::join::{Join, order};
use crate::program::Program;
use crate::relation::{Relation, Truth};
use crate::syntax::Head;
use crate::term::{Overflow, Terms, Value};
use crate::vocabulary::{Source, published};

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
    /// Actor, unit, atom.
    pub inputs: Vec<(usize, usize, u32)>,
    /// Statement, values of its variables, atom.
    pub violated: Vec<(usize, Vec<Value>, u32)>,
    /// Statement, weight, atom.
    pub penalties: Vec<(usize, Value, u32)>,
    /// What was spent.
    pub steps: u64,
    pub kept: u64,
}

/// Where actors can be, and who is asked about having no place.
pub(crate) struct Choices {
    /// Actor and unit.
    pub places: Vec<(usize, usize)>,
    /// Actors that can be without a place.
    pub movable: Vec<usize>,
    /// Whether what the program forbids is left out.
    pub forbids: bool,
}

/// Writes a program out.
pub(crate) fn ground(
    program: &Program,
    facts: &BTreeSet<(&'static str, Vec<Fact>)>,
    names: (&[&str], &[&str]),
    choices: &Choices,
    budget: GroundBudget,
) -> Result<Grounding, Stop> {
    let mut terms = Terms::default();
    let actors: Vec<Value> = names.0.iter().map(|id| terms.actor(id)).collect();
    let units: Vec<Value> = names.1.iter().map(|id| terms.text(id)).collect();
    let mut relations: BTreeMap<(String, usize), Relation> = BTreeMap::new();
    for (name, fact) in facts {
        let tuple: Vec<Value> = fact.iter().map(|term| term.value(&actors, &units, &mut terms)).collect();
        relations.entry(((*name).to_owned(), tuple.len())).or_default().add(&tuple, Truth::Certain);
    }
    let compiled: Vec<Compiled> =
        program.statements.iter().map(|statement| compile(statement, &mut terms)).collect();
    let mut work = Work {
        program,
        compiled: &compiled,
        relations,
        sink: Sink { terms, budget, next: 1, at: 0, out: Grounding::default(), cases: HashMap::new() },
    };
    let (from_facts, from_placements): (Vec<_>, Vec<_>) = program
        .groups()
        .into_iter()
        .partition(|group| group.iter().all(|statement| !program.is_placed(*statement)));
    for group in from_facts {
        work.group(&group)?;
    }
    if program.reads.contains("run_on") || program.reads.contains("unplaced") {
        work.place(choices, &actors, &units)?;
    }
    for group in from_placements {
        work.group(&group)?;
    }
    let Sink { terms, budget: left, mut out, .. } = work.sink;
    out.terms = terms;
    (out.steps, out.kept) = (budget.steps - left.steps, budget.kept - left.kept);
    Ok(out)
}

struct Work<'a> {
    program: &'a Program,
    compiled: &'a [Compiled],
    relations: BTreeMap<(String, usize), Relation>,
    sink: Sink,
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
    /// Atoms of cases of constraints and weak constraints; only looked up in, never walked.
    cases: HashMap<(usize, Vec<Value>), u32>,
}

impl Work<'_> {
    /// Statements that rest on each other: once, or until nothing new follows.
    fn group(&mut self, group: &[usize]) -> Result<(), Stop> {
        let in_circle = self.program.is_circle(group);
        loop {
            let mut grew = false;
            for &statement in group {
                grew |= self.statement(statement)?;
            }
            if !(in_circle && grew) {
                return Ok(());
            }
        }
    }

    /// Writes a statement out; whether anything new followed.
    fn statement(&mut self, statement: usize) -> Result<bool, Stop> {
        self.sink.at = statement;
        let compiled = &self.compiled[statement];
        let mut known = vec![false; compiled.slots];
        let goals: Vec<&Goal> = compiled.goals.iter().collect();
        let steps = order(&mut self.relations, &goals, &compiled.needs, &mut known);
        let mut join = Join { relations: &self.relations, sink: &mut self.sink };
        let (mut bindings, mut body) = (vec![None; compiled.slots], Vec::new());
        let mut pending: Vec<(Vec<Value>, Vec<i32>)> = Vec::new();
        join.each(&steps, &mut bindings, &mut body, &mut |join, bindings, body| {
            for tuple in join.tuples(&compiled.head, bindings)? {
                join.sink.keep(tuple.len() + body.len() + 2)?;
                pending.push((tuple, body.clone()));
            }
            Ok(())
        })?;
        Ok(self.conclude(statement, pending))
    }

    fn conclude(&mut self, statement: usize, pending: Vec<(Vec<Value>, Vec<i32>)>) -> bool {
        match &self.program.statements[statement].head {
            Head::Atom(atom) => {
                let word = published(&atom.name).filter(|word| word.source == Source::Policy);
                let relation = self.relations.entry((atom.name.clone(), atom.terms.len())).or_default();
                let mut grew = false;
                for (tuple, body) in pending {
                    if let Some(word) = word {
                        self.sink.out.said.insert((statement, word.name, tuple.clone()));
                    }
                    grew |= self.sink.derive(relation, &tuple, body);
                }
                grew
            }
            Head::Constraint => {
                for (tuple, body) in pending {
                    let (atom, is_new) = self.sink.case(statement, &tuple);
                    self.sink.rule(atom, body);
                    if is_new {
                        self.sink.out.violated.push((statement, tuple, atom));
                    }
                }
                false
            }
            Head::Weak(..) => {
                for (tuple, body) in pending {
                    let (atom, is_new) = self.sink.case(statement, &tuple);
                    self.sink.rule(atom, body);
                    if is_new {
                        self.sink.out.penalties.push((statement, tuple[0], atom));
                    }
                }
                false
            }
        }
    }

    /// Atoms for every place where an actor can be, and for having none.
    fn place(&mut self, choices: &Choices, actors: &[Value], units: &[Value]) -> Result<(), Stop> {
        let forbidden: BTreeSet<(Value, Value)> = {
            let said = self.sink.out.said.iter().filter(|(_, word, _)| *word == "forbid");
            said.filter_map(|(_, _, terms)| Some((*terms.first()?, *terms.get(1)?))).collect()
        };
        let mut of_actor: Vec<Vec<(i32, i64)>> = vec![Vec::new(); actors.len()];
        let run_on = self.relations.entry(("run_on".to_owned(), 2)).or_default();
        let movable: BTreeSet<usize> = choices.movable.iter().copied().collect();
        for &(actor, unit) in &choices.places {
            if choices.forbids
                && movable.contains(&actor)
                && forbidden.contains(&(actors[actor], units[unit]))
            {
                continue;
            }
            self.sink.keep(3)?;
            let atom = self.sink.atom();
            run_on.add(&[actors[actor], units[unit]], Truth::Possible(atom));
            self.sink.out.inputs.push((actor, unit, atom));
            of_actor[actor].push((literal(atom), 1));
        }
        if !self.program.reads.contains("unplaced") {
            return Ok(());
        }
        for &actor in &choices.movable {
            let (placed, unplaced) = (self.sink.atom(), self.sink.atom());
            self.sink.out.rules.push((placed, 1, std::mem::take(&mut of_actor[actor])));
            self.sink.rule(unplaced, vec![-literal(placed)]);
            let relation = self.relations.entry(("unplaced".to_owned(), 1)).or_default();
            relation.add(&[actors[actor]], Truth::Possible(unplaced));
        }
        Ok(())
    }
}

impl Sink {
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

    /// The atom of a case, and whether it is new.
    fn case(&mut self, statement: usize, tuple: &[Value]) -> (u32, bool) {
        let next = self.next;
        let atom = *self.cases.entry((statement, tuple.to_vec())).or_insert(next);
        self.next += u32::from(atom == next);
        (atom, atom == next)
    }

    /// Adds a conclusion; whether it is new.
    fn derive(&mut self, relation: &mut Relation, tuple: &[Value], body: Vec<i32>) -> bool {
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

    /// What a number out of range means here.
    pub fn overflow(&self) -> impl Fn(Overflow) -> Stop + use<> {
        let at = self.at;
        move |_| Stop::Fault(at, "computes a number that 32 bits do not hold; use a coarser unit".to_owned())
    }
}

/// A literal of an atom.
pub(crate) fn literal(atom: u32) -> i32 {
    i32::try_from(atom).expect("the budget ends long before so many atoms")
}
