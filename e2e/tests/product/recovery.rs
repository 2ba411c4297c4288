//! What an operator finds when it comes: everything that was there before it, in any order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::installed::cluster;
use crate::stage::{Group, SOON, Seen, Stage, application, cpus, gpus};

/// The snapshot from which an application would be planned now.
pub async fn snapshot(stage: &Stage, name: &str) -> anyhow::Result<String> {
    let port = stage.product.operator.port(8081)?;
    let answer = e2e::process::http(port, &format!("/debug/snapshot/{}/{name}", stage.namespace)).await?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.body);
    Ok(answer.body)
}

/// A pod's name, and the unit that it was made for.
fn place_of(pod: &Pod) -> (String, Option<String>) {
    (pod.name_any(), pod.annotations().get(crds::labels::UNIT).cloned())
}

/// Uids of the pods of an application.
fn uids(seen: &Seen) -> BTreeSet<Option<String>> {
    seen.pods.iter().map(kube::ResourceExt::uid).collect()
}

/// Searches that the operator has made since it began, by what made them due.
async fn searches(stage: &Stage) -> BTreeMap<String, u64> {
    let port = stage.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let one = |line: &str| {
        let (why, count) = line.strip_prefix("cairn_operator_searches_total{why=\"")?.split_once("\"} ")?;
        Some((why.to_owned(), count.parse::<u64>().unwrap()))
    };
    text.lines().filter_map(one).filter(|(_, count)| *count > 0).collect()
}

/// Applies an application under the policy `recounted`, and waits until it is placed.
async fn place(stage: &Stage, name: &str, groups: &[Group<'_>]) {
    let mut manifest = application(name, groups);
    manifest["spec"]["policy"] = json!("recounted");
    stage.apply(&manifest).await;
    stage.settled(name, Seen::all_placed).await;
}

/// R9: what is taken of the cluster is counted anew from its objects, and comes out as before: no leak, nothing twice. Nobody is
/// searched for anew.
#[tokio::test]
async fn what_is_taken_is_counted_as_before_after_a_restart() {
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let mut stage = Stage::set("recount", nodes, [cpus(), gpus()]).await;
    stage.machine("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    stage.offered("gpus", 2).await;
    // One that no clock cuts short.
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "recounted", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "strategy: greedy\nbudget: {wall: 60s}\n"}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    for name in ["first", "second"] {
        place(&stage, name, &[("a", 1, &[("gpu", "1ms")]), ("b", 3, &[("cpu", "2ms")])]).await;
    }
    // what was written last is seen by now
    let before = wait_for("a snapshot with everybody's place", SOON, async || {
        let text = snapshot(&stage, "first").await?;
        let placed = text.matches("\"current\"").count();
        ensure!(placed >= 4, "{placed} places in {text}");
        anyhow::Ok(text)
    })
    .await;
    let pods = uids(&stage.look("first").await.unwrap());
    stage.product.operator.kill9().await.unwrap();
    stage.product.operator = cluster().start_operator().await.unwrap();
    wait_for("the same snapshot", SOON, async || {
        let after = snapshot(&stage, "first").await?;
        ensure!(after == before, "{after}\nbefore:\n{before}");
        anyhow::Ok(())
    })
    .await;
    // When the second of these comes, this operator has led for a while: those that were there before have been looked at.
    for name in ["third", "fourth"] {
        place(&stage, name, &[("a", 1, &[("cpu", "1ms")])]).await;
    }
    assert_eq!(
        searches(&stage).await,
        [("undecided".to_owned(), 2)].into(),
        "of those that came since alone"
    );
    let seen = stage.settled("first", Seen::all_placed).await;
    assert_eq!(uids(&seen), pods, "nobody was started anew");
    cluster().kubectl(["delete", "configmap", "recounted", "-n", NAMESPACE]).await.unwrap();
}

/// R12: an application is deleted while nobody leads: its room is free for whom waited for it.
#[tokio::test]
async fn what_was_deleted_while_nobody_led_leaves_its_room_to_others() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 1);
    let mut stage = Stage::set("deleted", [node], [gpus()]).await;
    stage.machine("one", &[("gpu-0", "GPU")]);
    stage.offered("gpus", 1).await;
    stage.apply(&application("first", &[("a", 1, &[("gpu", "1ms")])])).await;
    stage.settled("first", Seen::all_placed).await;
    stage.apply(&application("second", &[("a", 1, &[("gpu", "1ms")])])).await;
    stage.seen("second", |seen| seen.message("Placed", "False").map(drop)).await;
    stage.product.operator.kill9().await.unwrap();
    stage.namespace.kubectl(["delete", "actorapp", "first", "--wait=false"]).await.unwrap();
    stage.product.operator = cluster().start_operator().await.unwrap();
    let seen = stage.settled("second", Seen::all_placed).await;
    assert_eq!(seen.places()["a-0"], "one/gpus-0");
}

