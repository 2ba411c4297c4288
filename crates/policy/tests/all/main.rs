//! Tests of policies: budgets of grounding, pairs, and rejected programs.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod budget;
mod pairs;
mod refused;
