//! CEDR's runtime in simulated time: a management thread, workers, and the schedulers of `taskgraph`.
//!
//! Time is counted in whole nanoseconds; docs/reference/task-graphs.md states every rule.

mod applications;
mod arrivals;
mod draws;
mod gantt;
mod measures;
mod runtime;

pub use applications::{Application, Applications};
pub use arrivals::{Arrival, arrivals};
pub(crate) use gantt::escape;
pub use gantt::gantt;
pub use measures::{Measures, Record};
pub use runtime::{Setting, run};
