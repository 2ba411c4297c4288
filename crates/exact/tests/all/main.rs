//! Proofs and bounds held against every assignment of small worlds, and against what is known of published instances.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod bounds;
mod branch;
mod branch_optimality;
mod exhaustive;
