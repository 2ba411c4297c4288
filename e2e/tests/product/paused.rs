//! Paused applications: started changes finish, failed pods are recreated, and no change begins.

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, unanswered};
use crate::installation::cluster;

async fn pause(env: &TestEnv, paused: bool) {
    env.patch("app", &json!({"spec": {"paused": paused}})).await;
}

fn pods(state: &AppState) -> BTreeMap<String, &Pod> {
    state.pods.iter().map(|pod| (pod.name_any(), pod)).collect()
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Two groups of one actor with a GPU, each on its own node.
fn on(nodes: [&str; 2]) -> Value {
    let mut manifest = application("app", &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("gpu", "1ms")])]);
    for (group, node) in nodes.into_iter().enumerate() {
        manifest["spec"]["actors"][group]["pinTo"] = json!({"node": node});
    }
    manifest
}

/// Two actors exchange their units and are paused after the first eviction. The evicted actor still gets a pod, because the other
/// one leaves its unit as well.
#[tokio::test]
async fn a_started_exchange_finishes_while_paused() {
    let env = TestEnv::with_gpu_nodes("exchange").await;
    // one GPU of each node belongs to a foreign pod
    let other = |node: &str| {
        let container = json!({"name": "c", "image": "none", "resources": {"limits": {"acme.com/gpu": "1"}}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("other-{node}")},
            "spec": {"nodeName": node, "containers": [container]}})
    };
    for node in ["one", "two"] {
        env.apply(&other(node)).await;
    }
    env.wait_offered("gpus", 2).await;
    env.apply(&on(["one", "two"])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;

    // a webhook that does not answer blocks one eviction, so the exchange is half done when the application is paused. Unlike with a
    // refusal, no other unit is chosen for the evicted actor
    let namespace = env.namespace.name();
    let keeps = format!("{namespace}-keeps-a");
    let mut hook = unanswered(&keeps, namespace, "pods/eviction");
    hook["webhooks"][0]["matchConditions"] =
        json!([{"name": "of-a", "expression": "request.name == 'app-a-0'"}]);
    env.apply(&hook).await;
    let evict = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "app-a-0", "namespace": namespace}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/app-a-0/eviction?dryRun=All");
    wait_for("its eviction fails", TIMEOUT, async || {
        let tried = cluster().kubectl_with(["create", "--raw", &path, "-f-"], &evict.to_string()).await;
        let error = tried.err().map(|refused| format!("{refused:#}")).unwrap_or_default();
        ensure!(error.contains("failed calling webhook"), "{error}");
        anyhow::Ok(())
    })
    .await;
    env.apply(&on(["two", "one"])).await;
    let midway = env
        .wait_until("app", |state| {
            let there: Vec<_> = state.pods.iter().map(kube::ResourceExt::name_any).collect();
            ensure!(there == ["app-a-0"], "{there:?}");
            Ok(())
        })
        .await;
    pause(&env, true).await;
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &keeps]).await.unwrap();
    let after = env
        .wait_until("app", |state| {
            state.message("Paused", "True")?;
            let places: Vec<_> =
                pods(state).into_iter().map(|(name, pod)| (name, node_of(pod).to_owned())).collect();
            let exchanged = [("app-a-0", "two"), ("app-b-0", "one")]
                .map(|(name, node)| (name.to_owned(), node.to_owned()));
            ensure!(places == exchanged, "{places:?}");
            ensure!(
                state.pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()),
                "a pod is terminating"
            );
            Ok(())
        })
        .await;
    let uids = |state: &AppState| pods(state).into_values().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert!(uids(&after).iter().all(|uid| !uids(&before).contains(uid)), "both are recreated");
    assert!(uids(&midway).iter().all(|uid| uids(&before).contains(uid)), "the other one stayed");
}

/// A pause stops rollouts and moves, but no recovery: an ended pod is recreated on its unit with its previous template.
#[tokio::test]
async fn ended_pods_are_recreated_unchanged_while_paused() {
    let env = TestEnv::new("paused-ended", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    pause(&env, true).await;
    let image = json!([{"op": "replace", "path": "/spec/actors/0/implementations/0/template/spec/containers/0/image", "value": "newer"}]);
    env.namespace
        .kubectl(["patch", "actorapp", "app", "--type=json", "-p", &image.to_string()])
        .await
        .unwrap();
    env.wait_until("app", |state| state.message("Paused", "True").map(drop)).await;
    let ended =
        json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}})
            .to_string();
    let patch = ["patch", "pod", "app-a-0", "--subresource=status", "--type=merge", "-p", &ended];
    env.namespace.kubectl(patch).await.unwrap();
    let old = pods(&before)["app-a-0"].uid();
    let after = env
        .wait_until("app", |state| {
            let again = pods(state).remove("app-a-0").filter(|pod| pod.uid() != old);
            let phase = again.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
            ensure!(phase == Some("Running"), "not recreated yet: {phase:?}");
            Ok(())
        })
        .await;
    let (then, now) = (pods(&before), pods(&after));
    assert_eq!(node_of(now["app-a-0"]), node_of(then["app-a-0"]));
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap_or_default();
    assert_eq!(now.values().map(|pod| image(pod)).collect::<Vec<_>>(), ["none", "none"], "no rollout begins");
    assert_eq!(now["app-a-1"].uid(), then["app-a-1"].uid());
}
