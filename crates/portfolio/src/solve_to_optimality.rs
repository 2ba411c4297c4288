//! Solves small snapshots to proven optimality.

use asp::{Aim, JobEnd, Outcome, Rounding, Scale, Task};
use exact::branch::{self, ProofStatus};
use placement::{FoundBy, Objectives, Snapshot, SolveError, Stage};

use crate::search_state::{SearchState, is_exhausted};

/// Actors with a choice above which a proof by clingo is out of reach: of 24 on 6 units it solves every other one in 5 s.
/// Nothing predicts the duration of a proof, and a failed attempt takes all of the time.
const MAX_CLINGO_ACTORS: usize = 32;

/// The same for branch and bound, which is tried first where it is supported: it proves 32 on 8 units in a second. Where
/// it fails it costs `BRANCH_WORK` steps. It supports 64, but 48 on 9 units take minutes.
const MAX_BRANCHED_ACTORS: usize = 40;

/// Steps of branch and bound after which clingo is tried instead: a second or two.
const BRANCH_WORK: u64 = 1 << 30;

/// Pairs of an actor and a candidate above which the program would be too large.
const MAX_CHOICES: usize = 100_000;

/// Whether a proof by clingo is within reach.
pub(crate) fn is_provable_by_clingo(snapshot: &Snapshot) -> bool {
    let problem = snapshot.problem();
    let choices = problem.movable.iter().map(|&actor| problem.candidates(actor).len());
    let (actors, choices) = choices
        .filter(|choices| *choices > 1)
        .fold((0, 0), |(actors, all), choices| (actors + 1, all + choices));
    let rules = snapshot.rules().map_or(0, |rules| rules.ground().len());
    let has_pairs = !problem.channels.are_whole();
    has_pairs && actors <= MAX_CLINGO_ACTORS && choices <= MAX_CHOICES && rules <= MAX_CHOICES
}

/// Whether branch and bound may prove optimality.
pub(crate) fn is_provable_by_branch_and_bound(snapshot: &Snapshot) -> bool {
    snapshot.problem().movable.len() <= MAX_BRANCHED_ACTORS
}

/// Solves the snapshot by branch and bound, where it is supported.
///
/// Each better assignment is a unit of effort, and so is the proof.
///
/// # Errors
/// It reports an assignment that is infeasible, or not better than the one before.
pub(crate) fn branch_and_bound(search: &mut SearchState) -> Result<ProofStatus, SolveError> {
    let (snapshot, start, stop) = (search.snapshot, search.best.assignment.clone(), search.stop());
    let limits = branch::WorkLimits { work: BRANCH_WORK, stop };
    let mut agrees = true;
    let solved = branch::solve(snapshot, &start, &limits, &mut |assignment| {
        search.spend(1);
        agrees &= search.offer(assignment, Stage::Whole, FoundBy::Exact);
        search.left() > 0
    });
    if !agrees {
        let problem = "branch and bound reported an assignment that is infeasible or not better";
        return Err(SolveError::Proof(problem.to_owned()));
    }
    let status = solved.map_or(ProofStatus::Open, |solved| solved.status);
    if status == ProofStatus::Proven {
        search.spend(1);
    }
    Ok(status)
}

/// Solves the snapshot by clingo, or two scalings of it where its numbers are too large.
pub(crate) fn solve(search: &mut SearchState, conflicts: u64) -> Result<ProofStatus, SolveError> {
    let snapshot = search.snapshot;
    let Some(scale) = logged_error(Scale::of(snapshot)) else { return Ok(ProofStatus::Open) };
    if scale.is_exact() {
        let (ended, _) = improve(search, snapshot, conflicts, true)?;
        return Ok(status(&ended, is_exhausted(&ended)));
    }
    for rounding in [Rounding::Cautious, Rounding::Relaxed] {
        let Some(world) = logged_error(scale.apply(snapshot, rounding)) else { break };
        let (ended, optimum) = improve(search, &world, conflicts, false)?;
        if !is_exhausted(&ended) {
            return Ok(status(&ended, false));
        }
        if let Some(optimum) = optimum.filter(|_| rounding == Rounding::Relaxed) {
            let tight = add_bounds(search, &scale, &optimum);
            return Ok(status(&ended, tight));
        }
    }
    Ok(ProofStatus::Open)
}

fn status(ended: &JobEnd, proven: bool) -> ProofStatus {
    match ended {
        JobEnd::Stopped => ProofStatus::Stopped,
        _ if proven => ProofStatus::Proven,
        _ => ProofStatus::Open,
    }
}

