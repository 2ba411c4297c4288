//! Which nodes accept the pods of a group.

pub(crate) mod limited_tolerations;
pub(crate) mod never_scheduled;
pub(crate) mod refusals;
pub(crate) mod selectors;
pub(crate) mod unreachable;
