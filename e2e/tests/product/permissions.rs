//! The chart grants each program the permissions that it uses, and no others.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::{
    AuditEvent, SimulatedNode,
    product::{AGENT, NAMESPACE, OPERATOR},
    wait_for,
};
use serde_json::json;

use crate::claims::move_claimed_actor;
use crate::elective_moves::move_hot_pair;
use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// Changes the application's Service, and waits until the operator has restored it.
async fn restores_its_service(env: &TestEnv) {
    env.namespace
        .kubectl([
            "patch",
            "service",
            "app",
            "--type=merge",
            "-p",
            r#"{"spec": {"selector": {"tier": "none"}}}"#,
        ])
        .await
        .unwrap();
    wait_for("the selector is restored", TIMEOUT, async || {
        let selector = ["get", "service", "app", "-ojsonpath={.spec.selector}"];
        let found = env.namespace.kubectl(selector).await?.stdout;
        ensure!(found == r#"{"cairn.dev/application":"app"}"#, "{found}");
        anyhow::Ok(())
    })
    .await;
}

/// Causes the same event twice: the second time it is a patch.
async fn repeats_an_event(env: &TestEnv) {
    for (path, value) in
        [("/spec/actors/1/replicas", 50), ("/spec/actors/1/replicas", 51), ("/spec/priority", 1)]
    {
        let patch = json!([{"op": "add", "path": path, "value": value}]).to_string();
        env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
        let message = env.wait_until("app", |state| {
            let status = state.application.status.clone().unwrap_or_default();
            ensure!(
                status.observed_generation == state.application.metadata.generation,
                "not reconciled yet"
            );
            ensure!(
                Some(state.spec().application_generation) == status.observed_generation,
                "the Placement is of an older generation"
            );
            state.message("Placed", "False").map(drop)
        });
        message.await;
    }
}

/// A short scenario that needs each permission once; then each must have been used, and none was missing.
#[tokio::test]
async fn every_granted_permission_is_used_and_none_is_missing() {
    let cluster = cluster();
    let one_core = |name| SimulatedNode::new(name).cpu("1");
    let nodes = [one_core("one"), one_core("two").resource("acme.com/gpu", 1)];
    let mut env = TestEnv::new("rights", nodes, [cpus(), gpus()]).await;
    // the outcome of moves is written into the history
    move_hot_pair(&mut env).await;
    env.namespace.kubectl(["delete", "actorapp", "loaded"]).await.unwrap();
    // devices are claimed, and the claim is deleted after a move
    move_claimed_actor(&env).await;
    env.describe_devices("two", &[("gpu-0", "GPU")]);
    // placed, moved to another kind, scaled down
    env.apply(&application("app", &[("a", 1, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let state = env.wait_reconciled("app", |state| {
        let revision = state.application.status.clone().unwrap_or_default().revision;
        ensure!(revision.is_some_and(|its| its.update.is_some()), "no revision yet");
        ensure!(state.spec().assignments.iter().all(|place| place.pool == "cpus"), "{:?}", state.places());
        state.all_placed()
    });
    let state = state.await;
    restores_its_service(&env).await;
    // more revisions than are kept
    let mut known = state.application.status.unwrap().revision;
    for edit in 0..11 {
        let image = "/spec/actors/0/implementations/0/template/spec/containers/0/image";
        let patch = json!([{"op": "replace", "path": image, "value": format!("edit-{edit}")}]).to_string();
        env.namespace.kubectl(["patch", "actorapp", "app", "--type=json", "-p", &patch]).await.unwrap();
        let kept = env.wait_until("app", |state| {
            let revision = state.application.status.clone().unwrap_or_default().revision;
            let update = revision.as_ref().and_then(|its| its.update.as_ref());
            let before = known.as_ref().and_then(|its| its.update.as_ref());
            ensure!(update.is_some() && update != before, "{revision:?}");
            Ok(())
        });
        known = kept.await.application.status.unwrap().revision;
    }
    repeats_an_event(&env).await;
    // an Instance is requested at runtime, and becomes owned by the application
    let asked = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": "asked"},
        "spec": {"applicationName": "app", "actorGroup": "a", "origin": "Runtime"}});
    env.apply(&asked).await;
    // a node is deleted, and its actors start elsewhere
    let state = env.wait_until("app", |state| {
        ensure!(!state.nodes().is_empty(), "no actor runs");
        Ok(())
    });
    let gone = state.await.nodes().into_iter().next().unwrap().to_owned();
    env.nodes.delete(&gone).await.unwrap();
    // the lease is deleted: the leader recreates it, owned by its service account
    let lease = ["cairn-operator", "-n", NAMESPACE];
    cluster.kubectl(["delete", "lease"].into_iter().chain(lease)).await.unwrap();
    wait_for("the lease is recreated", TIMEOUT, async || {
        let holder = "-ojsonpath={.spec.holderIdentity} {.metadata.ownerReferences[*].kind}";
        let found = cluster.kubectl(["get", "lease"].into_iter().chain(lease).chain([holder])).await?.stdout;
        ensure!(found == "cairn-operator-0 ServiceAccount", "{found}");
        anyhow::Ok(())
    })
    .await;
    assert!(env.product.operator.exit().is_none(), "it stays leader");
    // a graceful stop releases the lease, and the operator starts again
    env.product.operator.stop().await.unwrap();
    env.product.operator = cluster.start_operator().await.unwrap();

    for account in [OPERATOR, AGENT] {
        let grants = cluster.grants(NAMESPACE, account).await.unwrap();
        let by_it = |event: &&AuditEvent| event.is_by_service_account(NAMESPACE, account);
        wait_for("every permission is used", TIMEOUT, async || {
            let log = cluster.audit().await?;
            let events: Vec<_> = log.events().iter().filter(by_it).collect();
            let unused = grants.iter().filter(|grant| !events.iter().any(|event| grant.allowed(event)));
            let unused: Vec<_> = unused.map(ToString::to_string).collect();
            ensure!(unused.is_empty(), "{account} never used: {unused:?}");
            Ok(())
        })
        .await;
        let log = cluster.audit().await.unwrap();
        // A restarting API server refuses allowed requests until its RBAC cache is filled.
        let path = |event: &AuditEvent| event.uri.split('?').next().map(str::to_owned);
        let allowed: BTreeSet<_> = log
            .events()
            .iter()
            .filter(by_it)
            .filter(|event| !event.is_forbidden)
            .map(|event| (event.verb.clone(), path(event)))
            .collect();
        let has_right = |event: &AuditEvent| {
            let is_granted = || grants.iter().any(|grant| grant.covers(event));
            allowed.contains(&(event.verb.clone(), path(event))) || (!event.is_write() && is_granted())
        };
        let missing = |event: &&AuditEvent| event.is_forbidden && !has_right(event);
        let forbidden: Vec<_> = log.events().iter().filter(by_it).filter(missing).collect();
        assert_eq!(forbidden, Vec::<&AuditEvent>::new(), "{account} was refused");
    }
}
