//! Rebuilds a missing decision from the running pods.

use std::collections::BTreeMap;
use std::time::Duration;

use placement::{
    Answer, Assignment, Budget, FoundBy, Rule, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};

use crate::commit::repair::user_rules;

/// Fixes running actors and lets `search` place only the others, so that a deleted decision moves nothing.
///
/// `search` gets the whole problem only if the running actors cannot stay: they violate a limit that is not
/// grandfathered, or policy rules that the other actors cannot satisfy.
pub struct KeepRunning(pub Box<dyn Strategy>);

impl Strategy for KeepRunning {
    fn name(&self) -> &'static str {
        "observed"
    }

    fn summary(&self) -> &'static str {
        "running actors stay; only the others are placed"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let (search, incumbent) = (self.0.as_ref(), snapshot.incumbent());
        let broken = snapshot.violations(&incumbent);
        // A policy rule may be satisfied by placing another actor; a violated limit cannot.
        if broken.iter().any(|violation| violation.rule != Rule::Policy) {
            return search.solve(snapshot, budget);
        }
        let mut file = snapshot.file().clone();
        for actor in file.actors.iter_mut().filter(|actor| actor.current.is_some()) {
            actor.fixed = true;
        }
        let may_stay = broken.is_empty();
        if may_stay && file.actors.iter().all(|actor| actor.fixed) {
            return Ok(unchanged(incumbent));
        }
        let rules = user_rules(snapshot);
        let rest = match rules {
            // While running actors are fixed the rules are unchanged.
            Some(rules) => snapshot.in_numbers(file, Some(rules.clone())),
            // Limits that are already violated bind only the new actors.
            None => Snapshot::new(file),
        };
        let Ok(rest) = rest else { return search.solve(snapshot, budget) };
        let found = if may_stay {
            search.solve(&rest, budget)
        } else {
            solve_in_half_the_time(search, &rest, budget)
        };
        let answer = found?;
        if rules.is_none_or(|rules| rules.violations(&answer.assignment).is_empty()) {
            // Proofs hold for the reduced problem only.
            return Ok(Answer { optimal: false, bound: BTreeMap::new(), proven_by: None, ..answer });
        }
        // No placement satisfies the rules. If the running actors alone do, nothing is added.
        if may_stay {
            return Ok(Answer {
                effort: answer.effort,
                stopped_by: answer.stopped_by,
                ..unchanged(incumbent)
            });
        }
        search.solve(snapshot, budget)
    }
}

/// The running actors and no others.
fn unchanged(incumbent: Assignment) -> Answer {
    Answer {
        assignment: incumbent,
        bound: BTreeMap::new(),
        optimal: false,
        effort: 0,
        stage: Stage::Incumbent,
        found_by: FoundBy::Incumbent,
        proven_by: None,
        stopped_by: StoppedBy::Effort,
    }
}

/// Searches in half of the remaining time, as a second search may follow.
fn solve_in_half_the_time(
    search: &dyn Strategy,
    snapshot: &Snapshot,
    budget: &Budget,
) -> Result<Answer, SolveError> {
    let Some(left) = budget.left else { return search.solve(snapshot, budget) };
    let kept: Duration = left() / 2;
    let left = || left().saturating_sub(kept);
    let stop = || left().is_zero() || (budget.stop)();
    search.solve(snapshot, &Budget { stop: &stop, left: Some(&left), ..*budget })
}
