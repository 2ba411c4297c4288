//! What is proven: [`branch`] solves small placements to the optimum, [`bound`] says how good larger ones can be at most,
//! and [`Exhaustive`] looks at everything, to check others by.
//!
//! Floating-point numbers only guide; what is claimed is worked out in integers.

pub mod bound;
pub mod branch;
mod exhaustive;

pub use exhaustive::Exhaustive;
