//! Discrete-event simulations that run a trace on a platform, window by window.

mod any;
mod blocking;
mod channels;
pub mod counters;
mod event;
mod optimistic;
mod queue;
mod windows;

pub use any::World;
pub use blocking::Blocking;
pub use counters::{Counted, Pairs};
pub use optimistic::Optimistic;
pub use windows::{Windows, WorldError, start};
