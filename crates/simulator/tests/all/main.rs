//! Tests of whole simulations, linked into one program.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own input should fail at once")]

mod bad_facts;
mod errors;
mod oracle;
mod planning;
mod properties;
mod published;
mod trap;
