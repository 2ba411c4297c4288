//! Foreign objects are never touched, and forged fields have no effect.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use crds::{Instance, Placement};
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};

/// A foreign pod.
fn foreign(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]}})
}

/// A Placement without an owner.
pub fn decision(name: &str) -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Placement", "metadata": {"name": name},
        "spec": {"application": name, "applicationGeneration": 1, "policy": "theirs", "snapshotDigest": "theirs",
            "strategy": "theirs", "seed": 1, "effort": 1}})
}

/// The operator's user, which an administrator can impersonate.
pub const OPERATOR_USER: &str = "system:serviceaccount:cairn-system:cairn-operator";

/// The shared account of all controllers in clusters where they have no separate ones, with its groups.
const SHARED_ACCOUNT: [&str; 2] = ["--as=system:kube-controller-manager", "--as-group=system:masters"];

/// The uid of an object that must still exist and not be terminating.
async fn kept<K>(env: &TestEnv, name: &str) -> String
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let object = env.api::<K>().get(name).await.unwrap();
    assert_eq!(object.meta().deletion_timestamp, None, "{name} is terminating");
    object.uid().unwrap()
}

/// Waits until the API server refuses this with this message; a new policy takes effect after a moment.
pub async fn is_refused<const N: usize>(env: &TestEnv, arguments: [&str; N], manifest: &Value, words: &str) {
    wait_for(&format!("it is refused: {words}"), TIMEOUT, async || {
        let result = env.namespace.kubectl_with(arguments, &manifest.to_string()).await;
        let Err(error) = result else { bail!("it is accepted") };
        let error = error.to_string();
        ensure!(error.contains(words), "{error}");
        anyhow::Ok(())
    })
    .await;
}

/// Checks that `server-0` waits with this reason, and `server-1` runs.
fn one_waits(state: &AppState, what: &str) -> anyhow::Result<()> {
    let message = state.message("NameTaken", "True")?;
    ensure!(message.starts_with(&format!("server-0: the name is taken by {what} web-server-0")), "{message}");
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let running: Vec<_> =
        state.pods.iter().filter(|pod| runs(pod)).map(kube::ResourceExt::name_any).collect();
    ensure!(running == ["web-server-1"], "{running:?} run");
    Ok(())
}

#[tokio::test]
async fn a_foreign_pod_with_a_needed_name_is_not_touched() {
    let env = TestEnv::new("foreign-pod", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&foreign("web-server-0")).await;
    let before = kept::<Pod>(&env, "web-server-0").await;
    env.apply(&application("web", &[("server", 2, &[("cpu", "1ms")])])).await;
    env.wait_until("web", |state| one_waits(state, "Pod")).await;
    assert_eq!(kept::<Pod>(&env, "web-server-0").await, before);

    // When the foreign pod is deleted, the actor starts.
    env.namespace.kubectl(["delete", "pod", "web-server-0"]).await.unwrap();
    let state = env.wait_reconciled("web", AppState::all_placed).await;
    assert!(state.condition("NameTaken").is_none(), "{:?}", state.condition("NameTaken"));
}

#[tokio::test]
async fn a_foreign_instance_with_a_needed_name_is_not_touched() {
    let env = TestEnv::new("foreign-instance", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let instance = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": "web-server-0"},
        "spec": {"applicationName": "web", "actorGroup": "server", "actor": "server-0", "template": {}}});
    let words = "only the Cairn operator can create Instances with origin Spec";
    is_refused(&env, ["create", "--dry-run=server", "-f-"], &instance, words).await;
    let create = ["create".to_owned(), format!("--as={OPERATOR_USER}"), "-f-".to_owned()];
    env.namespace.kubectl_with(create, &instance.to_string()).await.unwrap();
    let before = kept::<Instance>(&env, "web-server-0").await;
    env.apply(&application("web", &[("server", 2, &[("cpu", "1ms")])])).await;
    env.wait_until("web", |state| one_waits(state, "Instance")).await;
    assert_eq!(kept::<Instance>(&env, "web-server-0").await, before);
    assert_eq!(
        env.api::<Instance>().get("web-server-0").await.unwrap().status,
        None,
        "its status is not written"
    );

    env.namespace.kubectl(["delete", "instance", "web-server-0"]).await.unwrap();
    env.wait_reconciled("web", AppState::all_placed).await;
}

