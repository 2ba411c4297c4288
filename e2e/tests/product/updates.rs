//! A template changes while its application runs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use crds::{ActorCounts, Revisions, labels};
use e2e::{Gate, SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::installed::cluster;
use crate::recovery::snapshot;
use crate::stage::{PodHistory, SOON, Seen, Stage, application, cpus};

const TEMPLATE: &str = "/spec/actors/0/implementations/0/template";

/// Changes something in the template of the application's only group.
async fn edit(stage: &Stage, at: &str, value: &Value) {
    let patch = json!([{"op": "add", "path": format!("{TEMPLATE}{at}"), "value": value}]).to_string();
    stage.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
}

async fn image(stage: &Stage, name: &str) {
    edit(stage, "/spec/containers/0/image", &json!(name)).await;
}

fn counts(seen: &Seen) -> (ActorCounts, Revisions) {
    let status = seen.application.status.clone().unwrap_or_default();
    (status.actors.unwrap_or_default(), status.revision.unwrap_or_default())
}

/// Every actor runs this image, and the status says so.
fn all_run(seen: &Seen, name: &str) -> Result<()> {
    let (counts, revision) = counts(seen);
    ensure!((counts.ready, counts.updated) == (counts.wanted, counts.wanted), "{counts:?}");
    ensure!(revision.update.is_some() && revision.update == revision.current, "{revision:?}");
    let images = images(&seen.pods);
    ensure!(images.values().all(|image| image == name), "{images:?}");
    seen.all_placed()
}

fn images(pods: &[Pod]) -> BTreeMap<String, String> {
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap_or_default();
    pods.iter().map(|pod| (pod.labels()[labels::ACTOR].clone(), image(pod))).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The fewest actors that were ready at any moment since so many were.
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

#[tokio::test]
async fn a_new_image_replaces_pods_a_few_at_a_time_where_they_are() {
    let stage = Stage::set("rolling", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 4, &[("cpu", "1ms")])]);
    manifest["spec"]["update"] = json!({"maxUnavailable": 2});
    stage.apply(&manifest).await;
    let before = stage.settled("app", |seen| all_run(seen, "none")).await;
    let history = stage.watch_pods().await;
    image(&stage, "newer").await;
    let after = stage.settled("app", |seen| all_run(seen, "newer")).await;
    assert_eq!(after.places(), before.places());
    let lives = history.caught_up().await.lives();
    assert!(lives.values().all(|pods| *pods == 2), "each is replaced once: {lives:?}");
    assert!(fewest_ready(&history, 4) >= 2, "{} were ready", fewest_ready(&history, 4));

    // back again, to a state that is known
    image(&stage, "none").await;
    let back = stage.settled("app", |seen| all_run(seen, "none")).await;
    assert_eq!(counts(&back).1, counts(&before).1);
}

#[tokio::test]
async fn a_template_that_never_becomes_ready_takes_one_actor_and_the_others_heal_with_the_last_good_one() {
    let stage = Stage::set("bad-edit", ["one"].map(SimulatedNode::new), [cpus()]).await;
    stage.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    stage.settled("app", |seen| all_run(seen, "none")).await;
    // pods of it are never scheduled
    edit(&stage, "/spec/schedulingGates", &json!([{"name": "example.com/never"}])).await;
    let stuck = |seen: &Seen| {
        let (counts, revision) = counts(seen);
        ensure!((counts.ready, counts.updated) == (2, 1), "{counts:?}");
        ensure!(revision.update != revision.current, "{revision:?}");
        Ok(())
    };
    let seen = stage.seen("app", stuck).await;
    let served = seen.pods.iter().find(|pod| is_ready(pod)).unwrap();
    let (name, uid) = (served.name_any(), served.uid());
    stage.namespace.kubectl(["delete", "pod", &name, "--wait=false"]).await.unwrap();
    let healed = stage
        .seen("app", |seen| {
            let again = seen.pods.iter().find(|pod| pod.name_any() == name && pod.uid() != uid);
            ensure!(again.is_some_and(is_ready), "it is not there again");
            stuck(seen)
        })
        .await;
    let gated = |pod: &&Pod| pod.spec.as_ref().unwrap().scheduling_gates.is_some();
    assert_eq!(healed.pods.iter().filter(gated).count(), 1);

    // put right, the one that hangs is the first
    stage
        .namespace
        .kubectl([
            "patch",
            "actorapp",
            "app",
            "--type=json",
            "-p",
            &json!([{"op": "remove", "path": format!("{TEMPLATE}/spec/schedulingGates")},
                {"op": "replace", "path": format!("{TEMPLATE}/spec/containers/0/image"), "value": "right"}])
            .to_string(),
        ])
        .await
        .unwrap();
    stage.settled("app", |seen| all_run(seen, "right")).await;
}

