//! Simulated annealing: one walk, the runs that it goes through, and the threads that runs are dealt to.

pub(crate) mod annealer;
pub(crate) mod annealing_chain;
mod best;
pub(crate) mod schedule;
pub(crate) mod worker;
