//! Cost models: durations of tasks and messages on a platform.

mod edge;
mod links;
mod parallel;
mod stores;
mod work;

pub use edge::WorkEdge;
pub use parallel::{PARAMETERS, ParallelModel, Vector};
pub use work::{Division, WorkModel, WorkTask};
