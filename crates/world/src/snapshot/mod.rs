//! Builds the planner snapshot of an application.

mod arriving;
pub(crate) mod assemble;
pub(crate) mod demand;
pub(crate) mod entries;
mod larger_pods;
pub(crate) mod links;
pub(crate) mod load;
pub(crate) mod measured;
pub(crate) mod memory_units;
pub(crate) mod model;
pub(crate) mod observe;
pub(crate) mod offered;
mod return_room;
mod saturated;
