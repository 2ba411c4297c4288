//! The strategy `asp`: an answer at once, then better ones, and a proof where one is within reach.

use std::path::PathBuf;

use asp::{Limits, Session};
use exact::branch::ProofStatus;
use placement::criteria::Class;
use placement::{
    Answer, Budget, Criterion, FoundBy, ProvenBy, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};
use search::{Greedy, SearchInstance};

use crate::ablation::Ablation;
use crate::anytime_loop;
use crate::search_state::SearchState;
use crate::solve_to_optimality;

/// Conflicts of the search of the whole, where nothing else is said: a minute or so, on worlds that are small.
const CONFLICTS: u64 = 2_000_000;

/// Effort units where nothing else is said: a few minutes.
const EFFORT: u64 = 1 << 20;

/// The same where the whole has been searched and there is no proof all the same: seconds.
const EFFORT_AFTER_ALL: u64 = 1 << 11;

/// Pairs of an actor and a candidate above which greedy takes a second and more, and how many ties an actor may have
/// before it counts as several.
const MOST_CHOICES: usize = 500_000;
const FEW_TIES: usize = 16;

/// Effort units of the native search that come before the search of the whole.
const EFFORT_BEFORE_ALL: u64 = 40;

/// Answer Set Programming: the better of what runs and what [`Greedy`] finds, improved by the native search, and
/// proven where the world is small.
///
/// clingo runs in a process of its own: this executable started again, which must call
/// [`run_child_if_asked`](crate::run_child_if_asked) first in `main`. Whatever happens to that process, there is an
/// answer: the best that was found before.
///
/// An effort unit is one actor that greedy looked at, or a quick placement in its stead, one of the native search, one better answer to the whole, or
/// the proof that there is no more. Every search of clingo is also cut after a number of conflicts,
/// and every one of branch and bound after so much work, the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asp {
    executable: PathBuf,
    limits: Limits,
    conflicts: u64,
    effort: u64,
    without: Option<Ablation>,
}

impl Asp {
    /// Solves in this executable started again, within `limits`.
    pub fn new(limits: Limits) -> Self {
        // The running image itself: an executable that was replaced meanwhile is not started.
        Self::with_executable("/proc/self/exe", limits)
    }

    /// Solves in another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { executable: executable.into(), limits, conflicts: CONFLICTS, effort: EFFORT, without: None }
    }

    /// Cuts the search of the whole after so many conflicts instead of 2,000,000.
    #[must_use]
    pub fn with_conflicts(self, conflicts: u64) -> Self {
        Self { conflicts, ..self }
    }

    /// Does without a part, to see what that earns; the strategy's name says so.
    #[must_use]
    pub fn without(self, part: Ablation) -> Self {
        Self { without: Some(part), ..self }
    }

    /// Ends a search to which no effort is given after so many effort units instead of 1,048,576.
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
        self.without.map_or("asp", Ablation::absent)
    }

    fn summary(&self) -> &'static str {
        "an answer at once, then better ones by native search; Answer Set Programming proves what is small"
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
        if search.best.broken == 0 && search.best.vector.iter().all(|value| *value == 0) {
            // Nothing is below 0.
            return Ok(search.proven(ProvenBy::Bound));
        }
        if is_cut {
            return Ok(search.answer(StoppedBy::Deadline));
        }
        search.allow(self.effort);
        if instance.is_none() && may_gain_anew(snapshot) && search.over().is_none() {
            let budget = Budget { effort: Some(search.left()), ..*search.budget() };
            let anew = Greedy.construct_anew(snapshot, &budget);
            search.spend(anew.effort);
            search.offer(anew.assignment, Stage::Construction, FoundBy::Construction);
        }
        let proves = self.without != Some(Ablation::Proofs);
        let (is_branched, is_small) = (
            proves && solve_to_optimality::is_provable_by_branch_and_bound(snapshot),
            proves && solve_to_optimality::is_provable_by_clingo(snapshot),
        );
        if (is_branched || is_small) && search.over().is_none() {
            search.improve(EFFORT_BEFORE_ALL);
        }
        if is_branched && search.over().is_none() {
            match solve_to_optimality::branch_and_bound(&mut search) {
                ProofStatus::Proven => return Ok(search.proven(ProvenBy::BranchAndBound)),
                ProofStatus::Stopped => {
                    let why = search.over().unwrap_or(StoppedBy::Deadline);
                    return Ok(search.answer(why));
                }
                ProofStatus::Open => {}
            }
        }
        if is_small && search.has_solver() {
            if let Some(why) = search.over() {
                return Ok(search.answer(why));
            }
            match solve_to_optimality::solve(&mut search, self.conflicts)? {
                ProofStatus::Proven => return Ok(search.proven(ProvenBy::Clingo)),
                ProofStatus::Stopped => return Ok(search.answer(StoppedBy::Deadline)),
                ProofStatus::Open => search.allow(EFFORT_AFTER_ALL.min(self.effort)),
            }
        }
        Ok(anytime_loop::run(search, instance, self.without))
    }
}

/// Whether to begin as if nothing ran may find what steps from there do not: whoever stays keeps its unit in use, and that counts.
fn may_gain_anew(snapshot: &Snapshot) -> bool {
    let counts_places = |criterion: &Criterion| criterion.measure().class() == Class::Places;
    snapshot.objectives().levels().iter().flatten().any(counts_places)
        && snapshot.problem().movable.iter().any(|actor| snapshot.problem().current[*actor].is_some())
}

/// An answer at once, and what was laid out for it: [`Greedy`] looks at every candidate of every actor, which takes too long in
/// large worlds.
fn start<'a>(snapshot: &'a Snapshot, budget: &Budget) -> (Answer, Option<SearchInstance<'a>>) {
    let problem = snapshot.problem();
    // A candidate takes as long to look at as the actor has ties.
    let choices = problem
        .current
        .positions()
        .map(|actor| problem.candidates(actor).len() * problem.edges[actor].len().div_ceil(FEW_TIES).max(1));
    let choices: usize = choices.sum();
    if choices <= MOST_CHOICES {
        return (Greedy.construct(snapshot, budget), None);
    }
    let instance = SearchInstance::new(snapshot, budget.stop);
    (search::construct(&instance, &snapshot.incumbent(), budget), Some(instance))
}
