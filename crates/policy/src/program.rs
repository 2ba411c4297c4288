//! A parsed policy: its statements, and which of them depend on placements.

use std::collections::BTreeSet;

use crate::fault::{At, Fault};
use crate::syntax::{Head, Statement};
use crate::{check, parse};

/// The maximum length of a text, in bytes.
const LONGEST: usize = 64 << 10;

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
        if text.len() > LONGEST {
            let problem = format!("the text has {} bytes; a policy has at most {LONGEST}", text.len());
            return Err(vec![Fault::new(At { line: 1, column: 1 }, problem)]);
        }
        let statements = parse::parse(text)?;
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
        let uses: Vec<Vec<usize>> = self.statements.iter().map(|statement| self.sources(statement)).collect();
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

    /// Statements that conclude what a statement reads.
    fn sources(&self, statement: &Statement) -> Vec<usize> {
        let read: BTreeSet<_> = statement.reads().map(|(_, atom)| atom.predicate()).collect();
        let concludes = |other: &Statement| other.concludes().is_some_and(|head| read.contains(&head));
        let all = self.statements.iter().enumerate();
        all.filter(|(_, other)| concludes(other)).map(|(position, _)| position).collect()
    }
}
