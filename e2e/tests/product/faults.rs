//! Faults around an application are reported, handled if possible, and do not affect others.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use serde_json::json;

use crate::env::{AppState, PodHistory, TIMEOUT, TestEnv, application, cpus, gpus, unanswered};
use crate::foreign_objects::{OPERATOR_USER, decision, is_refused};
use crate::installation::cluster;

/// An application that must not be affected: one actor on a node of its own.
async fn bystander(env: &TestEnv) -> (AppState, PodHistory) {
    let history = env.watch_pods().await;
    let mut bystander = application("bystander", &[("b", 1, &[("cpu", "1ms")])]);
    bystander["spec"]["actors"][0]["pinTo"] = json!({"node": "quiet"});
    env.apply(&bystander).await;
    (env.wait_reconciled("bystander", AppState::all_placed).await, history)
}

/// Checks that the bystander still has its pod.
async fn unaffected(env: &TestEnv, (before, history): &(AppState, PodHistory)) {
    let now = env.observe("bystander").await.unwrap();
    assert_eq!(now.pods[0].uid(), before.pods[0].uid());
    assert_eq!(history.wait_synced().await.pods_per_actor()["b-0"], 1);
    // A late heartbeat of a simulated node marks its pods as not ready, and no kubelet reverts this.
    let message = &now.condition("Ready").unwrap().message;
    assert!(message.starts_with("all 1 actors run on their units"), "{message}");
}

/// Makes admission refuse an operation in the test's namespace with this message if `condition` holds, until [`allow`]; returns the
/// name of the policy.
async fn refuse(
    env: &TestEnv,
    (operation, group, resource): (&str, &str, &str),
    condition: &str,
    words: &str,
) -> String {
    let namespace = env.namespace.name();
    let name = format!("{namespace}-{resource}");
    let condition = format!("request.namespace == '{namespace}' && {condition}");
    let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "it", "expression": condition}],
            "validations": [{"expression": "false", "message": words}]}});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    env.apply(&policy).await;
    env.apply(&binding).await;
    name
}

/// Deletes an admission policy.
async fn allow(policy: &str) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster().kubectl(["delete", kind, policy]).await.unwrap();
    }
}

#[tokio::test]
async fn an_unplaceable_actor_is_reported_and_the_others_run() {
    let env = TestEnv::new("big", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&env).await;
    let mut manifest = application(
        "app",
        &[("big", 1, &[("cpu", "1ms")]), ("fpga", 1, &[("fpga", "1ms")]), ("small", 2, &[("cpu", "1ms")])],
    );
    let container = "/spec/actors/0/implementations/0/template/spec/containers/0/resources/requests/cpu";
    *manifest.pointer_mut(container).unwrap() = json!("100");
    env.apply(&manifest).await;
    let state = env
        .wait_reconciled("app", |state| {
            let message = state.message("Placed", "False")?;
            ensure!(message.starts_with("2 actors are unplaced: big-0 ("), "{message}");
            ensure!(message.contains("fpga-0 ("), "{message}");
            Ok(())
        })
        .await;
    assert_eq!(state.places().keys().copied().collect::<Vec<_>>(), ["small-0", "small-1"]);
    assert_eq!(state.application.status.as_ref().unwrap().phase.unwrap().to_string(), "Degraded");
    env.wait_event("app", "Unplaced", "big-0").await;
    unaffected(&env, &bystander).await;
}

