//! Tests of the model: one line of world, one block of outcome; properties for what must hold always.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod checker;
mod corpus;
mod costs;
mod explaining;
mod fixture;
mod naive;
mod planning;
mod reading;
mod ruled;
mod rules;
mod strategies;
mod why;
