//! Who decides where actors go, and what is shown to them.

mod facts;
mod observed;
mod placing;

pub use facts::{Facts, Measure, levels};
pub use observed::{Observed, Planner, PlannerError};
pub use placing::{Gate, Placing};
