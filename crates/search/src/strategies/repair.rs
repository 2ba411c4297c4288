//! Repair of an answer under a policy's rules, which not every strategy knows.

use std::collections::BTreeMap;

use placement::{Answer, Budget, Snapshot};

use crate::strategies::local::improve;

/// Pieces of native search for each actor of a placement that breaks the policy's rules.
const REPAIR: u64 = 2;

/// The answer, or one near it where it breaks the policy's rules: what a strategy that does not know them ends with.
pub fn repair_violations(snapshot: &Snapshot, answer: Answer, budget: &Budget) -> Answer {
    let Some(rules) = snapshot.rules() else { return answer };
    if rules.violations(&answer.assignment).is_empty() {
        return answer;
    }
    // When the clock is over nothing is left: as much effort again would be spent before there is anything to repair.
    let is_over = (budget.stop)();
    let left = budget.effort.map_or(u64::MAX, |effort| effort.saturating_sub(answer.effort));
    let left = if is_over { 0 } else { left };
    let effort = left.min(REPAIR * (snapshot.actors() as u64).max(100));
    let repaired = improve(snapshot, &answer.assignment, &Budget { effort: Some(effort), ..*budget });
    // What was spent on it counts: as much again replays it.
    let answer = Answer { effort: answer.effort + repaired.effort, ..answer };
    if rules.violations(&repaired.assignment).is_empty() {
        return Answer {
            stage: repaired.stage,
            found_by: repaired.found_by,
            assignment: repaired.assignment,
            bound: BTreeMap::new(),
            // What was proven, was proven of what the rules refuse.
            optimal: false,
            proven_by: None,
            ..answer
        };
    }
    answer
}
