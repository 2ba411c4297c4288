//! A starting operator restores its state from the objects of the cluster, in any order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, Group, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// The snapshot of an application.
pub async fn snapshot(env: &TestEnv, name: &str) -> anyhow::Result<String> {
    let port = env.product.operator.port(8081)?;
    let answer = e2e::process::http(port, &format!("/debug/snapshot/{}/{name}", env.namespace)).await?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.body);
    Ok(answer.body)
}

/// A pod's name and its unit.
fn place_of(pod: &Pod) -> (String, Option<String>) {
    (pod.name_any(), pod.annotations().get(crds::labels::UNIT).cloned())
}

/// The uids of an application's pods.
fn uids(state: &AppState) -> BTreeSet<Option<String>> {
    state.pods.iter().map(kube::ResourceExt::uid).collect()
}

/// The operator's searches since its start, by trigger.
async fn searches(env: &TestEnv) -> BTreeMap<String, u64> {
    let port = env.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let one = |line: &str| {
        let (why, count) = line.strip_prefix("cairn_operator_searches_total{why=\"")?.split_once("\"} ")?;
        Some((why.to_owned(), count.parse::<u64>().unwrap()))
    };
    text.lines().filter_map(one).filter(|(_, count)| *count > 0).collect()
}

/// Applies an application under the policy `recounted`, and waits until it is placed.
async fn place(env: &TestEnv, name: &str, groups: &[Group<'_>]) {
    let mut manifest = application(name, groups);
    manifest["spec"]["policy"] = json!("recounted");
    env.apply(&manifest).await;
    env.wait_reconciled(name, AppState::all_placed).await;
}

/// R9: usage is computed anew from the cluster's objects and is the same as before: no leak, nothing counted twice, and no
/// needless search.
#[tokio::test]
async fn usage_is_restored_after_a_restart() {
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let mut env = TestEnv::new("recount", nodes, [cpus(), gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.wait_offered("gpus", 2).await;
    // A policy without a time limit.
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "recounted", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "strategy: greedy\nbudget: {wall: 60s}\n"}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    for name in ["first", "second"] {
        place(&env, name, &[("a", 1, &[("gpu", "1ms")]), ("b", 3, &[("cpu", "2ms")])]).await;
    }
    // the last write is observed by now
    let before = wait_for("a snapshot with all placements", TIMEOUT, async || {
        let text = snapshot(&env, "first").await?;
        let placed = text.matches("\"current\"").count();
        ensure!(placed >= 4, "{placed} places in {text}");
        anyhow::Ok(text)
    })
    .await;
    let pods = uids(&env.observe("first").await.unwrap());
    env.product.operator.kill9().await.unwrap();
    env.product.operator = cluster().start_operator().await.unwrap();
    wait_for("the same snapshot", TIMEOUT, async || {
        let after = snapshot(&env, "first").await?;
        ensure!(after == before, "{after}\nbefore:\n{before}");
        anyhow::Ok(())
    })
    .await;
    // When the second of these is placed, the older applications have been reconciled by this operator.
    for name in ["third", "fourth"] {
        place(&env, name, &[("a", 1, &[("cpu", "1ms")])]).await;
    }
    assert_eq!(searches(&env).await, [("undecided".to_owned(), 2)].into(), "only of later applications");
    let state = env.wait_reconciled("first", AppState::all_placed).await;
    assert_eq!(uids(&state), pods, "no pod is recreated");

    // An edited image is a rollout, and a pause and its end are neither: no search.
    let image = "/spec/actors/0/implementations/0/template/spec/containers/0/image";
    let patch = json!([{"op": "replace", "path": image, "value": "edited"}]).to_string();
    env.namespace.kubectl(["patch", "actorapp", "first", "--type=json", "-p", &patch]).await.unwrap();
    let is_edited = |state: &AppState| {
        let images = state.pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.as_deref());
        let edited = images.filter(|image| *image == "edited").count();
        anyhow::ensure!(edited == 1, "{edited} pods have the image");
        state.all_placed()
    };
    env.wait_reconciled("first", is_edited).await;
    env.patch("first", &json!({"spec": {"paused": true}})).await;
    env.wait_until("first", |state| state.message("Paused", "True").map(drop)).await;
    env.patch("first", &json!({"spec": {"paused": false}})).await;
    env.wait_reconciled("first", is_edited).await;
    assert_eq!(searches(&env).await, [("undecided".to_owned(), 2)].into(), "no demand changed");
    cluster().kubectl(["delete", "configmap", "recounted", "-n", NAMESPACE]).await.unwrap();
}

/// R12: an application is deleted while no operator leads: its capacity goes to waiting applications.
#[tokio::test]
async fn capacity_of_applications_deleted_without_a_leader_is_freed() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 1);
    let mut env = TestEnv::new("deleted", [node], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 1).await;
    env.apply(&application("first", &[("a", 1, &[("gpu", "1ms")])])).await;
    env.wait_reconciled("first", AppState::all_placed).await;
    env.apply(&application("second", &[("a", 1, &[("gpu", "1ms")])])).await;
    env.wait_until("second", |state| state.message("Placed", "False").map(drop)).await;
    env.product.operator.kill9().await.unwrap();
    env.namespace.kubectl(["delete", "actorapp", "first", "--wait=false"]).await.unwrap();
    env.product.operator = cluster().start_operator().await.unwrap();
    let state = env.wait_reconciled("second", AppState::all_placed).await;
    assert_eq!(state.places()["a-0"], "one/gpus-0");
}

