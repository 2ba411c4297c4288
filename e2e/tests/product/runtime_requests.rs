//! An application asks for Instances while it runs, and gives them back.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use crds::{Instance, labels};
use e2e::{SimulatedNode, product::tree, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::foreign_objects::is_refused;

/// The account of an application's actors, with the right to ask for more of them.
async fn runtime(env: &TestEnv) -> String {
    let account = format!("{}:runtime", env.namespace.name());
    env.namespace.kubectl(["create", "serviceaccount", "runtime"]).await.unwrap();
    let bind = ["create", "rolebinding", "runtime", "--clusterrole=cairn-runtime"];
    let of_it = format!("--serviceaccount={account}");
    env.namespace.kubectl(bind.into_iter().chain([of_it.as_str()])).await.unwrap();
    format!("--as=system:serviceaccount:{account}")
}

/// An Instance of the group `worker` of `app` that its runtime asks for.
fn asked(name: &str, template: &Value) -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": name},
        "spec": {"applicationName": "app", "actorGroup": "worker", "origin": "Runtime", "template": template}})
}

async fn ask(env: &TestEnv, account: &str, name: &str, template: Value) {
    // the right is known a moment after it was given
    wait_for("it is taken", TIMEOUT, async || {
        env.namespace.kubectl_with(["create", account, "-f-"], &asked(name, &template).to_string()).await
    })
    .await;
}

/// What an Instance says: `TYPE=STATUS REASON MESSAGE` of this condition.
fn said(instance: &Instance, type_: &str) -> Result<String> {
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == type_);
    let found = found.with_context(|| format!("{} says nothing of {type_}", instance.name_any()))?;
    Ok(format!("{type_}={} {} {}", found.status, found.reason, found.message))
}

/// Waits until a condition of an Instance begins so.
async fn says(env: &TestEnv, name: &str, type_: &str, words: &str) -> Instance {
    wait_for(&format!("{name} says {type_}={words}"), TIMEOUT, async || {
        let instance = env.api::<Instance>().get(name).await?;
        let said = said(&instance, type_)?;
        ensure!(said.starts_with(&format!("{type_}={words}")), "{said}");
        anyhow::Ok(instance)
    })
    .await
}

