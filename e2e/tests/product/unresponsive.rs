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

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};

/// Where the agents' Leases are.
const LEASES: &str = "cairn-agents";

/// The pods of actors by name, with their uids.
fn uids(state: &AppState) -> BTreeMap<String, Option<String>> {
    state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// Waits until the pool says, or says no more, that agents are silent.
pub async fn told(env: &TestEnv, pool: &str, is_silent: bool) {
    let pools = Api::<DevicePool>::all(env.client.clone());
    wait_for("the pool tells of silent agents", TIMEOUT, async || {
        let status = pools.get(pool).await?.status.unwrap_or_default();
        let found = status.conditions.iter().any(|c| c.type_ == "Stale" && c.status == "True");
        ensure!(found == is_silent, "{status:?}");
        anyhow::Ok(())
    })
    .await;
}

/// While the agent of a node is not heard of, who is on its devices stays, and nobody comes; whole nodes need none.
#[tokio::test]
async fn an_expired_agent_lease_keeps_running_actors_and_blocks_new_ones() {
    let mut env = TestEnv::with_gpu_nodes("agents").await;
    env.apply(&application("app", &[("a", 2, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let history = env.watch_pods().await;

    // The agent stands still, and its Leases last no longer than they were not renewed.
    let leases = Api::<Lease>::namespaced(env.client.clone(), LEASES);
    for node in ["one", "two"] {
        wait_for("the agent renews its Lease", TIMEOUT, async || {
            leases.get(&format!("cairn-agent-{node}")).await.map(drop)
        })
        .await;
    }
    env.product.agent.freeze().unwrap();
    let over = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}));
    for node in ["one", "two"] {
        let name = format!("cairn-agent-{node}");
        leases.patch(&name, &PatchParams::default(), &over).await.unwrap();
    }
    told(&env, "gpus", true).await;
    env.wait_offered("gpus", 0).await;
    env.apply(&application("later", &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let waits = env.wait_until("later", |state| {
        let told = state.message("Placed", "False")?;
        ensure!(told.contains("a-0") && told.contains("agent"), "{told}");
        ensure!(state.places().contains_key("b-0"), "a whole node needs no agent: {:?}", state.places());
        Ok(())
    });
    waits.await;
    let during = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(uids(&during), uids(&before), "who is there stays");

    // It is heard again.
    env.product.agent.thaw().unwrap();
    told(&env, "gpus", false).await;
    env.wait_reconciled("later", AppState::all_placed).await;
    let after = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!((uids(&after), after.places()), (uids(&before), before.places()));
    let history = history.wait_synced().await;
    let going = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    assert_eq!(history.states().iter().filter(going).count(), 0, "nobody moved");
}

/// R44: while more nodes are silent than can be believed, what was decided elsewhere waits; actors stay where they are.
#[tokio::test]
async fn a_mass_outage_moves_no_actor() {
    let names = ["one", "two", "three", "four", "five"];
    let env = TestEnv::new("dark", names.map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    let dark = ["four", "five"];
    for node in dark {
        env.nodes.silence(node).await.unwrap();
    }
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    env.apply(&manifest).await;
    let waits = env.wait_until("app", |state| {
        ensure!(state.places().get("a-0") == Some(&"two/cpus-0"), "{:?}", state.places());
        let told = state.message("Ready", "False")?;
        ensure!(told.contains("of the nodes do not answer"), "{told}");
        Ok(())
    });
    let waits = waits.await;
    assert_eq!(uids(&waits), uids(&before));
    assert_eq!(waits.pods[0].metadata.deletion_timestamp, None, "it stays");
    // What is no move goes on.
    env.apply(&application("later", &[("b", 2, &[("cpu", "1ms")])])).await;
    let later = env.wait_reconciled("later", AppState::all_placed).await;
    assert!(dark.iter().all(|node| !later.nodes().contains(node)), "{:?}", later.places());
    let still = env.observe("app").await.unwrap();
    assert_eq!(uids(&still), uids(&before));

    // One that answers is enough.
    env.nodes.answer("five").await.unwrap();
    let after = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(after.places()["a-0"], "two/cpus-0");
    assert_ne!(uids(&after), uids(&before));
}