/// R15: an application that exists before its nodes, pools, devices and agents runs once they exist.
#[tokio::test]
async fn a_restarted_operator_waits_for_all_caches() {
    let mut env = TestEnv::new("order", [], []).await;
    env.product.agent.stop().await.unwrap();
    env.apply(&application("app", &[("a", 2, &[("gpu", "1ms")])])).await;
    env.wait_until("app", |state| state.message("Placed", "False").map(drop)).await;
    cluster().kubectl_with(["apply", "-f-"], &gpus().to_string()).await.unwrap();
    env.describe_devices("late", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.nodes.add(SimulatedNode::new("late").resource("acme.com/gpu", 2)).await.unwrap();
    env.product.agent = cluster().start_agent().await.unwrap();
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert!(state.pods.iter().all(|pod| pod.name_any().starts_with("app-a-")), "{:?}", uids(&state));
}

/// Waits for a new Placement that is made from the running pods: no actor moves.
async fn decided_anew(env: &TestEnv, before: &AppState) {
    let known = before.decision.as_ref().unwrap().uid();
    let after = env
        .wait_reconciled("app", |state| {
            let uid = state.decision.as_ref().and_then(kube::ResourceExt::uid);
            ensure!(uid.is_some() && uid != known, "the Placement is the old one");
            state.all_placed()
        })
        .await;
    assert_eq!(after.places(), before.places());
    assert_eq!(uids(&after), uids(before), "no pod is recreated");
    assert_eq!(after.spec().strategy, "observed");
}

/// A deleted Placement is recreated from the running pods, regardless of better plans and of policies.
#[tokio::test]
async fn a_deleted_placement_moves_no_actor() {
    let env = TestEnv::new("forgotten", ["one", "two", "three"].map(SimulatedNode::new), [cpus()]).await;
    let program =
        "at(A,N) :- run_on(A,U), cu_node(U,N).\n:- at(A,N), at(B,N), group(A,\"a\"), group(B,\"b\").\n";
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "separate", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 30s\n", "program.lp": program}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("separate");
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(before.nodes().len(), 3);
    env.namespace.kubectl(["delete", "placement", "app"]).await.unwrap();
    decided_anew(&env, &before).await;

    // The actors of `a` would be better off together; the Placement is deleted before they move.
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let channels =
        |rate: &str| json!([{"from": "a", "to": "a", "rate": format!("{rate}/s"), "pattern": "AllToAll"}]);
    let edit = json!([{"op": "remove", "path": "/spec/actors/0/spread"},
        {"op": "add", "path": "/spec/channels", "value": channels("50")}, {"op": "add", "path": "/spec/paused", "value": true}]);
    let edit = edit.to_string();
    env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &edit]).await.unwrap();
    env.wait_until("app", |state| state.message("Paused", "True").map(drop)).await;
    env.namespace.kubectl(["delete", "placement", "app"]).await.unwrap();
    env.wait_until("app", |state| {
        let message = state.message("Placed", "False")?;
        ensure!(message == "no placement has been decided yet", "{message}");
        Ok(())
    })
    .await;
    env.patch("app", &json!({"spec": {"paused": false}})).await;
    decided_anew(&env, &before).await;

    // The next triggered search brings them together.
    env.patch("app", &json!({"spec": {"channels": channels("60")}})).await;
    let together = |state: &AppState| {
        let nodes: BTreeSet<&str> = ["a-0", "a-1"]
            .iter()
            .filter_map(|actor| state.places().get(actor)?.split_once('/'))
            .map(|(node, _)| node)
            .collect();
        ensure!(nodes.len() == 1, "{nodes:?}");
        state.all_placed()
    };
    env.wait_reconciled("app", together).await;
    cluster().kubectl(["delete", "configmap", "separate", "-n", NAMESPACE]).await.unwrap();
}

