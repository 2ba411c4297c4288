//! More requests than devices.

use std::collections::BTreeSet;

use anyhow::{anyhow, ensure};
use crds::{ActorApplication, Placement};
use e2e::{Gate, SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// Of twenty applications for ten GPUs ten run, ten report the reason, and no pod is ever refused.
#[tokio::test]
async fn twenty_applications_share_ten_gpus() {
    let nodes = (0..5).map(|index| SimulatedNode::new(format!("gpu-{index}")).resource("acme.com/gpu", 2));
    let env = TestEnv::new("room", nodes, [gpus()]).await;
    for index in 0..5 {
        env.describe_devices(&format!("gpu-{index}"), &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    }
    let history = env.watch_pods().await;
    let all: Vec<Value> = (0..20)
        .map(|index| application(&format!("app-{index:02}"), &[("a", 1, &[("gpu", "1ms")])]))
        .collect();
    env.apply(&json!({"apiVersion": "v1", "kind": "List", "items": all})).await;

    let named = wait_for("ten run and ten report the reason", TIMEOUT, async || {
        let applications = env.api::<ActorApplication>().list(&ListParams::default()).await?.items;
        let phase = |application: &&ActorApplication, phase: &str| {
            application
                .status
                .as_ref()
                .and_then(|status| status.phase)
                .is_some_and(|its| its.to_string() == phase)
        };
        let running = applications.iter().filter(|application| phase(application, "Running")).count();
        let unplaced: Vec<_> =
            applications.iter().filter(|application| !phase(application, "Running")).collect();
        let mut named = BTreeSet::new();
        for application in unplaced {
            let placed =
                application.status.iter().flat_map(|status| &status.conditions).find(|c| c.type_ == "Placed");
            // an application whose unit was taken meanwhile reports that first, and the missing GPUs after the next plan
            let reports_reason = placed.is_some_and(|placed| {
                let message = &placed.message;
                let says_why = message.starts_with("1 actor is unplaced: a-0 (") && message.contains("gpu");
                placed.status == "False" && says_why
            });
            ensure!(reports_reason, "{} says {placed:?}; {running} run", application.name_any());
            named.insert(application.name_any());
        }
        ensure!((running, named.len()) == (10, 10), "{running} run, {} report the reason", named.len());
        anyhow::Ok(named)
    })
    .await;
    for name in &named {
        let note = env.wait_event(name, "Unplaced", "gpu").await;
        assert!(note.contains("a-0"), "{name}: {note}");
    }
    let decisions = env.api::<Placement>().list(&ListParams::default()).await.unwrap().items;
    let units: Vec<_> =
        decisions.iter().flat_map(|decision| &decision.spec.assignments).map(|place| &place.unit).collect();
    assert_eq!(
        (units.len(), units.iter().collect::<BTreeSet<_>>().len()),
        (10, 10),
        "each GPU once: {units:?}"
    );
    assert_eq!(env.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len(), 10);
    assert_eq!(history.unschedulable(), Vec::<String>::new());

    // freed capacity goes to a waiting application
    let placed = decisions.iter().find(|decision| !decision.spec.assignments.is_empty()).unwrap().name_any();
    env.namespace.kubectl(["delete", "actorapp", &placed, "--wait=false"]).await.unwrap();
    wait_for("one of the waiting applications runs", TIMEOUT, async || {
        let mut running = Vec::new();
        for name in &named {
            let state = env.observe(name).await?;
            running.extend(
                state.check_reconciled().is_ok().then(|| state.places().len()).filter(|count| *count == 1),
            );
        }
        ensure!(running.len() == 1, "{} of the waiting applications run", running.len());
        anyhow::Ok(())
    })
    .await;
    assert_eq!(history.unschedulable(), Vec::<String>::new());
}

/// The first plan leaves one of two actors unplaced, the next one places it: no outdated report remains.
#[tokio::test]
async fn no_stale_unplaced_report_after_a_late_placement() {
    let node = |name: &str| SimulatedNode::new(name).resource("acme.com/gpu", 1);
    let mut env = TestEnv::new("later", [node("first")], [gpus()]).await;
    env.describe_devices("first", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 1).await;
    env.apply(&application("app", &[("a", 2, &[("gpu", "1ms")])])).await;
    let first = env.wait_reconciled("app", |state| {
        ensure!(state.spec().unplaced.len() == 1, "{:?}", state.spec().unplaced);
        anyhow::Ok(())
    });
    first.await;
    env.nodes.add(node("second")).await.unwrap();
    env.describe_devices("second", &[("gpu-0", "GPU")]);
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    let counts = state.application.status.unwrap_or_default().actors.unwrap_or_default();
    assert_eq!((counts.wanted, counts.placed), (2, 2));
}

/// Waits until the operator sees so many millicores available for a running application.
async fn left(env: &TestEnv, name: &str, thousandths: u64) {
    let path = format!("/debug/snapshot/{}/{name}", env.namespace);
    wait_for("the operator sees the available cores", TIMEOUT, async || {
        let answer = e2e::process::http(env.product.operator.port(8081)?, &path).await?;
        let snapshot: Value = serde_json::from_str(&answer.body)?;
        let left = snapshot["nodes"][0]["provides"]["cpuMilli"].as_u64();
        let left = left.ok_or_else(|| anyhow!("{}", answer.body))?;
        ensure!(left == thousandths, "{left}");
        anyhow::Ok(())
    })
    .await;
}

/// Capacity is freed while a plan with an unplaced actor is committed, before the operator records the waiting actor.
#[tokio::test]
async fn capacity_freed_during_a_commit_is_used() {
    let env = TestEnv::new("early", ["one"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("first", &[("a", 1, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("first", AppState::all_placed).await;
    let requests = json!({"requests": {"cpu": "3300m"}});
    env
        .apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": {"nodeName": "one",
            "containers": [{"name": "c", "image": "none", "resources": requests}]}}))
        .await;
    left(&env, "first", 700).await;
    let gate = Gate::close(cluster(), &env.namespace, &[("instances", 0)]).await.unwrap();
    env.apply(&application("second", &[("a", 1, &[("cpu", "1ms")])])).await;
    wait_for("the actor is unplaced, and the next write is held", TIMEOUT, async || {
        let decision = env.observe("second").await?.decision;
        let unplaced = decision.map_or(0, |decision| decision.spec.unplaced.len());
        ensure!((unplaced, gate.held("instances") > 0) == (1, true), "{unplaced} unplaced");
        anyhow::Ok(())
    })
    .await;
    env.namespace.kubectl(["delete", "pod", "foreign"]).await.unwrap();
    left(&env, "first", 4000).await;
    gate.open();
    env.wait_reconciled("second", AppState::all_placed).await;
}
