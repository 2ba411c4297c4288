//! Repairs answers that violate a policy's rules, which not every strategy knows.

use std::collections::BTreeMap;

use placement::{Answer, Budget, Snapshot};

use crate::strategies::local::improve;

/// Batches of native search for each actor of a placement that violates the policy's rules.
const BATCHES_PER_ACTOR: u64 = 2;

/// The answer, or a similar one if it violates the policy's rules.
pub fn repair_violations(snapshot: &Snapshot, answer: Answer, budget: &Budget) -> Answer {
    let Some(rules) = snapshot.rules() else { return answer };
    if rules.violations(&answer.assignment).is_empty() {
        return answer;
    }
    // When the clock is over nothing is left: a replay would spend the effort before there is anything to repair.
    let is_over = (budget.stop)();
    let left = budget.effort.map_or(u64::MAX, |effort| effort.saturating_sub(answer.effort));
    let left = if is_over { 0 } else { left };
    let effort = left.min(BATCHES_PER_ACTOR * (snapshot.actors() as u64).max(100));
    let repaired = improve(snapshot, &answer.assignment, &Budget { effort: Some(effort), ..*budget });
    // The repair counts as effort, so that a replay includes it.
    let answer = Answer { effort: answer.effort + repaired.effort, ..answer };
    if rules.violations(&repaired.assignment).is_empty() {
        return Answer {
            stage: repaired.stage,
            found_by: repaired.found_by,
            assignment: repaired.assignment,
            bound: BTreeMap::new(),
            // A proof of a placement that the rules reject is void.
            optimal: false,
            proven_by: None,
            ..answer
        };
    }
    answer
}
