//! Observe: watches keep slimmed objects in the index and say which applications a change concerns.
//!
//! [`feeds`] starts one watch per kind, [`indexed`] applies its events to the [`caches`], which enqueue the applications concerned.

pub mod agents;
pub mod caches;
pub mod devices;
pub mod feeds;
pub mod indexed;
pub mod owned_cache;
pub mod quotas;
pub mod scheduling;
pub mod slim;
pub mod versions;
pub mod watches;
