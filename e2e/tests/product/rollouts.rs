//! Rollouts of changed templates.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use crds::{ActorCounts, Revisions, labels};
use e2e::{Gate, SimulatedNode, pods::is_ready, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::env::{AppState, PodHistory, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;
use crate::recovery::snapshot;

const TEMPLATE: &str = "/spec/actors/0/implementations/0/template";

/// Changes the template of the application's only group.
async fn edit(env: &TestEnv, at: &str, value: &Value) {
    let patch = json!([{"op": "add", "path": format!("{TEMPLATE}{at}"), "value": value}]).to_string();
    env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
}

async fn image(env: &TestEnv, name: &str) {
    edit(env, "/spec/containers/0/image", &json!(name)).await;
}

fn counts(state: &AppState) -> (ActorCounts, Revisions) {
    let status = state.application.status.clone().unwrap_or_default();
    (status.actors.unwrap_or_default(), status.revision.unwrap_or_default())
}

/// Checks that every actor runs this image and that the status reports it.
fn all_run(state: &AppState, name: &str) -> Result<()> {
    let (counts, revision) = counts(state);
    ensure!((counts.ready, counts.updated) == (counts.wanted, counts.wanted), "{counts:?}");
    ensure!(revision.update.is_some() && revision.update == revision.current, "{revision:?}");
    let images = images(&state.pods);
    ensure!(images.values().all(|image| image == name), "{images:?}");
    state.all_placed()
}

fn images(pods: &[Pod]) -> BTreeMap<String, String> {
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap_or_default();
    pods.iter().map(|pod| (pod.labels()[labels::ACTOR].clone(), image(pod))).collect()
}

/// The fewest ready actors at any moment after so many were ready.
fn fewest_ready(history: &PodHistory, wanted: usize) -> usize {
    let (mut ready, mut all_were, mut fewest) = (BTreeSet::new(), false, wanted);
    for pod in history.states() {
        if is_ready(&pod) {
            ready.insert(pod.uid())
        } else {
            ready.remove(&pod.uid())
        };
        all_were |= ready.len() == wanted;
        if all_were {
            fewest = fewest.min(ready.len());
        }
    }
    fewest
}

/// Without the new label on the first group's pod, kube-scheduler refuses the second group's.
#[tokio::test]
async fn an_actor_that_needs_a_label_of_the_new_template_does_not_stall_the_rollout() {
    let env = TestEnv::new("relabelled", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    env.apply(&manifest).await;
    env.wait_reconciled("app", |state| all_run(state, "none")).await;
    let grown = application("app", &[("a", 2, &[("cpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"] = grown["spec"]["actors"].clone();
    manifest["spec"]["actors"][0]["implementations"][0]["template"]["metadata"] =
        json!({"labels": {"role": "new"}});
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"role": "new"}}});
    manifest["spec"]["actors"][1]["implementations"][0]["template"]["spec"]["affinity"] =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    env.apply(&manifest).await;
    let state = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    ensure_labels(&state.pods);
}

/// Checks that the pods of the first group have the new label.
fn ensure_labels(pods: &[Pod]) {
    for pod in pods.iter().filter(|pod| pod.labels()[labels::ACTOR].starts_with("a-")) {
        assert_eq!(pod.labels().get("role").map(String::as_str), Some("new"), "{}", pod.name_any());
    }
}

#[tokio::test]
async fn a_new_image_is_rolled_out_in_place_within_max_unavailable() {
    let env = TestEnv::new("rolling", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 4, &[("cpu", "1ms")])]);
    manifest["spec"]["update"] = json!({"maxUnavailable": 2});
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    let history = env.watch_pods().await;
    image(&env, "newer").await;
    let after = env.wait_reconciled("app", |state| all_run(state, "newer")).await;
    assert_eq!(after.places(), before.places());
    let lives = history.wait_synced().await.pods_per_actor();
    assert!(lives.values().all(|pods| *pods == 2), "each is replaced once: {lives:?}");
    assert!(fewest_ready(&history, 4) >= 2, "{} were ready", fewest_ready(&history, 4));

    // back to a known state
    image(&env, "none").await;
    let back = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    assert_eq!(counts(&back).1, counts(&before).1);
}

#[tokio::test]
async fn an_unready_template_stops_the_rollout_after_one_actor() {
    let env = TestEnv::new("bad-edit", ["one"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", |state| all_run(state, "none")).await;
    // its pods wait in the scheduler for a volume that is never made
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "never-made"},
        "provisioner": "example.com/never", "volumeBindingMode": "WaitForFirstConsumer"});
    cluster().kubectl_with(["apply", "-f-"], &class.to_string()).await.unwrap();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "never-made",
        "resources": {"requests": {"storage": "1Gi"}}}});
    env.apply(&claim).await;
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    edit(&env, "/spec/volumes", &volumes).await;
    let stuck = |state: &AppState| {
        let (counts, revision) = counts(state);
        ensure!((counts.ready, counts.updated) == (2, 1), "{counts:?}");
        ensure!(revision.update != revision.current, "{revision:?}");
        Ok(())
    };
    let state = env.wait_until("app", stuck).await;
    let served = state.pods.iter().find(|pod| is_ready(pod)).unwrap();
    let (name, uid) = (served.name_any(), served.uid());
    env.namespace.kubectl(["delete", "pod", &name, "--wait=false"]).await.unwrap();
    let healed = env
        .wait_until("app", |state| {
            let again = state.pods.iter().find(|pod| pod.name_any() == name && pod.uid() != uid);
            ensure!(again.is_some_and(is_ready), "not recreated yet");
            stuck(state)
        })
        .await;
    let claims = |pod: &&Pod| {
        let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.any(|volume| volume.persistent_volume_claim.is_some())
    };
    assert_eq!(healed.pods.iter().filter(claims).count(), 1);

    // after the correction, the hanging pod is replaced first
    env.namespace
        .kubectl([
            "patch",
            "actorapp",
            "app",
            "--type=json",
            "-p",
            &json!([{"op": "remove", "path": format!("{TEMPLATE}/spec/volumes")},
                {"op": "replace", "path": format!("{TEMPLATE}/spec/containers/0/image"), "value": "right"}])
            .to_string(),
        ])
        .await
        .unwrap();
    env.wait_reconciled("app", |state| all_run(state, "right")).await;
}