#[tokio::test]
async fn a_template_that_the_api_server_refuses_replaces_nothing_and_is_named() {
    let stage = Stage::set("refused-edit", ["one"].map(SimulatedNode::new), [cpus()]).await;
    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = stage.settled("app", |seen| all_run(seen, "none")).await;
    let history = stage.watch_pods().await;
    edit(&stage, "/spec/containers/0/volumeMounts", &json!([{"name": "absent", "mountPath": "/data"}])).await;
    let refused = |seen: &Seen| {
        let said = seen.message("TemplateInvalid", "True")?;
        ensure!(said.starts_with("the template of a for cpu: ") && said.contains("absent"), "{said}");
        Ok(())
    };
    stage.seen("app", refused).await;
    stage.event("app", "TemplateInvalid", "the template of a for cpu").await;
    // who is lost meanwhile comes again as it was
    stage.namespace.kubectl(["delete", "pod", "app-a-1", "--wait=false"]).await.unwrap();
    let old = before.pods.iter().find(|pod| pod.name_any() == "app-a-1").unwrap().uid();
    stage
        .seen("app", |seen| {
            let again = seen.pods.iter().find(|pod| pod.name_any() == "app-a-1" && pod.uid() != old);
            ensure!(again.is_some_and(is_ready), "it is not there again");
            refused(seen)
        })
        .await;
    assert_eq!(history.caught_up().await.lives()["a-0"], 1, "nothing else was replaced");

    let patch = json!([{"op": "remove", "path": format!("{TEMPLATE}/spec/containers/0/volumeMounts")},
        {"op": "replace", "path": format!("{TEMPLATE}/spec/containers/0/image"), "value": "right"}]);
    let patch = patch.to_string();
    stage.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
    let seen = stage.settled("app", |seen| all_run(seen, "right")).await;
    assert!(seen.condition("TemplateInvalid").is_none(), "{:?}", seen.condition("TemplateInvalid"));
}