/// R37: as long as the holder of a lost device is unknown, no actor moves. Once it is known, only the holder moves.
#[tokio::test]
async fn a_lost_device_moves_only_its_holder() {
    let nodes = [SimulatedNode::new("quiet"), SimulatedNode::new("devices").resource("acme.com/gpu", 2)];
    let mut env = TestEnv::new("vanish", nodes, [cpus(), gpus()]).await;
    env.describe_devices("devices", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    let bystander = bystander(&env).await;
    env.apply(&application("app", &[("a", 2, &[("gpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let holder = |unit: &str| {
        let is_it = |pod: &&k8s_openapi::api::core::v1::Pod| pod.annotations()[crds::labels::UNIT] == unit;
        before.pods.iter().find(is_it).unwrap()
    };
    let (lost, kept) = (holder("devices/gpus-0"), holder("devices/gpus-1"));

    env.describe_devices("devices", &[("gpu-1", "GPU")]);
    env.wait_offered("gpus", 1).await;
    // a change of another pool's units shows that the operator has reconciled and moved nothing
    env.nodes.add(SimulatedNode::new("spare").resource("acme.com/gpu", 1)).await.unwrap();
    env.describe_devices("spare", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 2).await;
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(state.places(), before.places(), "its holder is unknown");

    // now the agent reports the device as lost, and its holder
    let allocation = json!({"namespace": env.namespace.name(), "pod": lost.name_any(), "podUid": lost.uid(),
        "container": "actor", "resource": "acme.com/gpu", "deviceIds": ["gpu-0"]});
    let status = json!({"status": {"allocations": [allocation]}}).to_string();
    let patch = ["patch", "nodetopology", "devices", "--subresource=status", "--type=merge", "-p", &status];
    env.namespace.kubectl(patch).await.unwrap();
    env.describe_devices("devices", &[("gpu-0:lost", "GPU"), ("gpu-1", "GPU")]);
    let after = env
        .wait_reconciled("app", |state| {
            state.all_placed()?;
            ensure!(state.places().values().any(|unit| *unit == "spare/gpus-0"), "{:?}", state.places());
            Ok(())
        })
        .await;
    let still = after.pods.iter().find(|pod| pod.uid() == kept.uid());
    assert!(still.is_some(), "the actor on the other device stays: {:?}", after.places());
    unaffected(&env, &bystander).await;
}

#[tokio::test]
async fn the_actors_of_a_deleted_node_start_elsewhere() {
    let nodes = ["quiet", "one", "two"].map(SimulatedNode::new);
    let mut env = TestEnv::new("lost", nodes, [cpus()]).await;
    let bystander = bystander(&env).await;
    let mut manifest = application("app", &[("a", 3, &[("cpu", "1ms")])]);
    for implementation in manifest["spec"]["actors"][0]["implementations"].as_array_mut().unwrap() {
        let container =
            implementation.pointer_mut("/template/spec/containers/0/resources/requests/cpu").unwrap();
        *container = json!("1200m");
    }
    env.apply(&manifest).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    // a node that is not the bystander's
    let lost = before.nodes().into_iter().find(|node| *node != "quiet").unwrap().to_owned();
    env.nodes.delete(&lost).await.unwrap();
    let after = env
        .wait_reconciled("app", |state| {
            state.all_placed()?;
            ensure!(!state.nodes().contains(&*lost), "{:?}", state.places());
            Ok(())
        })
        .await;
    let moves = &after.spec().moves;
    assert!(moves.iter().any(|step| step.reason == format!("node {lost} is gone")), "{moves:?}");
    env.wait_event("app", "Moved", &format!("node {lost} is gone")).await;
    unaffected(&env, &bystander).await;
}

/// The scheduler has constraints that Cairn does not know. Its refusal becomes a fact, and the actor is placed elsewhere.
#[tokio::test]
async fn actors_refused_by_the_scheduler_are_placed_elsewhere() {
    let mut env = TestEnv::new("refused", ["quiet", "left"].map(SimulatedNode::new), [cpus()]).await;
    let bystander = bystander(&env).await;
    // plans do not model which devices a claim may combine
    let slice = |node: &str, is_split: bool| {
        let device =
            |name: &str, board: &str| json!({"name": name, "attributes": {"board": {"string": board}}});
        let devices = [device("d0", "a"), device("d1", if is_split { "b" } else { "a" })];
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("refused-{node}")},
            "spec": {"driver": "refused.example.com", "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
    };
    let selector = json!({"cel": {"expression": "device.driver == 'refused.example.com'"}});
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "refused"},
        "spec": {"selectors": [selector]}});
    for object in [class, slice("quiet", true), slice("left", true)] {
        cluster().kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    }
    let devices = json!({"requests": [{"name": "d", "exactly": {"deviceClassName": "refused", "count": 2}}],
        "constraints": [{"matchAttribute": "refused.example.com/board"}]});
    env.apply(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "device"},
        "spec": {"spec": {"devices": devices}}}))
        .await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    let spec = &mut manifest["spec"]["actors"][0]["implementations"][0]["template"]["spec"];
    spec["resourceClaims"] = json!([{"name": "device", "resourceClaimTemplateName": "device"}]);
    spec["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
    let history = env.watch_pods().await;
    env.apply(&manifest).await;
    let note = env.wait_event("app", "Refused", "a-0 on ").await;
    assert!(note.contains("cannot allocate all claims"), "{note}");
    env.wait_until("app", |state| {
        let status = state.decision.as_ref().and_then(|decision| decision.status.as_ref());
        let refusals = status.map(|status| status.refusals.as_slice()).unwrap_or_default();
        ensure!(!refusals.is_empty(), "no refusal");
        ensure!(
            refusals.iter().all(|refusal| refusal.reason.contains("cannot allocate all claims")),
            "{refusals:?}"
        );
        Ok(())
    })
    .await;
    assert!(!history.wait_synced().await.unschedulable().is_empty(), "the scheduler refused a pod");
    // a node whose devices are on one board
    cluster().kubectl_with(["apply", "-f-"], &slice("right", false).to_string()).await.unwrap();
    env.nodes.add(SimulatedNode::new("right")).await.unwrap();
    env.wait_reconciled("app", |state| {
        state.all_placed()?;
        ensure!(state.places()["a-0"].starts_with("right/"), "{:?}", state.places());
        Ok(())
    })
    .await;
    let slices = ["resourceslice/refused-quiet", "resourceslice/refused-left", "resourceslice/refused-right"];
    cluster().kubectl([&["delete"], &slices[..]].concat()).await.unwrap();
    unaffected(&env, &bystander).await;
}

/// Admission refusals are reported with their message and retried after they expire.
#[tokio::test]
async fn quota_refusals_are_reported_and_retried() {
    let env = TestEnv::new("quota", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&env).await;
    let quota = |pods: u32| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, 
        // Cairn does not evaluate quotas with scopes, so admission refuses.
        "spec": {"hard": {"pods": pods.to_string()}, "scopes": ["NotTerminating"]}})
    };
    env.apply(&quota(2)).await;
    wait_for("the quota is in force", TIMEOUT, async || {
        let used =
            env.namespace.kubectl(["get", "resourcequota", "few", "-ojsonpath={.status.used.pods}"]).await?;
        ensure!(used.stdout == "1", "{used:?}");
        anyhow::Ok(())
    })
    .await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let note = env.wait_event("app", "Refused", "exceeded quota: few").await;
    assert!(note.starts_with("a-"), "{note}");
    env.wait_until("app", |state| {
        state.message("Placed", "True")?;
        let message = state.message("Ready", "False")?;
        ensure!(message.contains("exceeded quota: few"), "{message}");
        ensure!(state.pods.len() == 1, "{} pods", state.pods.len());
        Ok(())
    })
    .await;
    unaffected(&env, &bystander).await;
    env.apply(&quota(10)).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    unaffected(&env, &bystander).await;
}