#[tokio::test]
async fn instances_are_requested_and_released_at_runtime() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 3);
    let env = TestEnv::new("requests", [node], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU"), ("gpu-2", "GPU")]);
    let account = runtime(&env).await;
    env.apply(&application("app", &[("worker", 1, &[("gpu", "1ms")])])).await;
    says(&env, "app-worker-0", "Ready", "True").await;

    // created: one more actor, with a place and a pod of its own, that goes with the application
    ask(&env, &account, "helper", json!({"kind": "gpu"})).await;
    let helper = says(&env, "helper", "Ready", "True").await;
    let owners: Vec<_> = helper.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["ActorApplication"]);
    let pod = env.api::<Pod>().get("helper").await.unwrap();
    let variables = pod.spec.as_ref().unwrap().containers[0].env.clone().unwrap_or_default();
    let variables: BTreeMap<_, _> =
        variables.iter().map(|it| (it.name.as_str(), it.value.as_deref().unwrap_or(""))).collect();
    let told = ["CAIRN_GROUP", "CAIRN_ACTOR", "CAIRN_INSTANCE", "CAIRN_ROOT"].map(|name| variables[name]);
    assert_eq!(told, ["worker", "inst-helper", "helper", "false"]);

    // listed, and no more than that is allowed
    let list = ["get", "instances", &account, "-o", "name"];
    let listed = env.namespace.kubectl(list).await.unwrap().stdout;
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        ["instance.cairn.dev/app-worker-0", "instance.cairn.dev/helper"]
    );
    let create = ["create", "--dry-run=server", &account, "-f-"];
    let mut forged = asked("app-worker-7", &json!({}));
    forged["spec"]["origin"] = json!("Spec");
    forged["spec"]["actor"] = json!("worker-7");
    is_refused(&env, create, &forged, "only the Cairn operator can create Instances with origin Spec").await;
    let delete = ["delete", "--dry-run=server", &account, "-f-"];
    let of_manifest = "deleting an Instance with origin Spec requires permission to delete ActorApplications";
    is_refused(&env, delete, &asked("app-worker-0", &json!({})), of_manifest).await;

    // refused, with the reason
    ask(&env, &account, "wide", json!({"count": 2})).await;
    says(&env, "wide", "Placed", "False Unsupported it asks for 2 devices").await;
    ask(&env, &account, "other", json!({"kind": "fpga"})).await;
    says(&env, "other", "Placed", "False NoImplementation worker cannot run on fpga").await;
    // the third device, and none for the next: it waits, and says why
    ask(&env, &account, "third", json!({})).await;
    says(&env, "third", "Ready", "True").await;
    ask(&env, &account, "fourth", json!({})).await;
    says(&env, "fourth", "Placed", "False Unplaced").await;
    env.wait_until("app", |state| {
        let counts = state.application.status.clone().unwrap_or_default().actors.unwrap_or_default();
        ensure!((counts.wanted, counts.placed, counts.running) == (4, 3, 3), "{counts:?}");
        Ok(())
    })
    .await;

    // deleted: its pod goes, and its place is the next one's
    env.namespace.kubectl(["delete", "instance", "helper", &account]).await.unwrap();
    says(&env, "fourth", "Ready", "True").await;
    wait_for("its pod is gone", TIMEOUT, async || {
        let left = env.api::<Pod>().get_opt("helper").await?;
        ensure!(left.is_none(), "it is still there");
        anyhow::Ok(())
    })
    .await;
    says(&env, "third", "Ready", "True").await;

    // with the application all of them go, refused ones too
    env.namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    wait_for("all Instances are gone", TIMEOUT, async || {
        let left = env.api::<Instance>().list(&ListParams::default()).await?.items;
        let left: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "{left:?}");
        anyhow::Ok(())
    })
    .await;
}

/// A pool takes no more Instances than it says, though it has units left: who is one too many waits until another goes.
#[tokio::test]
async fn requests_above_the_pool_limit_wait() {
    let node = SimulatedNode::new("one").resource("acme.com/gpu", 3);
    let mut pool = gpus();
    pool["spec"]["instances"] = json!({"max": 2});
    let env = TestEnv::new("most", [node], [pool]).await;
    env.describe_devices("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU"), ("gpu-2", "GPU")]);
    env.wait_offered("gpus", 3).await;
    let account = runtime(&env).await;
    env.apply(&application("app", &[("worker", 1, &[("gpu", "1ms")])])).await;
    says(&env, "app-worker-0", "Ready", "True").await;
    ask(&env, &account, "second", json!({})).await;
    says(&env, "second", "Ready", "True").await;
    ask(&env, &account, "third", json!({})).await;
    let third = says(&env, "third", "Placed", "False Unplaced").await;
    let why = said(&third, "Placed").unwrap();
    assert!(why.contains("pool gpus takes 2 instances"), "{why}");
    assert!(env.api::<Pod>().get_opt("third").await.unwrap().is_none(), "it has no pod");

    env.namespace.kubectl(["delete", "instance", "second", &account]).await.unwrap();
    says(&env, "third", "Ready", "True").await;
    says(&env, "app-worker-0", "Ready", "True").await;
}

