//! Tests of baselines and of the comparison, from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod program;
mod report;
mod strategies;

use std::path::PathBuf;

/// A published instance.
fn instance(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../examples/instances", name].iter().collect()
}
