//! CEDR's runtime in simulated time: a management thread, worker threads, and the schedulers of `taskgraph`.
//!
//! Times are whole nanoseconds; docs/reference/task-graphs.md specifies every rule.

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
pub use runtime::{RuntimeSetting, run};
