//! Policies: the versions in force, how they survive restarts, and the rollback of those that fail.

pub mod revisions;
pub(super) mod rollback;
pub mod store;
mod versions;