/// How many plans of a strategy the operator has made so far.
async fn plans(env: &TestEnv, strategy: &str) -> f64 {
    let port = env.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let of_it = format!("strategy=\"{strategy}\"");
    let plans =
        text.lines().filter(|line| line.starts_with("cairn_operator_plans_total{") && line.contains(&of_it));
    plans.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// Who is asked for is placed at once, where it is cheapest as things are, and nobody moves for it; when there is time, who
/// had better be beside it is moved there.
#[tokio::test]
async fn quick_placements_are_improved_in_the_background() {
    let nodes = [
        SimulatedNode::new("one").resource("acme.com/gpu", 1),
        SimulatedNode::new("two").resource("acme.com/gpu", 2),
    ];
    let env = TestEnv::new("at-once", nodes, [cpus(), gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    env.describe_devices("two", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.wait_offered("gpus", 3).await;
    let account = runtime(&env).await;
    // the hub draws the first worker to its node; workers draw each other more
    let mut manifest = application("app", &[("hub", 1, &[("cpu", "1ms")]), ("worker", 1, &[("gpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    manifest["spec"]["channels"] = json!([{"from": "hub", "to": "worker", "rate": "1/s", "pattern": "AllToAll"},
        {"from": "worker", "to": "worker", "rate": "100/s", "pattern": "AllToAll"}]);
    env.apply(&manifest).await;
    let alone = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(alone.places()["worker-0"], "one/gpus-0");
    let (before, history) = (plans(&env, "place-one").await, env.watch_pods().await);

    ask(&env, &account, "helper", json!({})).await;
    env.wait_until("app", |state| {
        let places = state.places();
        let on = ["worker-0", "inst-helper"]
            .map(|actor| places.get(actor).and_then(|unit| unit.split('/').next()));
        ensure!(on == [Some("two"), Some("two")], "{places:?}");
        let moved = |pod: &Pod| {
            pod.labels()[labels::ACTOR] == "worker-0" && pod.annotations()[labels::UNIT].starts_with("two/")
        };
        ensure!(state.pods.iter().any(moved), "it has not moved yet");
        Ok(())
    })
    .await;
    says(&env, "app-worker-0", "Ready", "True").await;
    assert!((plans(&env, "place-one").await - before - 1.0).abs() < 0.5, "it was placed at once");
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!((lives["inst-helper"], lives["worker-0"]), (1, 2), "{lives:?}");
}

/// The root, once there is exactly one and all of these are ready.
async fn root(env: &TestEnv, instances: &[&str], expected: &str) {
    for name in instances {
        says(env, name, "Ready", "True").await;
    }
    wait_for(&format!("{expected} is the root"), TIMEOUT, async || {
        let all = env.api::<Instance>().list(&ListParams::default()).await?.items;
        let is_root = |it: &&Instance| it.status.as_ref().is_some_and(|status| status.root);
        let roots: Vec<_> = all.iter().filter(is_root).map(kube::ResourceExt::name_any).collect();
        ensure!(roots == [expected], "{roots:?}");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_oldest_instance_becomes_root_when_the_root_is_deleted() {
    let env = TestEnv::new("roots", [SimulatedNode::new("one")], [cpus()]).await;
    let example = tree("examples/runtime-requests.yaml");
    let tried = ["apply", "--dry-run=server", "-f", example.to_str().unwrap()];
    env.namespace.kubectl(tried).await.unwrap();
    let account = runtime(&env).await;
    env.apply(&application("app", &[("worker", 1, &[("cpu", "1ms")])])).await;
    root(&env, &["app-worker-0"], "app-worker-0").await;
    ask(&env, &account, "helper", json!({})).await;
    root(&env, &["app-worker-0", "helper"], "app-worker-0").await;
    // ages are known to the second
    let helper = env.api::<Instance>().get("helper").await.unwrap();
    let made = helper.metadata.creation_timestamp.unwrap().0;
    wait_for("the helper is older than a second", TIMEOUT, async || {
        ensure!(jiff::Timestamp::now().as_second() > made.as_second() + 1, "it is not");
        anyhow::Ok(())
    })
    .await;
    // its Instance goes, and the actor comes again in a new one: the oldest is what was asked for
    env.namespace.kubectl(["delete", "instance", "app-worker-0"]).await.unwrap();
    root(&env, &["app-worker-0", "helper"], "helper").await;
    env.namespace.kubectl(["delete", "instance", "helper", &account]).await.unwrap();
    root(&env, &["app-worker-0"], "app-worker-0").await;
}