/// Actors run without their Service and are recreated; the refusal is reported, and the Service is created once allowed.
#[tokio::test]
async fn a_service_refused_by_quota_blocks_no_actor() {
    let env = TestEnv::new("no-service", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&env).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"services": "0"}}});
    env.apply(&quota).await;
    wait_for("the quota is in force", TIMEOUT, async || {
        let path = "-ojsonpath={.status.used.services}";
        let used = env.namespace.kubectl(["get", "resourcequota", "none", path]).await?;
        ensure!(used.stdout == "1", "{used:?}");
        anyhow::Ok(())
    })
    .await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let runs_without = |state: &AppState| {
        let message = state.message("Refused", "True")?;
        ensure!(message.starts_with("peers: ") && message.contains("exceeded quota: none"), "{message}");
        state.message("Ready", "True")?;
        state.all_placed()
    };
    let before = env.wait_reconciled("app", runs_without).await;
    env.wait_event("app", "Refused", "exceeded quota: none").await;
    env.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
    env.wait_reconciled("app", |state| {
        let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
        ensure!(uids(state) != uids(&before), "not deleted yet");
        runs_without(state)
    })
    .await;
    unaffected(&env, &bystander).await;
    env.namespace.kubectl(["delete", "resourcequota", "none"]).await.unwrap();
    env.wait_reconciled("app", |state| {
        ensure!(state.condition("Refused").is_none(), "{:?}", state.condition("Refused"));
        Ok(())
    })
    .await;
    env.api::<Service>().get("app").await.unwrap();
    unaffected(&env, &bystander).await;
}

