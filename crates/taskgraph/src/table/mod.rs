//! Mapping tables: built offline, looked up online (the semi-static paper, 4.2 and 4.3).
//!
//! The parameter space is divided into regions, each parameter into its intervals: half-open, the last one closed. For
//! each region several vectors are sampled and mapped by the genetic algorithm; the mapping with the smallest mean
//! makespan over all of the region's vectors is stored with that mean.

mod build;
mod file;
pub mod online;

pub use build::{
    Build, Entry, MOST_REGIONS, Region, Table, build, build_region, index_of, ranges, region_of,
};
pub use file::{read, write};
