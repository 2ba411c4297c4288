//! Explanations against their definitions, and any bytes through all that reads, plans and explains.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod corpus;
mod explaining;
#[path = "../../../placement/tests/all/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of other rooms")]
mod fixture;
#[path = "../../../placement/tests/all/naive.rs"]
#[allow(dead_code, reason = "shared with the tests of other rooms")]
mod naive;
mod ruled;
mod why;
