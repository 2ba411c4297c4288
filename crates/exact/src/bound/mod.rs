//! Proven lower bounds for placements that are too large to be solved to the optimum.
//!
//! [`lower_bounds`] relaxes a level of the objectives to a linear program over kinds of units and over pairs of actors that
//! share a unit, a node, a zone; a first-order method finds multipliers for it, and exact integer arithmetic says what
//! these prove. A bound is therefore right whatever floating-point numbers it came from; a search that is cut short
//! proves less, never something wrong.

mod kind_view;
mod linear_program;
mod lower_bounds;
mod pairs;
mod pdhg;
mod relaxation;
mod triangle_cuts;

pub use lower_bounds::{estimated_work, lower_bounds};
