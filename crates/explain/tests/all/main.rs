//! Explanations against their definitions, and any bytes through all that reads, plans and explains.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod corpus;
mod explaining;
mod remedies;
mod ruled;
mod why;