/// Solves a snapshot by clingo, possibly a scaled one, and offers every model.
///
/// Each model is a unit of effort, and so is the proof. Returns how it ended, and the last model's vector.
fn improve(
    search: &mut SearchState,
    world: &Snapshot,
    conflicts: u64,
    no_worse: bool,
) -> Result<(JobEnd, Option<Vec<i64>>), SolveError> {
    let (mut last, mut rejected) = (None, false);
    let start = search.best.assignment.clone();
    let no_worse = no_worse && search.best.violation == 0;
    // Where a proof is out of reach and most actors are placed, clingo starts from the incumbent, which its search for
    // proofs ignores.
    let movable = &search.snapshot.problem().movable;
    let placed = movable.iter().filter(|actor| start[**actor].is_some()).count();
    let is_warm = placed * 2 > movable.len() && !is_provable_by_clingo(search.snapshot);
    let aim = if is_warm { Aim::Improve } else { Aim::Proof };
    let task = Task { conflicts, aim, models: search.left(), no_worse };
    let ended = search.solve_by_clingo(world, &start, &task, |search, assignment, vector| {
        search.spend(1);
        rejected |= !world.violations(&assignment).is_empty();
        search.offer(assignment, Stage::Whole, FoundBy::Clingo);
        last = Some(vector);
    })?;
    if rejected {
        return Err(SolveError::Proof("the checker rejected a model of clingo".to_owned()));
    }
    if no_worse && ended == JobEnd::Finished(Outcome::Unsatisfiable) {
        return Err(SolveError::Proof("clingo found no placement, and there is one".to_owned()));
    }
    if is_exhausted(&ended) {
        search.spend(1);
    }
    Ok((ended, last))
}

/// A snapshot whose lower bounds are valid for this one: itself, or a relaxed scaling where its numbers are too large for
/// clingo.
pub(crate) fn relaxed_snapshot(snapshot: &Snapshot) -> Option<(Scale, Snapshot)> {
    let scale = logged_error(Scale::of(snapshot))?;
    if scale.is_exact() {
        return Some((scale, snapshot.clone()));
    }
    let world = scale.bounds(snapshot).then(|| scale.apply(snapshot, Rounding::Relaxed))?;
    Some((scale, logged_error(world)?))
}

/// Converts lower bounds of the relaxed snapshot, level by level, to bounds of the answer; true if they prove it optimal.
/// They prove nothing for an answer that violates the policy: any that obeys it is better.
pub(crate) fn add_bounds(search: &mut SearchState, scale: &Scale, known: &[i64]) -> bool {
    let snapshot = search.snapshot;
    if search.best.violation > 0 || (!scale.is_exact() && !scale.bounds(snapshot)) {
        return false;
    }
    let mut tight = known.first() == Some(&search.best.vector[0]);
    for (position, level) in snapshot.objectives().levels().iter().enumerate() {
        // A bound of a level holds where the levels above are at their bounds.
        let Some(least) = known.get(position + 1).filter(|_| tight) else { return false };
        let divisor = i64::try_from(scale.level(snapshot, position)).unwrap_or(i64::MAX);
        // clingo's bound of a sum with negative terms may be negative; no criterion is.
        let least = least.saturating_mul(divisor).max(0);
        search.bound.insert(Objectives::key(level), least);
        tight = search.best.vector[position + 1] == least;
    }
    tight
}

/// Logs that a scaling failed.
pub(crate) fn logged_error<T, E: std::fmt::Display>(scaled: Result<T, E>) -> Option<T> {
    if let Err(problem) = &scaled {
        tracing::warn!(%problem, "cannot scale the numbers for clingo; keeping the best answer so far");
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
    fn bounds_prove_nothing_for_answers_that_violate_a_policy() {
        let snapshot = line::world("u:cpu:9 v:gpu:9", "a:cpu=1 b:gpu=1", "a to b 3");
        let budget = Budget::effort(None, 1);
        let start = Greedy.construct(&snapshot, &budget);
        let session = Session::new(Path::new("/bin/false"), Limits::default(), 1);
        let mut search = SearchState::new(session, &snapshot, &budget, start);
        let (scale, known) = (Scale::of(&snapshot).unwrap(), search.best.vector.clone());
        for (violation, is_proven) in [(1, false), (0, true)] {
            search.best.violation = violation;
            assert_eq!(add_bounds(&mut search, &scale, &known), is_proven, "{violation}");
            assert_eq!(search.bound.is_empty(), !is_proven, "{violation}");
        }
    }
}
