//! Proofs and bounds compared with all assignments of small snapshots, and with known results for published instances.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod bounds;
mod branch;
mod branch_optimality;
mod exhaustive;
