//! Native search: construction, annealing, compound moves, and repair under a policy's rules. Pure.
//!
//! [`Local`] starts from a placement and looks for better ones nearby, and ever farther; [`Greedy`] constructs one.
//! The same snapshot, seed and effort give the same answer.

mod anneal;
mod balance;
mod bundle;
mod companion;
mod construct;
mod figures;
mod greedy;
mod ladder;
mod layout;
mod leap;
mod local;
mod model;
mod random;
mod rearrange;
mod regions;
mod repair;
mod round_robin;
mod schedule;
mod session;
mod walker;

pub use greedy::Greedy;
pub use local::{Local, improve};
pub use random::Random;
pub use repair::obeying;
pub use round_robin::RoundRobin;
pub use session::{Search, Terrain};
