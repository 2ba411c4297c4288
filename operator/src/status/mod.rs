//! Report: computes the statuses of applications, Placements, Instances and device pools.
//!
//! [`apply::reconcile`](crate::apply::reconcile) writes them; only [`pools`] runs a loop of its own.

pub mod failures;
pub mod instances;
pub mod moves;
pub mod phase;
pub mod pools;
pub mod readiness;
pub mod report;