/// R15: an application that is there before there is a node, a pool, a machine or an agent runs once they are there.
#[tokio::test]
async fn what_comes_first_waits_for_the_rest() {
    let mut stage = Stage::set("order", [], []).await;
    stage.product.agent.stop().await.unwrap();
    stage.apply(&application("app", &[("a", 2, &[("gpu", "1ms")])])).await;
    stage.seen("app", |seen| seen.message("Placed", "False").map(drop)).await;
    cluster().kubectl_with(["apply", "-f-"], &gpus().to_string()).await.unwrap();
    stage.machine("late", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    stage.nodes.add(SimulatedNode::new("late").resource("acme.com/gpu", 2)).await.unwrap();
    stage.product.agent = cluster().start_agent().await.unwrap();
    let seen = stage.settled("app", Seen::all_placed).await;
    assert!(seen.pods.iter().all(|pod| pod.name_any().starts_with("app-a-")), "{:?}", uids(&seen));
}

/// Waits for another decision than before, which is made from what runs: everybody stays.
async fn decided_anew(stage: &Stage, before: &Seen) {
    let known = before.decision.as_ref().unwrap().uid();
    let after = stage
        .settled("app", |seen| {
            let uid = seen.decision.as_ref().and_then(kube::ResourceExt::uid);
            ensure!(uid.is_some() && uid != known, "it is the old decision");
            seen.all_placed()
        })
        .await;
    assert_eq!(after.places(), before.places());
    assert_eq!(uids(&after), uids(before), "nobody was started anew");
    assert_eq!(after.spec().strategy, "observed");
}

/// A decision that somebody deletes is made again from what runs, whatever else would be better by now, and whatever rules there are.
#[tokio::test]
async fn a_deleted_decision_reshuffles_nothing() {
    let stage = Stage::set("forgotten", ["one", "two", "three"].map(SimulatedNode::new), [cpus()]).await;
    let program =
        "at(A,N) :- run_on(A,U), cu_node(U,N).\n:- at(A,N), at(B,N), group(A,\"a\"), group(B,\"b\").\n";
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "separate", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 30s\n", "program.lp": program}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("separate");
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    stage.apply(&manifest).await;
    let before = stage.settled("app", Seen::all_placed).await;
    assert_eq!(before.nodes().len(), 3);
    stage.namespace.kubectl(["delete", "placement", "app"]).await.unwrap();
    decided_anew(&stage, &before).await;

    // Those of `a` would be better off together; before anybody has moved for that, the decision is gone.
    let before = stage.settled("app", Seen::all_placed).await;
    let channels =
        |rate: &str| json!([{"from": "a", "to": "a", "rate": format!("{rate}/s"), "pattern": "AllToAll"}]);
    let edit = json!([{"op": "remove", "path": "/spec/actors/0/spread"},
        {"op": "add", "path": "/spec/channels", "value": channels("50")}, {"op": "add", "path": "/spec/paused", "value": true}]);
    let edit = edit.to_string();
    stage.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &edit]).await.unwrap();
    stage.seen("app", |seen| seen.message("Paused", "True").map(drop)).await;
    stage.namespace.kubectl(["delete", "placement", "app"]).await.unwrap();
    stage
        .seen("app", |seen| {
            let told = seen.message("Placed", "False")?;
            ensure!(told == "nothing is decided yet", "{told}");
            Ok(())
        })
        .await;
    stage.patch("app", &json!({"spec": {"paused": false}})).await;
    decided_anew(&stage, &before).await;

    // A search brings them together, once one is asked for.
    stage.patch("app", &json!({"spec": {"channels": channels("60")}})).await;
    let together = |seen: &Seen| {
        let nodes: BTreeSet<&str> = ["a-0", "a-1"]
            .iter()
            .filter_map(|actor| seen.places().get(actor)?.split_once('/'))
            .map(|(node, _)| node)
            .collect();
        ensure!(nodes.len() == 1, "{nodes:?}");
        seen.all_placed()
    };
    stage.settled("app", together).await;
    cluster().kubectl(["delete", "configmap", "separate", "-n", NAMESPACE]).await.unwrap();
}

