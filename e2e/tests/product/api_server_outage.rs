//! The API server is away for longer than any lease lasts.

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

/// What runs goes on; the operator ends, since it cannot know any more that it leads. Who comes after it is told by Leases that
/// are long over that agents are silent, and by Nodes that they may be lost, and moves nobody for that; once they speak again it
/// goes on.
///
/// It is away until the operator has given up, or for `CAIRN_AWAY_SECONDS` where that is longer.
#[tokio::test]
async fn an_api_server_outage_loses_no_actor() {
    let cluster = cluster();
    let mut env = TestEnv::with_gpu_nodes("away").await;
    env.apply(&application("app", &[("a", 3, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    // the agent stands still, so that its Leases are over when somebody looks again
    env.product.agent.freeze().unwrap();
    let least = std::env::var("CAIRN_AWAY_SECONDS").map_or(0, |seconds| seconds.parse().unwrap());
    let (least, stopped) = (Duration::from_secs(least), Instant::now());
    cluster.stop_apiserver().unwrap();
    let ended = env.product.operator.wait_ended(TIMEOUT).await;
    wait_for("it was away for so long", least + TIMEOUT, async || {
        let away = stopped.elapsed();
        ensure!(away >= least, "{away:?} of {least:?}");
        anyhow::Ok(())
    })
    .await;
    // whatever was seen, the other tests need one
    cluster.restart_apiserver().unwrap();
    ended.unwrap();
    env.product.operator = cluster.start_operator().await.unwrap();
    let during = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(uids(&during), uids(&before));
    env.product.agent.thaw().unwrap();
    env.wait_offered("gpus", 4).await;

    // it goes on: one more, and nobody moved for it
    env.apply(&application("app", &[("a", 4, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let after = env
        .wait_reconciled("app", |state| {
            ensure!(state.wanted() == 6, "the older manifest");
            state.all_placed()
        })
        .await;
    let (before, after) = (uids(&before), uids(&after));
    assert!(before.iter().all(|(name, uid)| after.get(name) == Some(uid)), "{before:?} became {after:?}");
}
