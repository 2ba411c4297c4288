//! Moves that a disruption budget blocks halfway.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, apply_policy, cpus, delete_policy, gpus};

const POLICY: &str = "half-blocked";

/// One GPU on each of two nodes. `a` communicates with `c`, which draws it to that node; `b` has the other GPU.
fn follows(node: &str) -> Value {
    let mut manifest = application(
        "app",
        &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("gpu", "1ms")]), ("c", 1, &[("cpu", "1ms")])],
    );
    manifest["spec"]["actors"][2]["pinTo"] = json!({"node": node});
    manifest["spec"]["policy"] = json!(POLICY);
    manifest["spec"]["channels"] =
        json!([{"from": "a", "to": "c", "rate": "100/s", "messageBytes": "1Ki", "pattern": "AllToAll"}]);
    manifest
}

/// Two actors exchange their units, and the budget allows only one eviction. The evicted actor gets another unit, because the other
/// actor stays.
#[tokio::test]
async fn a_half_blocked_exchange_leaves_no_actor_without_a_pod() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 1));
    let env = TestEnv::new("budget", nodes, [cpus(), gpus()]).await;
    for node in ["one", "two"] {
        env.describe_devices(node, &[("gpu-0", "GPU")]);
    }
    env.wait_offered("gpus", 2).await;
    apply_policy(POLICY, "rebalance: {giveUp: 20s}\n").await;
    env.apply(&follows("one")).await;
    let at = |node: &'static str| {
        move |state: &AppState| {
            state.all_placed()?;
            ensure!(state.places()["a-0"].starts_with(node), "{:?}", state.places());
            Ok(())
        }
    };
    env.wait_reconciled("app", at("one/")).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [
            {"key": crds::labels::ACTOR_GROUP, "operator": "In", "values": ["a", "b"]}]}}});
    env.apply(&budget).await;
    wait_for("the budget is in force", TIMEOUT, async || {
        let allowed = ["get", "pdb", "one", "-ojsonpath={.status.disruptionsAllowed}"];
        let allowed = env.namespace.kubectl(allowed).await?.stdout;
        ensure!(allowed == "1", "{allowed}");
        anyhow::Ok(())
    })
    .await;
    env.apply(&follows("two")).await;
    env.wait_event("app", "Refused", "which may not be evicted").await;
    let after = env
        .wait_reconciled("app", |state| {
            state.all_placed()?;
            state.message("Ready", "True").map(drop)
        })
        .await;
    assert_eq!(after.pods.len(), 3);
    delete_policy(POLICY).await;
}