/// While nobody may decide anew for who lost its decision, who waits does not get the place where it runs, and is placed where room comes.
#[tokio::test]
async fn who_runs_without_a_decision_keeps_its_place_from_who_waits() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 1);
    let mut stage = Stage::set("undecided", [node], [gpus()]).await;
    stage.machine("one", &[("gpu-0", "GPU")]);
    stage.offered("gpus", 1).await;
    stage.apply(&application("first", &[("a", 1, &[("gpu", "1ms")])])).await;
    let before = stage.settled("first", Seen::all_placed).await;
    stage.apply(&application("second", &[("a", 1, &[("gpu", "1ms")])])).await;
    stage.seen("second", |seen| seen.message("Placed", "False").map(drop)).await;
    stage.patch("first", &json!({"spec": {"paused": true}})).await;
    stage.seen("first", |seen| seen.message("Paused", "True").map(drop)).await;
    stage.namespace.kubectl(["delete", "placement", "first"]).await.unwrap();
    stage
        .seen("first", |seen| {
            let told = seen.message("Placed", "False")?;
            ensure!(told == "nothing is decided yet", "{told}");
            Ok(())
        })
        .await;
    let world = snapshot(&stage, "second").await.unwrap();
    assert!(world.contains("\"others\""), "the place is taken for free: {world}");

    stage.machine("two", &[("gpu-0", "GPU")]);
    stage.nodes.add(SimulatedNode::new("two").resource("acme.com/gpu", 1)).await.unwrap();
    let second = stage.settled("second", Seen::all_placed).await;
    assert_eq!(second.places()["a-0"], "two/gpus-0");
    stage.patch("first", &json!({"spec": {"paused": false}})).await;
    let after = stage.settled("first", Seen::all_placed).await;
    assert_eq!((after.places(), uids(&after)), (before.places(), uids(&before)), "nobody was started anew");
}

/// A manifest that cannot be planned is no reason to leave a dead pod lying: it comes again where it was.
#[tokio::test]
async fn what_runs_is_healed_by_the_last_decision_while_there_is_no_newer_one() {
    let stage = Stage::set("heal", ["one", "two"].map(SimulatedNode::new), [cpus(), gpus()]).await;
    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = stage.settled("app", Seen::all_placed).await;
    let places = before.places();
    let on = |seen: &Seen| -> BTreeSet<_> { seen.pods.iter().map(place_of).collect() };
    let limits = "/spec/actors/0/implementations/0/template/spec/containers/0/resources/limits";
    for (edit, said) in [
        (
            json!([{"op": "add", "path": "/spec/policy", "value": "of-no-such-name"}]),
            "there is no policy of-no-such-name",
        ),
        // each puts right what was wrong before
        (
            json!([{"op": "remove", "path": "/spec/policy"}, {"op": "add", "path": limits, "value": {"acme.com/gpu": "1"}}]),
            "asks for acme.com/gpu itself",
        ),
        (
            json!([{"op": "remove", "path": limits}, {"op": "replace", "path": "/spec/actors/0/replicas", "value": 5001}]),
            "at most 5000, divide it",
        ),
    ] {
        let (known, edit) = (stage.look("app").await.unwrap(), edit.to_string());
        stage.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &edit]).await.unwrap();
        stage
            .seen("app", |seen| {
                let told = seen.message("Accepted", "False")?;
                ensure!(told.contains(said), "{told}");
                Ok(())
            })
            .await;
        stage.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
        let seen = stage
            .seen("app", |seen| {
                let units: Vec<_> = seen.pods.iter().map(place_of).collect();
                ensure!(units.len() == 2 && uids(seen) != uids(&known), "{units:?}");
                ensure!(seen.pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()), "one goes");
                Ok(())
            })
            .await;
        assert_eq!(seen.places(), places, "{said}: nothing is decided anew");
        assert_eq!(on(&seen), on(&before), "{said}: everybody is where it was");
    }
}
