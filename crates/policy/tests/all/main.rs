//! Tests of policies: budgets of grounding, hostile and joined programs, pairs, and rejected programs.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod budget;
mod hostile;
mod joined;
mod pairs;
mod refused;
