//! Tests of decisions: why a plan is due, what moves, and the actions that carry it out.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod actions;
mod commit;
mod due;
mod gain;
mod place_one;
mod start;
mod worlds;
