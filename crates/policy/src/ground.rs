//! Grounds a policy over one snapshot: conclusions from facts, and ground rules over placements.
//!
//! Semi-naive bottom-up evaluation, one strongly connected component of predicates after the other, with joins over
//! indexed tuples. Steps and memory are counted rather than timed, so that a program is stopped at the same point on every
//! machine. clingo grounds the same program independently for every final assignment; the two must agree.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Problem, Snapshot};

use crate::compile::{Compiled, Goal, compile};
use crate::domains::Domains;
use crate::facts::Fact;
use crate::join::Join;
use crate::order::order;
use crate::output::{GroundBudget, Grounding, GroundingStop, Sink, literal};
use crate::program::Program;
use crate::relation::{Relation, Truth};
use crate::syntax::Head;
use crate::term::{Terms, Value};
use crate::vocabulary::{Source, published};

/// Grounds a program.
pub(crate) fn ground(
    program: &Program,
    facts: &BTreeSet<(&'static str, Vec<Fact>)>,
    snapshot: &Snapshot,
    domains: &Domains,
    budget: GroundBudget,
) -> Result<Grounding, GroundingStop> {
    let mut terms = Terms::default();
    let actors: IxVec<ActorIx, Value> =
        snapshot.file().actors.iter().map(|actor| terms.actor(&actor.id)).collect();
    let units: IxVec<UnitIx, Value> = snapshot.file().units.iter().map(|unit| terms.text(&unit.id)).collect();
    let mut relations: BTreeMap<(String, usize), Relation> = BTreeMap::new();
    for (name, fact) in facts {
        let tuple: Vec<Value> = fact.iter().map(|term| term.value(&actors, &units, &mut terms)).collect();
        relations.entry(((*name).to_owned(), tuple.len())).or_default().add(&tuple, Truth::Certain);
    }
    let compiled: Vec<Compiled> =
        program.statements.iter().map(|statement| compile(statement, &mut terms)).collect();
    let mut work = Work { program, compiled: &compiled, relations, sink: Sink::new(terms, budget) };
    let (from_facts, from_placements): (Vec<_>, Vec<_>) =
        program.groups.iter().partition(|group| group.iter().all(|statement| !program.is_placed(*statement)));
    for group in from_facts {
        work.group(group)?;
    }
    if program.reads.contains("run_on") || program.reads.contains("unplaced") {
        work.place(domains, snapshot.problem(), &actors, &units)?;
    }
    for group in from_placements {
        work.group(group)?;
    }
    Ok(work.sink.finish(budget))
}

struct Work<'a> {
    program: &'a Program,
    compiled: &'a [Compiled],
    relations: BTreeMap<(String, usize), Relation>,
    sink: Sink,
}

impl Work<'_> {
    /// Grounds one component: once, or until a fixed point if it is recursive.
    fn group(&mut self, group: &[usize]) -> Result<(), GroundingStop> {
        let in_cycle = self.program.is_cycle(group);
        loop {
            let mut grew = false;
            for &statement in group {
                grew |= self.statement(statement)?;
            }
            if !(in_cycle && grew) {
                return Ok(());
            }
        }
    }

    /// Grounds a statement; returns whether it derived anything new.
    fn statement(&mut self, statement: usize) -> Result<bool, GroundingStop> {
        self.sink.begin(statement);
        let compiled = &self.compiled[statement];
        let mut known = vec![false; compiled.slots];
        let goals: Vec<&Goal> = compiled.goals.iter().collect();
        let steps = order((&mut self.relations, &mut self.sink), &goals, &compiled.needs, &mut known)?;
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
        // The last terms have no step after them.
        self.sink.steps(0)?;
        self.conclude(statement, pending)
    }

    fn conclude(
        &mut self,
        statement: usize,
        pending: Vec<(Vec<Value>, Vec<i32>)>,
    ) -> Result<bool, GroundingStop> {
        Ok(match &self.program.statements[statement].head {
            Head::Atom(atom) => {
                let word = published(&atom.name).filter(|word| word.source == Source::Policy);
                let relation = self.relations.entry((atom.name.clone(), atom.terms.len())).or_default();
                let mut grew = false;
                for (tuple, body) in pending {
                    if let Some(word) = word
                        && self.sink.out.said.insert((statement, word.name, tuple.clone()))
                    {
                        self.sink.keep(self.sink.terms.stored_text(&tuple))?;
                    }
                    grew |= self.sink.derive(relation, &tuple, body);
                }
                grew
            }
            Head::Constraint => {
                for (tuple, body) in pending {
                    let (atom, is_new) = self.sink.instance(Some(statement), &tuple);
                    self.sink.rule(atom, body);
                    if is_new {
                        self.sink.keep(self.sink.terms.stored_text(&tuple))?;
                        self.sink.out.violated.push((statement, tuple, atom));
                    }
                }
                false
            }
            Head::Weak(..) => {
                for (tuple, body) in pending {
                    let (atom, is_new) = self.sink.instance(None, &tuple);
                    self.sink.rule(atom, body);
                    if is_new {
                        self.sink.out.penalties.push((statement, tuple[0], atom));
                    }
                }
                false
            }
        })
    }

    /// Adds an atom for every pair of actor and unit of the domains, and for an unplaced actor.
    fn place(
        &mut self,
        domains: &Domains,
        problem: &Problem,
        actors: &IxVec<ActorIx, Value>,
        units: &IxVec<UnitIx, Value>,
    ) -> Result<(), GroundingStop> {
        let forbidden: BTreeSet<(Value, Value)> = {
            let said = self.sink.out.said.iter().filter(|(_, word, _)| *word == "forbid");
            said.filter_map(|(_, _, terms)| Some((*terms.first()?, *terms.get(1)?))).collect()
        };
        let mut of_actor: IxVec<ActorIx, Vec<(i32, i64)>> = IxVec::of(Vec::new(), actors.len());
        let run_on = self.relations.entry(("run_on".to_owned(), 2)).or_default();
        for (actor, unit) in domains.places() {
            let is_here = problem.current[actor] == Some(unit);
            if domains.forbids && !is_here && forbidden.contains(&(actors[actor], units[unit])) {
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
        for &actor in &problem.movable {
            let (placed, unplaced) = (self.sink.atom(), self.sink.atom());
            self.sink.out.rules.push((placed, 1, std::mem::take(&mut of_actor[actor])));
            self.sink.rule(unplaced, vec![-literal(placed)]);
            let relation = self.relations.entry(("unplaced".to_owned(), 1)).or_default();
            relation.add(&[actors[actor]], Truth::Possible(unplaced));
        }
        Ok(())
    }
}
