//! Unreachable, cordoned and drained nodes with running actors.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// A finalizer that keeps a deleted pod, as on an unreachable node.
const HOLD: &str = "e2e.cairn.dev/hold";

/// One actor on each of three of the nodes.
fn spread() -> serde_json::Value {
    let mut manifest = application("app", &[("a", 3, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    manifest
}

fn pod<'a>(state: &'a AppState, actor: &str) -> &'a Pod {
    let pod = format!("app-{actor}");
    state.pods.iter().find(|it| it.name_any() == pod).unwrap()
}

fn node<'a>(state: &'a AppState, actor: &str) -> &'a str {
    state.places()[actor].split('/').next().unwrap()
}

/// Whether an actor on an unreachable node still runs is unknown: it is reported and waited for, unless the application accepts
/// duplicates.
#[tokio::test]
async fn actors_of_an_unreachable_node_restart_after_confirmation_or_force() {
    let env = TestEnv::new("silent", ["one", "two", "three", "four"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&spread()).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let lost = node(&before, "a-0").to_owned();

    // its node is unreachable: the actor is reported and stays
    env.nodes.silence(&lost).await.unwrap();
    let named = env.wait_until("app", |state| {
        let message = state.message("NodeLost", "True")?;
        ensure!(message.starts_with(&format!("a-0: node {lost} is unreachable")), "{message}");
        state.message("Ready", "False").map(drop)
    });
    assert_eq!(pod(&named.await, "a-0").uid(), pod(&before, "a-0").uid());
    // the node is reachable again
    env.nodes.answer(&lost).await.unwrap();
    let back = env.wait_reconciled("app", |state| {
        ensure!(state.condition("NodeLost").is_none(), "{:?}", state.condition("NodeLost"));
        state.all_placed()
    });
    let uids = |state: &AppState| {
        state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(uids(&back.await), uids(&before), "no pod is recreated");

    // unreachable again, and a user deletes the pod, which no kubelet confirms: it is assigned elsewhere, but not started
    let hold = json!({"metadata": {"finalizers": [HOLD]}}).to_string();
    env.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &hold]).await.unwrap();
    env.nodes.silence(&lost).await.unwrap();
    env.namespace.kubectl(["delete", "pod", "app-a-0", "--wait=false"]).await.unwrap();
    let waits = env.wait_until("app", |state| {
        ensure!(node(state, "a-0") != lost, "{:?}", state.places());
        state.message("NodeLost", "True").map(drop)
    });
    assert_eq!(pod(&waits.await, "a-0").uid(), pod(&before, "a-0").uid());
    // now the pod is gone
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    env.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &free]).await.unwrap();
    let elsewhere = env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-0") != lost, "{:?}", state.places());
        state.all_placed()
    });
    let elsewhere = elsewhere.await;
    env.nodes.answer(&lost).await.unwrap();

    // forced: sooner than the five minutes of the cluster's own eviction
    env.patch("app", &json!({"spec": {"failover": {"mode": "Force", "after": "1s"}}})).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let lost = node(&elsewhere, "a-1").to_owned();
    env.nodes.silence(&lost).await.unwrap();
    let forced = env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-1") != lost, "{:?}", state.places());
        ensure!(state.condition("NodeLost").is_none(), "{:?}", state.condition("NodeLost"));
        state.all_placed()
    });
    forced.await;
    env.nodes.answer(&lost).await.unwrap();

    // out of service: an administrator confirms that the node's pods ended
    env.patch("app", &json!({"spec": {"failover": null}})).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let lost = node(&before, "a-2").to_owned();
    env.nodes.silence(&lost).await.unwrap();
    let taint = ["taint", "node", &lost, "node.kubernetes.io/out-of-service=off:NoExecute"];
    cluster().kubectl(taint).await.unwrap();
    let over = env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-2") != lost, "{:?}", state.places());
        state.all_placed()
    });
    over.await;
}

