//! Units that pods request from a device plugin.

pub(crate) mod candidates;
pub(crate) mod device_resource;
pub(crate) mod devices;
pub(crate) mod domains;
pub(crate) mod slots;
