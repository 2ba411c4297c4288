//! What comes again: nodes that answer and do not, and an operator that was killed while it forced an actor away.

use anyhow::ensure;
use e2e::SimulatedNode;
use kube::ResourceExt as _;
use serde_json::json;

use crate::installed::cluster;
use crate::stage::{Seen, Stage, application, cpus};

/// So that its pod stays after it is deleted, as on a node that does not answer.
const HOLD: &str = "e2e.cairn.dev/hold";

/// One actor on each of two of four nodes: if one is silent, it is less than the part at which nobody is moved.
async fn spread(prefix: &str, after: &str) -> Stage {
    let stage = Stage::set(prefix, ["one", "two", "three", "four"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    manifest["spec"]["failover"] = json!({"mode": "Force", "after": after});
    stage.apply(&manifest).await;
    stage
}

fn node(seen: &Seen, actor: &str) -> String {
    seen.places()[actor].split('/').next().unwrap().to_owned()
}

fn uids(seen: &Seen) -> Vec<(String, Option<String>)> {
    let mut uids: Vec<_> = seen.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect();
    uids.sort();
    uids
}

/// A node that flaps moves nobody, even where actors are forced away: each silence is shorter than they are waited for.
#[tokio::test]
async fn a_node_that_flaps_moves_nobody() {
    let stage = spread("flaps", "600s").await;
    let before = stage.settled("app", Seen::all_placed).await;
    let flaps = node(&before, "a-0");
    for _ in 0..4 {
        stage.nodes.silence(&flaps).await.unwrap();
        stage.seen("app", |seen| seen.message("NodeLost", "True").map(drop)).await;
        stage.nodes.answer(&flaps).await.unwrap();
        let back = stage.settled("app", |seen| {
            ensure!(seen.condition("NodeLost").is_none(), "{:?}", seen.condition("NodeLost"));
            seen.all_placed()
        });
        let back = back.await;
        assert_eq!((uids(&back), back.places()), (uids(&before), before.places()));
    }
}

/// What an operator began to force away before it was killed is finished by the next one, once.
#[tokio::test]
async fn who_was_being_forced_away_when_the_operator_was_killed_starts_elsewhere_once() {
    let cluster = cluster();
    let mut stage = spread("forced", "1s").await;
    let before = stage.settled("app", Seen::all_placed).await;
    let history = stage.watch_pods().await;
    let lost = node(&before, "a-0");
    let hold = json!({"metadata": {"finalizers": [HOLD]}}).to_string();
    stage.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &hold]).await.unwrap();
    stage.nodes.silence(&lost).await.unwrap();
    // it is asked to go, and its name is taken until it is gone
    stage
        .seen("app", |seen| {
            let pod = seen.pods.iter().find(|pod| pod.name_any() == "app-a-0");
            let goes = pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
            ensure!(goes, "nobody forced it yet");
            Ok(())
        })
        .await;
    stage.product.operator.kill9().await.unwrap();
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    stage.namespace.kubectl(["patch", "pod", "app-a-0", "--type=merge", "-p", &free]).await.unwrap();

    stage.product.operator = cluster.start_operator().await.unwrap();
    let elsewhere = stage.settled("app", |seen| {
        ensure!(node(seen, "a-0") != lost, "{:?}", seen.places());
        seen.all_placed()
    });
    elsewhere.await;
    let lives = history.caught_up().await.lives();
    assert_eq!((lives["a-0"], lives["a-1"]), (2, 1), "one came for the one that went, and the other stayed");
    stage.nodes.answer(&lost).await.unwrap();
}
