//! Devices in the index: pools and topologies, and the slices, claims and classes of dynamic resource allocation.

pub(crate) mod events;
pub(crate) mod published;
mod served_resources;
mod topologies;
