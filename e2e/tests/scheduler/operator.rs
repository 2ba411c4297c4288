//! More actors than places: the surplus waits, and no actor is evicted for a place that kube-scheduler refuses.
//!
//! `CAIRN_SURPLUS_ROUNDS` is the number of foreign pods that come and go meanwhile. Prints a table row for the results.

use std::time::Instant;

use anyhow::ensure;
use e2e::{bench::size, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    TIMEOUT,
    installed::{Env, read},
};

const NODES: usize = 8;
const ACTORS: usize = 10;
/// The number of foreign pods without the variable; each may cause plans.
const ROUNDS: u64 = 6;

fn manifests() -> String {
    let node = |index| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("WORLD-n{index}"), "labels": {}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}}})
    };
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "solo"}}});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let template = json!({"metadata": {"labels": {"app": "solo"}},
        "spec": {"affinity": affinity, "containers": [{"name": "actor", "image": "none", "resources": {"requests": {"cpu": "500m"}}}]}});
    let group = json!({"name": "worker", "replicas": ACTORS,
        "implementations": [{"kind": "WORLD", "serviceTime": "1ms", "template": template}]});
    let channel = json!({"from": "worker", "to": "worker", "rate": "10/s", "pattern": "AllToAll"});
    let application = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
        "spec": {"actors": [group], "channels": [channel]}});
    let objects = (0..NODES).map(node).chain([application]);
    objects.map(|object| object.to_string()).collect::<Vec<_>>().join("\n---\n")
}

/// A second application: once its new generation is reconciled, what happened before is processed.
fn marker(replicas: usize) -> Value {
    let template = json!({"spec": {"containers": [{"name": "actor", "image": "none"}]}});
    let group = json!({"name": "mark", "replicas": replicas,
        "implementations": [{"kind": "surplus", "serviceTime": "1ms", "template": template}]});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "marker"},
        "spec": {"actors": [group]}})
}

#[tokio::test]
async fn surplus_actors_wait_with_a_reason_and_none_is_evicted() {
    let (world, others) = read("surplus", &manifests());
    let env = Env::new(&world, &others).await;
    let applied = Instant::now();
    env.apply(&world.application).await;
    let state = env.wait_placed("app", NODES, ACTORS - NODES).await;
    println!("{NODES} of {ACTORS} actors are placed after {:.1} s", applied.elapsed().as_secs_f64());
    let mut nodes = state.nodes.clone();
    nodes.dedup();
    assert_eq!(nodes.len(), NODES, "one on each node: {:?}", state.nodes);
    for (actor, reason) in &state.unplaced {
        assert!(reason.contains("anti-affinity"), "{actor}: {reason}");
        assert!(
            state.message.contains(actor.as_str()),
            "the condition does not name {actor}: {}",
            state.message
        );
    }

    let (rounds, began) = (size("CAIRN_SURPLUS_ROUNDS", ROUNDS).unwrap(), Instant::now());
    for round in 0..usize::try_from(rounds).unwrap() {
        let before = env.reconciles().await.unwrap();
        come_and_go(&env, &format!("visitor-{round}"), &state.nodes[round % NODES]).await;
        env.apply(&marker(1 + round % 2)).await;
        env.wait_placed("marker", 1 + round % 2, 0).await;
        wait_for("the operator reconciles", TIMEOUT, async || {
            let now = env.reconciles().await?;
            ensure!(now > before, "{now} reconciles");
            anyhow::Ok(())
        })
        .await;
        let again = env.wait_placed("app", NODES, ACTORS - NODES).await;
        assert_eq!(again.nodes, state.nodes);
    }
    let history = env.history.wait_synced().await;
    assert_eq!(history.unschedulable(), Vec::<String>::new());
    let lives = history.pods_per_actor();
    let repeated: Vec<_> =
        lives.iter().filter(|(actor, pods)| actor.starts_with("worker-") && **pods != 1).collect();
    assert!(repeated.is_empty(), "pods per actor: {lives:?}");
    println!("| {ACTORS} | {NODES} | {rounds} | {} | 0 |", began.elapsed().as_secs() / 60);
    env.end().await;
}

/// A foreign pod is bound to a node, runs, and is deleted.
async fn come_and_go(env: &Env<'_>, name: &str, node: &str) {
    env.apply(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "2"}}}]}}),
    )
    .await;
    let pods = env.api::<Pod>();
    wait_for("the foreign pod runs", TIMEOUT, async || {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
        anyhow::Ok(())
    })
    .await;
    pods.delete(name, &DeleteParams::default()).await.unwrap();
    wait_for("the foreign pod is gone", TIMEOUT, async || {
        ensure!(pods.get_opt(name).await?.is_none(), "it is there");
        anyhow::Ok(())
    })
    .await;
}
