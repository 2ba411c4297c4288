//! A decision that is not there is made from what is observed.

use std::collections::BTreeMap;
use std::time::Duration;

use placement::{
    Answer, Assignment, Budget, FoundBy, Rule, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};

use crate::commit::repair::user_rules;

/// Whoever runs somewhere stays there, and `search` looks for places for the others alone: a deleted decision reshuffles
/// nothing, whatever rules a policy has and whatever what runs breaks already, as long as that is excused.
///
/// `search` has the whole only where what runs cannot stay: where it breaks a limit that nothing excuses, or a policy's rules that
/// whoever comes does not mend.
pub struct KeepRunning(pub Box<dyn Strategy>);

impl Strategy for KeepRunning {
    fn name(&self) -> &'static str {
        "observed"
    }

    fn summary(&self) -> &'static str {
        "what runs stays where it is, and places are looked for only for the rest"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let (search, runs) = (self.0.as_ref(), snapshot.incumbent());
        let broken = snapshot.violations(&runs);
        // A rule may ask for somebody who runs nowhere yet; who passes a limit passes it whoever comes.
        if broken.iter().any(|violation| violation.rule != Rule::Policy) {
            return search.solve(snapshot, budget);
        }
        let mut file = snapshot.file().clone();
        for actor in file.actors.iter_mut().filter(|actor| actor.current.is_some()) {
            actor.fixed = true;
        }
        let may_stay = broken.is_empty();
        if may_stay && file.actors.iter().all(|actor| actor.fixed) {
            return Ok(staying(runs));
        }
        let rules = user_rules(snapshot);
        let rest = match rules {
            // Where nobody moves who runs, the rules are the same ones.
            Some(rules) => snapshot.in_numbers(file, Some(rules.clone())),
            // Limits that are passed already bind whoever comes, and nobody else is asked.
            None => Snapshot::new(file),
        };
        let Ok(rest) = rest else { return search.solve(snapshot, budget) };
        let found = if may_stay { search.solve(&rest, budget) } else { with_half(search, &rest, budget) };
        let answer = found?;
        if rules.is_none_or(|rules| rules.violations(&answer.assignment).is_empty()) {
            // What is proven, is proven of the rest alone.
            return Ok(Answer { optimal: false, bound: BTreeMap::new(), proven_by: None, ..answer });
        }
        // Nothing was found that the rules allow. If what runs is allowed, nobody comes.
        if may_stay {
            return Ok(Answer { effort: answer.effort, stopped_by: answer.stopped_by, ..staying(runs) });
        }
        search.solve(snapshot, budget)
    }
}

/// What runs, and nobody else.
fn staying(runs: Assignment) -> Answer {
    Answer {
        assignment: runs,
        bound: BTreeMap::new(),
        optimal: false,
        effort: 0,
        stage: Stage::Incumbent,
        found_by: FoundBy::Incumbent,
        proven_by: None,
        stopped_by: StoppedBy::Effort,
    }
}

/// Searches in half of the time that there is, where another search may have to follow.
fn with_half(search: &dyn Strategy, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
    let Some(left) = budget.left else { return search.solve(snapshot, budget) };
    let kept: Duration = left() / 2;
    let left = || left().saturating_sub(kept);
    let stop = || left().is_zero() || (budget.stop)();
    search.solve(snapshot, &Budget { stop: &stop, left: Some(&left), ..*budget })
}
