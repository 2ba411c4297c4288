//! Incremental evaluation: where every item is, what a move would cost, and whether limits admit it.

mod admission;
pub(crate) mod batch;
pub(crate) mod group_costs;
pub(crate) mod incremental_terms;
pub(crate) mod rank;
pub(crate) mod relation_counts;
pub(crate) mod scratch;
pub(crate) mod solution;
#[cfg(test)]
mod tests;
