//! The order in which the goals of a body are evaluated, and the indexes for their look-ups.

use std::collections::BTreeMap;

use crate::compile::{Goal, Pattern};
use crate::effort::ordering_steps;
use crate::limits::extra_steps;
use crate::output::{GroundingStop, Sink};
use crate::relation::Relation;
use crate::syntax::Sign;

/// Predicates by name and arity.
pub(crate) type Relations = BTreeMap<(String, usize), Relation>;

/// A goal in evaluation order.
pub(crate) struct Step<'a> {
    pub goal: &'a Goal,
    /// Positions of its terms that are bound when it is evaluated.
    pub mask: u64,
    /// The steps of evaluating it, or of matching it with one tuple.
    pub steps: u64,
    /// The conditions inside it, ordered in the same way.
    pub inner: Vec<Vec<Step<'a>>>,
}

/// Orders goals so that each has the bindings that it needs, the most selective first, and builds the indexes for their
/// look-ups.
pub(crate) fn order<'a>(
    (relations, sink): (&mut Relations, &mut Sink),
    goals: &[&'a Goal],
    needs: &[Vec<usize>],
    known: &mut [bool],
) -> Result<Vec<Step<'a>>, GroundingStop> {
    sink.steps(ordering_steps(goals))?;
    let mut left: Vec<usize> = (0..goals.len()).collect();
    let mut steps = Vec::new();
    while !left.is_empty() {
        let mut best: Option<(usize, usize)> = None;
        for (position, &goal) in left.iter().enumerate() {
            if needs[goal].iter().all(|slot| known[*slot])
                && let Some(answers) = answers((&mut *relations, &mut *sink), goals[goal], known)?
                && best.is_none_or(|(_, least)| answers < least)
            {
                best = Some((position, answers));
            }
        }
        // A safe rule always has a next goal; unsafe rules were refused.
        let goal = goals[left.remove(best.map_or(0, |(position, _)| position))];
        let mask = match goal {
            Goal::Atom(Sign::Plain, _, patterns) => mask(patterns, known),
            _ => 0,
        };
        gives(goal, known);
        let mut inner = Vec::new();
        for condition in conditions(goal) {
            inner.push(order_inside((&mut *relations, &mut *sink), condition, known)?);
        }
        steps.push(Step { goal, mask, steps: 1 + extra_steps(goal.work()), inner });
    }
    Ok(steps)
}

/// Estimated number of answers of a goal, if it can be evaluated.
fn answers(
    (relations, sink): (&mut Relations, &mut Sink),
    goal: &Goal,
    known: &[bool],
) -> Result<Option<usize>, GroundingStop> {
    Ok(match goal {
        Goal::Atom(Sign::Plain, name, patterns) => {
            let mask = mask(patterns, known);
            let relation = relations.entry((name.clone(), patterns.len())).or_default();
            if !relation.has_index(mask) {
                sink.keep(relation.len())?;
                relation.index(mask);
            }
            Some(1 + relation.per_key(mask))
        }
        Goal::Comparison(Sign::Plain, Pattern::Interval(from, to), "=", other)
        | Goal::Comparison(Sign::Plain, other, "=", Pattern::Interval(from, to)) => {
            let width = usize::try_from(to.saturating_sub(*from)).unwrap_or(0);
            Some(if other.is_known(known) { 0 } else { 2 + width })
        }
        Goal::Comparison(Sign::Plain, a, "=", b) => (a.is_known(known) || b.is_known(known)).then_some(0),
        Goal::Comparison(..) | Goal::Atom(..) => Some(0),
        // Each costs a nested join: evaluated after everything else.
        Goal::ForAll(..) | Goal::Aggregate(_) => Some(usize::MAX - 1),
    })
}

fn conditions(goal: &Goal) -> Vec<&Vec<Goal>> {
    match goal {
        Goal::ForAll(_, condition) => vec![condition],
        Goal::Aggregate(aggregate) => aggregate.elements.iter().map(|(_, condition)| condition).collect(),
        _ => Vec::new(),
    }
}

fn order_inside<'a>(
    (relations, sink): (&mut Relations, &mut Sink),
    condition: &'a [Goal],
    known: &[bool],
) -> Result<Vec<Step<'a>>, GroundingStop> {
    let goals: Vec<&Goal> = condition.iter().collect();
    let all: Vec<usize> = (0..known.len()).collect();
    let needs: Vec<Vec<usize>> = goals.iter().map(|goal| goal.needs(&all)).collect();
    order((relations, sink), &goals, &needs, &mut known.to_vec())
}

/// Positions of terms that are bound.
fn mask(patterns: &[Pattern], known: &[bool]) -> u64 {
    let bits = patterns.iter().enumerate().filter(|(_, pattern)| pattern.is_known(known));
    bits.fold(0, |mask, (position, _)| mask | 1 << position)
}

/// Marks the slots that a goal binds.
fn gives(goal: &Goal, known: &mut [bool]) {
    let mut slots = Vec::new();
    match goal {
        Goal::Atom(Sign::Plain, _, patterns) => patterns.iter().for_each(|pattern| pattern.slots(&mut slots)),
        Goal::Comparison(Sign::Plain, a, "=", b) => {
            a.slots(&mut slots);
            b.slots(&mut slots);
        }
        Goal::Aggregate(set) => set.guards.iter().for_each(|(_, pattern)| pattern.slots(&mut slots)),
        _ => {}
    }
    for slot in slots {
        known[slot] = true;
    }
}
