//! Who is silent is not taken for who is gone: agents that are not heard of, and many nodes at once.

use std::collections::BTreeMap;

use anyhow::ensure;
use crds::DevicePool;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::stage::{SOON, Seen, Stage, application, cpus};

/// Where the agents' Leases are.
const LEASES: &str = "cairn-agents";

/// The pods of actors by name, with their uids.
fn uids(seen: &Seen) -> BTreeMap<String, Option<String>> {
    seen.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// Waits until the pool says, or says no more, that agents are silent.
pub async fn told(stage: &Stage, pool: &str, is_silent: bool) {
    let pools = Api::<DevicePool>::all(stage.client.clone());
    wait_for("the pool tells of silent agents", SOON, async || {
        let status = pools.get(pool).await?.status.unwrap_or_default();
        let found = status.conditions.iter().any(|c| c.type_ == "Stale" && c.status == "True");
        ensure!(found == is_silent, "{status:?}");
        anyhow::Ok(())
    })
    .await;
}

/// While the agent of a node is not heard of, who is on its devices stays, and nobody comes; whole nodes need none.
#[tokio::test]
async fn of_a_silent_agent_who_is_there_stays_and_nobody_comes() {
    let mut stage = Stage::with_two_nodes_of_gpus("agents").await;
    stage.apply(&application("app", &[("a", 2, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let before = stage.settled("app", Seen::all_placed).await;
    let history = stage.watch_pods().await;

    // The agent stands still, and its Leases last no longer than they were not renewed.
    let leases = Api::<Lease>::namespaced(stage.client.clone(), LEASES);
    for node in ["one", "two"] {
        wait_for("the agent renews its Lease", SOON, async || {
            leases.get(&format!("cairn-agent-{node}")).await.map(drop)
        })
        .await;
    }
    stage.product.agent.freeze().unwrap();
    let over = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}));
    for node in ["one", "two"] {
        let name = format!("cairn-agent-{node}");
        leases.patch(&name, &PatchParams::default(), &over).await.unwrap();
    }
    told(&stage, "gpus", true).await;
    stage.offered("gpus", 0).await;
    stage.apply(&application("later", &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let waits = stage.seen("later", |seen| {
        let told = seen.message("Placed", "False")?;
        ensure!(told.contains("a-0") && told.contains("agent"), "{told}");
        ensure!(seen.places().contains_key("b-0"), "a whole node needs no agent: {:?}", seen.places());
        Ok(())
    });
    waits.await;
    let during = stage.settled("app", Seen::all_placed).await;
    assert_eq!(uids(&during), uids(&before), "who is there stays");

    // It is heard again.
    stage.product.agent.thaw().unwrap();
    told(&stage, "gpus", false).await;
    stage.settled("later", Seen::all_placed).await;
    let after = stage.settled("app", Seen::all_placed).await;
    assert_eq!((uids(&after), after.places()), (uids(&before), before.places()));
    let history = history.caught_up().await;
    let going = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    assert_eq!(history.states().iter().filter(going).count(), 0, "nobody moved");
}

/// R44: while more nodes are silent than can be believed, what was decided elsewhere waits; actors stay where they are.
#[tokio::test]
async fn while_many_nodes_do_not_answer_nobody_moves() {
    let names = ["one", "two", "three", "four", "five"];
    let stage = Stage::set("dark", names.map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    stage.apply(&manifest).await;
    let before = stage.settled("app", Seen::all_placed).await;

    let dark = ["four", "five"];
    for node in dark {
        stage.nodes.silence(node).await.unwrap();
    }
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    stage.apply(&manifest).await;
    let waits = stage.seen("app", |seen| {
        ensure!(seen.places().get("a-0") == Some(&"two/cpus-0"), "{:?}", seen.places());
        let told = seen.message("Ready", "False")?;
        ensure!(told.contains("of the nodes do not answer"), "{told}");
        Ok(())
    });
    let waits = waits.await;
    assert_eq!(uids(&waits), uids(&before));
    assert_eq!(waits.pods[0].metadata.deletion_timestamp, None, "it stays");
    // What is no move goes on.
    stage.apply(&application("later", &[("b", 2, &[("cpu", "1ms")])])).await;
    let later = stage.settled("later", Seen::all_placed).await;
    assert!(dark.iter().all(|node| !later.nodes().contains(node)), "{:?}", later.places());
    let still = stage.look("app").await.unwrap();
    assert_eq!(uids(&still), uids(&before));

    // One that answers is enough.
    stage.nodes.answer("five").await.unwrap();
    let after = stage.settled("app", Seen::all_placed).await;
    assert_eq!(after.places()["a-0"], "two/cpus-0");
    assert_ne!(uids(&after), uids(&before));
}
