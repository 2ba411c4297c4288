//! Volumes of pods, and where they can be used.

pub(crate) mod disks;
pub(crate) mod static_volumes;
pub(crate) mod volume_choice;
pub(crate) mod volume_claims;
pub(crate) mod volume_constraints;
pub(crate) mod volume_limits;
pub(crate) mod volume_rooms;
