//! The world as a whole: what is small enough is solved to the end, and proven.

use asp::{Aim, Ended, Outcome, Rounding, Scale, Task};
use exact::branch::{self, ProofStatus};
use placement::{FoundBy, Objectives, Snapshot, SolveError, Stage};

use crate::search_state::{SearchState, is_exhausted};

/// Actors with a choice above which a proof by the solver is out of reach: of 24 on 6 units it solves every other world
/// in 5 s. No figure of a world tells beforehand how long a proof takes, and trying takes all of the time; with more, what is
/// wanted is a better answer.
const MOST_ACTORS: usize = 32;

/// The same for branch and bound, which is tried first where the world is for it: 32 on 8 units are proven in a second. Where it is
/// of no use it costs `BRANCH_WORK`, counted and not timed; it could hold 64, but 48 on 9 take minutes.
const MOST_BRANCHED: usize = 40;

/// Steps of branch and bound after which the solver is asked instead: a second or two.
const BRANCH_WORK: u64 = 1 << 30;

/// Pairs of an actor and a candidate above which the program would be too large.
const MOST_CHOICES: usize = 100_000;

/// Whether a proof is within reach.
pub(crate) fn is_provable_by_clingo(snapshot: &Snapshot) -> bool {
    let problem = snapshot.problem();
    let choices = problem.movable.iter().map(|&actor| problem.candidates(actor).len());
    let (actors, choices) = choices
        .filter(|choices| *choices > 1)
        .fold((0, 0), |(actors, all), choices| (actors + 1, all + choices));
    let rules = snapshot.rules().map_or(0, |rules| rules.ground().len());
    let has_pairs = !problem.channels.are_whole();
    has_pairs && actors <= MOST_ACTORS && choices <= MOST_CHOICES && rules <= MOST_CHOICES
}

/// Whether branch and bound may prove the world.
pub(crate) fn is_provable_by_branch_and_bound(snapshot: &Snapshot) -> bool {
    snapshot.problem().movable.len() <= MOST_BRANCHED
}

/// Solves the whole world by branch and bound, where it is for that.
///
/// Each better assignment is an effort unit, and the proof is one.
pub(crate) fn branch_and_bound(search: &mut SearchState) -> ProofStatus {
    let (snapshot, start, stop) = (search.snapshot, search.best.assignment.clone(), search.stop());
    let limits = branch::WorkLimits { work: BRANCH_WORK, stop };
    let mut agreed = true;
    let solved = branch::solve(snapshot, &start, &limits, &mut |assignment| {
        search.spend(1);
        agreed &= search.offer(assignment, Stage::Whole, FoundBy::Exact);
        search.left() > 0
    });
    if !agreed {
        tracing::warn!("branch and bound took something for better that is not; its proof does not count");
        return ProofStatus::Open;
    }
    let status = solved.map_or(ProofStatus::Open, |solved| solved.status);
    if status == ProofStatus::Proven {
        search.spend(1);
    }
    status
}

/// Solves the whole world, or two scalings of it where its numbers are too large for the solver.
pub(crate) fn solve(search: &mut SearchState, conflicts: u64) -> Result<ProofStatus, SolveError> {
    let snapshot = search.snapshot;
    let Some(scale) = usable(Scale::of(snapshot)) else { return Ok(ProofStatus::Open) };
    if scale.is_exact() {
        let (ended, _) = improve(search, snapshot, conflicts, true)?;
        return Ok(status(&ended, is_exhausted(&ended)));
    }
    for rounding in [Rounding::Cautious, Rounding::Relaxed] {
        let Some(world) = usable(scale.apply(snapshot, rounding)) else { break };
        let (ended, optimum) = improve(search, &world, conflicts, false)?;
        if !is_exhausted(&ended) {
            return Ok(status(&ended, false));
        }
        if let Some(optimum) = optimum.filter(|_| rounding == Rounding::Relaxed) {
            let tight = take_bounds(search, &scale, &optimum);
            return Ok(status(&ended, tight));
        }
    }
    Ok(ProofStatus::Open)
}

fn status(ended: &Ended, proven: bool) -> ProofStatus {
    match ended {
        Ended::Stopped => ProofStatus::Stopped,
        _ if proven => ProofStatus::Proven,
        _ => ProofStatus::Open,
    }
}

