//! Placements of a few dozen actors solved to the optimum, and proven.
//!
//! Units that nobody could tell apart form a *class*. [`solve`] first decides the class of every actor, by branch and
//! bound: an actor pays at least what it pays where its peers can still be, and of those on its own unit no more are
//! spared than fit beside it. Once all classes are decided, each is a problem of its own: to divide its actors into
//! *columns*, one per unit, so that as much as possible is kept within them. That is a set partition, whose linear
//! relaxation over all columns that fit is almost tight; what its prices leave is searched to the end.
//!
//! Prices come from floating-point numbers; what they prove is worked out in integers, so a proof does not depend on
//! rounding.

mod column;
mod exact_cover;
mod interruption;
mod model;
mod partition;
mod pricing;
mod search_tree;
mod subproblem;
mod unit_classes;
mod value;

pub use search_tree::{ProofStatus, Solved, WorkLimits, solve};
