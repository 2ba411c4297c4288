//! Worlds for tests and benches: random ones by [seed](world), [published] ones, and an [`oracle`] that looks at every
//! assignment of a small one.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

pub mod oracle;
mod published;
mod random;

pub use published::{published, several};
pub use random::world;
