//! An application from its first manifest to its deletion, and the cluster around it that changes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use e2e::{
    AuditEvent, SimulatedNode,
    product::{NAMESPACE, OPERATOR, tree},
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus, implementation};

/// The example of the paper, on the example machines, through everything that happens to applications.
#[expect(clippy::too_many_lines, reason = "a life, told in its order")]
#[tokio::test]
async fn surveillance_through_its_life() {
    let cluster = cluster();
    let stage = Stage::set("vision", [], []).await;
    stage.example_machines();
    for file in ["examples/nodes.yaml", "examples/pools.yaml"] {
        cluster.kubectl(["apply".as_ref(), "-f".as_ref(), tree(file).as_os_str()]).await.unwrap();
    }
    let examples = ["cairn-cpu", "cairn-fpga", "cairn-gpu", "cairn-numa"];
    let _nodes = cluster.adopt_nodes(examples);
    cluster.wait_nodes_ready(&examples).await.unwrap();
    e2e::wait_for("the machines are known", SOON, async || {
        let known = cluster.kubectl(["get", "nodetopologies", "-oname"]).await?.stdout;
        if known.lines().count() == 4 { Ok(()) } else { bail!("{known}") }
    })
    .await;
    let manifest = std::fs::read_to_string(tree("examples/surveillance.yaml")).unwrap();
    stage.namespace.apply(&manifest.replace("namespace: vision", "")).await.unwrap();

    // as the paper has it: proven, both GPUs, one CPU full, the fifth elsewhere
    let is_best = |seen: &crate::stage::Seen| {
        let found = (seen.vector(), seen.spec().optimal);
        ensure!(found == (vec![0, 59040, 21], true), "{found:?}");
        seen.all_placed()
    };
    let seen = stage.settled("surveillance", is_best).await;
    let on = |unit: &str| seen.places().iter().filter(|(_, its)| **its == unit).count();
    assert_eq!(
        (on("cairn-gpu/gpus-0"), on("cairn-gpu/gpus-1"), on("cairn-gpu/cpus-0")),
        (1, 1, 5),
        "{:?}",
        seen.places()
    );

    // of crop on two kinds, of classify on three and of localize on one the template was tried, and none of them twice
    assert_eq!(trials(cluster.audit().await.unwrap().events(), &stage), 6);

    // more of a group, who start before anybody is stopped or told of; and fewer
    let classify = "/spec/actors/1";
    let before = cluster.audit().await.unwrap();
    patch(&stage, &json!([{"op": "replace", "path": format!("{classify}/replicas"), "value": 7}])).await;
    let seen = stage.settled("surveillance", super::stage::Seen::all_placed).await;
    assert_eq!(seen.places().len(), 10);
    let written = written_until_they_start(cluster.audit().await.unwrap().since(&before), &stage);
    assert!(
        written.iter().all(|what| !what.ends_with("/status") && !what.ends_with("/eviction")),
        "{written:?}"
    );
    patch(&stage, &json!([{"op": "replace", "path": format!("{classify}/replicas"), "value": 4}])).await;
    let seen = stage.settled("surveillance", super::stage::Seen::all_placed).await;
    assert_eq!(seen.places().keys().filter(|actor| actor.starts_with("classify-")).count(), 4);

    // a kind less: who ran on it goes elsewhere; and once more
    patch(
        &stage,
        &json!([{"op": "test", "path": format!("{classify}/implementations/1/kind"), "value": "gpu"},
        {"op": "remove", "path": format!("{classify}/implementations/1")}]),
    )
    .await;
    let kinds = |seen: &crate::stage::Seen| {
        seen.spec().assignments.iter().filter(|place| place.pool == "gpus").count()
    };
    stage
        .settled("surveillance", |seen| {
            seen.all_placed()?;
            ensure!(kinds(seen) == 0, "{:?}", seen.places());
            Ok(())
        })
        .await;
    patch(&stage, &json!([{"op": "add", "path": format!("{classify}/implementations/1"), "value": implementation("gpu", "3ms")},
        {"op": "replace", "path": format!("{classify}/replicas"), "value": 5}]))
    .await;
    let before = stage
        .settled("surveillance", |seen| {
            seen.all_placed()?;
            ensure!(kinds(seen) == 2, "{:?}", seen.places());
            Ok(())
        })
        .await;

    // a node less, and one with the same devices more: the moves that pay are made
    cluster.kubectl(["delete", "node", "cairn-gpu"]).await.unwrap();
    let without = stage
        .settled("surveillance", |seen| {
            seen.all_placed()?;
            ensure!(!seen.nodes().contains("cairn-gpu"), "{:?}", seen.places());
            Ok(())
        })
        .await;
    assert!(without.spec().moves.iter().all(|step| !step.reason.is_empty()), "{:?}", without.spec().moves);
    let moved = stage.event("surveillance", "Moved", "node cairn-gpu is gone").await;
    assert!(moved.contains(" from cairn-gpu/"), "{moved}");
    let nodes = std::fs::read_to_string(tree("examples/nodes.yaml")).unwrap();
    cluster.kubectl_with(["apply", "-f-"], &nodes).await.unwrap();
    let communication = |seen: &crate::stage::Seen| seen.spec().objective["communication"];
    let after = stage
        .settled("surveillance", |seen| {
            seen.all_placed()?;
            ensure!(kinds(seen) == 2, "{:?}", seen.places());
            let objective = communication(seen);
            ensure!(objective == communication(&before), "{objective} is not the optimum");
            Ok(())
        })
        .await;
    assert!(
        after.vector() < without.vector(),
        "{:?} is no better than {:?}",
        after.vector(),
        without.vector()
    );

    // a pool less: nobody is left on its devices
    cluster.kubectl(["delete", "devicepool", "gpus"]).await.unwrap();
    stage
        .settled("surveillance", |seen| {
            seen.all_placed()?;
            ensure!(kinds(seen) == 0, "{:?}", seen.places());
            Ok(())
        })
        .await;

    // gone, and nothing of it stays
    stage.namespace.kubectl(["delete", "actorapp", "surveillance"]).await.unwrap();
    e2e::wait_for("nothing is left of it", SOON, async || {
        let kinds = "actorapplications,placements,instances,pods";
        let left = stage.namespace.kubectl(["get", kinds, "-oname"]).await?.stdout;
        if left.is_empty() { Ok(()) } else { bail!("{left}") }
    })
    .await;
}

