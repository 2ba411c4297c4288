//! Devices of resource claims, and counters that devices share.

pub(crate) mod claimable_devices;
pub(crate) mod counter_limit;
pub(crate) mod device_demand;
pub(crate) mod device_quotas;
pub(crate) mod device_requests;
pub(crate) mod device_rooms;
pub(crate) mod numbered_counters;
pub(crate) mod shared_counters;
