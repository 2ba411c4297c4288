//! First placements, and what places actors quickly once the time is over.

pub(crate) mod bundle;
pub(crate) mod emptiest;
pub(crate) mod initial_placement;
