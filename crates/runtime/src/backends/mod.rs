//! Implementations of the model on specific technologies. Only `main` names them.

mod anything;
mod compute;
pub mod host;
pub mod processes;
pub(crate) mod shared;
pub mod tcp;

#[doc(hidden)]
pub use anything::read_anything;
pub(crate) use compute::caught;
pub use compute::{Compute, Coroutines, Engine, Futures, PROCESSING_UNIT, Threads};
pub use shared::Communication;
