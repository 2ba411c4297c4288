//! Cost models: what tasks and messages take on a platform.

mod links;
mod parallel;
mod stores;
mod work;

pub use parallel::{PARAMETERS, ParallelModel, Vector};
pub use work::{Division, WorkEdge, WorkModel, WorkTask};
