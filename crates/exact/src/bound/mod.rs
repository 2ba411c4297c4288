//! Proven lower bounds for placements that are too large to be solved to optimality.
//!
//! [`lower_bounds`] relaxes a level of the objectives to a linear program over kinds of units and over pairs of actors that
//! share a unit, a node, or a zone. A first-order method finds dual multipliers, and exact integer arithmetic verifies what
//! they prove. A bound is therefore valid whatever floating-point numbers it came from; an interrupted search proves less,
//! never anything wrong.

mod kind_view;
mod linear_program;
mod lower_bounds;
mod pairs;
mod pdhg;
mod relaxation;
mod triangle_cuts;

pub use lower_bounds::{estimated_work, lower_bounds};
