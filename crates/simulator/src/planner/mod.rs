//! Who decides where actors go, and what is shown to them.

mod facts;
mod observed;
mod placing;
mod work;

pub use facts::{Exchange, Facts, Measure, levels};
pub use observed::{Known, Observed, Planner, PlannerError, Proposal};
pub use placing::Placing;
