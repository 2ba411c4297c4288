//! Placements of a few dozen actors solved to proven optimality.
//!
//! Interchangeable units form a *class*. [`solve`] first decides the class of every actor by branch and bound: an actor
//! pays at least the price to where its peers can still be, and saves at most for those peers that fit on its unit. Once
//! all classes are decided, each is a problem of its own: partition its actors into *columns*, one per unit, so that the
//! columns save as much as possible. The linear relaxation of that set partition over all columns that fit is almost
//! tight; what its prices leave open is enumerated.
//!
//! Prices are floating-point numbers; what they prove is computed in integers, so a proof does not depend on rounding.

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