/// While a paused application without a Placement runs, waiting applications do not get its unit, and use other capacity.
#[tokio::test]
async fn actors_without_a_placement_keep_their_units() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 1);
    let mut env = TestEnv::new("undecided", [node], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 1).await;
    env.apply(&application("first", &[("a", 1, &[("gpu", "1ms")])])).await;
    let before = env.wait_reconciled("first", AppState::all_placed).await;
    env.apply(&application("second", &[("a", 1, &[("gpu", "1ms")])])).await;
    env.wait_until("second", |state| state.message("Placed", "False").map(drop)).await;
    env.patch("first", &json!({"spec": {"paused": true}})).await;
    env.wait_until("first", |state| state.message("Paused", "True").map(drop)).await;
    env.namespace.kubectl(["delete", "placement", "first"]).await.unwrap();
    env.wait_until("first", |state| {
        let message = state.message("Placed", "False")?;
        ensure!(message == "no placement has been decided yet", "{message}");
        Ok(())
    })
    .await;
    let world = snapshot(&env, "second").await.unwrap();
    assert!(world.contains("\"others\""), "the unit counts as free: {world}");

    env.describe_devices("two", &[("gpu-0", "GPU")]);
    env.nodes.add(SimulatedNode::new("two").resource("acme.com/gpu", 1)).await.unwrap();
    let second = env.wait_reconciled("second", AppState::all_placed).await;
    assert_eq!(second.places()["a-0"], "two/gpus-0");
    env.patch("first", &json!({"spec": {"paused": false}})).await;
    let after = env.wait_reconciled("first", AppState::all_placed).await;
    assert_eq!((after.places(), uids(&after)), (before.places(), uids(&before)), "no pod is recreated");
}

/// A manifest that cannot be planned does not prevent recovery: pods are recreated on their units.
#[tokio::test]
async fn pods_are_recreated_by_the_last_placement_if_planning_fails() {
    let env = TestEnv::new("heal", ["one", "two"].map(SimulatedNode::new), [cpus(), gpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let places = before.places();
    let on = |state: &AppState| -> BTreeSet<_> { state.pods.iter().map(place_of).collect() };
    let limits = "/spec/actors/0/implementations/0/template/spec/containers/0/resources/limits";
    for (edit, expected) in [
        (
            json!([{"op": "add", "path": "/spec/policy", "value": "of-no-such-name"}]),
            "there is no policy of-no-such-name",
        ),
        // each edit corrects the previous one
        (
            json!([{"op": "remove", "path": "/spec/policy"}, {"op": "add", "path": limits, "value": {"acme.com/gpu": "1"}}]),
            "requests acme.com/gpu itself",
        ),
        (
            json!([{"op": "remove", "path": limits}, {"op": "replace", "path": "/spec/actors/0/replicas", "value": 5001}]),
            "at most 5000 are supported; divide it",
        ),
    ] {
        let (known, edit) = (env.observe("app").await.unwrap(), edit.to_string());
        env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &edit]).await.unwrap();
        env.wait_until("app", |state| {
            let message = state.message("Accepted", "False")?;
            ensure!(message.contains(expected), "{message}");
            Ok(())
        })
        .await;
        env.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
        let state = env
            .wait_until("app", |state| {
                let units: Vec<_> = state.pods.iter().map(place_of).collect();
                ensure!(units.len() == 2 && uids(state) != uids(&known), "{units:?}");
                ensure!(
                    state.pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()),
                    "a pod is terminating"
                );
                Ok(())
            })
            .await;
        assert_eq!(state.places(), places, "{expected}: no new placement");
        assert_eq!(on(&state), on(&before), "{expected}: every pod is on its unit");
    }
}
