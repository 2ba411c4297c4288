//! Planners for simulations, and the observations they receive.

mod facts;
mod observed;
mod placing;
mod work;

pub use facts::{Exchange, Facts, Measure, levels};
pub use observed::{Known, Observed, Planner, PlannerError, Proposal};
pub use placing::Placing;
