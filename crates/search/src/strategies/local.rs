//! The strategy `local`, and the same search from any start.

use std::collections::BTreeMap;

use crate::driver::search::{AnnealingSearch, SearchInstance};
use crate::model::STEPS;
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

/// Pieces after which what chains would come to is looked at for the first time; more where there are more actors.
const FIRST_LOOK: u64 = 160;

/// Starts from what runs, or a quick placement of what does not, and anneals: runs that grow longer and longer, on two chains, one of which
/// also tries to leave nodes empty, begins with each node that has room for much, and then late, with the best.
///
/// A piece of effort is a thousand steps tried on each of two threads, fewer where a criterion is read off many messages; before any,
/// everybody is placed as far as that is easy. Making room for who is left, and bringing loads within capacities, belongs to the first,
/// and counts for nothing where a deadline cuts it short.
/// A search whose clock is known ends as long before it does as a last look takes at what chains would come to.
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
/// The answer is feasible, and no worse than that of a search of 160 pieces, or of half as many as there are actors where that is more,
/// or of any doubling of these, that is shorter. It is never worse than `start` where that is feasible; where it is not, whoever stands against
/// a limit there is placed anew. [`AnnealingSearch`] is the same step by step.
pub fn improve(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Answer {
    let instance = SearchInstance::new(snapshot, budget.stop);
    let mut search = AnnealingSearch::new(&instance, start, budget.seed, budget.stop);
    let pieces = budget.effort.unwrap_or_else(|| enough(snapshot.actors()));
    let effort = run(&mut search, pieces, snapshot.actors(), budget);
    Answer {
        assignment: search.best(budget),
        bound: BTreeMap::new(),
        optimal: false,
        effort,
        stage: Stage::Local,
        found_by: if effort == 0 { FoundBy::Construction } else { FoundBy::Search },
        proven_by: None,
        stopped_by: if effort < pieces { StoppedBy::Deadline } else { StoppedBy::Effort },
    }
}

/// A first placement from `start` on: everybody is placed as far as that is easy; then, as the one piece of effort, room is made for who is
/// left, and loads are brought within capacities.
pub fn construct(instance: &SearchInstance, start: &Assignment, budget: &Budget) -> Answer {
    let mut search = AnnealingSearch::new(instance, start, budget.seed, budget.stop);
    let pieces = budget.effort.unwrap_or(1).min(1);
    let effort = u64::from(pieces > 0 && search.begin(budget));
    Answer {
        assignment: search.best(budget),
        bound: BTreeMap::new(),
        optimal: false,
        effort,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        stopped_by: if effort < pieces { StoppedBy::Deadline } else { StoppedBy::Effort },
    }
}

/// Runs so many pieces. What chains would come to is looked at, and kept, after fixed numbers of them, each twice the one
/// before: a longer search knows what the shorter ones found that ended there.
fn run(search: &mut AnnealingSearch, pieces: u64, actors: usize, budget: &Budget) -> u64 {
    let mut next = FIRST_LOOK.max(actors as u64 / 2);
    let mut done = 0;
    loop {
        let until = next.min(pieces);
        done += search.run(until - done, budget);
        // What the last look would find again, it need not find before.
        if done < until || done == pieces || !search.has_time_for(2, 0, budget) {
            return done;
        }
        search.best(budget);
        next *= 2;
    }
}

/// Pieces of effort after which more is not worth while, where nobody says how many.
fn enough(actors: usize) -> u64 {
    let actors = u64::try_from(actors).expect("a count of actors is small");
    (actors.saturating_pow(5) / 4).min(2_000_000 * actors).div_ceil(STEPS)
}
