//! Planners for simulations, and the observations they receive.

mod observed;
mod snapshot_model;
mod strategy_planner;
mod work;

pub use observed::{GainEstimate, Observed, Planner, PlannerError, Proposal};
pub use snapshot_model::{MessageCost, SnapshotModel, WorkMeasure, levels};
pub use strategy_planner::StrategyPlanner;
