//! The semi-static paper's experiments: tables of mappings against ECT, the genetic algorithm on-line, and the ideal.
//!
//! Regions are made when a profile first comes into them: a region built alone equals the table's, and profiles visit
//! few of the 256.

mod example;
mod larger;
mod world;

pub use example::{example, time};
pub use larger::{cost, graphs, sampling, single};