/// A foreign Placement with the application's name: nothing is planned, this is reported, and it is not changed.
#[tokio::test]
async fn a_foreign_placement_with_a_needed_name_is_not_touched() {
    let env = TestEnv::new("foreign-placement", [SimulatedNode::new("one")], [cpus()]).await;
    let create = ["create".to_owned(), format!("--as={OPERATOR_USER}"), "-f-".to_owned()];
    env.namespace.kubectl_with(create, &decision("web").to_string()).await.unwrap();
    let before = kept::<Placement>(&env, "web").await;
    env.apply(&application("web", &[("server", 1, &[("cpu", "1ms")])])).await;
    let state = env
        .wait_until("web", |state| {
            let message = state.message("NameTaken", "True")?;
            ensure!(message.starts_with("Placement web is not of this application"), "{message}");
            Ok(())
        })
        .await;
    assert!(state.pods.is_empty(), "{:?}", state.pods);
    assert_eq!(kept::<Placement>(&env, "web").await, before);
    assert_eq!(env.api::<Placement>().get("web").await.unwrap().spec.policy, "theirs");

    env.namespace.kubectl(["delete", "placement", "web"]).await.unwrap();
    let state = env.wait_reconciled("web", AppState::all_placed).await;
    assert!(state.condition("NameTaken").is_none(), "{:?}", state.condition("NameTaken"));
}

/// One GPU, and a pod with a forged claim on it: refused by admission, and without effect where admission does not apply.
#[tokio::test]
async fn forged_annotations_take_no_unit() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 1);
    let env = TestEnv::new("forged-annotation", [node], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    let mut forged = foreign("stranger-server-0");
    forged["metadata"]["annotations"] = json!({"cairn.dev/unit": "one/gpus-0"});
    let refused = |claim: &str| {
        format!(
            "only the Cairn operator can set {claim} cairn.dev/* of pods and resource claims: remove them"
        )
    };
    is_refused(&env, ["create", "--dry-run=server", "-f-"], &forged, &refused("annotations")).await;
    forged["metadata"]["labels"] =
        json!({"cairn.dev/instance": "stranger-server-0", "cairn.dev/application": "stranger"});
    is_refused(&env, ["create", "--dry-run=server", "-f-"], &forged, &refused("labels")).await;
    // In clusters with one account for all controllers, it creates pods from users' templates.
    let shared = ["create", "--dry-run=server", SHARED_ACCOUNT[0], SHARED_ACCOUNT[1], "-f-"];
    is_refused(&env, shared, &forged, &refused("labels")).await;
    // It exists from before the admission policies; the garbage collector is exempt from them.
    let collector = "--as=system:serviceaccount:kube-system:generic-garbage-collector";
    let create = ["create", collector, "--as-group=system:masters", "-f-"];
    env.namespace.kubectl_with(create, &forged.to_string()).await.unwrap();

    env.apply(&application("web", &[("server", 1, &[("gpu", "1ms")])])).await;
    let state = env.wait_reconciled("web", AppState::all_placed).await;
    assert_eq!(state.places(), BTreeMap::from([("server-0", "one/gpus-0")]));
    kept::<Pod>(&env, "stranger-server-0").await;
}

/// Only the operator can write its fields, by any kind of request; other fields stay writable.
#[tokio::test]
async fn only_the_operator_writes_its_fields() {
    let env = TestEnv::new("forged-words", [SimulatedNode::new("one")], [cpus()]).await;
    env.apply(&application("web", &[("server", 1, &[("cpu", "1ms")])])).await;
    let state = env.wait_reconciled("web", AppState::all_placed).await;
    let unit = json!({"metadata": {"annotations": {"cairn.dev/unit": "one/cpus-9"}}});
    let bare = json!({"metadata": {"labels": {"cairn.dev/application": null}}});
    let owned = json!({"metadata": {"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance",
        "name": "web-server-7", "uid": "00000000-0000-0000-0000-000000000000"}]}});
    let ready = json!({"status": {"unit": "one/cpus-9"}});
    let rows = [
        ("pod", "", &unit, "can set annotations cairn.dev/* of pods"),
        ("pod", "status", &unit, "can set annotations cairn.dev/* of pods"),
        ("pod", "", &bare, "can set labels cairn.dev/* of pods"),
        ("pod", "status", &bare, "can set labels cairn.dev/* of pods"),
        ("pod", "", &owned, "can make an Instance the owner of a pod"),
        ("instance", "", &owned, "can change metadata.ownerReferences of an Instance"),
        ("instance", "status", &ready, "can write Placements and the status of Instances"),
        (
            "placement",
            "status",
            &json!({"status": {"conditions": []}}),
            "can write Placements and the status",
        ),
    ];
    let patch = |kind: &str, part: &str, text: &Value| {
        let name = if kind == "placement" { "web" } else { "web-server-0" };
        [
            "patch",
            kind,
            name,
            "--type=merge",
            "--dry-run=server",
            &format!("--subresource={part}"),
            "-p",
            &text.to_string(),
        ]
        .map(str::to_owned)
    };
    for (kind, part, text, words) in rows {
        let arguments = patch(kind, part, text);
        is_refused(&env, arguments.each_ref().map(String::as_str), &json!({}), words).await;
    }
    // The garbage collector clears blockOwnerDeletion, also under the shared account.
    let mut owners = json!({"metadata": {"ownerReferences": state.pods[0].metadata.owner_references}});
    owners["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
    let clears = patch("pod", "", &owners);
    env.namespace.kubectl(SHARED_ACCOUNT.map(str::to_owned).into_iter().chain(clears)).await.unwrap();
    for (part, text) in [
        ("", json!({"metadata": {"annotations": {"example.com/note": "mine"}}})),
        ("status", json!({"status": {"message": "it is well"}})),
    ] {
        env.namespace.kubectl(patch("pod", part, &text)).await.unwrap();
    }
    // A binding copies its annotations to the pod.
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web-server-0",
        "annotations": {"cairn.dev/unit": "one/cpus-9"}}, "target": {"kind": "Node", "name": "one"}});
    let url = format!("/api/v1/namespaces/{}/pods/web-server-0/binding?dryRun=All", env.namespace.name());
    let words = "can set annotations cairn.dev/* of pods";
    is_refused(&env, ["create", "--raw", &url, "-f-"], &binding, words).await;
    let after = env.wait_reconciled("web", AppState::all_placed).await;
    assert_eq!(after.pods[0].uid(), state.pods[0].uid());
}

