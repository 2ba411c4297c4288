//! Costs of assignments: computed from scratch, and updated move by move.

pub(crate) mod cost;
pub(crate) mod counts;
pub mod group_costs;
pub(crate) mod objectives;
pub(crate) mod power;
pub(crate) mod state;
pub(crate) mod sums;
pub(crate) mod tally;
