//! The strategy `asp`: an answer at once, then better ones, and a proof where one is within reach.

use std::path::PathBuf;

use asp::{Limits, Session};
use exact::branch::ProofStatus;
use placement::criteria::CriterionClass;
use placement::{
    Answer, Budget, Criterion, FoundBy, ProvenBy, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};
use search::{Greedy, SearchInstance};

use crate::ablation::Ablation;
use crate::anytime_loop;
use crate::search_state::SearchState;
use crate::solve_to_optimality;

/// Default limit of conflicts for a proof: a minute or so on small snapshots.
const CONFLICTS: u64 = 2_000_000;

/// Default effort: a few minutes.
const EFFORT: u64 = 1 << 20;

/// The same after a search for a proof has ended without one: seconds.
const EFFORT_AFTER_PROOF_SEARCH: u64 = 1 << 11;

/// Pairs of an actor and a candidate above which greedy takes more than a second. Actors with more ties than this count
/// several times.
const MAX_GREEDY_CHOICES: usize = 500_000;
const FEW_TIES: usize = 16;

/// Batches of native search before the search for a proof.
const EFFORT_BEFORE_PROOF_SEARCH: u64 = 40;

/// Answer Set Programming: the better of what runs and what [`Greedy`] finds, improved by the native search, and proven
/// where the snapshot is small.
///
/// clingo runs in a process of its own: this executable started again, which must call
/// [`run_child_if_asked`](crate::run_child_if_asked) first in `main`. Whatever happens to that process, the best answer
/// found before is returned.
///
/// A unit of effort is one actor placed by greedy, or a quick placement in its stead, one batch of native search, one
/// better answer of a proof search, or the proof. Every search of clingo also ends after a number of conflicts, and every
/// one of branch and bound after a number of steps, the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asp {
    executable: PathBuf,
    limits: Limits,
    conflicts: u64,
    effort: u64,
    without: Option<Ablation>,
}

impl Asp {
    /// Solves in another process of this executable, within `limits`.
    pub fn new(limits: Limits) -> Self {
        // The running image, even if the executable was replaced meanwhile.
        Self::with_executable("/proc/self/exe", limits)
    }

    /// Solves in another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { executable: executable.into(), limits, conflicts: CONFLICTS, effort: EFFORT, without: None }
    }

    /// Ends the search for a proof after so many conflicts instead of 2,000,000.
    #[must_use]
    pub fn with_conflicts(self, conflicts: u64) -> Self {
        Self { conflicts, ..self }
    }

    /// Leaves a component out to measure its contribution; the strategy's name says so.
    #[must_use]
    pub fn without(self, part: Ablation) -> Self {
        Self { without: Some(part), ..self }
    }

    /// Ends a search without given effort after so many units of effort instead of 1,048,576.
    #[must_use]
    pub fn with_effort(self, effort: u64) -> Self {
        Self { effort, ..self }
    }
}

impl Default for Asp {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Strategy for Asp {
    fn name(&self) -> &'static str {
        self.without.map_or("asp", Ablation::strategy_name)
    }

    fn summary(&self) -> &'static str {
        "an answer at once, then better ones by native search; Answer Set Programming proves small ones optimal"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        Ok(search::repair_violations(snapshot, self.search(snapshot, budget)?, budget))
    }
}

impl Asp {
    fn search(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let (start, instance) = start(snapshot, budget);
        let is_cut = start.stopped_by == StoppedBy::Deadline;
        let session = Session::new(&self.executable, self.limits, budget.seed);
        let mut search = SearchState::new(session, snapshot, budget, start);
        if search.best.violation == 0 && search.best.vector.iter().all(|value| *value == 0) {
            // No criterion is negative.
            return Ok(search.proven(ProvenBy::Bound));
        }
        if is_cut {
            return Ok(search.answer(StoppedBy::Deadline));
        }
        search.allow_effort(self.effort);
        if instance.is_none() && may_gain_from_scratch(snapshot) && search.stop_reason().is_none() {
            let budget = Budget { effort: Some(search.left()), ..*search.budget() };
            let from_scratch = Greedy.construct_anew(snapshot, &budget);
            search.spend(from_scratch.effort);
            search.offer(from_scratch.assignment, Stage::Construction, FoundBy::Construction);
        }
        let proves = self.without != Some(Ablation::Proofs);
        let (by_branch_and_bound, by_clingo) = (
            proves && solve_to_optimality::is_provable_by_branch_and_bound(snapshot),
            proves && solve_to_optimality::is_provable_by_clingo(snapshot),
        );
        if (by_branch_and_bound || by_clingo) && search.stop_reason().is_none() {
            search.improve(EFFORT_BEFORE_PROOF_SEARCH);
        }
        if by_branch_and_bound && search.stop_reason().is_none() {
            match solve_to_optimality::branch_and_bound(&mut search)? {
                ProofStatus::Proven => return Ok(search.proven(ProvenBy::BranchAndBound)),
                ProofStatus::Stopped => {
                    let reason = search.stop_reason().unwrap_or(StoppedBy::Deadline);
                    return Ok(search.answer(reason));
                }
                ProofStatus::Open => {}
            }
        }
        if by_clingo && search.has_solver() {
            if let Some(reason) = search.stop_reason() {
                return Ok(search.answer(reason));
            }
            match solve_to_optimality::solve(&mut search, self.conflicts)? {
                ProofStatus::Proven => return Ok(search.proven(ProvenBy::Clingo)),
                ProofStatus::Stopped => return Ok(search.answer(StoppedBy::Deadline)),
                ProofStatus::Open => search.allow_effort(EFFORT_AFTER_PROOF_SEARCH.min(self.effort)),
            }
        }
        Ok(anytime_loop::improve_until_stopped(search, instance, self.without))
    }
}

/// Whether a construction from scratch may find more: actors that stay keep their units in use, which some criteria
/// count.
fn may_gain_from_scratch(snapshot: &Snapshot) -> bool {
    let counts_places = |criterion: &Criterion| criterion.measure().class() == CriterionClass::Places;
    snapshot.objectives().levels().iter().flatten().any(counts_places)
        && snapshot.problem().movable.iter().any(|actor| snapshot.problem().current[*actor].is_some())
}

/// A first answer, and the instance prepared for it. [`Greedy`] prices every candidate of every actor, which takes too
/// long for large snapshots.
fn start<'a>(snapshot: &'a Snapshot, budget: &Budget) -> (Answer, Option<SearchInstance<'a>>) {
    let problem = snapshot.problem();
    // Pricing a candidate takes as long as the actor has ties.
    let choices = problem
        .current
        .positions()
        .map(|actor| problem.candidates(actor).len() * problem.edges[actor].len().div_ceil(FEW_TIES).max(1));
    let choices: usize = choices.sum();
    if choices <= MAX_GREEDY_CHOICES {
        return (Greedy.construct(snapshot, budget), None);
    }
    let instance = SearchInstance::new(snapshot, budget.stop);
    (search::construct(&instance, &snapshot.incumbent(), budget), Some(instance))
}
