//! Priorities, gang starts, enforced policies, namespace limits, and the objective of a single application.

use anyhow::{Result, ensure};
use crds::PlacementPhase;
use e2e::{SimulatedNode, product::NAMESPACE};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// An application with one group of so many actors on GPUs.
fn on_gpus(name: &str, replicas: u32, spec: &Value) -> Value {
    let mut manifest = application(name, &[("a", replicas, &[("gpu", "1ms")])]);
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

fn without_place(state: &AppState, part: &str) -> Result<()> {
    let message = state.message("Placed", "False")?;
    ensure!(message.contains(part), "{message}");
    ensure!(state.places().is_empty() && state.pods.is_empty(), "{:?}", state.places());
    Ok(())
}

/// Two applications wait for one GPU. The later one has the higher priority, gets it, and keeps it when the other's priority rises.
#[tokio::test]
async fn freed_capacity_goes_to_the_highest_priority_without_preemption() {
    let env =
        TestEnv::new("priority", [SimulatedNode::new("gpu").resource("acme.com/gpu", 1)], [gpus()]).await;
    env.describe_devices("gpu", &[("gpu-0", "GPU")]);
    env.apply(&on_gpus("holds", 1, &json!({}))).await;
    env.wait_reconciled("holds", AppState::all_placed).await;
    env.apply(&on_gpus("low", 1, &json!({}))).await;
    env.wait_until("low", |state| without_place(state, "gpu")).await;
    env.apply(&on_gpus("high", 1, &json!({"priority": 10}))).await;
    env.wait_until("high", |state| without_place(state, "gpu")).await;

    env.namespace.kubectl(["delete", "actorapp", "holds", "--wait=false"]).await.unwrap();
    let high = env.wait_reconciled("high", AppState::all_placed).await;
    env.wait_until("low", |state| without_place(state, "gpu")).await;

    env.patch("low", &json!({"spec": {"priority": 100}})).await;
    let generation = env.observe("low").await.unwrap().application.metadata.generation;
    env.wait_until("low", |state| {
        let status = state.application.status.as_ref();
        ensure!(status.and_then(|status| status.observed_generation) == generation, "not reconciled yet");
        without_place(state, "gpu")
    })
    .await;
    let still = env.wait_reconciled("high", AppState::all_placed).await;
    assert_eq!(still.pods[0].uid(), high.pods[0].uid(), "priority preempts no pod");
}

/// Among equal priorities the older application gets freed capacity, regardless of names and of the last change.
#[tokio::test]
async fn equal_priorities_are_served_oldest_first() {
    let env = TestEnv::new("age", [SimulatedNode::new("gpu").resource("acme.com/gpu", 1)], [gpus()]).await;
    env.describe_devices("gpu", &[("gpu-0", "GPU")]);
    env.apply(&on_gpus("holds", 1, &json!({}))).await;
    env.wait_reconciled("holds", AppState::all_placed).await;
    env.apply(&on_gpus("old", 1, &json!({}))).await;
    let old = env.wait_until("old", |state| without_place(state, "gpu")).await;
    // creation times have a resolution of one second
    let made = old.application.metadata.creation_timestamp.unwrap().0;
    e2e::wait_for("it is older than a second", TIMEOUT, async || {
        ensure!(jiff::Timestamp::now().as_second() > made.as_second() + 1, "it is not");
        anyhow::Ok(())
    })
    .await;
    env.apply(&on_gpus("new", 1, &json!({}))).await;
    env.wait_until("new", |state| without_place(state, "gpu")).await;

    env.namespace.kubectl(["delete", "actorapp", "holds", "--wait=false"]).await.unwrap();
    env.wait_reconciled("old", AppState::all_placed).await;
    env.wait_until("new", |state| without_place(state, "gpu")).await;
    env.namespace.kubectl(["delete", "actorapp", "old", "--wait=false"]).await.unwrap();
    env.wait_reconciled("new", AppState::all_placed).await;
}

/// A gang reserves nothing while it is incomplete, and starts completely when it fits.
#[tokio::test]
async fn a_gang_starts_as_a_whole_and_reserves_no_capacity_before() {
    let env =
        TestEnv::new("together", [SimulatedNode::new("gpu").resource("acme.com/gpu", 2)], [gpus()]).await;
    env.describe_devices("gpu", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.apply(&on_gpus("holds", 1, &json!({}))).await;
    env.wait_reconciled("holds", AppState::all_placed).await;
    let history = env.watch_pods().await;
    env.apply(&on_gpus("gang", 2, &json!({"start": "AllOrNothing"}))).await;
    env.wait_until("gang", |state| without_place(state, "spec.start is AllOrNothing")).await;
    // the remaining GPU is not reserved
    env.apply(&on_gpus("small", 1, &json!({}))).await;
    env.wait_reconciled("small", AppState::all_placed).await;
    env.wait_until("gang", |state| without_place(state, "gpu")).await;
    let gang = |lives: &std::collections::BTreeMap<String, usize>| lives.get("a-1").copied();
    assert_eq!(gang(&history.wait_synced().await.pods_per_actor()), None, "no actor of the gang started");

    env.namespace.kubectl(["delete", "actorapp", "small", "holds", "--wait=false"]).await.unwrap();
    let gang = env.wait_reconciled("gang", AppState::all_placed).await;
    assert_eq!(gang.pods.len(), 2);
}

/// An enforced policy applies to applications that name another policy, in its namespaces, and cannot be bypassed.
#[tokio::test]
async fn enforced_policies_apply_under_every_policy() {
    let cluster = cluster();
    let env = TestEnv::new("enforced", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mine = env.namespace.name();
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "enforced-here", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "enforced"}, "annotations": {"cairn.dev/namespaces": mine}},
        "data": {"program.lp": "forbid(A,U) :- group(A,\"a\"), cu_node(U,\"one\")."}});
    cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    env.apply(&manifest).await;
    let state = env
        .wait_reconciled("app", |state| {
            ensure!(state.places().len() == 1, "{:?}", state.places());
            state.message("Placed", "False").map(drop)
        })
        .await;
    assert_eq!(state.nodes().into_iter().collect::<Vec<_>>(), ["two"]);
    // a program that cannot be grounded is reported under its own name and line, not those of the named policy; the last valid
    // version stays in force
    let mut endless = policy.clone();
    endless["data"]["program.lp"] = json!("\nn(0).\nn(X+1) :- n(X).");
    cluster.kubectl_with(["apply", "-f-"], &endless.to_string()).await.unwrap();
    env.patch("app", &json!({"spec": {"priority": 1}})).await;
    let message = env.wait_event("app", "PolicyRefused", "policy enforced-here: program.lp: line 3").await;
    assert!(message.contains("the last valid version stays in force"), "{message}");
    let state = env.wait_reconciled("app", |state| state.message("Placed", "False").map(drop)).await;
    assert_eq!(state.nodes().into_iter().collect::<Vec<_>>(), ["two"]);
    cluster.kubectl(["delete", "configmap", "enforced-here", "-n", NAMESPACE]).await.unwrap();
    env.wait_reconciled("app", AppState::all_placed).await;
}

