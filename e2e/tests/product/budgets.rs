//! Moves that a disruption budget lets begin and not end.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, application, cpus, gpus};

/// One GPU on each of two nodes; `a` talks to `c`, and wants to be where that is, and `b` has the other GPU.
fn follows(node: &str) -> Value {
    let mut manifest = application(
        "app",
        &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("gpu", "1ms")]), ("c", 1, &[("cpu", "1ms")])],
    );
    manifest["spec"]["actors"][2]["pinTo"] = json!({"node": node});
    manifest["spec"]["channels"] =
        json!([{"from": "a", "to": "c", "rate": "100/s", "messageBytes": "1Ki", "pattern": "AllToAll"}]);
    manifest
}

/// Two are to exchange their places, and a budget lets only one of them go: the one that went gets another place, as the one whose
/// place it was to have stays.
#[tokio::test]
async fn an_exchange_that_a_budget_lets_begin_and_not_end_leaves_nobody_without_a_pod() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 1));
    let stage = Stage::set("budget", nodes, [cpus(), gpus()]).await;
    for node in ["one", "two"] {
        stage.machine(node, &[("gpu-0", "GPU")]);
    }
    stage.offered("gpus", 2).await;
    stage.apply(&follows("one")).await;
    let at = |node: &'static str| {
        move |seen: &crate::stage::Seen| {
            seen.all_placed()?;
            ensure!(seen.places()["a-0"].starts_with(node), "{:?}", seen.places());
            Ok(())
        }
    };
    stage.settled("app", at("one/")).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [
            {"key": crds::labels::ACTOR_GROUP, "operator": "In", "values": ["a", "b"]}]}}});
    stage.apply(&budget).await;
    wait_for("the budget counts", SOON, async || {
        let allowed = ["get", "pdb", "one", "-ojsonpath={.status.disruptionsAllowed}"];
        let allowed = stage.namespace.kubectl(allowed).await?.stdout;
        ensure!(allowed == "1", "{allowed}");
        anyhow::Ok(())
    })
    .await;
    stage.apply(&follows("two")).await;
    stage.event("app", "Refused", "which may not be evicted").await;
    let after = stage
        .settled("app", |seen| {
            seen.all_placed()?;
            seen.message("Ready", "True").map(drop)
        })
        .await;
    assert_eq!(after.pods.len(), 3);
}
