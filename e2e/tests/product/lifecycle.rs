//! An application from its creation to its deletion, while the cluster around it changes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use e2e::{
    AuditEvent, SimulatedNode,
    product::{NAMESPACE, OPERATOR, tree},
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, implementation};
use crate::installation::cluster;

/// The example of the paper on the example topologies, through all changes of an application.
#[expect(clippy::too_many_lines, reason = "one scenario in its order")]
#[tokio::test]
async fn the_surveillance_example_from_creation_to_deletion() {
    let cluster = cluster();
    let env = TestEnv::new("vision", [], []).await;
    env.describe_example_devices();
    for file in ["examples/nodes.yaml", "examples/pools.yaml"] {
        cluster.kubectl(["apply".as_ref(), "-f".as_ref(), tree(file).as_os_str()]).await.unwrap();
    }
    let examples = ["cairn-cpu", "cairn-fpga", "cairn-gpu", "cairn-numa"];
    let _nodes = cluster.adopt_nodes(examples);
    cluster.wait_nodes_ready(&examples).await.unwrap();
    e2e::wait_for("the topologies are published", TIMEOUT, async || {
        let known = cluster.kubectl(["get", "nodetopologies", "-oname"]).await?.stdout;
        // A topology of a node that another test deleted may still be there.
        let is_known = |name: &&str| known.lines().any(|line| line.ends_with(&format!("/{name}")));
        if examples.iter().all(is_known) { Ok(()) } else { bail!("{known}") }
    })
    .await;
    let manifest = std::fs::read_to_string(tree("examples/surveillance.yaml")).unwrap();
    env.namespace.apply(&manifest.replace("namespace: vision", "")).await.unwrap();

    // as in the paper: proven optimal, both GPUs used, one CPU full, the fifth actor elsewhere
    let is_best = |state: &AppState| {
        let found = (state.vector(), state.spec().optimal);
        ensure!(found == (vec![0, 59040, 21], true), "{found:?}");
        state.all_placed()
    };
    let state = env.wait_reconciled("surveillance", is_best).await;
    let on = |unit: &str| state.places().iter().filter(|(_, its)| **its == unit).count();
    assert_eq!(
        (on("cairn-gpu/gpus-0"), on("cairn-gpu/gpus-1"), on("cairn-gpu/cpus-0")),
        (1, 1, 5),
        "{:?}",
        state.places()
    );

    // one dry run per template: two kinds of crop, three of classify and one of localize
    assert_eq!(trials(cluster.audit().await.unwrap().events(), &env), 6);

    // scale up: pods are created before evictions and status updates; and scale down
    let classify = "/spec/actors/1";
    let before = cluster.audit().await.unwrap();
    patch(&env, &json!([{"op": "replace", "path": format!("{classify}/replicas"), "value": 7}])).await;
    let state = env.wait_reconciled("surveillance", AppState::all_placed).await;
    assert_eq!(state.places().len(), 10);
    let written = written_until_they_start(cluster.audit().await.unwrap().since(&before), &env);
    assert!(
        written.iter().all(|what| !what.ends_with("/status") && !what.ends_with("/eviction")),
        "{written:?}"
    );
    patch(&env, &json!([{"op": "replace", "path": format!("{classify}/replicas"), "value": 4}])).await;
    let state = env.wait_reconciled("surveillance", AppState::all_placed).await;
    assert_eq!(state.places().keys().filter(|actor| actor.starts_with("classify-")).count(), 4);

    // without a kind its actors move elsewhere, and back with it
    patch(
        &env,
        &json!([{"op": "test", "path": format!("{classify}/implementations/1/kind"), "value": "gpu"},
        {"op": "remove", "path": format!("{classify}/implementations/1")}]),
    )
    .await;
    let kinds =
        |state: &AppState| state.spec().assignments.iter().filter(|place| place.pool == "gpus").count();
    env.wait_reconciled("surveillance", |state| {
        state.all_placed()?;
        ensure!(kinds(state) == 0, "{:?}", state.places());
        Ok(())
    })
    .await;
    patch(&env, &json!([{"op": "add", "path": format!("{classify}/implementations/1"), "value": implementation("gpu", "3ms")},
        {"op": "replace", "path": format!("{classify}/replicas"), "value": 5}]))
    .await;
    let before = env
        .wait_reconciled("surveillance", |state| {
            state.all_placed()?;
            ensure!(kinds(state) == 2, "{:?}", state.places());
            Ok(())
        })
        .await;

    // a node is deleted, and one with the same devices added: worthwhile moves are made
    cluster.kubectl(["delete", "node", "cairn-gpu"]).await.unwrap();
    let without = env
        .wait_reconciled("surveillance", |state| {
            state.all_placed()?;
            ensure!(!state.nodes().contains("cairn-gpu"), "{:?}", state.places());
            Ok(())
        })
        .await;
    assert!(without.spec().moves.iter().all(|step| !step.reason.is_empty()), "{:?}", without.spec().moves);
    let moved = env.wait_event("surveillance", "Moved", "node cairn-gpu is gone").await;
    assert!(moved.contains(" from cairn-gpu/"), "{moved}");
    let nodes = std::fs::read_to_string(tree("examples/nodes.yaml")).unwrap();
    cluster.kubectl_with(["apply", "-f-"], &nodes).await.unwrap();
    let communication = |state: &AppState| state.spec().objective["communication"];
    let after = env
        .wait_reconciled("surveillance", |state| {
            state.all_placed()?;
            ensure!(kinds(state) == 2, "{:?}", state.places());
            let objective = communication(state);
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

    // without a pool no actor stays on its devices
    cluster.kubectl(["delete", "devicepool", "gpus"]).await.unwrap();
    env.wait_reconciled("surveillance", |state| {
        state.all_placed()?;
        ensure!(kinds(state) == 0, "{:?}", state.places());
        Ok(())
    })
    .await;

    // after the deletion nothing remains
    env.namespace.kubectl(["delete", "actorapp", "surveillance"]).await.unwrap();
    e2e::wait_for("nothing remains", TIMEOUT, async || {
        let kinds = "actorapplications,placements,instances,pods";
        let left = env.namespace.kubectl(["get", kinds, "-oname"]).await?.stdout;
        if left.is_empty() { Ok(()) } else { bail!("{left}") }
    })
    .await;
}

/// The operator's requests in this application's namespace.
fn of_operator<'a>(events: &'a [AuditEvent], env: &'a TestEnv) -> impl Iterator<Item = &'a AuditEvent> {
    let is_its = move |event: &&AuditEvent| {
        event.is_by_service_account(NAMESPACE, OPERATOR) && event.namespace == env.namespace.name()
    };
    events.iter().filter(is_its)
}

/// The number of dry runs of templates.
fn trials(events: &[AuditEvent], env: &TestEnv) -> usize {
    of_operator(events, env)
        .filter(|event| event.resource == "pods" && event.subresource.is_empty() && event.is_trial())
        .count()
}

/// The operator's writes from the first new Instance to the last of their pods.
fn written_until_they_start(events: &[AuditEvent], env: &TestEnv) -> Vec<String> {
    let written = of_operator(events, env).filter(|event| event.is_write() && !event.is_trial());
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

async fn patch(env: &TestEnv, patch: &serde_json::Value) {
    let patch = patch.to_string();
    env.namespace.kubectl(["patch", "actorapp", "surveillance", "--type=json", "-p", &patch]).await.unwrap();
}

/// A paused application keeps its pods and reports what unpausing would do.
#[tokio::test]
async fn a_paused_application_only_reports_its_plan() {
    let env = TestEnv::new("paused", [SimulatedNode::new("paused")], [cpus()]).await;
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    env.patch("app", &json!({"spec": {"paused": true}})).await;
    env.namespace
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
    let state = env
        .wait_until("app", |state| {
            let message = state.message("Paused", "True")?;
            ensure!(message.starts_with("unpausing would start 2 actors"), "{message}");
            Ok(())
        })
        .await;
    assert_eq!((state.pods.len(), state.places().len()), (1, 1));
    env.patch("app", &json!({"spec": {"paused": false}})).await;
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(state.pods.len(), 3);
}

/// Scaling down removes the highest index, even if the lowest is the youngest.
#[tokio::test]
async fn scaling_down_removes_the_highest_index() {
    let env = TestEnv::new("shrinks", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    let uids = |state: &AppState| -> BTreeMap<String, String> {
        state.instances.iter().map(|it| (it.name_any(), it.uid().unwrap())).collect()
    };
    let pods = |state: &AppState| -> BTreeMap<String, String> {
        state.pods.iter().map(|it| (it.name_any(), it.uid().unwrap())).collect()
    };
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    env.namespace.kubectl(["delete", "instance", "app-a-0"]).await.unwrap();
    let again = env
        .wait_reconciled("app", |state| {
            ensure!(
                uids(state).get("app-a-0") != uids(&before).get("app-a-0"),
                "the Instance is the old one"
            );
            ensure!(pods(state).get("app-a-0") != pods(&before).get("app-a-0"), "its pod is the old one");
            state.all_placed()
        })
        .await;

    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let after = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(after.places().into_keys().collect::<Vec<_>>(), ["a-0", "a-1"]);
    let kept = |all: BTreeMap<String, String>| {
        all.into_iter().filter(|(name, _)| name != "app-a-2").collect::<BTreeMap<_, _>>()
    };
    assert_eq!((uids(&after), pods(&after)), (kept(uids(&again)), kept(pods(&again))), "the others stay");
}
