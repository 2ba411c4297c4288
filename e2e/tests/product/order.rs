//! Who is served first when room is short, who starts all at once, what a namespace allows, and what is an application's own.

use anyhow::{Result, ensure};
use crds::PlacementPhase;
use e2e::{SimulatedNode, product::NAMESPACE};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus, gpus};

/// An application of so many actors of one group on GPUs.
fn on_gpus(name: &str, replicas: u32, spec: &Value) -> Value {
    let mut manifest = application(name, &[("a", replicas, &[("gpu", "1ms")])]);
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

fn without_place(seen: &Seen, part: &str) -> Result<()> {
    let told = seen.message("Placed", "False")?;
    ensure!(told.contains(part), "{told}");
    ensure!(seen.places().is_empty() && seen.pods.is_empty(), "{:?}", seen.places());
    Ok(())
}

/// Two wait for one GPU: the one that came later has the higher priority and gets it, and keeps it when the other's grows.
#[tokio::test]
async fn the_higher_priority_gets_the_room_that_comes_and_takes_it_from_nobody() {
    let stage =
        Stage::set("priority", [SimulatedNode::new("gpu").resource("acme.com/gpu", 1)], [gpus()]).await;
    stage.machine("gpu", &[("gpu-0", "GPU")]);
    stage.apply(&on_gpus("holds", 1, &json!({}))).await;
    stage.settled("holds", Seen::all_placed).await;
    stage.apply(&on_gpus("low", 1, &json!({}))).await;
    stage.seen("low", |seen| without_place(seen, "gpu")).await;
    stage.apply(&on_gpus("high", 1, &json!({"priority": 10}))).await;
    stage.seen("high", |seen| without_place(seen, "gpu")).await;

    stage.namespace.kubectl(["delete", "actorapp", "holds", "--wait=false"]).await.unwrap();
    let high = stage.settled("high", Seen::all_placed).await;
    stage.seen("low", |seen| without_place(seen, "gpu")).await;

    stage.patch("low", &json!({"spec": {"priority": 100}})).await;
    let generation = stage.look("low").await.unwrap().application.metadata.generation;
    stage
        .seen("low", |seen| {
            let status = seen.application.status.as_ref();
            ensure!(status.and_then(|status| status.observed_generation) == generation, "not looked at yet");
            without_place(seen, "gpu")
        })
        .await;
    let still = stage.settled("high", Seen::all_placed).await;
    assert_eq!(still.pods[0].uid(), high.pods[0].uid(), "priority stops nobody");
}

/// Of two of one priority the older gets the room that comes, whatever they are called and whoever was changed last.
#[tokio::test]
async fn of_equal_priorities_the_older_is_served_first() {
    let stage = Stage::set("age", [SimulatedNode::new("gpu").resource("acme.com/gpu", 1)], [gpus()]).await;
    stage.machine("gpu", &[("gpu-0", "GPU")]);
    stage.apply(&on_gpus("holds", 1, &json!({}))).await;
    stage.settled("holds", Seen::all_placed).await;
    stage.apply(&on_gpus("old", 1, &json!({}))).await;
    let old = stage.seen("old", |seen| without_place(seen, "gpu")).await;
    // ages are known to the second
    let made = old.application.metadata.creation_timestamp.unwrap().0;
    e2e::wait_for("it is older than a second", SOON, async || {
        ensure!(jiff::Timestamp::now().as_second() > made.as_second() + 1, "it is not");
        anyhow::Ok(())
    })
    .await;
    stage.apply(&on_gpus("new", 1, &json!({}))).await;
    stage.seen("new", |seen| without_place(seen, "gpu")).await;

    stage.namespace.kubectl(["delete", "actorapp", "holds", "--wait=false"]).await.unwrap();
    stage.settled("old", Seen::all_placed).await;
    stage.seen("new", |seen| without_place(seen, "gpu")).await;
    stage.namespace.kubectl(["delete", "actorapp", "old", "--wait=false"]).await.unwrap();
    stage.settled("new", Seen::all_placed).await;
}

/// One that starts all at once holds nothing while it cannot, and starts whole when it can.
#[tokio::test]
async fn all_start_or_none_and_what_is_not_used_is_free_for_others() {
    let stage =
        Stage::set("together", [SimulatedNode::new("gpu").resource("acme.com/gpu", 2)], [gpus()]).await;
    stage.machine("gpu", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    stage.apply(&on_gpus("holds", 1, &json!({}))).await;
    stage.settled("holds", Seen::all_placed).await;
    let history = stage.watch_pods().await;
    stage.apply(&on_gpus("gang", 2, &json!({"start": "AllOrNothing"}))).await;
    stage.seen("gang", |seen| without_place(seen, "spec.start is AllOrNothing")).await;
    // the GPU that is left is nobody's
    stage.apply(&on_gpus("small", 1, &json!({}))).await;
    stage.settled("small", Seen::all_placed).await;
    stage.seen("gang", |seen| without_place(seen, "gpu")).await;
    let gang = |lives: &std::collections::BTreeMap<String, usize>| lives.get("a-1").copied();
    assert_eq!(gang(&history.caught_up().await.lives()), None, "nobody of it began");

    stage.namespace.kubectl(["delete", "actorapp", "small", "holds", "--wait=false"]).await.unwrap();
    let gang = stage.settled("gang", Seen::all_placed).await;
    assert_eq!(gang.pods.len(), 2);
}

/// What a policy enforces holds for who names another one, in its namespaces, and cannot be left out.
#[tokio::test]
async fn what_is_enforced_holds_under_every_policy() {
    let cluster = cluster();
    let stage = Stage::set("enforced", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mine = stage.namespace.name();
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "enforced-here", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "enforced"}, "annotations": {"cairn.dev/namespaces": mine}},
        "data": {"program.lp": "forbid(A,U) :- group(A,\"a\"), cu_node(U,\"one\")."}});
    cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    stage.apply(&manifest).await;
    let seen = stage
        .settled("app", |seen| {
            ensure!(seen.places().len() == 1, "{:?}", seen.places());
            seen.message("Placed", "False").map(drop)
        })
        .await;
    assert_eq!(seen.nodes().into_iter().collect::<Vec<_>>(), ["two"]);
    // one that cannot be written out is told by its name and its line, not by those of the policy that is named, and what
    // could be stays in force
    let mut endless = policy.clone();
    endless["data"]["program.lp"] = json!("\nn(0).\nn(X+1) :- n(X).");
    cluster.kubectl_with(["apply", "-f-"], &endless.to_string()).await.unwrap();
    stage.patch("app", &json!({"spec": {"priority": 1}})).await;
    let told = stage.event("app", "PolicyRefused", "policy enforced-here: program.lp: line 3").await;
    assert!(told.ends_with("the last valid version stays in force"), "{told}");
    let seen = stage.settled("app", |seen| seen.message("Placed", "False").map(drop)).await;
    assert_eq!(seen.nodes().into_iter().collect::<Vec<_>>(), ["two"]);
    cluster.kubectl(["delete", "configmap", "enforced-here", "-n", NAMESPACE]).await.unwrap();
    stage.settled("app", Seen::all_placed).await;
}