#[tokio::test]
async fn a_refused_template_stops_the_rollout_and_is_reported() {
    let env = TestEnv::new("refused-edit", ["one"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    let history = env.watch_pods().await;
    edit(&env, "/spec/containers/0/volumeMounts", &json!([{"name": "absent", "mountPath": "/data"}])).await;
    let refused = |state: &AppState| {
        let message = state.message("TemplateInvalid", "True")?;
        ensure!(
            message.starts_with("the template of a for cpu: ") && message.contains("absent"),
            "{message}"
        );
        Ok(())
    };
    env.wait_until("app", refused).await;
    env.wait_event("app", "TemplateInvalid", "the template of a for cpu").await;
    // a pod lost meanwhile is recreated from the old template
    env.namespace.kubectl(["delete", "pod", "app-a-1", "--wait=false"]).await.unwrap();
    let old = before.pods.iter().find(|pod| pod.name_any() == "app-a-1").unwrap().uid();
    env.wait_until("app", |state| {
        let again = state.pods.iter().find(|pod| pod.name_any() == "app-a-1" && pod.uid() != old);
        ensure!(again.is_some_and(is_ready), "not recreated yet");
        refused(state)
    })
    .await;
    assert_eq!(history.wait_synced().await.pods_per_actor()["a-0"], 1, "nothing else was replaced");

    let patch = json!([{"op": "remove", "path": format!("{TEMPLATE}/spec/containers/0/volumeMounts")},
        {"op": "replace", "path": format!("{TEMPLATE}/spec/containers/0/image"), "value": "right"}]);
    let patch = patch.to_string();
    env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
    let state = env.wait_reconciled("app", |state| all_run(state, "right")).await;
    assert!(state.condition("TemplateInvalid").is_none(), "{:?}", state.condition("TemplateInvalid"));
}

/// Every first template is validated, even one that no actor uses; actors with a valid template start.
#[tokio::test]
async fn a_refused_first_template_is_reported_even_if_unused() {
    let env = TestEnv::new("refused-first", ["one"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms"), ("npu", "1ms")])]);
    let absent = json!([{"name": "absent", "mountPath": "/data"}]);
    let template = "/spec/actors/0/implementations/1/template/spec/containers/0";
    manifest.pointer_mut(template).unwrap()["volumeMounts"] = absent;
    env.apply(&manifest).await;
    env.wait_until("app", |state| {
        let message = state.message("TemplateInvalid", "True")?;
        ensure!(
            message.starts_with("the template of a for npu: ") && message.contains("absent"),
            "{message}"
        );
        ensure!(state.pods.len() == 1 && is_ready(&state.pods[0]), "the valid implementation does not run");
        Ok(())
    })
    .await;
    manifest.pointer_mut(template).unwrap()["volumeMounts"] = json!([]);
    env.apply(&manifest).await;
    let state = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    assert!(state.condition("TemplateInvalid").is_none(), "{:?}", state.condition("TemplateInvalid"));
}

/// Pods that could not be recreated because their node is cordoned keep running, and the others are updated. They are updated
/// when the node accepts pods again.
#[tokio::test]
async fn pods_on_cordoned_nodes_are_updated_after_the_uncordon() {
    let env = TestEnv::new("no-return", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", |state| all_run(state, "none")).await;
    let history = env.watch_pods().await;
    // of the actor that would be updated first
    let node = before.places()["a-0"].split('/').next().unwrap().to_owned();
    cluster().kubectl(["cordon", &node]).await.unwrap();
    wait_for("the operator observed the cordon", TIMEOUT, async || {
        let snapshot = snapshot(&env, "app").await?;
        ensure!(snapshot.contains(&format!("{node} is cordoned")), "{snapshot}");
        anyhow::Ok(())
    })
    .await;
    image(&env, "newer").await;
    let waits = env
        .wait_until("app", |state| {
            let (counts, revision) = counts(state);
            ensure!((counts.ready, counts.updated) == (2, 1), "{counts:?}");
            ensure!(revision.update.is_some() && revision.update != revision.current, "{revision:?}");
            let images: Vec<_> =
                images(&state.pods).iter().map(|(actor, image)| format!("{actor} {image}")).collect();
            ensure!(images == ["a-0 none", "a-1 newer"], "{images:?}");
            ensure!(state.pods.iter().all(is_ready), "not all are ready");
            state.message("Ready", "True").map(drop)
        })
        .await;
    let uid = |state: &AppState| state.pods.iter().find(|pod| pod.name_any() == "app-a-0")?.uid();
    assert_eq!(uid(&waits), uid(&before));
    assert_eq!(waits.places(), before.places());
    assert_eq!(history.wait_synced().await.pods_per_actor()["a-0"], 1);

    cluster().kubectl(["uncordon", &node]).await.unwrap();
    let after = env.wait_reconciled("app", |state| all_run(state, "newer")).await;
    assert_eq!(after.places(), before.places());
    let lives = history.wait_synced().await.pods_per_actor();
    assert!(lives.values().all(|pods| *pods == 2), "each is replaced once: {lives:?}");
}

/// A pause between the deletion of a pod and the creation of its successor does not leave the actor without a pod.
#[tokio::test]
async fn started_replacements_finish_while_paused() {
    let cluster = cluster();
    let env = TestEnv::new("pause-midway", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let on = |node: &str| {
        json!([{"op": "add", "path": "/spec/actors/0/pinTo", "value": {"node": node}}]).to_string()
    };
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    env.apply(&manifest).await;
    env.wait_reconciled("app", |state| all_run(state, "none")).await;
    let gate = Gate::close(cluster, &env.namespace, &[("pods", 0)]).await.unwrap();
    env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &on("two")]).await.unwrap();
    wait_for("a pod is deleted, and its successor is held", TIMEOUT, async || {
        let held = gate.held("pods");
        ensure!(held > 0, "{held} held");
        anyhow::Ok(())
    })
    .await;
    env.patch("app", &json!({"spec": {"paused": true}})).await;
    gate.open();
    let state = env
        .wait_until("app", |state| {
            state.message("Paused", "True")?;
            let ready: Vec<_> =
                state.pods.iter().filter(|pod| is_ready(pod)).map(kube::ResourceExt::name_any).collect();
            ensure!(ready == ["app-a-0", "app-a-1"], "{ready:?} are ready");
            Ok(())
        })
        .await;
    let moved =
        state.pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("two"));
    assert!(moved.count() > 0, "the evicted actor has moved");
    // and no new rollout begins
    image(&env, "newer").await;
    env.patch("app", &json!({"spec": {"paused": false}})).await;
    let state = env.wait_reconciled("app", |state| all_run(state, "newer")).await;
    assert_eq!(state.nodes(), BTreeSet::from(["two"]));
}
