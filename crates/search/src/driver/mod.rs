//! The search as a whole: annealing chains, the incumbent, restarts, and deadlines.

mod deadline;
mod drop_violators;
mod feasibility_probe;
mod hub_restarts;
mod incumbent;
mod open_nodes;
mod probe;
pub(crate) mod search;
mod start;
#[cfg(test)]
mod tests;
