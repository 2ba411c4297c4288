//! What every strategy promises, and what `plan` makes of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

#[path = "../../../placement/tests/all/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of other rooms")]
mod fixture;
mod planning;
mod strategies;
