//! A small chaos run: the leader is killed and stopped at random moments, without violations.

use std::path::Path;

use e2e::chaos::{ChaosSize, measure};

#[tokio::test]
async fn operators_killed_at_any_moment_neither_duplicate_nor_lose_actors() {
    // With findings, keep the state.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let batch = measure(ChaosSize::SHORT, 7, "none", Some(kept)).await.unwrap();
    // `test.sh` does not retry after this text, because a retry would hide a rare violation.
    assert!(batch.findings.is_empty(), "audit log violations: {:?}", batch.findings);
    assert_eq!(
        (batch.after_kill.len(), batch.after_stop.len()),
        (ChaosSize::SHORT.strikes, ChaosSize::SHORT.strikes)
    );
    assert!(batch.updates >= 2 && batch.drained_nodes >= 1 && batch.lost_nodes >= 2, "{batch:?}");
    assert!(batch.started >= 10 && batch.stopped > 0, "the checker saw the changes: {batch:?}");
}
