//! Foreign pods trigger no reconcile of applications that they do not affect.

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// The number of foreign pods.
const FOREIGN: usize = 12;

/// The number of searches so far.
async fn searches(env: &TestEnv) -> f64 {
    let port = env.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let of_plans = text.lines().filter(|line| line.starts_with("cairn_operator_plans_total{"));
    of_plans.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn foreign_pods_trigger_no_needless_searches() {
    let env = TestEnv::new("churn", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    // A policy without a time limit that would interrupt a search and resume it later.
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unhurried", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "strategy: greedy\nbudget: {wall: 60s}\n"}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    let names = ["first", "second", "third", "fourth"];
    for name in names {
        let mut manifest = application(name, &[("a", 2, &[("cpu", "1ms")])]);
        manifest["spec"]["policy"] = json!("unhurried");
        env.apply(&manifest).await;
        env.wait_reconciled(name, AppState::all_placed).await;
    }
    let history = env.watch_pods().await;
    let before = searches(&env).await;
    for round in 0..FOREIGN {
        let name = format!("foreign-{round}");
        let node = ["one", "two"][round % 2];
        env.apply(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": &name}, "spec": {"nodeName": node,
                "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "300m"}}}]}}),
        )
        .await;
        wait_for("the foreign pod runs", TIMEOUT, async || {
            let pod = env.api::<Pod>().get(&name).await?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Running"), "{phase:?}");
            anyhow::Ok(())
        })
        .await;
        env.namespace.kubectl(["delete", "pod", &name]).await.unwrap();
    }
    // A changed application is planned again, and no other: earlier triggers are processed by then.
    let channels = json!([{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]);
    env.patch("third", &json!({"spec": {"channels": channels}})).await;
    env.wait_reconciled("third", AppState::all_placed).await;
    let after = searches(&env).await;
    assert!((after - before - 1.0).abs() < 0.5, "{} searches", after - before);
    let ours = |pod: &Pod| pod.labels().contains_key(crds::labels::ACTOR);
    let moved = history
        .wait_synced()
        .await
        .states()
        .iter()
        .filter(|pod| ours(pod) && pod.metadata.deletion_timestamp.is_some())
        .count();
    assert_eq!(moved, 0, "no actor moves");
    cluster().kubectl(["delete", "configmap", "unhurried", "-n", NAMESPACE]).await.unwrap();
}
