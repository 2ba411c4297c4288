//! Task graphs: what they are, what they cost, who schedules them.
//!
//! A [`Graph`] is tasks, edges and variables, priced by one of three [`Model`]s; a [`Platform`] is a pool of processing
//! elements and what lies between them. A [`Mapper`] maps a graph before it runs; [`Schedule::violations`] judges every
//! schedule, whoever made it.
//!
//! Nothing here does I/O, reads a clock, or draws entropy: the same input, seed and effort give the same answer.

mod budget;
mod error;
pub mod files;
pub mod generate;
mod graph;
mod kind;
mod mapping;
pub mod online;
mod platform;
mod schedule;

pub use budget::{Budget, StoppedBy};
pub use error::FileError;
pub use graph::{
    Cost, Edge, Graph, Implementation, MOST_EDGES, MOST_TASKS, Model, Parts, Range, Streaming, Task,
    Variable, Weight, nanoseconds,
};
pub use kind::Kind;
pub use mapping::{Allotment, MapError, Mapped, Mapper, Mapping, named};
pub use platform::{Communication, Costs, Group, HostCores, Link, Links, MOST_PES, Pe, Platform, Transfer};
pub use schedule::{CostModel, Schedule, Slot, Violation, overlaps};
