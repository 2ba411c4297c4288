//! Integration tests of baselines and comparison, and fuzz tests of reading, planning, proving and explaining.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own input should fail at once")]

mod corpus;
mod program;
mod report;
mod strategies;

use std::path::PathBuf;

/// A published instance.
fn instance(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../examples/instances", name].iter().collect()
}
