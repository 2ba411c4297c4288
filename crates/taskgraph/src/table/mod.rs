//! Mapping tables: made before an application runs, looked up while it runs (the semi-static paper, 4.2 and 4.3).
//!
//! The space of parameters is cut into regions, each parameter into its intervals: half-open, the last closed. For
//! each region some vectors are drawn, the genetic algorithm maps each, and the mapping whose makespan is least on
//! average over all of the region's vectors is kept with that average.

mod build;
mod file;
pub mod online;

pub use build::{
    Build, Entry, MOST_REGIONS, Region, Table, build, build_region, index_of, ranges, region_of,
};
pub use file::{read, write};
