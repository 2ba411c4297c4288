//! Tests of clingo from outside: each policy file, the judge, and names as symbols.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod derived;
mod grandfathered;
mod policies;
mod programs;
mod remedies;
mod symbols;
mod why;
