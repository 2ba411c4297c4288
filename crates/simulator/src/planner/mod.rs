//! Planners for simulations, and the observations they receive.

mod gate_planner;
mod observed;
mod snapshot_model;
mod strategy_planner;
mod work;

pub use gate_planner::GatePlanner;
pub use observed::{GainEstimate, Observed, Planner, PlannerError, Proposal};
pub use snapshot_model::{MessageCost, SnapshotModel, WorkMeasure, levels};
pub use strategy_planner::StrategyPlanner;
