//! What a planner is shown, and what it answers.

use control::Gain;

use crate::config::Config;
use crate::platform::Platform;
use crate::world::Counted;

/// What an operator would know at the end of a window.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Its numbers.
    pub platform: &'a Platform,
    /// By actor: the units that it may be on.
    pub allowed: &'a [Vec<usize>],
    /// By actor: the unit that it is on or ordered to.
    pub assignment: &'a [usize],
    /// Windows since the start.
    pub windows: u64,
    /// What was counted since the last plan was due.
    pub period: &'a Counted,
    /// By window: the same, and what was counted for some plans before it.
    pub recent: &'a [Counted],
    /// What was counted since the start.
    pub total: &'a Counted,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// What was observed makes no snapshot.
    #[error("what was observed makes no snapshot")]
    Snapshot(#[from] placement::SnapshotError),
    /// The strategy found nothing that may be done.
    #[error(transparent)]
    Plan(#[from] placement::PlanError),
    /// An actor has no place.
    #[error("{actor} has no place: {reason}")]
    Unplaced {
        /// Which.
        actor: String,
        /// Why.
        reason: String,
    },
}

/// A decision to move something.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Where every actor should be.
    pub assignment: Vec<usize>,
    /// What was known of it; absent where nobody compared it to staying.
    pub known: Option<Known>,
}

/// What staying and going cost by the facts that a plan was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// By level: what staying costs.
    pub stay: Vec<i64>,
    /// By level: what the plan costs.
    pub go: Vec<i64>,
    /// What going gains; absent where staying was no question.
    pub gain: Option<Gain>,
}

/// Decides, again and again, where actors go.
pub trait Planner {
    /// What should change; `None` leaves everything where it is.
    ///
    /// # Errors
    /// When no decision can be made.
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError>;
}
