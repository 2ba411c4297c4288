//! Native search: construction, annealing, compound moves, and repair under a policy's rules. Pure.
//!
//! [`Local`] starts from a placement and looks for better ones nearby, and ever farther; [`Greedy`] constructs one.
//! The same snapshot, seed and effort give the same answer.

mod anneal;
mod balance;
mod bundle;
mod changes;
mod clock;
mod compound;
mod construct;
mod drawn;
mod ejection;
mod emptiest;
mod figures;
mod fits;
mod footprint;
mod found;
mod greedy;
mod groups;
mod heads;
mod leave_out;
mod local;
mod model;
mod notes;
mod pace;
mod part;
mod random;
mod refusals;
mod regions;
mod repair;
mod replica;
mod round_robin;
mod schedule;
mod session;
mod solution;
mod starts;
#[cfg(test)]
mod tests;
mod worker;

pub use greedy::Greedy;
pub use local::{Local, construct, improve};
pub use part::Part;
pub use random::Random;
pub use repair::obeying;
pub use round_robin::RoundRobin;
pub use session::{Instance, Search};
