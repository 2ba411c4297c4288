//! The one seam between whoever plans and every way to search.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Assignment, Snapshot};

/// Searches for a placement. The name is a metric label, an event text and the name of its file.
pub trait Strategy: Send + Sync {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// One sentence for people who choose.
    fn summary(&self) -> &'static str;

    /// Searches within `budget`: effort and seed first, `stop` as the safety net.
    ///
    /// # Errors
    /// Only when there is no answer at all; a search that is cut short answers with the best it has.
    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError>;
}

/// How much a search may spend.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Pieces of work that may be finished (what a piece is, the strategy says); `None` leaves it to the strategy.
    pub effort: Option<u64>,
    /// Decides between equals.
    pub seed: u64,
    /// Asked between pieces; true ends the search with the best answer so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// How long it is until a clock says so; `None` where none is known. What cannot be cut short is begun in time.
    pub left: Option<&'a (dyn Fn() -> Duration + Sync)>,
}

impl Budget<'static> {
    /// A budget that only effort ends.
    pub fn effort(effort: Option<u64>, seed: u64) -> Self {
        Self { effort, seed, stop: &|| false, left: None }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Where everything goes.
    pub assignment: Assignment,
    /// Proven lower bounds by key of the level; absent where none is known.
    pub bound: BTreeMap<String, i64>,
    /// No feasible assignment is better.
    pub optimal: bool,
    /// Pieces of work finished when the answer was found: with the same seed it replays the answer.
    pub effort: u64,
    /// Which part of the search found it.
    pub stage: Stage,
    /// What improved it last.
    pub found_by: FoundBy,
    /// What closed the last level; none unless it is optimal.
    pub proven_by: Option<ProvenBy>,
    /// What ended the search.
    pub stopped_by: StoppedBy,
}

/// What improved an answer last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FoundBy {
    /// Nothing: it is what runs now.
    Incumbent,
    /// One actor after the other was given a place.
    Construction,
    /// Moves and exchanges, each from what was found before.
    Search,
    /// Branch and bound, or every assignment in turn, of the whole or of a part.
    Exact,
    /// clingo, of the whole or of a part.
    Clingo,
}

/// What proved that no feasible answer is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum ProvenBy {
    /// Branch and bound saw to the rest.
    BranchAndBound,
    /// clingo found that there is nothing better.
    Clingo,
    /// It reaches a lower bound, such as 0, on every level.
    Bound,
    /// Every assignment was looked at.
    Enumeration,
}

/// The part of a search that found an answer. A strategy of one part names what it is most like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    /// None: it is what runs now.
    Incumbent,
    /// One actor after the other was given a place.
    Construction,
    /// Small steps, each from what was found before.
    Local,
    /// The world was solved as a whole.
    Whole,
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// It had done all that it does, or all that it was allowed.
    Effort,
    /// `stop` said so.
    Deadline,
    /// The answer is proven.
    Proof,
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The solver contradicts the exact arithmetic; its answer is not used.
    #[error(
        "the solver's costs {reported} differ from the exact {exact}; this is a defect, report it with the snapshot"
    )]
    Mismatch {
        /// What the solver said.
        reported: String,
        /// What is so.
        exact: String,
    },
    /// The strategy looks at everything, and there is too much.
    #[error("more than {most} assignments are possible, and it looks at each; choose another strategy")]
    TooLarge {
        /// How many it looks at.
        most: u64,
    },
    /// The program could not be run.
    #[error("{0}")]
    Solver(String),
}
