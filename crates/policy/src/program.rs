//! A parsed policy: its statements, and which of them depend on placements.

use std::collections::BTreeSet;

use placement::file::Policy;

use crate::fault::{At, Fault};
use crate::limits::{MAX_BYTES, MAX_FACTS, MAX_RULES, on_known_stack};
use crate::syntax::{Head, Statement};
use crate::{check, components, parse};

/// A policy that passed every check that needs no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) statements: Vec<Statement>,
    /// By statement: whether it depends on placements.
    placed: Vec<bool>,
    /// Statements grouped by strongly connected component of their heads, in topological order.
    pub(crate) groups: Vec<Vec<usize>>,
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
        on_known_stack(|| Self::parse_here(text, 1))
    }

    /// Parses the program of a snapshot, which can join those of several policies that are valid one by one: a
    /// line with [`Policy::FURTHER_PROGRAM`] is before each but the first, and each has the limits of one.
    ///
    /// # Errors
    /// All faults, ordered by position; never empty.
    pub(crate) fn parse_joined(text: &str) -> Result<Self, Vec<Fault>> {
        let further = text.lines().filter(|line| line.starts_with(Policy::FURTHER_PROGRAM));
        let (further, marks) = further.fold((0, 0), |(many, bytes), line| (many + 1, bytes + line.len() + 2));
        let programs = 1 + further;
        if text.len() > MAX_BYTES * programs + marks {
            let problem = format!(
                "the text has {} bytes; {programs} programs have at most {}",
                text.len(),
                MAX_BYTES * programs
            );
            return Err(vec![Fault::new(At { line: 1, column: 1 }, problem)]);
        }
        on_known_stack(|| Self::parse_here(text, programs))
    }

    fn parse_here(text: &str, programs: usize) -> Result<Self, Vec<Fault>> {
        let statements = parse::parse(text)?;
        check_number(&statements, programs)?;
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
        let groups = components::groups(&statements);
        Ok(Self { statements, placed, groups, reads, summed })
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
}

/// Refuses more statements than this many programs may have.
fn check_number(statements: &[Statement], programs: usize) -> Result<(), Vec<Fault>> {
    for (is_fact, most, what) in
        [(true, MAX_FACTS, "statements without"), (false, MAX_RULES, "statements with")]
    {
        let most = most * programs;
        if let Some(one_more) = statements.iter().filter(|one| one.body.is_empty() == is_fact).nth(most) {
            let problem = format!("more than {most} {what} a body; a policy has at most that many");
            return Err(vec![Fault::new(one_more.at, problem)]);
        }
    }
    Ok(())
}
