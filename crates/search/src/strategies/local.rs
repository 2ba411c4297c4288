//! The strategy `local`, and the same search from any start.

use std::collections::BTreeMap;

use crate::driver::search::{AnnealingSearch, SearchInstance};
use crate::model::STEPS;
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

/// Batches before the first probe; more where there are more actors.
const FIRST_PROBE: u64 = 160;

/// Anneals from what runs and a quick placement of the rest. Runs grow longer and longer, on two chains. The last chain
/// also tries to leave nodes empty, restarts around each node with much room, and reheats from the best.
///
/// A unit of effort is a batch of a thousand steps on each of two threads, fewer where a criterion reads many messages.
/// Before the first batch all actors are placed as far as that is easy. Ejection and load balancing belong to the first
/// batch and count for nothing where a deadline cuts them short. With a known clock the search ends early enough for a
/// last probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Strategy for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn summary(&self) -> &'static str {
        "starts from what runs and a quick placement of the rest, then anneals by moves and swaps"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        Ok(improve(snapshot, &snapshot.incumbent(), budget))
    }
}

/// Looks for a placement that is better than `start`, whose unplaced actors are placed first.
///
/// The answer is feasible. It is no worse than that of a shorter search of 160 batches, or of half as many as there are actors
/// if that is more, or of any doubling of these. It is never worse than a feasible `start`; actors that violate a limit in an
/// infeasible one are placed anew. [`AnnealingSearch`] is the same step by step.
pub fn improve(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Answer {
    let instance = SearchInstance::new(snapshot, budget.stop);
    let mut search = AnnealingSearch::new(&instance, start, budget.seed, budget.stop);
    let batches = budget.effort.unwrap_or_else(|| default_effort(snapshot.actors()));
    let effort = run(&mut search, batches, snapshot.actors(), budget);
    Answer {
        assignment: search.best(budget),
        bound: BTreeMap::new(),
        optimal: false,
        effort,
        stage: Stage::Local,
        found_by: if effort == 0 { FoundBy::Construction } else { FoundBy::Search },
        proven_by: None,
        stopped_by: if effort < batches { StoppedBy::Deadline } else { StoppedBy::Effort },
    }
}

/// A first placement from `start`: all actors are placed as far as that is easy; then, as the one batch, by ejection and
/// load balancing.
pub fn construct(instance: &SearchInstance, start: &Assignment, budget: &Budget) -> Answer {
    let mut search = AnnealingSearch::new(instance, start, budget.seed, budget.stop);
    let batches = budget.effort.unwrap_or(1).min(1);
    let effort = u64::from(batches > 0 && search.start_chains(budget));
    Answer {
        assignment: search.best(budget),
        bound: BTreeMap::new(),
        optimal: false,
        effort,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        stopped_by: if effort < batches { StoppedBy::Deadline } else { StoppedBy::Effort },
    }
}

/// Runs so many batches. Probes happen after fixed numbers of them, each twice the one before: a longer search knows what
/// the shorter ones found.
fn run(search: &mut AnnealingSearch, batches: u64, actors: usize, budget: &Budget) -> u64 {
    let mut next = FIRST_PROBE.max(actors as u64 / 2);
    let mut done = 0;
    loop {
        let until = next.min(batches);
        done += search.run(until - done, budget);
        // The last probe finds this again.
        if done < until || done == batches || !search.has_time_for(2, 0, budget) {
            return done;
        }
        search.best(budget);
        next *= 2;
    }
}

/// Batches after which more is not worth while, where no effort is given.
fn default_effort(actors: usize) -> u64 {
    let actors = u64::try_from(actors).expect("a count of actors is small");
    (actors.saturating_pow(5) / 4).min(2_000_000 * actors).div_ceil(STEPS)
}
