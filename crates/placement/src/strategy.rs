//! The interface between planning and search strategies.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Assignment, Snapshot};

/// Searches for a placement. The name is a metric label, an event text and the name of its file.
pub trait Strategy: Send + Sync {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// A one-sentence description for users.
    fn summary(&self) -> &'static str;

    /// Searches within `budget`: effort and seed first, `stop` as the safety net.
    ///
    /// # Errors
    /// Only if there is no answer at all; a search that is cut short returns the best it has.
    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError>;
}

/// The budget of a search.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// The maximum number of step batches (as defined by the strategy); `None` leaves it to the strategy.
    pub effort: Option<u64>,
    /// Breaks ties.
    pub seed: u64,
    /// Polled between batches; true ends the search with the best answer so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The time until the deadline; `None` if unknown. Work that cannot be interrupted is started in time.
    pub left: Option<&'a (dyn Fn() -> Duration + Sync)>,
}

impl Budget<'static> {
    /// A budget that only effort ends.
    pub fn effort(effort: Option<u64>, seed: u64) -> Self {
        Self { effort, seed, stop: &|| false, left: None }
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The placements.
    pub assignment: Assignment,
    /// Proven lower bounds by key of the level, as far as known.
    pub bound: BTreeMap<String, i64>,
    /// Whether no feasible assignment is better.
    pub optimal: bool,
    /// The batches finished when the answer was found; with the same seed they reproduce the answer.
    pub effort: u64,
    /// The part of the search that found it.
    pub stage: Stage,
    /// The last improvement.
    pub found_by: FoundBy,
    /// What proved the last level; `None` unless it is optimal.
    pub proven_by: Option<ProvenBy>,
    /// What ended the search.
    pub stopped_by: StoppedBy,
}

/// The last improvement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FoundBy {
    /// None: it is the current placement.
    Incumbent,
    /// Greedy construction.
    Construction,
    /// Local search.
    Search,
    /// Branch and bound or enumeration, of the whole or of a subproblem.
    Exact,
    /// clingo, on the whole or on a subproblem.
    Clingo,
}

/// What proved that no feasible answer is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum ProvenBy {
    /// Branch and bound.
    BranchAndBound,
    /// clingo.
    Clingo,
    /// It reaches a lower bound, such as 0, on every level.
    Bound,
    /// Enumeration of all assignments.
    Enumeration,
}

/// The part of a search that found an answer; a strategy of one part names the most similar one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    /// None: it is the current placement.
    Incumbent,
    /// Greedy construction.
    Construction,
    /// Local search.
    Local,
    /// An exact solution of the whole.
    Whole,
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// It completed, or spent its effort.
    Effort,
    /// `stop` returned true.
    Deadline,
    /// The answer is proven.
    Proof,
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The solver contradicts exact arithmetic; its answer is discarded.
    #[error(
        "the solver's costs {reported} differ from the exact {exact}; this is a defect, report it with the snapshot"
    )]
    Mismatch {
        /// The solver's value.
        reported: String,
        /// The exact value.
        exact: String,
    },
    /// A proof of optimality contradicts the checker or exact arithmetic; the answer is discarded with it.
    #[error("a proof of optimality failed verification: {0}; this is a defect, report it with the snapshot")]
    Proof(String),
    /// The strategy enumerates all assignments, and there are too many.
    #[error("more than {most} assignments are possible, too many to enumerate; choose another strategy")]
    TooLarge {
        /// The maximum number.
        most: u64,
    },
    /// The program could not be run.
    #[error("{0}")]
    Solver(String),
}
