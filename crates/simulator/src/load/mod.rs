//! Applications under measured load: seeded traffic with noise, and what the operator's planning for load makes of it.

mod application;
mod planning;
mod world;

pub use application::MeasuredApplication;
pub use planning::{DecisionRule, LoadError, LoadPlanning, RULES, TERMS, planned};
pub use world::{ACTORS, LoadWorld, Noise, NoiseProcess, WINDOW_SECONDS, WindowTraffic, name};
