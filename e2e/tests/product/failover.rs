//! Flapping nodes, and a forced failover during which the operator is killed.

use anyhow::ensure;
use e2e::SimulatedNode;
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, TestEnv, application, cpus};
use crate::installation::cluster;

/// A finalizer that keeps a deleted pod, as on an unreachable node.
const HOLD: &str = "e2e.cairn.dev/hold";

/// Two actors on two of four nodes: one unreachable node is no mass outage.
async fn spread(prefix: &str, after: &str) -> TestEnv {
    let env = TestEnv::new(prefix, ["one", "two", "three", "four"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    manifest["spec"]["failover"] = json!({"mode": "Force", "after": after});
    env.apply(&manifest).await;
    env
}

fn node(state: &AppState, actor: &str) -> String {
    state.places()[actor].split('/').next().unwrap().to_owned()
}

fn uids(state: &AppState) -> Vec<(String, Option<String>)> {
    let mut uids: Vec<_> = state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect();
    uids.sort();
    uids
}

/// A flapping node moves no actor, not even with forced failover: each outage is shorter than the grace period.
#[tokio::test]
async fn a_flapping_node_moves_no_actor() {
    let env = spread("flaps", "600s").await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let flaps = node(&before, "a-0");
    for _ in 0..4 {
        env.nodes.silence(&flaps).await.unwrap();
        env.wait_until("app", |state| state.message("NodeLost", "True").map(drop)).await;
        env.nodes.answer(&flaps).await.unwrap();
        let back = env.wait_reconciled("app", |state| {
            ensure!(state.condition("NodeLost").is_none(), "{:?}", state.condition("NodeLost"));
            state.all_placed()
        });
        let back = back.await;
        assert_eq!((uids(&back), back.places()), (uids(&before), before.places()));
    }
}

/// A forced failover that was started before the operator was killed is finished by the next one, once.
#[tokio::test]
async fn a_forced_failover_survives_an_operator_crash() {
    let cluster = cluster();
    let mut env = spread("forced", "1s").await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let history = env.watch_pods().await;
    let lost = node(&before, "a-0");
    let hold = json!({"metadata": {"finalizers": [HOLD]}}).to_string();
    env.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &hold]).await.unwrap();
    env.nodes.silence(&lost).await.unwrap();
    // its deletion is requested, and its name stays taken until it is gone
    env.wait_until("app", |state| {
        let pod = state.pods.iter().find(|pod| pod.name_any() == "app-a-0");
        let goes = pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        ensure!(goes, "not forced yet");
        Ok(())
    })
    .await;
    env.product.operator.kill9().await.unwrap();
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    env.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &free]).await.unwrap();

    env.product.operator = cluster.start_operator().await.unwrap();
    let elsewhere = env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-0") != lost, "{:?}", state.places());
        state.all_placed()
    });
    elsewhere.await;
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!((lives["a-0"], lives["a-1"]), (2, 1), "one replacement, and the other stays");
    env.nodes.answer(&lost).await.unwrap();
}
