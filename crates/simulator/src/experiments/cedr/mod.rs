//! CEDR's experiments (Mack et al., ACM TECS 2022, sections 4 and 5), in simulated time.
//!
//! Schedulers, runtime and costs are those of docs/reference/task-graphs.md; nothing is fitted to a single experiment. Without
//! jitter a run has one outcome, so that the authors' five repetitions are one here.

mod cases;
mod common;
mod jetson;
mod sweep;

pub use cases::{cache, charts, queues, streaming};
pub use jetson::gpu;
pub use sweep::{slices, sweep, utilisation};
