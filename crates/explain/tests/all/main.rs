//! Explanations compared with their definitions.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod explaining;
mod remedies;
mod rules;
mod why;
