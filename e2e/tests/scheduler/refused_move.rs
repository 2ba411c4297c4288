//! A move that kube-scheduler refuses: the actor goes back, and the move is repeated only after its cause changed.

use anyhow::ensure;
use crds::{ActorApplication, Placement};
use e2e::wait_for;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::TIMEOUT;
use crate::installed::{Env, read};

const CLASS: &str = "WORLD-large";

/// Two devices of a node, on one board or on two. Plans do not model which devices a claim may combine.
fn slice(node: &str, is_split: bool) -> Value {
    let device = |name: &str, board: &str| {
        let attributes = json!({"size": {"int": 2}, "board": {"string": board}});
        json!({"name": name, "attributes": attributes})
    };
    let devices = [device("d0", "a"), device("d1", if is_split { "b" } else { "a" })];
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": {
        "driver": "refused-move.example.com", "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
}

fn application(pin: &str, rate: u32) -> Value {
    let container = json!({"name": "actor", "image": "none", "resources": {"claims": [{"name": "device"}]}});
    // Actors with claims move for a gain only if the template allows it.
    let worker = json!({"metadata": {"annotations": {crds::labels::MAY_MOVE: "true"}}, "spec": {"containers": [container],
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "large"}]}});
    let sink = json!({"spec": {"containers": [{"name": "actor", "image": "none"}]}});
    let implementation =
        |template: Value| json!([{"kind": "WORLD", "serviceTime": "1us", "template": template}]);
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"}, "spec": {
        "actors": [
            {"name": "worker", "replicas": 1, "implementations": implementation(worker)},
            {"name": "sink", "replicas": 1, "pinTo": {"node": pin}, "implementations": implementation(sink)}],
        "channels": [{"from": "worker", "to": "sink", "rate": format!("{rate}/s"), "pattern": "AllToAll"}]}})
}

fn manifests() -> String {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}}})
    };
    let selector = r#"device.attributes["refused-move.example.com"].size == 2"#;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {}});
    let exactly =
        json!({"deviceClassName": CLASS, "count": 2, "selectors": [{"cel": {"expression": selector}}]});
    let requests = json!([{"name": "d", "exactly": exactly}]);
    let constraints = json!([{"matchAttribute": "refused-move.example.com/board"}]);
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "large"},
        "spec": {"spec": {"devices": {"requests": requests, "constraints": constraints}}}});
    let objects = [
        node("WORLD-n1"),
        node("WORLD-n2"),
        class,
        template,
        slice("WORLD-n1", true),
        slice("WORLD-n2", false),
        application("WORLD-n2", 1000),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

/// The application with another channel, so that it is planned again, and its sink on another node.
async fn replan(env: &Env<'_>, pin: &str, rate: u32) {
    let manifest = application(pin, rate).to_string().replace("WORLD", &env.world.name);
    env.apply(&serde_json::from_str(&manifest).unwrap()).await;
}

/// Waits until both actors run on these nodes, as in the newest Placement.
async fn wait_at(env: &Env<'_>, worker: &str, sink: &str) {
    wait_for(&format!("worker-0 runs on {worker} and sink-0 on {sink}"), TIMEOUT, async || {
        let application = env.api::<ActorApplication>().get("app").await?;
        let status = application.status.unwrap_or_default();
        ensure!(status.observed_generation == application.metadata.generation, "not reported yet");
        let decision = env.api::<Placement>().get("app").await?.spec;
        ensure!(
            Some(decision.application_generation) == application.metadata.generation,
            "the Placement is of generation {}",
            decision.application_generation
        );
        for (actor, node) in [("worker-0", worker), ("sink-0", sink)] {
            let place = decision.assignments.iter().find(|it| it.actor == actor).map(|it| it.node.as_str());
            ensure!(place == Some(node), "{actor} is assigned to {place:?}");
            let pod = env.api::<Pod>().get(&format!("app-{actor}")).await?;
            let at = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let runs = phase == Some("Running") && pod.metadata.deletion_timestamp.is_none();
            ensure!(at == Some(node) && runs, "the pod of {actor} is {phase:?} on {at:?}");
        }
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_refused_move_is_not_repeated_until_its_cause_changes() {
    let (world, others) = read("returns", &manifests());
    let env = Env::new(&world, &others).await;
    let (refusing, fitting) = ("returns-n1", "returns-n2");
    env.apply(&world.application).await;
    wait_at(&env, fitting, fitting).await;

    // The worker follows its sink, is refused and returns.
    replan(&env, refusing, 2000).await;
    let refusal = wait_for("the node refuses the worker", TIMEOUT, async || {
        let status = env.api::<Placement>().get("app").await?.status.unwrap_or_default();
        status.refusals.into_iter().next().ok_or_else(|| anyhow::anyhow!("no refusal"))
    })
    .await;
    assert_eq!((refusal.node.as_deref(), refusal.actor.as_str()), (Some(refusing), "worker-0"));
    assert!(refusal.cause.is_some(), "{refusal:?}");
    wait_at(&env, fitting, refusing).await;
    let pods = async || env.history.wait_synced().await.pods_per_actor()["worker-0"];
    assert_eq!(pods().await, 3, "it started, was refused and went back");

    // After the expiry it stays, although the plan is made anew for another demand.
    wait_for("the refusal expires", TIMEOUT, async || {
        ensure!(refusal.until.0 < jiff::Timestamp::now(), "not before {}", refusal.until.0);
        anyhow::Ok(())
    })
    .await;
    for rate in [3000, 2000, 4000] {
        replan(&env, refusing, rate).await;
        wait_at(&env, fitting, refusing).await;
    }
    assert_eq!(pods().await, 3, "no second attempt");

    // The devices of the node are put on one board, and the node is labelled.
    env.apply(&slice(refusing, false)).await;
    let label = json!({"metadata": {"labels": {"devices": "joined"}}});
    let nodes: Api<Node> = Api::all(env.client.clone());
    nodes.patch(refusing, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    replan(&env, refusing, 5000).await;
    wait_at(&env, refusing, refusing).await;
    assert_eq!(pods().await, 4);
    let slices: Api<ResourceSlice> = Api::all(env.client.clone());
    for node in [refusing, fitting] {
        slices.delete(node, &DeleteParams::default()).await.unwrap();
    }
    env.end().await;
}