/// R55: a pool is for the namespaces that it selects; what admission gives a container that asks for nothing is counted.
#[tokio::test]
async fn pools_and_limits_of_a_namespace_are_known_before_admission_says_so() {
    let mut pool = cpus();
    pool["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "vision"}});
    let stage = Stage::set("namespaces", [SimulatedNode::new("one")], [pool]).await;
    // of four cores, three for each container that asks for none
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}});
    stage.apply(&limits).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["implementations"][0]["template"]["spec"]["containers"][0]["resources"] =
        json!({});
    stage.apply(&manifest).await;
    let name = stage.namespace.name();
    let barred = format!("pool cpus is not for namespace {name}");
    stage.seen("app", |seen| without_place(seen, &barred)).await;
    let history = stage.watch_pods().await;
    cluster().kubectl(["label", "namespace", name, "team=vision"]).await.unwrap();
    stage
        .settled("app", |seen| {
            ensure!(seen.places().len() == 1, "{:?}", seen.places());
            seen.message("Placed", "False").map(drop)
        })
        .await;
    assert_eq!(history.caught_up().await.unschedulable(), Vec::<String>::new(), "it was known before");
    stage.namespace.kubectl(["delete", "limitrange", "usual"]).await.unwrap();
    // who runs keeps what admission gave it: one more fits now that it asks for nothing
    stage.settled("app", Seen::all_placed).await;
}

/// An application is told what is its own, not that others have too much to do; and how far its decision is.
#[tokio::test]
async fn the_objective_and_the_phase_are_its_own() {
    let stage = Stage::set("own", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let pinned = |name: &str, node: &str, arrivals: &str| {
        let mut manifest = application(name, &[("a", 1, &[("cpu", "20ms")])]);
        let group = &mut manifest["spec"]["actors"][0];
        (group["pinTo"], group["arrivals"]) = (json!({"node": node}), json!(arrivals));
        manifest
    };
    let phase = |seen: &Seen, expected: PlacementPhase| {
        let status = seen.decision.as_ref().and_then(|decision| decision.status.as_ref());
        ensure!(status.and_then(|status| status.phase) == Some(expected), "{status:?}");
        anyhow::Ok(())
    };
    stage.apply(&pinned("busy", "one", "1000/s")).await;
    stage.settled("busy", |seen| phase(seen, PlacementPhase::Applied)).await;
    stage.apply(&pinned("idle", "two", "1/s")).await;
    let idle = stage.settled("idle", |seen| phase(seen, PlacementPhase::Applied)).await;
    let own = |seen: &Seen| seen.application.status.as_ref().unwrap().objective["overload"];
    assert!(
        idle.spec().objective["overload"] > 0,
        "compared is all that is there: {:?}",
        idle.spec().objective
    );
    assert_eq!((own(&idle), idle.spec().own_objective["overload"]), (0, 0));

    // what admission refuses again and again is a decision that failed, until it no longer does
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}});
    stage.apply(&quota).await;
    e2e::wait_for("the quota counts", SOON, async || {
        let used = stage
            .namespace
            .kubectl(["get", "resourcequota", "none", "-ojsonpath={.status.used.pods}"])
            .await?;
        ensure!(!used.stdout.is_empty(), "{used:?}");
        anyhow::Ok(())
    })
    .await;
    stage.apply(&pinned("late", "two", "1/s")).await;
    stage
        .seen("late", |seen| {
            phase(seen, PlacementPhase::Failed)?;
            let status = seen.decision.as_ref().unwrap().status.as_ref().unwrap();
            ensure!(status.conditions[0].message.contains("exceeded quota: none"), "{status:?}");
            Ok(())
        })
        .await;
    stage.namespace.kubectl(["delete", "resourcequota", "none"]).await.unwrap();
    stage.settled("late", |seen| phase(seen, PlacementPhase::Applied)).await;
}