/// Moves use evictions and wait for a disruption budget that allows none. Pods evicted from a drained node are placed elsewhere
/// at once.
#[tokio::test]
async fn moves_respect_disruption_budgets_and_leave_drained_nodes() {
    let env = TestEnv::new("drain", ["one", "two", "three"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {crds::labels::APPLICATION: "app"}}}});
    env.apply(&budget).await;
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    // it is assigned to the other node, and its eviction is refused
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    env.apply(&manifest).await;
    let waits = env.wait_until("app", |state| {
        ensure!(node(state, "a-0") == "two", "{:?}", state.places());
        let message = state.message("Ready", "False")?;
        ensure!(message.contains("disruption budget"), "{message}");
        Ok(())
    });
    assert_eq!(pod(&waits.await, "a-0").uid(), pod(&before, "a-0").uid());
    env.namespace.kubectl(["delete", "pdb", "all"]).await.unwrap();
    env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-0") == "two", "{:?}", state.places());
        Ok(())
    })
    .await;

    // cordoned: running actors stay, and no new ones are placed
    manifest["spec"]["actors"][0].as_object_mut().unwrap().remove("pinTo");
    env.apply(&manifest).await;
    let stays = env.wait_reconciled("app", AppState::all_placed).await;
    let left = node(&stays, "a-0").to_owned();
    cluster().kubectl(["cordon", &left]).await.unwrap();
    let history = env.watch_pods().await;
    env.apply(&application("later", &[("b", 4, &[("cpu", "1ms")])])).await;
    let later = env.wait_reconciled("later", AppState::all_placed).await;
    assert!(!later.nodes().contains(&*left), "{:?}", later.places());
    let still = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(pod(&still, "a-0").uid(), pod(&stays, "a-0").uid());

    // drained
    let drain = ["drain", &left, "--ignore-daemonsets", "--timeout=180s"];
    cluster().kubectl(drain).await.unwrap();
    env.wait_reconciled("app", |state| {
        ensure!(node(state, "a-0") != left, "{:?}", state.places());
        state.all_placed()
    })
    .await;
    assert_eq!(
        history.wait_synced().await.unschedulable(),
        Vec::<String>::new(),
        "no pod is scheduled there"
    );
}

/// An actor above the quota stays unplaced until the quota is raised or usage drops.
#[tokio::test]
async fn actors_within_the_quota_are_placed_and_the_rest_after_it_grows() {
    let mut pool = cpus();
    pool["spec"]["quota"] = json!({"perNamespace": 3});
    let env = TestEnv::new("bounds", ["one", "two"].map(SimulatedNode::new), [pool.clone()]).await;
    let quota = |pods: u32| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": pods.to_string()}}})
    };
    env.apply(&quota(2)).await;
    let is_counted = async || {
        let used =
            env.namespace.kubectl(["get", "resourcequota", "few", "-ojsonpath={.status.used.pods}"]).await?;
        ensure!(!used.stdout.is_empty(), "{used:?}");
        anyhow::Ok(())
    };
    wait_for("the quota is in force", TIMEOUT, is_counted).await;
    env.apply(&application("app", &[("a", 4, &[("cpu", "1ms")])])).await;
    let placed = |count: usize, part: &'static str| {
        move |state: &AppState| {
            ensure!(state.places().len() == count, "{:?}", state.places());
            let message = state.message("Placed", "False")?;
            ensure!(message.contains(part), "{message}");
            Ok(())
        }
    };
    env.wait_reconciled("app", placed(2, "ResourceQuota few allows pods 2")).await;
    // after the quota is raised the pool's limit remains
    env.apply(&quota(9)).await;
    env.wait_reconciled("app", placed(3, "pool cpus allows 3 instances of namespace")).await;
    pool["spec"]["quota"]["perNamespace"] = json!(4);
    cluster().kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    env.wait_reconciled("app", AppState::all_placed).await;
}
