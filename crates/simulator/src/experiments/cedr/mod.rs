//! CEDR's experiments (Mack et al., ACM TECS 2022, sections 4 and 5), in simulated time.
//!
//! Schedulers, runtime and costs are those of docs/reference/task-graphs.md; no parameter is fitted to a single
//! experiment. Runs without jitter are deterministic, so that one run replaces the authors' five repetitions.

mod cases;
mod common;
mod jetson;
mod sweep;

pub use cases::{cache, charts, queues, streaming};
pub use jetson::gpu;
pub use sweep::{slices, sweep, utilisation};
