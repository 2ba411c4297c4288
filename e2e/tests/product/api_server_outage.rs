//! An outage of the API server that outlasts every lease.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::ensure;
use e2e::wait_for;
use kube::ResourceExt as _;

use crate::env::{AppState, TIMEOUT, TestEnv, application};
use crate::installation::cluster;

/// The pods of actors by name, with their uids.
fn uids(state: &AppState) -> BTreeMap<String, Option<String>> {
    state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// Running actors continue. The operator exits, because it may have lost leadership. The next one finds expired agent leases and nodes
/// that may be lost, and moves no actor for that. Once they are renewed it continues.
///
/// The outage lasts until the operator exits, or for `CAIRN_AWAY_SECONDS` if that is longer.
#[tokio::test]
async fn an_api_server_outage_loses_no_actor() {
    let cluster = cluster();
    let mut env = TestEnv::with_gpu_nodes("away").await;
    env.apply(&application("app", &[("a", 3, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    // the agent is frozen, so that its Leases are expired afterwards
    env.product.agent.freeze().unwrap();
    let least = e2e::bench::size("CAIRN_AWAY_SECONDS", 0).unwrap();
    let (least, stopped) = (Duration::from_secs(least), Instant::now());
    cluster.stop_apiserver().unwrap();
    let ended = env.product.operator.wait_ended(TIMEOUT).await;
    wait_for("the outage is long enough", least + TIMEOUT, async || {
        let away = stopped.elapsed();
        ensure!(away >= least, "{away:?} of {least:?}");
        anyhow::Ok(())
    })
    .await;
    // restart it even if the operator did not exit: the other tests need it
    cluster.restart_apiserver().unwrap();
    ended.unwrap();
    env.product.operator = cluster.start_operator().await.unwrap();
    let during = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(uids(&during), uids(&before));
    env.product.agent.thaw().unwrap();
    env.wait_offered("gpus", 4).await;

    // one more actor starts, and none moves
    env.apply(&application("app", &[("a", 4, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let after = env
        .wait_reconciled("app", |state| {
            ensure!(state.wanted() == 6, "the previous generation");
            state.all_placed()
        })
        .await;
    let (before, after) = (uids(&before), uids(&after));
    assert!(before.iter().all(|(name, uid)| after.get(name) == Some(uid)), "{before:?} became {after:?}");
}
