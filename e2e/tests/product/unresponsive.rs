//! Expired leases and unreachable nodes, one or many, are not taken for lost ones.

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

/// The namespace of the agents' Leases.
const LEASES: &str = "cairn-agents";

/// The pods of actors by name, with their uids.
fn uids(state: &AppState) -> BTreeMap<String, Option<String>> {
    state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// Waits until the pool's condition `Stale` has this state.
pub async fn wait_stale(env: &TestEnv, pool: &str, is_stale: bool) {
    let pools = Api::<DevicePool>::all(env.client.clone());
    wait_for("the pool's condition Stale", TIMEOUT, async || {
        let status = pools.get(pool).await?.status.unwrap_or_default();
        let found = status.conditions.iter().any(|c| c.type_ == "Stale" && c.status == "True");
        ensure!(found == is_stale, "{status:?}");
        anyhow::Ok(())
    })
    .await;
}

/// While the lease of a node's agent is expired, actors on its devices stay and no new ones are placed; whole nodes need no agent.
#[tokio::test]
async fn an_expired_agent_lease_keeps_running_actors_and_blocks_new_ones() {
    let mut env = TestEnv::with_gpu_nodes("agents").await;
    env.apply(&application("app", &[("a", 2, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let history = env.watch_pods().await;

    // The agent is frozen, and its Leases expire at once.
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
    wait_stale(&env, "gpus", true).await;
    env.wait_offered("gpus", 0).await;
    env.apply(&application("later", &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let waiting = env.wait_until("later", |state| {
        let message = state.message("Placed", "False")?;
        ensure!(message.contains("a-0") && message.contains("agent"), "{message}");
        ensure!(state.places().contains_key("b-0"), "a whole node needs no agent: {:?}", state.places());
        Ok(())
    });
    waiting.await;
    let during = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(uids(&during), uids(&before), "running pods stay");

    // The leases are renewed.
    env.product.agent.thaw().unwrap();
    wait_stale(&env, "gpus", false).await;
    env.wait_reconciled("later", AppState::all_placed).await;
    let after = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!((uids(&after), after.places()), (uids(&before), before.places()));
    let history = history.wait_synced().await;
    let is_terminating = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    assert_eq!(history.states().iter().filter(is_terminating).count(), 0, "no pod is deleted");
}

/// R44: while too many nodes are unreachable, moves wait and actors stay.
#[tokio::test]
async fn a_mass_outage_moves_no_actor() {
    // With more than 55 % of the nodes gone, the node lifecycle controller would taint them slowly.
    let names = ["one", "two", "three", "four", "five", "six", "seven"];
    let env = TestEnv::new("dark", names.map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    let dark = ["three", "four", "five"];
    for node in dark {
        env.nodes.silence(node).await.unwrap();
    }
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    env.apply(&manifest).await;
    let waiting = env.wait_until("app", |state| {
        ensure!(state.places().get("a-0") == Some(&"two/cpus-0"), "{:?}", state.places());
        let message = state.message("Ready", "False")?;
        ensure!(message.contains("of the nodes are unreachable"), "{message}");
        Ok(())
    });
    let waiting = waiting.await;
    assert_eq!(uids(&waiting), uids(&before));
    assert_eq!(waiting.pods[0].metadata.deletion_timestamp, None, "it stays");
    // Starts without a move continue.
    env.apply(&application("later", &[("b", 2, &[("cpu", "1ms")])])).await;
    let later = env.wait_reconciled("later", AppState::all_placed).await;
    assert!(dark.iter().all(|node| !later.nodes().contains(node)), "{:?}", later.places());
    let still = env.observe("app").await.unwrap();
    assert_eq!(uids(&still), uids(&before));

    // One more reachable node suffices.
    env.nodes.answer("five").await.unwrap();
    let after = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(after.places()["a-0"], "two/cpus-0");
    assert_ne!(uids(&after), uids(&before));
}