/// A failing creation of an auxiliary object delays neither starts, nor recreations, nor status updates; it is retried until it
/// succeeds.
#[tokio::test]
async fn a_failing_service_creation_blocks_no_actor() {
    let env = TestEnv::new("fails-beside", [SimulatedNode::new("one")], [cpus()]).await;
    let name = format!("{}-unanswered", env.namespace.name());
    env.apply(&unanswered(&name, env.namespace.name(), "services")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "trial"}, "spec": {"clusterIP": "None"}});
    is_refused(&env, ["create", "--dry-run=server", "-f-"], &service, "failed calling webhook").await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    env.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
    env.wait_reconciled("app", |state| {
        ensure!(uids(state) != uids(&before), "not deleted yet");
        state.message("Ready", "True")?;
        state.all_placed()
    })
    .await;
    assert!(env.api::<Service>().get_opt("app").await.unwrap().is_none(), "it exists");
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
    wait_for("its Service exists", TIMEOUT, async || env.api::<Service>().get("app").await).await;
}

/// A pod whose deletion is refused stays, the refusal is reported, and nothing else waits. It is deleted once allowed.
#[tokio::test]
async fn an_undeletable_pod_blocks_no_other_actor() {
    let env = TestEnv::new("no-delete", [SimulatedNode::new("one")], [cpus()]).await;
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    let of_a = format!("request.name == 'app-a-0' && request.userInfo.username == '{OPERATOR_USER}'");
    let policy = refuse(&env, ("DELETE", "", "pods"), &of_a, "kept by the test").await;
    let operator = format!("--as={OPERATOR_USER}");
    let delete = ["delete", "pod", "app-a-0", "--dry-run=server", operator.as_str()];
    is_refused(&env, delete, &json!({}), "kept by the test").await;
    let image = json!([{"op": "replace", "path": "/spec/actors/0/implementations/0/template/spec/containers/0/image", "value": "newer"}]);
    env.namespace
        .kubectl(["patch", "actorapp", "app", "--type=json", "-p", &image.to_string()])
        .await
        .unwrap();
    env.wait_event("app", "Refused", "Pod app-a-0 cannot be deleted").await;
    let updated = |state: &AppState, count: i32| -> anyhow::Result<()> {
        let status = state.application.status.clone().unwrap_or_default();
        let actors = status.actors.unwrap_or_default();
        ensure!(status.observed_generation == state.application.metadata.generation, "not reconciled yet");
        ensure!((actors.updated, actors.running) == (count, 2), "{actors:?}");
        Ok(())
    };
    env.wait_until("app", |state| updated(state, 1)).await;
    env.namespace.kubectl(["delete", "pod", "app-b-0"]).await.unwrap();
    let uid = |state: &AppState, name: &str| state.pods.iter().find(|pod| pod.name_any() == name)?.uid();
    env.wait_until("app", |state| {
        let again = uid(state, "app-b-0");
        ensure!(again.is_some() && again != uid(&before, "app-b-0"), "not recreated yet");
        ensure!(uid(state, "app-a-0") == uid(&before, "app-a-0"), "it was deleted");
        updated(state, 1)
    })
    .await;
    allow(&policy).await;
    env.wait_reconciled("app", |state| updated(state, 2)).await;
}

