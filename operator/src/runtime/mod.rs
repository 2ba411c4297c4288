//! What the whole process shares: the context of every reconcile, clock, metrics, liveness and the HTTP endpoints.
//!
//! No decision is made here. [`context::Context`] holds the caches, the queues and the writer that the other modules use.

pub mod admin;
pub mod clock;
pub mod context;
pub mod liveness;
pub mod metrics;
