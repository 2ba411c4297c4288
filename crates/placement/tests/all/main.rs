//! Tests of the placement model: tables of small snapshots with expected outcomes, and property tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod arriving;
mod checker;
mod costs;
mod grandfathered;
mod groups;
mod large_limits;
mod others;
mod own;
mod reading;
mod rules;
