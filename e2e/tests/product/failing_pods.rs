//! Pods that end, and pods that a kubelet rejects: their actors are recreated, and others are unaffected.

use anyhow::ensure;
use e2e::SimulatedNode;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::env::{AppState, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// Patches the status of a pod as its kubelet would.
async fn ends(env: &TestEnv, pod: &str, status: &Value) {
    let status = json!({"status": status}).to_string();
    let patch = ["patch", "pod", pod, "--subresource=status", "--type=merge", "-p", &status];
    env.namespace.kubectl(patch).await.unwrap();
}

/// Checks that the actor is in backoff and that its Instance reports it.
fn waits(state: &AppState, name: &str) -> anyhow::Result<()> {
    let instance = state.instances.iter().find(|instance| instance.name_any() == name).unwrap();
    let mut conditions = instance.status.iter().flat_map(|status| &status.conditions);
    let waits = conditions.any(|it| it.type_ == "BackOff" && it.status == "True");
    ensure!(waits, "not in backoff: {:?}", instance.status);
    Ok(())
}

/// The kubelet does not restart an ended container; the operator recreates the pod with a reported backoff, and the other actor
/// stays.
#[tokio::test]
async fn ended_pods_are_recreated_with_backoff() {
    let env = TestEnv::new("ends", ["one"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    let template = manifest.pointer_mut("/spec/actors/0/implementations/0/template/spec").unwrap();
    template["restartPolicy"] = json!("Never");
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let history = env.watch_pods().await;
    let uid = |state: &AppState, name: &str| state.pods.iter().find(|pod| pod.name_any() == name)?.uid();
    let mut last = uid(&before, "app-a-0");
    for failure in 1..=2 {
        ends(&env, "app-a-0", &json!({"phase": "Failed", "reason": "Error"})).await;
        // after the first failure there is no backoff
        if failure > 1 {
            env.wait_until("app", |state| waits(state, "app-a-0")).await;
        }
        let again = env
            .wait_reconciled("app", |state| {
                ensure!(uid(state, "app-a-0") != last, "not recreated yet");
                state.all_placed()
            })
            .await;
        last = uid(&again, "app-a-0");
        assert_eq!(uid(&again, "app-a-1"), uid(&before, "app-a-1"));
    }
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!((lives["a-0"], lives["a-1"]), (3, 1));
}

/// Its capacity is taken during the backoff, and others are unaffected: the actor is placed where there is capacity.
#[tokio::test]
async fn an_actor_whose_unit_is_taken_during_backoff_moves() {
    let env = TestEnv::new("taken", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    let template = manifest.pointer_mut("/spec/actors/0/implementations/0/template/spec").unwrap();
    template["restartPolicy"] = json!("Never");
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let node = before.places()["a-0"].split('/').next().unwrap().to_owned();
    let uid = |state: &AppState| state.pods.first().and_then(kube::ResourceExt::uid);
    let failed = json!({"phase": "Failed", "reason": "Error"});
    // after the first failure there is no backoff, then one of ten seconds
    ends(&env, "app-a-0", &failed).await;
    let again = env.wait_reconciled("app", |state| {
        ensure!(uid(state) != uid(&before), "not recreated yet");
        state.all_placed()
    });
    assert_eq!(again.await.places(), before.places(), "it is recreated on its unit");
    ends(&env, "app-a-0", &failed).await;
    env.wait_until("app", |state| waits(state, "app-a-0")).await;
    let requests = json!({"requests": {"cpu": "3800m"}});
    env.apply(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": {"nodeName": node,
            "containers": [{"name": "c", "image": "none", "resources": requests}]}}),
    )
    .await;
    env.wait_reconciled("app", |state| {
        ensure!(!state.places()["a-0"].starts_with(&node), "{:?}", state.places());
        state.all_placed()
    })
    .await;
}

/// A rejection by a kubelet is a fact about its node, and the actor is placed on another one.
#[tokio::test]
async fn actors_refused_by_a_kubelet_are_placed_elsewhere() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 1));
    let env = TestEnv::new("not-taken", nodes, [gpus()]).await;
    for node in ["one", "two"] {
        env.describe_devices(node, &[("gpu-0", "GPU")]);
    }
    env.wait_offered("gpus", 2).await;
    env.apply(&application("app", &[("a", 1, &[("gpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let node = before.places()["a-0"].split('/').next().unwrap().to_owned();
    let refused =
        json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device is left"});
    ends(&env, "app-a-0", &refused).await;
    let message = env.wait_event("app", "Refused", "no device is left").await;
    assert!(message.contains(&node), "{message}");
    let after = env
        .wait_reconciled("app", |state| {
            ensure!(!state.places()["a-0"].starts_with(&node), "{:?}", state.places());
            state.all_placed()
        })
        .await;
    let status = after.decision.as_ref().and_then(|decision| decision.status.clone()).unwrap_or_default();
    let of_node = |it: &&crds::Refusal| it.node.as_deref() == Some(node.as_str());
    let reasons: Vec<_> = status.refusals.iter().filter(of_node).map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["UnexpectedAdmissionError: no device is left"]);
}

/// A running pod need not be ready: an application with a crash-looping container is not ready, and names the actor and the reason
/// until it is ready again.
#[tokio::test]
async fn unready_actors_are_reported_with_their_container_state() {
    let env = TestEnv::new("ailing", ["one"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", |state| state.message("Ready", "True").map(drop)).await;
    let container = before.pods[0].spec.as_ref().unwrap().containers[0].name.clone();
    let condition = |status: &str| json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": status}]);
    let crashes = json!({"name": container, "ready": false, "restartCount": 3, "image": "none", "imageID": "none",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
    ends(&env, "app-a-1", &json!({"conditions": condition("False"), "containerStatuses": [crashes]})).await;
    let why = format!("container {container}: CrashLoopBackOff, last exit code 137 (OOMKilled)");
    let state = env
        .wait_until("app", |state| {
            let message = state.message("Ready", "False")?;
            ensure!(message.ends_with(&format!("1 is ready; a-1 is not ready: {why}")), "{message}");
            let instance = state.instances.iter().find(|it| it.name_any() == "app-a-1").unwrap();
            let of_it = instance.status.iter().flat_map(|status| &status.conditions);
            let message = of_it.into_iter().find(|it| it.type_ == "Ready").map(|it| it.message.as_str());
            ensure!(message == Some(format!("the pod is not ready: {why}").as_str()), "{message:?}");
            Ok(())
        })
        .await;
    assert_eq!(state.condition("Ready").unwrap().reason, "NotReady");
    // `kubectl cairn status` names the remedy
    let mut asked = cluster().kubectl_cairn().unwrap();
    let output = asked.args(["status", "app", "-n", env.namespace.name()]).output().await.unwrap();
    let (code, output) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let log = format!("kubectl logs app-a-1 -n {} --previous", env.namespace.name());
    for part in ["2 running, 1 ready", "Running, not ready", &format!("a-1 is not ready: {why}"), &log] {
        assert!(code == Some(2) && output.contains(part), "no {part} in {output}");
    }
    assert_eq!(
        state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>(),
        before.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>()
    );

    ends(&env, "app-a-1", &json!({"conditions": condition("True"), "containerStatuses": null})).await;
    env.wait_reconciled("app", |state| state.message("Ready", "True").map(drop)).await;
}

/// A crash-looping container is restarted by its kubelet with backoff. Its Instance reports it; no actor is moved or recreated
/// because of it, not even when everything is planned again.
#[tokio::test]
async fn crash_looping_actors_are_reported_and_stay() {
    let env = TestEnv::new("crashes", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let history = env.watch_pods().await;
    let container = before.pods[0].spec.as_ref().unwrap().containers[0].name.clone();
    let is = |ready: bool, restarts: i32| {
        let now =
            if ready { json!({"running": {}}) } else { json!({"waiting": {"reason": "CrashLoopBackOff"}}) };
        let condition =
            |type_: &str, holds: bool| json!({"type": type_, "status": if holds { "True" } else { "False" }});
        json!({"phase": "Running", "conditions": [condition("PodScheduled", true), condition("Ready", ready)],
            "containerStatuses": [{"name": container, "image": "none", "imageID": "", "ready": ready, "restartCount": restarts,
                "state": now, "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]})
    };
    let back_off = |state: &AppState| {
        let instance = state.instances.iter().find(|instance| instance.name_any() == "app-a-0").unwrap();
        let conditions = instance.status.clone().unwrap_or_default().conditions;
        conditions.into_iter().find(|it| it.type_ == "BackOff" && it.status == "True")
    };
    for restarts in 1..=3 {
        ends(&env, "app-a-0", &is(false, restarts)).await;
        env.wait_until("app", |state| waits(state, "app-a-0")).await;
    }
    env.patch(
        "app",
        &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
    )
    .await;
    let planned = env
        .wait_until("app", |state| {
            let generation = state.application.metadata.generation;
            let decided = state.decision.as_ref().map(|decision| decision.spec.application_generation);
            ensure!(decided == generation, "not planned again");
            Ok(())
        })
        .await;
    let condition = back_off(&planned).unwrap();
    assert_eq!(condition.reason, "CrashLoop");
    assert!(condition.message.contains("is in a crash loop (Error, exit code 3)"), "{}", condition.message);
    assert_eq!(planned.places(), before.places(), "no actor moves");

    ends(&env, "app-a-0", &is(true, 4)).await;
    let after = env
        .wait_reconciled("app", |state| match back_off(state) {
            Some(condition) => anyhow::bail!("{condition:?}"),
            None => Ok(()),
        })
        .await;
    let uids = |state: &AppState| -> std::collections::BTreeSet<_> {
        state.pods.iter().map(kube::ResourceExt::uid).collect()
    };
    assert_eq!(uids(&after), uids(&before), "no pod is recreated");
    assert!(history.wait_synced().await.pods_per_actor().values().all(|count| *count == 1));
}
