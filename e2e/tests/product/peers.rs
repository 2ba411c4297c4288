//! Actors have stable names and receive the list of their peers.

use std::{collections::BTreeMap, fs};

use anyhow::{Result, ensure};
use crds::labels;
use e2e::{SimulatedNode, product::tree, wait_for};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::foreign_objects::{OPERATOR_USER, is_refused};

/// The addresses of an application's host names, as in the Service's `EndpointSlices`.
async fn names(env: &TestEnv, application: &str) -> Result<BTreeMap<String, String>> {
    let of_it = ListParams::default().labels(&format!("kubernetes.io/service-name={application}"));
    let slices = env.api::<EndpointSlice>().list(&of_it).await?;
    let endpoints = slices.into_iter().filter_map(|slice| slice.endpoints).flatten();
    Ok(endpoints.map(|it| (it.hostname.unwrap_or_default(), it.addresses.join(" "))).collect())
}

/// Waits until the name of every actor resolves to its current pod.
async fn known_by_name(env: &TestEnv, application: &str) -> AppState {
    env.wait_reconciled(application, |state| {
        state.all_placed()?;
        let waits = state.pods.iter().find(|pod| address(pod).is_empty());
        ensure!(
            waits.is_none(),
            "{} has no address",
            waits.map_or_else(String::new, kube::ResourceExt::name_any)
        );
        Ok(())
    })
    .await;
    wait_for("every name resolves to its pod", TIMEOUT, async || {
        let state = env.observe(application).await?;
        let pods: BTreeMap<_, _> =
            state.pods.iter().map(|pod| (pod.labels()[labels::ACTOR].clone(), address(pod))).collect();
        let names = names(env, application).await?;
        ensure!(names == pods, "{names:?} for {pods:?}");
        anyhow::Ok(state)
    })
    .await
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default()
}

/// The peers file, once it has so many actors of a group.
async fn file(env: &TestEnv, application: &str, group: &str, count: usize) -> Value {
    wait_for("the peers file is current", TIMEOUT, async || {
        let found = env.api::<ConfigMap>().get(&format!("{application}-peers")).await?;
        let file: Value = serde_json::from_str(&found.data.unwrap_or_default()["peers.json"])?;
        let actors = file["actors"][group].as_array().map_or(0, Vec::len);
        ensure!(actors == count, "{file}");
        anyhow::Ok(file)
    })
    .await
}

