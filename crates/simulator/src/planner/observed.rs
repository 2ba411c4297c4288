//! A planner's input and output.

use control::Gain;

use crate::config::Config;
use crate::platform::Platform;
use crate::simulation::PeriodCounters;

/// Number of planning periods for which counters are also kept by window.
const REMEMBERED: u64 = 4;

/// The operator's knowledge at the end of a window.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Its numeric form.
    pub platform: &'a Platform,
    /// By actor: feasible units.
    pub allowed: &'a [Vec<usize>],
    /// By actor: its unit, or the target of its migration.
    pub assignment: &'a [usize],
    /// Windows since the start.
    pub windows: u64,
    /// Counters since the last plan was due.
    pub period: &'a PeriodCounters,
    /// The same counters by window, preceded by those of some earlier planning periods.
    pub recent: &'a [PeriodCounters],
    /// Counters since the start.
    pub total: &'a PeriodCounters,
}

/// Why planning failed.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// The observation does not form a valid snapshot.
    #[error("the observation does not form a valid snapshot")]
    Snapshot(#[from] placement::SnapshotError),
    /// The strategy found no feasible plan.
    #[error(transparent)]
    Plan(#[from] placement::PlanError),
    /// An actor is unplaced.
    #[error("{actor} is unplaced: {reason}")]
    Unplaced {
        /// The actor.
        actor: String,
        /// The reason.
        reason: String,
    },
}

/// A decision to change the assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The new assignment.
    pub assignment: Vec<usize>,
    /// The estimated gain; absent if the plan was not compared with staying.
    pub known: Option<GainEstimate>,
}

/// Estimated costs of staying and of migrating, from the snapshot of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct GainEstimate {
    /// By level: cost of staying.
    pub stay: Vec<i64>,
    /// By level: cost of the plan.
    pub go: Vec<i64>,
    /// Gain of the plan over staying.
    pub gain: Gain,
}

/// Decides repeatedly where actors run.
pub trait Planner {
    /// The change to make; `None` keeps the assignment.
    ///
    /// # Errors
    /// No decision can be made.
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError>;

    /// Windows from one decision to the next.
    fn period(&self, config: &Config) -> u64 {
        config.replan_every_windows
    }

    /// Windows whose counters are kept one by one.
    fn remembered(&self, config: &Config) -> usize {
        usize::try_from(config.replan_every_windows.saturating_mul(REMEMBERED)).unwrap_or(usize::MAX)
    }
}