/// Has clingo solve a world, which may be a scaled one, and takes every model that is better in the real one.
///
/// Each model is an effort unit, and the proof is one. Returns how it ended, and the last model's vector.
fn improve(
    search: &mut SearchState,
    world: &Snapshot,
    conflicts: u64,
    no_worse: bool,
) -> Result<(Ended, Option<Vec<i64>>), SolveError> {
    let (mut last, mut refused) = (None, false);
    let start = search.best.assignment.clone();
    let no_worse = no_worse && search.best.broken == 0;
    // Where a proof is out of reach and most have a place, clingo is to begin with that, which its search for proofs has no regard for.
    let movable = &search.snapshot.problem().movable;
    let placed = movable.iter().filter(|actor| start[**actor].is_some()).count();
    let is_warm = placed * 2 > movable.len() && !is_provable_by_clingo(search.snapshot);
    let aim = if is_warm { Aim::Improve } else { Aim::Proof };
    let task = Task { conflicts, aim, models: search.left(), no_worse };
    let ended = search.ask(world, &start, &task, |search, assignment, vector| {
        search.spend(1);
        refused |= !world.violations(&assignment).is_empty();
        search.offer(assignment, Stage::Whole, FoundBy::Clingo);
        last = Some(vector);
    })?;
    if refused {
        tracing::warn!("the checker refuses what clingo takes for feasible; its proof does not count");
        return Ok((Ended::Finished(Outcome::Stopped), None));
    }
    if is_exhausted(&ended) {
        search.spend(1);
    }
    Ok((ended, last))
}

/// The world whose lower bounds are such of this one: itself, or relaxed where its numbers are too large for the solver.
pub(crate) fn relaxed_snapshot(snapshot: &Snapshot) -> Option<(Scale, Snapshot)> {
    let scale = usable(Scale::of(snapshot))?;
    if scale.is_exact() {
        return Some((scale, snapshot.clone()));
    }
    let world = scale.bounds(snapshot).then(|| scale.apply(snapshot, Rounding::Relaxed))?;
    Some((scale, usable(world)?))
}

/// What is known at least of every vector of the relaxed world, level by level as far as it is known, says of the answer; true if
/// it cannot be better. Of an answer that breaks what a policy demands it says nothing: what obeys is better whatever it costs.
pub(crate) fn take_bounds(search: &mut SearchState, scale: &Scale, known: &[i64]) -> bool {
    let snapshot = search.snapshot;
    if search.best.broken > 0 || (!scale.is_exact() && !scale.bounds(snapshot)) {
        return false;
    }
    let mut tight = known.first() == Some(&search.best.vector[0]);
    for (position, level) in snapshot.objectives().levels().iter().enumerate() {
        // A bound of a level holds where the levels above are at their bounds.
        let Some(least) = known.get(position + 1).filter(|_| tight) else { return false };
        let divisor = i64::try_from(scale.level(snapshot, position)).unwrap_or(i64::MAX);
        // What clingo knows of a sum with terms below 0 before it has looked; no criterion is.
        let least = least.saturating_mul(divisor).max(0);
        search.bound.insert(Objectives::key(level), least);
        tight = search.best.vector[position + 1] == least;
    }
    tight
}

/// A scaled world that could not be made costs no more than the solver.
pub(crate) fn usable<T, E: std::fmt::Display>(scaled: Result<T, E>) -> Option<T> {
    if let Err(problem) = &scaled {
        tracing::warn!(%problem, "the numbers cannot be scaled to the solver's; the best answer so far stands");
    }
    scaled.ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use asp::{Limits, Session};
    use placement::Budget;
    use search::Greedy;
    use testkit::line;

    use super::*;

    #[test]
    fn a_bound_proves_nothing_of_what_breaks_a_policy() {
        let snapshot = line::world("u:cpu:9 v:gpu:9", "a:cpu=1 b:gpu=1", "a to b 3");
        let budget = Budget::effort(None, 1);
        let start = Greedy.construct(&snapshot, &budget);
        let session = Session::new(Path::new("/bin/false"), Limits::default(), 1);
        let mut search = SearchState::new(session, &snapshot, &budget, start);
        let (scale, known) = (Scale::of(&snapshot).unwrap(), search.best.vector.clone());
        for (broken, is_proven) in [(1, false), (0, true)] {
            search.best.broken = broken;
            assert_eq!(take_bounds(&mut search, &scale, &known), is_proven, "{broken}");
            assert_eq!(search.bound.is_empty(), !is_proven, "{broken}");
        }
    }
}