/// R55: a pool serves only the namespaces it selects; `LimitRange` defaults of containers without requests are counted.
#[tokio::test]
async fn namespace_selectors_and_limit_ranges_are_respected_before_admission() {
    let mut pool = cpus();
    pool["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "vision"}});
    let env = TestEnv::new("namespaces", [SimulatedNode::new("one")], [pool]).await;
    // of four cores, three for each container without requests
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}});
    env.apply(&limits).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["implementations"][0]["template"]["spec"]["containers"][0]["resources"] =
        json!({});
    env.apply(&manifest).await;
    let name = env.namespace.name();
    let barred = format!("pool cpus does not select namespace {name}");
    env.wait_until("app", |state| without_place(state, &barred)).await;
    let history = env.watch_pods().await;
    cluster().kubectl(["label", "namespace", name, "team=vision"]).await.unwrap();
    env.wait_reconciled("app", |state| {
        ensure!(state.places().len() == 1, "{:?}", state.places());
        state.message("Placed", "False").map(drop)
    })
    .await;
    assert_eq!(history.wait_synced().await.unschedulable(), Vec::<String>::new(), "known without a refusal");
    env.namespace.kubectl(["delete", "limitrange", "usual"]).await.unwrap();
    // a running pod keeps its defaults; another one fits because it needs no default any more
    env.wait_reconciled("app", AppState::all_placed).await;
}

/// Objective and phase describe only the own application, not overload caused by others, and the progress of its placement.
#[tokio::test]
async fn objective_and_phase_cover_only_the_own_application() {
    let env = TestEnv::new("own", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let pinned = |name: &str, node: &str, arrivals: &str| {
        let mut manifest = application(name, &[("a", 1, &[("cpu", "20ms")])]);
        let group = &mut manifest["spec"]["actors"][0];
        (group["pinTo"], group["arrivals"]) = (json!({"node": node}), json!(arrivals));
        manifest
    };
    let phase = |state: &AppState, expected: PlacementPhase| {
        let status = state.decision.as_ref().and_then(|decision| decision.status.as_ref());
        ensure!(status.and_then(|status| status.phase) == Some(expected), "{status:?}");
        anyhow::Ok(())
    };
    env.apply(&pinned("busy", "one", "1000/s")).await;
    env.wait_reconciled("busy", |state| phase(state, PlacementPhase::Applied)).await;
    env.apply(&pinned("idle", "two", "1/s")).await;
    let idle = env.wait_reconciled("idle", |state| phase(state, PlacementPhase::Applied)).await;
    let own = |state: &AppState| state.application.status.as_ref().unwrap().objective["overload"];
    assert!(
        idle.spec().objective["overload"] > 0,
        "the objective covers the whole snapshot: {:?}",
        idle.spec().objective
    );
    assert_eq!((own(&idle), idle.spec().own_objective["overload"]), (0, 0));

    // a placement that admission keeps refusing has phase Failed until it is accepted
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}});
    env.apply(&quota).await;
    e2e::wait_for("the quota is in force", TIMEOUT, async || {
        let used =
            env.namespace.kubectl(["get", "resourcequota", "none", "-ojsonpath={.status.used.pods}"]).await?;
        ensure!(!used.stdout.is_empty(), "{used:?}");
        anyhow::Ok(())
    })
    .await;
    env.apply(&pinned("late", "two", "1/s")).await;
    env.wait_until("late", |state| {
        phase(state, PlacementPhase::Failed)?;
        let status = state.decision.as_ref().unwrap().status.as_ref().unwrap();
        ensure!(status.conditions[0].message.contains("exceeded quota: none"), "{status:?}");
        Ok(())
    })
    .await;
    env.namespace.kubectl(["delete", "resourcequota", "none"]).await.unwrap();
    env.wait_reconciled("late", |state| phase(state, PlacementPhase::Applied)).await;
}
