//! Whole worlds, in one program: what is linked is linked once.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod authors;
mod laws;
mod oracle;
mod planning;
mod refusals;
