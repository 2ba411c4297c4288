//! A parsed policy: its statements, and which of them depend on placements.

use std::collections::BTreeSet;

use crate::fault::{At, Fault};
use crate::limits::{MAX_BYTES, MAX_FACTS, MAX_RULES, on_known_stack};
use crate::syntax::{Head, Statement};
use crate::{check, parse};

/// A policy that passed every check that needs no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) statements: Vec<Statement>,
    /// By statement: whether it depends on placements.
    placed: Vec<bool>,
    /// Names of the predicates that are read.
    pub(crate) reads: BTreeSet<String>,
    /// Names of the predicates that are read inside an aggregate, where numbers are summed.
    pub(crate) summed: BTreeSet<String>,
}

impl Program {
    /// Parses and checks a text.
    ///
    /// # Errors
    /// All faults, ordered by position; never empty.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        if text.len() > MAX_BYTES {
            let problem = format!("the text has {} bytes; a policy has at most {MAX_BYTES}", text.len());
            return Err(vec![Fault::new(At { line: 1, column: 1 }, problem)]);
        }
        on_known_stack(|| Self::parse_here(text))
    }

    fn parse_here(text: &str) -> Result<Self, Vec<Fault>> {
        let statements = parse::parse(text)?;
        check_number(&statements)?;
        let faults = check::faults(&statements);
        if !faults.is_empty() {
            return Err(faults);
        }
        let by_placement = check::placed(&statements);
        let depends = |statement: &Statement| {
            statement.reads().any(|(_, atom)| by_placement.contains(&atom.predicate()))
        };
        let placed = statements.iter().map(depends).collect();
        let names = |inside_only: bool| {
            let atoms = statements.iter().flat_map(Statement::reads);
            atoms.filter(|(inside, _)| *inside || !inside_only).map(|(_, atom)| atom.name.clone()).collect()
        };
        let (reads, summed) = (names(false), names(true));
        Ok(Self { statements, placed, reads, summed })
    }

    /// The number of rules, constraints and weak constraints.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// Whether it has no statement.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Whether any statement constrains or prices a combination of placements.
    pub fn depends_on_placement(&self) -> bool {
        self.judged().next().is_some()
    }

    /// The line of a statement.
    pub(crate) fn line(&self, statement: usize) -> usize {
        self.statements.get(statement).map_or(0, |statement| statement.at.line)
    }

    /// Constraints and weak constraints, by position: those that a finished assignment is judged by.
    pub(crate) fn judged(&self) -> impl Iterator<Item = usize> {
        let judged = |statement: &Statement| !matches!(statement.head, Head::Atom(_));
        self.statements.iter().enumerate().filter(move |(_, s)| judged(s)).map(|(position, _)| position)
    }
}

impl Program {
    /// Whether a statement depends on placements.
    pub(crate) fn is_placed(&self, statement: usize) -> bool {
        self.placed[statement]
    }

    /// Whether the statements of a component are recursive.
    pub(crate) fn is_cycle(&self, group: &[usize]) -> bool {
        let concluded: BTreeSet<_> = group.iter().filter_map(|at| self.statements[*at].concludes()).collect();
        group
            .iter()
            .any(|at| self.statements[*at].reads().any(|(_, atom)| concluded.contains(&atom.predicate())))
    }

    /// Statements grouped by strongly connected component of their heads, in topological order.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let (facts, rules): (Vec<usize>, Vec<usize>) =
            (0..self.statements.len()).partition(|at| self.statements[*at].body.is_empty());
        let groups = facts.into_iter().map(|fact| vec![fact]);
        let in_rules = self.groups_of(&rules).into_iter();
        groups.chain(in_rules.map(|group| group.into_iter().map(|at| rules[at]).collect())).collect()
    }

    /// The same for some statements, by position among these.
    fn groups_of(&self, rules: &[usize]) -> Vec<Vec<usize>> {
        let uses: Vec<Vec<usize>> =
            rules.iter().map(|at| self.sources(&self.statements[*at], rules)).collect();
        let mut reaches: Vec<BTreeSet<usize>> = Vec::new();
        for start in 0..uses.len() {
            let (mut seen, mut next) = (BTreeSet::new(), uses[start].clone());
            while let Some(at) = next.pop() {
                if seen.insert(at) {
                    next.extend(&uses[at]);
                }
            }
            reaches.push(seen);
        }
        // Components are ordered by the number of predicates that they reach; equal numbers may be one cycle.
        let mut order: Vec<usize> = (0..uses.len()).collect();
        let rests_on = |at: usize| reaches[at].len() + usize::from(!reaches[at].contains(&at));
        order.sort_by_key(|at| (rests_on(*at), *at));
        let (mut groups, mut done) = (Vec::new(), BTreeSet::<usize>::new());
        for at in order {
            if done.contains(&at) {
                continue;
            }
            let cycle = |other: &usize| {
                *other == at || (reaches[at].contains(other) && reaches[*other].contains(&at))
            };
            let group: Vec<usize> = (0..uses.len()).filter(cycle).collect();
            done.extend(&group);
            groups.push(group);
        }
        groups
    }

    /// Those of `rules` that conclude what a statement reads, by position among them.
    fn sources(&self, statement: &Statement, rules: &[usize]) -> Vec<usize> {
        let read: BTreeSet<_> = statement.reads().map(|(_, atom)| atom.predicate()).collect();
        let concludes = |other: &Statement| other.concludes().is_some_and(|head| read.contains(&head));
        let all = rules.iter().enumerate();
        all.filter(|(_, at)| concludes(&self.statements[**at])).map(|(position, _)| position).collect()
    }
}

/// Refuses more statements than can be compared with each other.
fn check_number(statements: &[Statement]) -> Result<(), Vec<Fault>> {
    for (is_fact, most, what) in
        [(true, MAX_FACTS, "statements without"), (false, MAX_RULES, "statements with")]
    {
        if let Some(one_more) = statements.iter().filter(|one| one.body.is_empty() == is_fact).nth(most) {
            let problem = format!("more than {most} {what} a body; a policy has at most that many");
            return Err(vec![Fault::new(one_more.at, problem)]);
        }
    }
    Ok(())
}