/// Of the first templates each is tried, also one that nobody is placed by; who has one that is taken starts.
#[tokio::test]
async fn a_first_template_that_the_api_server_refuses_is_named_though_nobody_starts_from_it() {
    let stage = Stage::set("refused-first", ["one"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms"), ("npu", "1ms")])]);
    let absent = json!([{"name": "absent", "mountPath": "/data"}]);
    let template = "/spec/actors/0/implementations/1/template/spec/containers/0";
    manifest.pointer_mut(template).unwrap()["volumeMounts"] = absent;
    stage.apply(&manifest).await;
    stage
        .seen("app", |seen| {
            let said = seen.message("TemplateInvalid", "True")?;
            ensure!(said.starts_with("the template of a for npu: ") && said.contains("absent"), "{said}");
            ensure!(seen.pods.len() == 1 && is_ready(&seen.pods[0]), "who can start does not run");
            Ok(())
        })
        .await;
    manifest.pointer_mut(template).unwrap()["volumeMounts"] = json!([]);
    stage.apply(&manifest).await;
    let seen = stage.settled("app", |seen| all_run(seen, "none")).await;
    assert!(seen.condition("TemplateInvalid").is_none(), "{:?}", seen.condition("TemplateInvalid"));
}

/// An actor has one place, where it could not start again while its node is cordoned: its pod serves on as it is, and the others
/// are updated; it is when its node takes pods again.
#[tokio::test]
async fn who_could_not_come_back_serves_on_and_is_updated_when_it_could() {
    let stage = Stage::set("no-return", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["spread"] = json!("node");
    stage.apply(&manifest).await;
    let before = stage.settled("app", |seen| all_run(seen, "none")).await;
    let history = stage.watch_pods().await;
    // of the one whose turn would be first
    let node = before.places()["a-0"].split('/').next().unwrap().to_owned();
    cluster().kubectl(["cordon", &node]).await.unwrap();
    wait_for("the operator knows", SOON, async || {
        let snapshot = snapshot(&stage, "app").await?;
        ensure!(snapshot.contains(&format!("{node} is cordoned")), "{snapshot}");
        anyhow::Ok(())
    })
    .await;
    image(&stage, "newer").await;
    let waits = stage
        .seen("app", |seen| {
            let (counts, revision) = counts(seen);
            ensure!((counts.ready, counts.updated) == (2, 1), "{counts:?}");
            ensure!(revision.update.is_some() && revision.update != revision.current, "{revision:?}");
            let images: Vec<_> =
                images(&seen.pods).iter().map(|(actor, image)| format!("{actor} {image}")).collect();
            ensure!(images == ["a-0 none", "a-1 newer"], "{images:?}");
            ensure!(seen.pods.iter().all(is_ready), "not all are ready");
            seen.message("Ready", "True").map(drop)
        })
        .await;
    let uid = |seen: &Seen| seen.pods.iter().find(|pod| pod.name_any() == "app-a-0")?.uid();
    assert_eq!(uid(&waits), uid(&before));
    assert_eq!(waits.places(), before.places());
    assert_eq!(history.caught_up().await.lives()["a-0"], 1);

    cluster().kubectl(["uncordon", &node]).await.unwrap();
    let after = stage.settled("app", |seen| all_run(seen, "newer")).await;
    assert_eq!(after.places(), before.places());
    let lives = history.caught_up().await.lives();
    assert!(lives.values().all(|pods| *pods == 2), "each is replaced once: {lives:?}");
}

/// Paused between the end of a pod and the start of the next one: the actor is not left lying.
#[tokio::test]
async fn what_was_begun_is_finished_though_the_application_is_paused() {
    let cluster = cluster();
    let stage = Stage::set("pause-midway", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let on = |node: &str| {
        json!([{"op": "add", "path": "/spec/actors/0/pinTo", "value": {"node": node}}]).to_string()
    };
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    stage.apply(&manifest).await;
    stage.settled("app", |seen| all_run(seen, "none")).await;
    let gate = Gate::close(cluster, &stage.namespace, &[("pods", 0)]).await.unwrap();
    stage.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &on("two")]).await.unwrap();
    wait_for("a pod is gone, and its successor is held", SOON, async || {
        let held = gate.held("pods");
        ensure!(held > 0, "{held} held");
        anyhow::Ok(())
    })
    .await;
    stage.patch("app", &json!({"spec": {"paused": true}})).await;
    gate.open();
    let seen = stage
        .seen("app", |seen| {
            seen.message("Paused", "True")?;
            let ready: Vec<_> =
                seen.pods.iter().filter(|pod| is_ready(pod)).map(kube::ResourceExt::name_any).collect();
            ensure!(ready == ["app-a-0", "app-a-1"], "{ready:?} are ready");
            Ok(())
        })
        .await;
    let moved = seen.pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("two"));
    assert!(moved.count() > 0, "who was stopped to move has moved");
    // and nothing else begins: not a new image
    image(&stage, "newer").await;
    stage.patch("app", &json!({"spec": {"paused": false}})).await;
    let seen = stage.settled("app", |seen| all_run(seen, "newer")).await;
    assert_eq!(seen.nodes(), BTreeSet::from(["two"]));
}
