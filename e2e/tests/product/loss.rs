//! Nodes that do not answer, are cordoned or drained, while actors run there.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus};

/// So that its pod stays after it is deleted, as on a node that does not answer.
const HOLD: &str = "e2e.cairn.dev/hold";

/// One actor on each of three of the nodes.
fn spread() -> serde_json::Value {
    let mut manifest = application("app", &[("a", 3, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    manifest
}

fn pod<'a>(seen: &'a Seen, actor: &str) -> &'a Pod {
    let pod = format!("app-{actor}");
    seen.pods.iter().find(|it| it.name_any() == pod).unwrap()
}

fn node<'a>(seen: &'a Seen, actor: &str) -> &'a str {
    seen.places()[actor].split('/').next().unwrap()
}

/// Nobody can tell whether an actor lives on a node that does not answer: it is named and waited for, unless the application
/// takes it on itself that two may live.
#[tokio::test]
async fn an_actor_on_a_node_that_does_not_answer_starts_elsewhere_when_it_is_certain_or_forced() {
    let stage = Stage::set("silent", ["one", "two", "three", "four"].map(SimulatedNode::new), [cpus()]).await;
    stage.apply(&spread()).await;
    let before = stage.settled("app", Seen::all_placed).await;
    let lost = node(&before, "a-0").to_owned();

    // its node is silent: it is named, and stays
    stage.nodes.silence(&lost).await.unwrap();
    let named = stage.seen("app", |seen| {
        let told = seen.message("NodeLost", "True")?;
        ensure!(told.starts_with(&format!("a-0: {lost} does not answer")), "{told}");
        seen.message("Ready", "False").map(drop)
    });
    assert_eq!(pod(&named.await, "a-0").uid(), pod(&before, "a-0").uid());
    // and the node is back
    stage.nodes.answer(&lost).await.unwrap();
    let back = stage.settled("app", |seen| {
        ensure!(seen.condition("NodeLost").is_none(), "{:?}", seen.condition("NodeLost"));
        seen.all_placed()
    });
    let uids = |seen: &Seen| {
        seen.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(uids(&back.await), uids(&before), "nobody was touched");

    // it is silent again, and somebody wants the pod gone, which nobody confirms: another place, and nothing starts there
    let hold = json!({"metadata": {"finalizers": [HOLD]}}).to_string();
    stage.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &hold]).await.unwrap();
    stage.nodes.silence(&lost).await.unwrap();
    stage.namespace.kubectl(["delete", "pod", "app-a-0", "--wait=false"]).await.unwrap();
    let waits = stage.seen("app", |seen| {
        ensure!(node(seen, "a-0") != lost, "{:?}", seen.places());
        seen.message("NodeLost", "True").map(drop)
    });
    assert_eq!(pod(&waits.await, "a-0").uid(), pod(&before, "a-0").uid());
    // now it is gone
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    stage.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &free]).await.unwrap();
    let elsewhere = stage.settled("app", |seen| {
        ensure!(node(seen, "a-0") != lost, "{:?}", seen.places());
        seen.all_placed()
    });
    let elsewhere = elsewhere.await;
    stage.nodes.answer(&lost).await.unwrap();

    // forced: sooner than the cluster's own controllers evict anybody, which takes five minutes
    stage.patch("app", &json!({"spec": {"failover": {"mode": "Force", "after": "1s"}}})).await;
    stage.settled("app", Seen::all_placed).await;
    let lost = node(&elsewhere, "a-1").to_owned();
    stage.nodes.silence(&lost).await.unwrap();
    let forced = stage.settled("app", |seen| {
        ensure!(node(seen, "a-1") != lost, "{:?}", seen.places());
        ensure!(seen.condition("NodeLost").is_none(), "{:?}", seen.condition("NodeLost"));
        seen.all_placed()
    });
    forced.await;
    stage.nodes.answer(&lost).await.unwrap();

    // out of service: somebody says that whatever ran there has ended
    stage.patch("app", &json!({"spec": {"failover": null}})).await;
    let before = stage.settled("app", Seen::all_placed).await;
    let lost = node(&before, "a-2").to_owned();
    stage.nodes.silence(&lost).await.unwrap();
    let taint = ["taint", "node", &lost, "node.kubernetes.io/out-of-service=off:NoExecute"];
    cluster().kubectl(taint).await.unwrap();
    let over = stage.settled("app", |seen| {
        ensure!(node(seen, "a-2") != lost, "{:?}", seen.places());
        seen.all_placed()
    });
    over.await;
}

