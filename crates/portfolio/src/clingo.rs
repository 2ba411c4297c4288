//! The strategy `clingo`: Answer Set Programming alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use asp::{BoundCommand, Limits, Session};
use exact::branch::ProofStatus;
use placement::{Answer, Budget, FoundBy, ProvenBy, Snapshot, SolveError, Stage, State, StoppedBy, Strategy};

use crate::search_state::SearchState;
use crate::solve_to_optimality;

/// Default limit of conflicts; the clock ends most searches.
const CONFLICTS: u64 = 2_000_000;

/// Conflicts for a bound where effort is counted, so that the result is deterministic.
const COUNTED_BOUND_CONFLICTS: u64 = 20_000;

/// The shipped programs and clingo alone: no native search, no branch and bound.
///
/// It starts from what runs, as far as that is feasible: only improvements are asked for, and where a proof is out of
/// reach and most actors run, the first model is what runs. It ends with the best model found in time, or with a proof
/// that it is optimal; another process computes a lower bound by unsatisfiable cores. It exists for comparison, for
/// teaching, and for criteria that nothing else supports; from some 30 actors on `asp` finds better placements sooner.
///
/// A unit of effort is a better answer, or the proof of optimality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clingo {
    executable: PathBuf,
    limits: Limits,
    conflicts: u64,
}

impl Clingo {
    /// Solves in another process of this executable, within `limits`.
    pub fn new(limits: Limits) -> Self {
        // The running image, even if the executable was replaced meanwhile.
        Self::with_executable("/proc/self/exe", limits)
    }

    /// Solves in another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { executable: executable.into(), limits, conflicts: CONFLICTS }
    }

    /// Ends the search after so many conflicts instead of 2,000,000.
    #[must_use]
    pub fn with_conflicts(self, conflicts: u64) -> Self {
        Self { conflicts, ..self }
    }
}

impl Strategy for Clingo {
    fn name(&self) -> &'static str {
        "clingo"
    }

    fn summary(&self) -> &'static str {
        "Answer Set Programming alone, from what runs; for comparison and small snapshots"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        if let Some(refusal) = snapshot.problem().channels.refusal("clingo") {
            return Err(SolveError::Solver(format!("{refusal}; choose another strategy")));
        }
        let start = Answer {
            // Only fixed actors are placed, which is feasible; what runs is offered next.
            assignment: State::new(snapshot).assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort: 0,
            stage: Stage::Construction,
            found_by: FoundBy::Construction,
            proven_by: None,
            stopped_by: StoppedBy::Effort,
        };
        let session = Session::new(&self.executable, self.limits, budget.seed);
        let mut search = SearchState::new(session, snapshot, budget, start);
        if let Some(reason) = search.stop_reason() {
            return Ok(search.answer(reason));
        }
        let answer = match self.search(&mut search, budget)? {
            ProofStatus::Proven => search.proven(ProvenBy::Clingo),
            ProofStatus::Stopped => search.answer(StoppedBy::Deadline),
            ProofStatus::Open => search.answer(StoppedBy::Effort),
        };
        Ok(search::repair_violations(snapshot, answer, budget))
    }
}

impl Clingo {
    /// Searches for the best and, in parallel, for a lower bound; where the two meet, the best is optimal.
    fn search(&self, search: &mut SearchState, budget: &Budget) -> Result<ProofStatus, SolveError> {
        let Some((scale, world)) = solve_to_optimality::relaxed_snapshot(search.snapshot) else {
            return solve_to_optimality::solve(search, self.conflicts);
        };
        let is_counted = budget.effort.is_some();
        let conflicts = if is_counted { self.conflicts.min(COUNTED_BOUND_CONFLICTS) } else { self.conflicts };
        let (is_over, is_proven) = (AtomicBool::new(false), AtomicBool::new(false));
        let command = || match (is_proven.load(Ordering::Relaxed), is_over.load(Ordering::Relaxed)) {
            (true, _) => BoundCommand::Abandon,
            (false, true) if !is_counted => BoundCommand::Report,
            _ if (budget.stop)() => BoundCommand::Report,
            _ => BoundCommand::Continue,
        };
        let (verdict, known) = thread::scope(|scope| {
            let bound =
                || asp::bound(&self.executable, self.limits, budget.seed, &world, conflicts, &command);
            let bounding = scope.spawn(bound);
            let verdict = solve_to_optimality::solve(search, self.conflicts);
            let is_certain = !matches!(verdict, Ok(ProofStatus::Open | ProofStatus::Stopped));
            is_proven.store(is_certain, Ordering::Relaxed);
            is_over.store(true, Ordering::Relaxed);
            // A thread that panicked has found nothing.
            (verdict, bounding.join().unwrap_or_default())
        });
        match verdict? {
            ProofStatus::Proven => Ok(ProofStatus::Proven),
            _ if solve_to_optimality::add_bounds(search, &scale, &known) => Ok(ProofStatus::Proven),
            open => Ok(open),
        }
    }
}
