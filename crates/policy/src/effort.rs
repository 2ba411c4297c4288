//! The effort of evaluating terms, in steps: a large term takes as long as many small tuples.

use crate::compile::{Goal, Pattern};

/// The work of choosing one of several goals that a statement includes, and that counts as one more step.
const INCLUDED_ORDERING: usize = 64;
const ORDERING_PER_STEP: usize = 16;
/// The length of a name that counts as one more term.
const NAME_BYTES_PER_TERM: usize = 32;

/// The work of evaluating patterns, or of matching them with values.
pub(crate) fn work(patterns: &[Pattern]) -> usize {
    patterns.iter().map(|pattern| pattern.size_and_work().1).sum()
}

/// The steps of ordering goals: each is considered at each place.
pub(crate) fn ordering_steps(goals: &[&Goal]) -> u64 {
    let work: usize = goals.iter().map(|goal| goal.work()).sum();
    ((goals.len() * work).saturating_sub(INCLUDED_ORDERING) / ORDERING_PER_STEP) as u64
}

impl Pattern {
    /// The number of patterns in it, itself included, and the work of evaluating it. At each operation and function all of it
    /// is visited, to find out whether it can be inverted.
    fn size_and_work(&self) -> (usize, usize) {
        let (own, (size, work)) = match self {
            Self::Variable(_) | Self::Anything | Self::Fixed(_) | Self::Interval(..) => return (1, 1),
            Self::Function(name, patterns) => {
                let parts = patterns.iter().map(Self::size_and_work);
                (
                    3 + name.len() / NAME_BYTES_PER_TERM,
                    parts.fold((1, 0), |(size, work), (s, w)| (size + s, work + w)),
                )
            }
            Self::Negative(pattern) | Self::Absolute(pattern) => {
                let (size, work) = pattern.size_and_work();
                (2, (size + 1, work))
            }
            Self::Binary(_, a, b) => {
                let ((size, work), (other, more)) = (a.size_and_work(), b.size_and_work());
                (2, (size + other + 1, work + more))
            }
        };
        (size, own + work + size / 4)
    }
}

impl Goal {
    /// The work of evaluating it once, without what is inside a condition or a set.
    pub fn work(&self) -> usize {
        match self {
            Self::Atom(_, name, patterns) => name.len() / NAME_BYTES_PER_TERM + work(patterns),
            Self::Comparison(_, a, _, b) => a.size_and_work().1 + b.size_and_work().1,
            Self::ForAll(goal, _) => goal.work(),
            Self::Aggregate(set) => set.guards.iter().map(|(_, pattern)| pattern.size_and_work().1).sum(),
        }
    }
}