#[tokio::test]
async fn actors_get_their_identity_and_find_peers_after_a_move() {
    let env = TestEnv::new("peers", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let manifest = fs::read_to_string(tree("examples/hello-actors.yaml")).unwrap();
    env.namespace.apply(&manifest).await.unwrap();
    let state = known_by_name(&env, "hello").await;

    // its identity, in every container
    let pod = state.pods.iter().find(|pod| pod.name_any() == "hello-caller-1").unwrap();
    let variables = pod.spec.as_ref().unwrap().containers[0].env.clone().unwrap_or_default();
    let variables: BTreeMap<_, _> =
        variables.iter().map(|it| (it.name.as_str(), it.value.as_deref().unwrap_or(""))).collect();
    let identity =
        ["CAIRN_APPLICATION", "CAIRN_GROUP", "CAIRN_ACTOR", "CAIRN_KIND"].map(|name| variables[name]);
    assert_eq!(identity, ["hello", "caller", "caller-1", "cpu"]);
    assert_eq!(variables["CAIRN_NAMESPACE"], env.namespace.name());
    let roots = |state: &AppState| -> Vec<String> {
        let is_root = |it: &&crds::Instance| it.status.as_ref().is_some_and(|status| status.root);
        state.instances.iter().filter(is_root).map(kube::ResourceExt::name_any).collect()
    };
    assert_eq!(roots(&state), ["hello-caller-0"]);

    // its peers: the names that were just resolved
    let peers = file(&env, "hello", "callee", 2).await;
    let domain = format!("hello.{}.svc", env.namespace.name());
    assert_eq!(
        peers["actors"]["callee"],
        json!([format!("callee-0.{domain}"), format!("callee-1.{domain}")])
    );
    assert_eq!(peers["channels"], json!([{"from": "caller", "to": "callee", "pattern": "AllToAll"}]));

    // all actors move to one node: same names, other addresses
    let on = |node: &str| {
        let patch: Vec<_> = (0..2)
            .map(|group| json!({"op": "add", "path": format!("/spec/actors/{group}/pinTo"), "value": {"node": node}}))
            .collect();
        json!(patch).to_string()
    };
    for node in ["one", "two"] {
        let patch = ["patch", "actorapp", "hello", "--type=json", "-p", &on(node)];
        env.namespace.kubectl(patch).await.unwrap();
        env.wait_reconciled("hello", |state| {
            ensure!(state.nodes().iter().eq([&node]), "{:?}", state.places());
            state.all_placed()
        })
        .await;
        known_by_name(&env, "hello").await;
    }

    // one more actor, which the file lists; and deleted objects are recreated
    let more = json!([{"op": "replace", "path": "/spec/actors/1/replicas", "value": 3}]).to_string();
    env.namespace.kubectl(["patch", "actorapp", "hello", "--type=json", "-p", &more]).await.unwrap();
    file(&env, "hello", "callee", 3).await;
    env.namespace.kubectl(["delete", "service/hello", "configmap/hello-peers"]).await.unwrap();
    file(&env, "hello", "callee", 3).await;
    let state = known_by_name(&env, "hello").await;
    assert_eq!(roots(&state), ["hello-caller-0"]);

    // without their label they are found by name, and labelled again
    let label = format!("{}-", labels::APPLICATION);
    env.namespace.kubectl(["label", "service/hello", "configmap/hello-peers", &label]).await.unwrap();
    wait_for("both have their label again", TIMEOUT, async || {
        let of_it = format!("-l{}=hello", labels::APPLICATION);
        let found = env.namespace.kubectl(["get", "services,configmaps", "-oname", &of_it]).await?.stdout;
        ensure!(found.lines().eq(["service/hello", "configmap/hello-peers"]), "{found}");
        anyhow::Ok(())
    })
    .await;
    env.wait_reconciled("hello", |state| {
        ensure!(state.condition("NameTaken").is_none(), "{:?}", state.condition("NameTaken"));
        state.all_placed()
    })
    .await;

    // nothing outlasts the application
    env.namespace.kubectl(["delete", "actorapp", "hello"]).await.unwrap();
    wait_for("its Service and its file are gone", TIMEOUT, async || {
        let found = env.namespace.kubectl(["get", "services,configmaps", "-oname"]).await?.stdout;
        ensure!(!found.contains("hello"), "{found}");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_foreign_service_with_a_needed_name_is_not_touched() {
    let env = TestEnv::new("foreign-service", [SimulatedNode::new("one")], [cpus()]).await;
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "theirs"}}});
    env.apply(&theirs).await;
    env.apply(&application("web", &[("server", 1, &[("cpu", "1ms")])])).await;
    // its actors run, and the name conflict is reported
    let state = env
        .wait_reconciled("web", |state| {
            let message = state.message("NameTaken", "True")?;
            ensure!(message.starts_with("peers: the name is taken by Service web"), "{message}");
            state.all_placed()
        })
        .await;
    assert_eq!(state.pods.len(), 1);
    let service = env.api::<Service>().get("web").await.unwrap();
    assert_eq!(service.spec.unwrap().selector.unwrap()["app"], "theirs");

    env.namespace.kubectl(["delete", "service", "web"]).await.unwrap();
    known_by_name(&env, "web").await;

    // a foreign ConfigMap with the file's name is not touched, and not mounted
    let taken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other-peers"},
        "data": {"peers.json": "theirs"}});
    env.apply(&taken).await;
    env.apply(&application("other", &[("server", 1, &[("cpu", "1ms")])])).await;
    let state = env
        .wait_reconciled("other", |state| {
            let message = state.message("NameTaken", "True")?;
            ensure!(message.starts_with("peers: the name is taken by ConfigMap other-peers"), "{message}");
            state.all_placed()
        })
        .await;
    let mounts_no_file = |state: &AppState| {
        let mut volumes = state.pods[0].spec.as_ref().unwrap().volumes.iter().flatten();
        assert!(volumes.all(|volume| volume.config_map.is_none()), "{:?}", state.pods[0]);
    };
    mounts_no_file(&state);

    // nor by pods recreated while paused, and the conflict stays reported
    env.patch("other", &json!({"spec": {"paused": true}})).await;
    env.wait_until("other", |state| state.message("Paused", "True").map(drop)).await;
    env.namespace.kubectl(["delete", "pod", "other-server-0"]).await.unwrap();
    let again = env
        .wait_until("other", |again| {
            let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
            ensure!(again.pods.len() == 1 && uids(again) != uids(&state), "{:?}", uids(again));
            again.message("Paused", "True")?;
            let message = again.message("NameTaken", "True")?;
            ensure!(message.starts_with("peers: the name is taken by ConfigMap other-peers"), "{message}");
            Ok(())
        })
        .await;
    mounts_no_file(&again);
    let theirs = env.api::<ConfigMap>().get("other-peers").await.unwrap();
    assert_eq!(theirs.data.unwrap()["peers.json"], "theirs");

    // the operator's account can write no other ConfigMap
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, "data": {}});
    let operator = format!("--as={OPERATOR_USER}");
    let create = ["create", "--dry-run=server", operator.as_str(), "-f-"];
    is_refused(
        &env,
        create,
        &other,
        "can write only the Service, the peers ConfigMap and the ControllerRevisions of an ActorApplication",
    )
    .await;
    // and create no pod without an Instance
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"},
        "spec": {"containers": [{"name": "c", "image": "none"}]}});
    let create = ["create", operator.as_str(), "-f-"];
    let words = "can create and delete only pods that an Instance controls";
    is_refused(&env, create, &pod, words).await;
    // nor delete one
    env.apply(&pod).await;
    is_refused(&env, ["delete", operator.as_str(), "-f-"], &pod, words).await;
}
