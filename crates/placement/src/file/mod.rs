//! The snapshot file: its format, strict reading, and validation.

pub(crate) mod constraint;
pub(crate) mod constraint_fields;
pub(crate) mod foreign_actors;
pub(crate) mod format;
pub(crate) mod levels;
pub(crate) mod names;
pub(crate) mod node_zones;
pub(crate) mod read;
pub(crate) mod strict;
pub(crate) mod validation;

pub use constraint::{CapScope, Constraint, Domain, Join, Places, Scope};
pub use format::{
    Actor, Drag, ExchangeCost, GroupMessage, Levels, Message, Node, Others, PairCost, Policy, RunsOn,
    SharedLink, SnapshotFile, Unit, VERSION,
};
