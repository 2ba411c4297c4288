//! Load in the index: measured numbers, and the load of each application on units.

pub(crate) mod by_unit;
mod measured;
mod other_applications;
pub(crate) mod unit_use;
