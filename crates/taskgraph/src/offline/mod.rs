//! Offline mappers.

mod annealing;
mod annealing_improved;
mod annealing_standard;
mod bin_packing;
mod ect;
mod genetic;
pub mod list;
mod loads;
mod timeline;
mod work;

pub use annealing::{COOLING, PIECE, Temperatures};
pub use annealing_improved::AnnealingImproved;
pub use annealing_standard::AnnealingStandard;
pub use bin_packing::BinPacking;
pub use ect::{Ect, ect};
pub use genetic::{Evolved, Genetic, Settings, evolve};
pub use timeline::{Plan, makespan, schedule};
pub use work::priced;