/// An actor whose Instance is refused waits with the reason; the others run.
#[tokio::test]
async fn a_refused_instance_blocks_only_its_actor() {
    let env = TestEnv::new("no-instance", [SimulatedNode::new("one")], [cpus()]).await;
    let (of_a_0, words) = ("object.metadata.name == 'app-a-0'", "refused by the test");
    let policy = refuse(&env, ("CREATE", "cairn.dev", "instances"), of_a_0, words).await;
    let instance = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": "app-a-0"},
        "spec": {"applicationName": "app", "actorGroup": "a", "actor": "a-0", "template": {}}});
    let operator = format!("--as={OPERATOR_USER}");
    let create = ["create", "--dry-run=server", operator.as_str(), "-f-"];
    is_refused(&env, create, &instance, words).await;
    env.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    env.wait_event("app", "Refused", "a-0: ").await;
    env.wait_until("app", |state| {
        state.message("Placed", "True")?;
        let message = state.message("Ready", "False")?;
        ensure!(message.contains("a-0 waits: ") && message.contains(words), "{message}");
        let runs: Vec<_> = state.pods.iter().map(kube::ResourceExt::name_any).collect();
        ensure!(runs == ["app-a-1", "app-a-2"], "{runs:?}");
        Ok(())
    })
    .await;
    allow(&policy).await;
    env.wait_reconciled("app", AppState::all_placed).await;
}

/// A Placement that admission refuses is reported with its message, and nothing is created. It is retried without any change of the
/// application.
#[tokio::test]
async fn a_refused_placement_is_reported_and_retried() {
    let env = TestEnv::new("no-decision", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&env).await;
    let (of_app, words) = ("object.metadata.name == 'app'", "refused by the test");
    let policy = refuse(&env, ("CREATE", "cairn.dev", "placements"), of_app, words).await;
    let operator = format!("--as={OPERATOR_USER}");
    let create = ["create", "--dry-run=server", operator.as_str(), "-f-"];
    is_refused(&env, create, &decision("app"), words).await;
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    env.wait_event("app", "Refused", words).await;
    let refused = env
        .wait_until("app", |state| {
            let message = state.message("Accepted", "False")?;
            ensure!(
                message.starts_with("Placement app was refused: ") && message.contains(words),
                "{message}"
            );
            ensure!(
                state.condition("Accepted").is_some_and(|it| it.reason == "Refused"),
                "{:?}",
                state.condition("Accepted")
            );
            let ready = state.message("Ready", "False")?;
            ensure!(ready == message, "{ready}");
            Ok(())
        })
        .await;
    assert_eq!((refused.decision.is_none(), refused.instances.len(), refused.pods.len()), (true, 0, 0));
    let port = env.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let counted = "cairn_operator_reconciles_total{result=\"Refused\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(counted));
    assert!(count.is_some_and(|count| count != "0"), "{count:?}");
    allow(&policy).await;
    let made = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(made.application.metadata.generation, refused.application.metadata.generation);
    made.message("Accepted", "True").unwrap();
    unaffected(&env, &bystander).await;
}

/// An application above the planning limit: the condition names the excess and the remedy, and nothing is created.
#[tokio::test]
async fn a_too_large_application_is_rejected() {
    let env = TestEnv::new("large", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&env).await;
    env.apply(&application("app", &[("a", 5001, &[("cpu", "1ms")])])).await;
    let state = env
        .wait_until("app", |state| {
            let message = state.message("TooLarge", "True")?;
            ensure!(message.contains("has 5001 actors, at most 5000 are supported; divide it"), "{message}");
            ensure!(
                state.condition("Accepted").is_some_and(|it| it.reason == "TooLarge"),
                "{:?}",
                state.condition("Accepted")
            );
            Ok(())
        })
        .await;
    assert_eq!((state.pods.len(), state.instances.len()), (0, 0));
    unaffected(&env, &bystander).await;
}
