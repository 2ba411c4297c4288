//! The dense form of a snapshot, and what is computed from it once: channels, paths, headroom, symmetry.

pub mod channels;
pub(crate) mod common_factor;
pub(crate) mod dense;
mod lookup;
pub(crate) mod paths;
pub mod room;
pub mod shared_links;
pub(crate) mod symmetry;

pub use dense::{AddedCosts, AffinityRule, Edge, Implementation, PowerDomains, Problem, UnitRule};
