//! Reverts moves that gain nothing.

use crate::assessment::{Assessed, Assessment, assess};
use crate::evaluation::state::State;
use crate::ix::ActorIx;
use crate::{Assignment, Criterion, Judge, JudgeError, RuleEvaluator, Snapshot};

/// The number of moves that are reverted one at a time, each with a verdict, if reverting all at once is refused.
const MOST_VERDICTS: usize = 64;

/// Reverts every move that gains nothing.
pub(crate) fn take_back_idle_moves(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    (mut assignment, mut cost, mut is_unverified): Assessed,
) -> Result<Assessed, JudgeError> {
    let mut verdicts = 0;
    loop {
        let (without, idle) = without_idle_moves(snapshot, &assignment);
        if idle.is_empty() {
            return Ok((assignment, cost, is_unverified));
        }
        let Assessment { violations, cost: price, is_unverified: unverified } =
            assess(snapshot, judge, &without)?;
        if violations.is_empty() && price.vector(snapshot) <= cost.vector(snapshot) {
            (assignment, cost, is_unverified) = (without, price, unverified);
            continue;
        }
        // The policy refuses more than the rules show: find the culprits one by one.
        let mut changed = false;
        for actor in idle {
            if verdicts == MOST_VERDICTS {
                return Ok((assignment, cost, is_unverified));
            }
            let mut without = assignment.clone();
            without[actor] = snapshot.current(actor);
            verdicts += 1;
            let Assessment { violations, cost: price, is_unverified: unverified } =
                assess(snapshot, judge, &without)?;
            if violations.is_empty() && price.vector(snapshot) <= cost.vector(snapshot) {
                (assignment, cost, is_unverified, changed) = (without, price, unverified, true);
            }
        }
        if !changed {
            return Ok((assignment, cost, is_unverified));
        }
    }
}

/// Grandfathered violations, updated move by move, if there can be any.
fn excuses<'a>(snapshot: &'a Snapshot, assignment: &Assignment) -> Option<RuleEvaluator<'a>> {
    let rules = snapshot.rules().filter(|rules| !rules.excuses().is_empty())?;
    Some(RuleEvaluator::of(rules, assignment))
}

/// The assignment without the moves that gain nothing as far as is known without the judge, and the actors concerned.
fn without_idle_moves(snapshot: &Snapshot, assignment: &Assignment) -> (Assignment, Vec<ActorIx>) {
    let mut state = State::of(snapshot, assignment);
    let mut excused = excuses(snapshot, assignment);
    // Only the judge knows all of `policy`: the levels above it can decide a comparison without it.
    let levels = snapshot.objectives().levels();
    let known = levels.iter().take_while(|level| !level.contains(&Criterion::Policy)).count();
    let mut idle = Vec::new();
    for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
        let (Some(from), Some(to)) = (snapshot.problem.current[actor], state.place(actor)) else { continue };
        if from == to {
            continue;
        }
        state.take(actor);
        let more = excused.as_mut().map_or(0, |evaluator| {
            let before = evaluator.excused();
            evaluator.take(actor, to);
            evaluator.put(actor, from);
            evaluator.excused() - before
        });
        let pays =
            || more > 0 || (more == 0 && state.price(actor, to)[..known] < state.price(actor, from)[..known]);
        // Prices can be expensive, and are not needed for actors that cannot go back.
        if !state.admits(actor, from) || pays() {
            if let Some(evaluator) = &mut excused {
                evaluator.take(actor, from);
                evaluator.put(actor, to);
            }
            state.put(actor, to);
        } else {
            state.put(actor, from);
            idle.push(actor);
        }
    }
    (state.assignment, idle)
}
