//! Task graphs, their cost models, schedulers and mappers.
//!
//! A [`Graph`] has tasks, edges and variables, with costs in one of three [`Model`]s; a [`Platform`] is a pool of
//! processing elements with their links. A [`Mapper`] maps a graph offline; [`Schedule::violations`] checks any
//! schedule independently.
//!
//! The crate does no I/O, reads no clock and draws no entropy: equal input, seed and effort give equal answers.

mod budget;
pub mod cost;
mod error;
pub mod files;
pub mod generate;
mod graph;
mod kind;
mod mapping;
pub mod offline;
pub mod online;
mod platform;
mod schedule;
pub mod table;

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
