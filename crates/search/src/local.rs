//! The strategy `local`, and the same search from any start.

use std::collections::BTreeMap;

use crate::schedule::STEPS;
use crate::session::{Search, Terrain};
use placement::{Answer, Assignment, Budget, Snapshot, SolveError, Stage, StoppedBy, Strategy};

/// Starts from what runs, or a quick placement of what does not, and anneals: coolings that grow longer and longer,
/// with polishes of the best between them, on two walks; small worlds with uneven losses by walks at steady temperatures
/// that change places.
///
/// A piece of effort is a thousand steps tried on each of two threads; placing everything, and bringing loads within capacities,
/// come before the first and are always finished.
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

/// Looks for a placement that is better than `start`, whose actors without a place are given one first.
///
/// The answer is lawful. It is never worse than `start` where that is lawful; where it is not, whoever stands against
/// a limit there is placed anew. [`Search`] is the same step by step.
pub fn improve(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Answer {
    let terrain = Terrain::new(snapshot);
    let mut search = Search::new(&terrain, start, budget.seed);
    let pieces = budget.effort.unwrap_or_else(|| enough(snapshot.actors()));
    let effort = search.run(pieces, budget.stop);
    Answer {
        assignment: search.best(),
        bound: BTreeMap::new(),
        optimal: false,
        effort,
        stage: Stage::Local,
        stopped_by: if effort < pieces { StoppedBy::Deadline } else { StoppedBy::Effort },
    }
}

/// Pieces of effort after which more is not worth while, where nobody says how many.
fn enough(actors: usize) -> u64 {
    let actors = u64::try_from(actors).expect("a count of actors is small");
    (actors.saturating_pow(5) / 4).min(2_000_000 * actors).div_ceil(STEPS)
}
