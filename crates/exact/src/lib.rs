//! Exact methods: [`branch`] solves small placements to proven optimality, [`bound`] computes lower bounds for larger
//! ones, and [`Exhaustive`] enumerates all assignments, to verify others.
//!
//! Floating-point numbers only guide the search; every claim is computed in integers.

pub mod bound;
pub mod branch;
mod exhaustive;

pub use exhaustive::Exhaustive;
