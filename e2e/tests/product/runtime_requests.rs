//! An application requests Instances at runtime and releases them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use crds::{Instance, labels};
use e2e::{SimulatedNode, product::tree, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::foreign_objects::is_refused;

/// A service account for actors that may request Instances.
async fn runtime(env: &TestEnv) -> String {
    let account = format!("{}:runtime", env.namespace.name());
    env.namespace.kubectl(["create", "serviceaccount", "runtime"]).await.unwrap();
    let bind = ["create", "rolebinding", "runtime", "--clusterrole=cairn-runtime"];
    let of_it = format!("--serviceaccount={account}");
    env.namespace.kubectl(bind.into_iter().chain([of_it.as_str()])).await.unwrap();
    format!("--as=system:serviceaccount:{account}")
}

/// A requested Instance of the group `worker` of `app`.
fn asked(name: &str, template: &Value) -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": name},
        "spec": {"applicationName": "app", "actorGroup": "worker", "origin": "Runtime", "template": template}})
}

async fn ask(env: &TestEnv, account: &str, name: &str, template: Value) {
    // a new permission takes effect after a moment
    wait_for("it is accepted", TIMEOUT, async || {
        env.namespace.kubectl_with(["create", account, "-f-"], &asked(name, &template).to_string()).await
    })
    .await;
}

/// A condition of an Instance, as `TYPE=STATUS REASON MESSAGE`.
fn condition_text(instance: &Instance, type_: &str) -> Result<String> {
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == type_);
    let found = found.with_context(|| format!("{} has no condition {type_}", instance.name_any()))?;
    Ok(format!("{type_}={} {} {}", found.status, found.reason, found.message))
}

/// Waits until a condition of an Instance has this prefix.
async fn wait_condition(env: &TestEnv, name: &str, type_: &str, words: &str) -> Instance {
    wait_for(&format!("{name} has {type_}={words}"), TIMEOUT, async || {
        let instance = env.api::<Instance>().get(name).await?;
        let text = condition_text(&instance, type_)?;
        ensure!(text.starts_with(&format!("{type_}={words}")), "{text}");
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
    wait_condition(&env, "app-worker-0", "Ready", "True").await;

    // created: one more actor with its own unit and pod, owned by the application
    ask(&env, &account, "helper", json!({"kind": "gpu"})).await;
    let helper = wait_condition(&env, "helper", "Ready", "True").await;
    let owners: Vec<_> = helper.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["ActorApplication"]);
    let pod = env.api::<Pod>().get("helper").await.unwrap();
    let variables = pod.spec.as_ref().unwrap().containers[0].env.clone().unwrap_or_default();
    let variables: BTreeMap<_, _> =
        variables.iter().map(|it| (it.name.as_str(), it.value.as_deref().unwrap_or(""))).collect();
    let identity = ["CAIRN_GROUP", "CAIRN_ACTOR", "CAIRN_INSTANCE", "CAIRN_ROOT"].map(|name| variables[name]);
    assert_eq!(identity, ["worker", "inst-helper", "helper", "false"]);

    // listed, and nothing more is allowed
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

    // rejected with the reason
    ask(&env, &account, "wide", json!({"count": 2})).await;
    wait_condition(&env, "wide", "Placed", "False Unsupported 2 devices are requested").await;
    ask(&env, &account, "other", json!({"kind": "fpga"})).await;
    wait_condition(&env, "other", "Placed", "False NoImplementation worker cannot run on fpga").await;
    // the third device, and none for the next one, which waits with the reason
    ask(&env, &account, "third", json!({})).await;
    wait_condition(&env, "third", "Ready", "True").await;
    ask(&env, &account, "fourth", json!({})).await;
    wait_condition(&env, "fourth", "Placed", "False Unplaced").await;
    env.wait_until("app", |state| {
        let counts = state.application.status.clone().unwrap_or_default().actors.unwrap_or_default();
        ensure!((counts.wanted, counts.placed, counts.running) == (4, 3, 3), "{counts:?}");
        Ok(())
    })
    .await;

    // deleted: its pod is removed, and its unit goes to the next request
    env.namespace.kubectl(["delete", "instance", "helper", &account]).await.unwrap();
    wait_condition(&env, "fourth", "Ready", "True").await;
    wait_for("its pod is deleted", TIMEOUT, async || {
        let left = env.api::<Pod>().get_opt("helper").await?;
        ensure!(left.is_none(), "it still exists");
        anyhow::Ok(())
    })
    .await;
    wait_condition(&env, "third", "Ready", "True").await;

    // with the application all of them are deleted, rejected ones too
    env.namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    wait_for("all Instances are deleted", TIMEOUT, async || {
        let left = env.api::<Instance>().list(&ListParams::default()).await?.items;
        let left: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "{left:?}");
        anyhow::Ok(())
    })
    .await;
}

/// A pool has a limit on Instances: a request above it waits until another Instance is deleted, even if units are free.
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
    wait_condition(&env, "app-worker-0", "Ready", "True").await;
    ask(&env, &account, "second", json!({})).await;
    wait_condition(&env, "second", "Ready", "True").await;
    ask(&env, &account, "third", json!({})).await;
    let third = wait_condition(&env, "third", "Placed", "False Unplaced").await;
    let why = condition_text(&third, "Placed").unwrap();
    assert!(why.contains("pool gpus allows 2 instances"), "{why}");
    assert!(env.api::<Pod>().get_opt("third").await.unwrap().is_none(), "it has no pod");

    env.namespace.kubectl(["delete", "instance", "second", &account]).await.unwrap();
    wait_condition(&env, "third", "Ready", "True").await;
    wait_condition(&env, "app-worker-0", "Ready", "True").await;
}

/// The operator's number of plans by a strategy.
async fn plans(env: &TestEnv, strategy: &str) -> f64 {
    let port = env.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let of_it = format!("strategy=\"{strategy}\"");
    let plans =
        text.lines().filter(|line| line.starts_with("cairn_operator_plans_total{") && line.contains(&of_it));
    plans.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A requested Instance is placed at once where it is cheapest, without moves; a background search then moves the actor that gains
/// from being close to it.
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
    // the hub attracts the first worker to its node; workers attract each other more
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
    wait_condition(&env, "app-worker-0", "Ready", "True").await;
    assert!((plans(&env, "place-one").await - before - 1.0).abs() < 0.5, "it is placed at once");
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!((lives["inst-helper"], lives["worker-0"]), (1, 2), "{lives:?}");
}

/// Waits until exactly this Instance is root and all of these are ready.
async fn root(env: &TestEnv, instances: &[&str], expected: &str) {
    for name in instances {
        wait_condition(env, name, "Ready", "True").await;
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
    // creation times have a resolution of one second
    let helper = env.api::<Instance>().get("helper").await.unwrap();
    let made = helper.metadata.creation_timestamp.unwrap().0;
    wait_for("the helper is older than a second", TIMEOUT, async || {
        ensure!(jiff::Timestamp::now().as_second() > made.as_second() + 1, "it is not");
        anyhow::Ok(())
    })
    .await;
    // its Instance is deleted and recreated, so the requested Instance is the oldest
    env.namespace.kubectl(["delete", "instance", "app-worker-0"]).await.unwrap();
    root(&env, &["app-worker-0", "helper"], "helper").await;
    env.namespace.kubectl(["delete", "instance", "helper", &account]).await.unwrap();
    root(&env, &["app-worker-0"], "app-worker-0").await;
}