/// Claims that look like those of actors are refused, and the operator cannot write claims of others.
#[tokio::test]
async fn forged_claims_are_refused() {
    let env = TestEnv::new("forged-claims", [SimulatedNode::new("one")], [cpus()]).await;
    let exactly = json!({"deviceClassName": "gpus.example.com"});
    let claim = |metadata: Value| {
        let mut claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}});
        claim["metadata"]["name"] = json!("web-server-0-x");
        claim
    };
    let owner = |kind: &str, controller: bool| {
        json!({"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": kind, "name": "web-server-0",
            "uid": "00000000-0000-0000-0000-000000000000", "controller": controller}]})
    };
    for (metadata, words) in [
        (
            json!({"annotations": {"cairn.dev/unit": "one/gpus-a"}}),
            "can set annotations cairn.dev/* of pods and resource claims",
        ),
        (
            json!({"labels": {"cairn.dev/application": "web"}}),
            "can set labels cairn.dev/* of pods and resource claims",
        ),
        (owner("Instance", true), "can make an Instance the owner of a pod or resource claim"),
    ] {
        is_refused(&env, ["create", "--dry-run=server", "-f-"], &claim(metadata), words).await;
    }
    // Others make claims of their own, which the operator can neither make nor delete.
    env.namespace.kubectl_with(["create", "-f-"], &claim(json!({})).to_string()).await.unwrap();
    let operator = format!("--as={OPERATOR_USER}");
    let words = "the Cairn operator can create and delete only ResourceClaims that an Instance controls";
    for metadata in [json!({}), owner("ActorApplication", true), owner("Instance", false)] {
        is_refused(&env, ["create", "--dry-run=server", &operator, "-f-"], &claim(metadata), words).await;
    }
    let delete = ["delete", "resourceclaim", "web-server-0-x", "--dry-run=server", &operator];
    is_refused(&env, delete, &json!({}), words).await;
}

/// An infeasible assignment is written into a Placement: nothing starts or stops, and the Placement is restored.
#[tokio::test]
async fn forged_placements_move_no_actor() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 2);
    let env = TestEnv::new("forged-placement", [node], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.apply(&application("web", &[("server", 2, &[("gpu", "1ms")])])).await;
    let before = env.wait_reconciled("web", AppState::all_placed).await;
    let history = env.watch_pods().await;
    let places: BTreeMap<String, String> =
        before.places().into_iter().map(|(actor, unit)| (actor.to_owned(), unit.to_owned())).collect();
    let forged = json!({"spec": {"assignments": [
        {"actor": "server-0", "unit": places["server-0"], "node": "one", "pool": "gpus"},
        {"actor": "server-1", "unit": "one/gpus-7", "node": "one", "pool": "gpus"}]}});
    let patch = ["patch", "placement", "web", "--type=merge", "--dry-run=server", "-p", &forged.to_string()];
    is_refused(&env, patch, &json!({}), "only the Cairn operator can write Placements").await;
    // As the operator, whose permissions cover just this patch.
    let url = Placement::url_path(&(), Some(env.namespace.name()));
    let request = Request::new(url).patch("web", &PatchParams::default(), &Patch::Merge(&forged));
    let mut request = request.unwrap();
    request.headers_mut().insert("Impersonate-User", OPERATOR_USER.parse().unwrap());
    env.client.request::<Placement>(request).await.unwrap();
    let written = before.decision.as_ref().unwrap().metadata.generation.unwrap();
    let state = env
        .wait_reconciled("web", |state| {
            let generation = state.decision.as_ref().and_then(|decision| decision.metadata.generation);
            ensure!(generation >= Some(written + 2), "not restored yet: {generation:?}");
            Ok(())
        })
        .await;
    let after: BTreeMap<String, String> =
        state.places().into_iter().map(|(actor, unit)| (actor.to_owned(), unit.to_owned())).collect();
    assert_eq!(after, places);
    let is_terminating = history
        .wait_synced()
        .await
        .states()
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some())
        .count();
    assert_eq!(is_terminating, 0, "no pod is deleted");
}
