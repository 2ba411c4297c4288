//! Chaos in little: the operator that leads is killed and stopped at random moments, and nothing that must not happen does.

use e2e::chaos::{Size, measure};

#[tokio::test]
async fn whoever_is_killed_whenever_nobody_lives_twice_or_is_lost() {
    let batch = measure(Size::SHORT, 7, "none", None).await.unwrap();
    assert_eq!(batch.findings, Vec::<String>::new());
    assert_eq!((batch.after_kill.len(), batch.after_stop.len()), (Size::SHORT.strikes, Size::SHORT.strikes));
    assert!(batch.updates >= 2 && batch.drained_nodes >= 1 && batch.lost_nodes >= 2, "{batch:?}");
    assert!(batch.started >= 10 && batch.stopped > 0, "the checker saw what happened: {batch:?}");
}