/// Who is to move is evicted, and a disruption budget that allows none is waited for; who is evicted by others from a node
/// that takes nobody starts elsewhere, without a try.
#[tokio::test]
async fn moves_obey_disruption_budgets_and_drained_nodes_are_left() {
    let stage = Stage::set("drain", ["one", "two", "three"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {crds::labels::APPLICATION: "app"}}}});
    stage.apply(&budget).await;
    stage.apply(&manifest).await;
    let before = stage.settled("app", Seen::all_placed).await;

    // it is to be on the other node, and may not be evicted
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    stage.apply(&manifest).await;
    let waits = stage.seen("app", |seen| {
        ensure!(node(seen, "a-0") == "two", "{:?}", seen.places());
        let told = seen.message("Ready", "False")?;
        ensure!(told.contains("disruption budget"), "{told}");
        Ok(())
    });
    assert_eq!(pod(&waits.await, "a-0").uid(), pod(&before, "a-0").uid());
    stage.namespace.kubectl(["delete", "pdb", "all"]).await.unwrap();
    stage
        .settled("app", |seen| {
            ensure!(node(seen, "a-0") == "two", "{:?}", seen.places());
            Ok(())
        })
        .await;

    // cordoned: who is there stays, and nobody comes
    manifest["spec"]["actors"][0].as_object_mut().unwrap().remove("pinTo");
    stage.apply(&manifest).await;
    let stays = stage.settled("app", Seen::all_placed).await;
    let left = node(&stays, "a-0").to_owned();
    cluster().kubectl(["cordon", &left]).await.unwrap();
    let history = stage.watch_pods().await;
    stage.apply(&application("later", &[("b", 4, &[("cpu", "1ms")])])).await;
    let later = stage.settled("later", Seen::all_placed).await;
    assert!(!later.nodes().contains(&*left), "{:?}", later.places());
    let still = stage.settled("app", Seen::all_placed).await;
    assert_eq!(pod(&still, "a-0").uid(), pod(&stays, "a-0").uid());

    // drained
    let drain = ["drain", &left, "--ignore-daemonsets", "--timeout=180s"];
    cluster().kubectl(drain).await.unwrap();
    stage
        .settled("app", |seen| {
            ensure!(node(seen, "a-0") != left, "{:?}", seen.places());
            seen.all_placed()
        })
        .await;
    assert_eq!(history.caught_up().await.unschedulable(), Vec::<String>::new(), "nobody was sent back there");
}

/// Who is one too many for a quota has no place, and gets one when the quota grows or others leave.
#[tokio::test]
async fn what_a_quota_leaves_is_placed_and_the_rest_when_it_grows() {
    let mut pool = cpus();
    pool["spec"]["quota"] = json!({"perNamespace": 3});
    let stage = Stage::set("bounds", ["one", "two"].map(SimulatedNode::new), [pool.clone()]).await;
    let quota = |pods: u32| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": pods.to_string()}}})
    };
    stage.apply(&quota(2)).await;
    let is_counted = async || {
        let used = stage
            .namespace
            .kubectl(["get", "resourcequota", "few", "-ojsonpath={.status.used.pods}"])
            .await?;
        ensure!(!used.stdout.is_empty(), "{used:?}");
        anyhow::Ok(())
    };
    wait_for("the quota counts", SOON, is_counted).await;
    stage.apply(&application("app", &[("a", 4, &[("cpu", "1ms")])])).await;
    let placed = |count: usize, part: &'static str| {
        move |seen: &Seen| {
            ensure!(seen.places().len() == count, "{:?}", seen.places());
            let told = seen.message("Placed", "False")?;
            ensure!(told.contains(part), "{told}");
            Ok(())
        }
    };
    stage.settled("app", placed(2, "ResourceQuota few allows pods 2")).await;
    // the quota grows: the pool's bound is left
    stage.apply(&quota(9)).await;
    stage.settled("app", placed(3, "pool cpus takes 3 instances of namespace")).await;
    pool["spec"]["quota"]["perNamespace"] = json!(4);
    cluster().kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    stage.settled("app", Seen::all_placed).await;
}