/// What the operator asked for in this application's namespace.
fn of_operator<'a>(events: &'a [AuditEvent], stage: &'a Stage) -> impl Iterator<Item = &'a AuditEvent> {
    let is_its = move |event: &&AuditEvent| {
        event.is_by_service_account(NAMESPACE, OPERATOR) && event.namespace == stage.namespace.name()
    };
    events.iter().filter(is_its)
}

/// How often it tried a template.
fn trials(events: &[AuditEvent], stage: &Stage) -> usize {
    of_operator(events, stage)
        .filter(|event| event.resource == "pods" && event.subresource.is_empty() && event.is_trial())
        .count()
}

/// What the operator wrote from the first Instance that it made to the last pod of those that were made.
fn written_until_they_start(events: &[AuditEvent], stage: &Stage) -> Vec<String> {
    let written = of_operator(events, stage).filter(|event| event.is_write() && !event.is_trial());
    let written: Vec<(String, &str)> = written
        .map(|event| {
            (format!("{} {}/{}", event.verb, event.resource, event.subresource), event.name.as_str())
        })
        .collect();
    let made: BTreeSet<&str> =
        written.iter().filter(|(it, _)| it == "create instances/").map(|(_, name)| *name).collect();
    let first = written.iter().position(|(it, _)| it == "create instances/").unwrap();
    let last = written.iter().rposition(|(it, name)| it == "create pods/" && made.contains(name)).unwrap();
    written[first..=last].iter().map(|(it, _)| it.clone()).collect()
}

async fn patch(stage: &Stage, patch: &serde_json::Value) {
    let patch = patch.to_string();
    stage
        .namespace
        .kubectl(["patch", "actorapp", "surveillance", "--type=json", "-p", &patch])
        .await
        .unwrap();
}

/// Paused, an application keeps what it has and says what it would do.
#[tokio::test]
async fn a_paused_application_changes_nothing_and_says_what_it_would_do() {
    let stage = Stage::set("paused", [SimulatedNode::new("paused")], [cpus()]).await;
    stage.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    stage.settled("app", super::stage::Seen::all_placed).await;
    stage.patch("app", &json!({"spec": {"paused": true}})).await;
    stage
        .namespace
        .kubectl([
            "patch",
            "actorapp",
            "app",
            "--type=json",
            "-p",
            r#"[{"op": "replace", "path": "/spec/actors/0/replicas", "value": 3}]"#,
        ])
        .await
        .unwrap();
    let seen = stage
        .seen("app", |seen| {
            let told = seen.message("Paused", "True")?;
            ensure!(told.starts_with("2 actors would start"), "{told}");
            Ok(())
        })
        .await;
    assert_eq!((seen.pods.len(), seen.places().len()), (1, 1));
    stage.patch("app", &json!({"spec": {"paused": false}})).await;
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    assert_eq!(seen.pods.len(), 3);
}

/// Fewer of a group: the highest index goes, also where the lowest is the youngest.
#[tokio::test]
async fn of_a_group_that_shrinks_the_highest_index_goes() {
    let stage = Stage::set("shrinks", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    stage.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    let uids = |seen: &Seen| -> BTreeMap<String, String> {
        seen.instances.iter().map(|it| (it.name_any(), it.uid().unwrap())).collect()
    };
    let pods = |seen: &Seen| -> BTreeMap<String, String> {
        seen.pods.iter().map(|it| (it.name_any(), it.uid().unwrap())).collect()
    };
    let before = stage.settled("app", Seen::all_placed).await;
    stage.namespace.kubectl(["delete", "instance", "app-a-0"]).await.unwrap();
    let again = stage
        .settled("app", |seen| {
            ensure!(uids(seen).get("app-a-0") != uids(&before).get("app-a-0"), "it is the old one");
            ensure!(pods(seen).get("app-a-0") != pods(&before).get("app-a-0"), "its pod is the old one");
            seen.all_placed()
        })
        .await;

    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let after = stage.settled("app", Seen::all_placed).await;
    assert_eq!(after.places().into_keys().collect::<Vec<_>>(), ["a-0", "a-1"]);
    let kept = |all: BTreeMap<String, String>| {
        all.into_iter().filter(|(name, _)| name != "app-a-2").collect::<BTreeMap<_, _>>()
    };
    assert_eq!((uids(&after), pods(&after)), (kept(uids(&again)), kept(pods(&again))), "who stays goes on");
}
