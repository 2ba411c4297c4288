//! Native search: construction, annealing, compound moves, and repair under a policy's rules. Pure.
//!
//! [`Local`] improves a placement by annealing; [`Greedy`] constructs one. The same snapshot, seed and effort give the same answer.

mod ablation;
mod anneal;
mod construction;
mod driver;
mod evaluation;
mod model;
mod moves;
mod stop_clock;
mod strategies;
#[cfg(test)]
mod tests;
mod union_find;

pub use ablation::Ablation;
pub use driver::search::{AnnealingSearch, SearchInstance};
pub use strategies::greedy::Greedy;
pub use strategies::local::{Local, construct, improve};
pub use strategies::random::Random;
pub use strategies::repair::repair_violations;
pub use strategies::round_robin::RoundRobin;
