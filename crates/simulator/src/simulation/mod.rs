//! Discrete-event simulations that run a trace on a platform, window by window.

mod any;
mod blocking;
mod channels;
pub mod counters;
mod event;
mod optimistic;
mod queue;
mod windows;

pub use any::Simulation;
pub use blocking::Blocking;
pub use counters::{PairCounters, PeriodCounters};
pub use optimistic::Optimistic;
pub use windows::{SimulationError, Windowed, start};
