//! Units that are devices of `ResourceSlice`s.

pub(crate) mod claimed;
pub(crate) mod claimed_device;
pub(crate) mod counters;
pub(crate) mod numbered;
pub(crate) mod published;
pub(crate) mod selector_cost;
pub(crate) mod selector_functions;
pub(crate) mod selector_syntax;
pub(crate) mod selectors;
pub(crate) mod slices;
pub(crate) mod unavailable;
