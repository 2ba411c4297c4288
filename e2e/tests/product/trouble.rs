//! What goes wrong around an application is named, answered where there is an answer, and no trouble for others.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus, gpus, unanswered};
use crate::strangers::{OPERATOR_USER, decision, is_refused};

/// An application that must not notice anything: one actor on a node of its own.
async fn bystander(stage: &Stage) -> (Seen, crate::stage::PodHistory) {
    let history = stage.watch_pods().await;
    let mut bystander = application("bystander", &[("b", 1, &[("cpu", "1ms")])]);
    bystander["spec"]["actors"][0]["pinTo"] = json!({"node": "quiet"});
    stage.apply(&bystander).await;
    (stage.settled("bystander", super::stage::Seen::all_placed).await, history)
}

/// The bystander's pod is the one that it had.
async fn unaffected(stage: &Stage, (before, history): &(Seen, crate::stage::PodHistory)) {
    let now = stage.look("bystander").await.unwrap();
    assert_eq!(now.pods[0].uid(), before.pods[0].uid());
    assert_eq!(history.caught_up().await.lives()["b-0"], 1);
    // Where a simulated node is late with its heartbeat, its pods are told not to be ready, and nobody tells otherwise.
    let told = &now.condition("Ready").unwrap().message;
    assert!(told.starts_with("all 1 actors run on their units"), "{told}");
}

/// Refuses an operation on objects of the test's namespace where `condition` holds, in these words, until it is [`allow`]ed: by a
/// policy of this name.
async fn refuse(
    stage: &Stage,
    (operation, group, resource): (&str, &str, &str),
    condition: &str,
    words: &str,
) -> String {
    let namespace = stage.namespace.name();
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
    stage.apply(&policy).await;
    stage.apply(&binding).await;
    name
}

/// Takes a policy away.
async fn allow(policy: &str) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster().kubectl(["delete", kind, policy]).await.unwrap();
    }
}

#[tokio::test]
async fn an_actor_that_fits_nowhere_is_named_and_the_others_run() {
    let stage = Stage::set("big", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&stage).await;
    let mut manifest = application(
        "app",
        &[("big", 1, &[("cpu", "1ms")]), ("fpga", 1, &[("fpga", "1ms")]), ("small", 2, &[("cpu", "1ms")])],
    );
    let container = "/spec/actors/0/implementations/0/template/spec/containers/0/resources/requests/cpu";
    *manifest.pointer_mut(container).unwrap() = json!("100");
    stage.apply(&manifest).await;
    let seen = stage
        .settled("app", |seen| {
            let told = seen.message("Placed", "False")?;
            ensure!(told.starts_with("2 actors have no place: big-0 ("), "{told}");
            ensure!(told.contains("fpga-0 ("), "{told}");
            Ok(())
        })
        .await;
    assert_eq!(seen.places().keys().copied().collect::<Vec<_>>(), ["small-0", "small-1"]);
    assert_eq!(seen.application.status.as_ref().unwrap().phase.unwrap().to_string(), "Degraded");
    stage.event("app", "Unplaced", "big-0").await;
    unaffected(&stage, &bystander).await;
}

/// R37: nobody knows whose device went, and nobody moves. It is known: its holder goes elsewhere, and it alone.
#[tokio::test]
async fn a_device_that_vanishes_moves_its_holder_and_nobody_else() {
    let nodes = [SimulatedNode::new("quiet"), SimulatedNode::new("devices").resource("acme.com/gpu", 2)];
    let mut stage = Stage::set("vanish", nodes, [cpus(), gpus()]).await;
    stage.machine("devices", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    let bystander = bystander(&stage).await;
    stage.apply(&application("app", &[("a", 2, &[("gpu", "1ms")])])).await;
    let before = stage.settled("app", super::stage::Seen::all_placed).await;
    let holder = |unit: &str| {
        let is_it = |pod: &&k8s_openapi::api::core::v1::Pod| pod.annotations()[crds::labels::UNIT] == unit;
        before.pods.iter().find(is_it).unwrap()
    };
    let (lost, kept) = (holder("devices/gpus-0"), holder("devices/gpus-1"));

    stage.machine("devices", &[("gpu-1", "GPU")]);
    stage.offered("gpus", 1).await;
    // the other pool's units are counted on, so the operator goes on looking; and it stays as it was
    stage.nodes.add(SimulatedNode::new("spare").resource("acme.com/gpu", 1)).await.unwrap();
    stage.machine("spare", &[("gpu-0", "GPU")]);
    stage.offered("gpus", 2).await;
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    assert_eq!(seen.places(), before.places(), "nobody knows whose it was");

    // now the agent has seen it go, and whose it was
    let allocation = json!({"namespace": stage.namespace.name(), "pod": lost.name_any(), "podUid": lost.uid(),
        "container": "actor", "resource": "acme.com/gpu", "deviceIds": ["gpu-0"]});
    let status = json!({"status": {"allocations": [allocation]}}).to_string();
    let patch = ["patch", "nodetopology", "devices", "--subresource=status", "--type=merge", "-p", &status];
    stage.namespace.kubectl(patch).await.unwrap();
    stage.machine("devices", &[("gpu-0:lost", "GPU"), ("gpu-1", "GPU")]);
    let after = stage
        .settled("app", |seen| {
            seen.all_placed()?;
            ensure!(seen.places().values().any(|unit| *unit == "spare/gpus-0"), "{:?}", seen.places());
            Ok(())
        })
        .await;
    let still = after.pods.iter().find(|pod| pod.uid() == kept.uid());
    assert!(still.is_some(), "who is on the other device stays: {:?}", after.places());
    unaffected(&stage, &bystander).await;
}

#[tokio::test]
async fn the_actors_of_a_deleted_node_start_elsewhere() {
    let nodes = ["quiet", "one", "two"].map(SimulatedNode::new);
    let mut stage = Stage::set("lost", nodes, [cpus()]).await;
    let bystander = bystander(&stage).await;
    let mut manifest = application("app", &[("a", 3, &[("cpu", "1ms")])]);
    for implementation in manifest["spec"]["actors"][0]["implementations"].as_array_mut().unwrap() {
        let container =
            implementation.pointer_mut("/template/spec/containers/0/resources/requests/cpu").unwrap();
        *container = json!("1200m");
    }
    stage.apply(&manifest).await;
    let before = stage.settled("app", super::stage::Seen::all_placed).await;
    // a node that is not the bystander's
    let lost = before.nodes().into_iter().find(|node| *node != "quiet").unwrap().to_owned();
    stage.nodes.delete(&lost).await.unwrap();
    let after = stage
        .settled("app", |seen| {
            seen.all_placed()?;
            ensure!(!seen.nodes().contains(&*lost), "{:?}", seen.places());
            Ok(())
        })
        .await;
    let moves = &after.spec().moves;
    assert!(moves.iter().any(|step| step.reason == format!("node {lost} is gone")), "{moves:?}");
    stage.event("app", "Moved", &format!("node {lost} is gone")).await;
    unaffected(&stage, &bystander).await;
}

/// The scheduler knows rules that Cairn does not; its refusal is a fact, and the actor goes elsewhere.
#[tokio::test]
async fn what_the_scheduler_refuses_is_placed_elsewhere() {
    let mut stage = Stage::set("refused", ["quiet", "left"].map(SimulatedNode::new), [cpus()]).await;
    let bystander = bystander(&stage).await;
    let foreign = |node: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("foreign-{node}"), "labels": {"noisy": "yes"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]}})
    };
    // the template wants no noisy pod beside it, and there is one on all nodes that there are
    for node in ["quiet", "left"] {
        stage.apply(&foreign(node)).await;
    }
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    let affinity: Value = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"noisy": "yes"}}, "topologyKey": "kubernetes.io/hostname"}]}});
    manifest["spec"]["actors"][0]["implementations"][0]["template"]["spec"]["affinity"] = affinity;
    let history = stage.watch_pods().await;
    stage.apply(&manifest).await;
    let note = stage.event("app", "Refused", "a-0 on ").await;
    assert!(note.contains("anti-affinity"), "{note}");
    stage
        .seen("app", |seen| {
            let status = seen.decision.as_ref().and_then(|decision| decision.status.as_ref());
            let refusals = status.map(|status| status.refusals.as_slice()).unwrap_or_default();
            ensure!(!refusals.is_empty(), "no refusal");
            ensure!(refusals.iter().all(|refusal| refusal.reason.contains("anti-affinity")), "{refusals:?}");
            Ok(())
        })
        .await;
    assert!(!history.caught_up().await.unschedulable().is_empty(), "the scheduler itself said so, to a pod");
    // now there is a node without a noisy pod
    stage.nodes.add(SimulatedNode::new("right")).await.unwrap();
    stage
        .settled("app", |seen| {
            seen.all_placed()?;
            ensure!(seen.places()["a-0"].starts_with("right/"), "{:?}", seen.places());
            Ok(())
        })
        .await;
    unaffected(&stage, &bystander).await;
}

/// What admission refuses is told in its own words, and tried again when the refusal has run out.
#[tokio::test]
async fn what_a_quota_refuses_is_named_and_tried_again() {
    let stage = Stage::set("quota", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&stage).await;
    let quota = |pods: u32| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, 
        // Of what quotas with scopes count Cairn knows nothing: admission refuses.
        "spec": {"hard": {"pods": pods.to_string()}, "scopes": ["NotTerminating"]}})
    };
    stage.apply(&quota(2)).await;
    wait_for("the quota counts", SOON, async || {
        let used = stage
            .namespace
            .kubectl(["get", "resourcequota", "few", "-ojsonpath={.status.used.pods}"])
            .await?;
        ensure!(used.stdout == "1", "{used:?}");
        anyhow::Ok(())
    })
    .await;
    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let note = stage.event("app", "Refused", "exceeded quota: few").await;
    assert!(note.starts_with("a-"), "{note}");
    stage
        .seen("app", |seen| {
            seen.message("Placed", "True")?;
            let told = seen.message("Ready", "False")?;
            ensure!(told.contains("exceeded quota: few"), "{told}");
            ensure!(seen.pods.len() == 1, "{} pods", seen.pods.len());
            Ok(())
        })
        .await;
    unaffected(&stage, &bystander).await;
    stage.apply(&quota(10)).await;
    stage.settled("app", super::stage::Seen::all_placed).await;
    unaffected(&stage, &bystander).await;
}

/// Actors run without their Service, and those that go come again; what refuses it is told, and it comes once it may.
#[tokio::test]
async fn a_service_that_a_quota_refuses_holds_up_nobody() {
    let stage = Stage::set("no-service", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&stage).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"services": "0"}}});
    stage.apply(&quota).await;
    wait_for("the quota counts", SOON, async || {
        let path = "-ojsonpath={.status.used.services}";
        let used = stage.namespace.kubectl(["get", "resourcequota", "none", path]).await?;
        ensure!(used.stdout == "1", "{used:?}");
        anyhow::Ok(())
    })
    .await;
    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let runs_without = |seen: &Seen| {
        let told = seen.message("Refused", "True")?;
        ensure!(told.starts_with("peers: ") && told.contains("exceeded quota: none"), "{told}");
        seen.message("Ready", "True")?;
        seen.all_placed()
    };
    let before = stage.settled("app", runs_without).await;
    stage.event("app", "Refused", "exceeded quota: none").await;
    stage.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
    stage
        .settled("app", |seen| {
            let uids = |seen: &Seen| seen.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
            ensure!(uids(seen) != uids(&before), "it is not gone yet");
            runs_without(seen)
        })
        .await;
    unaffected(&stage, &bystander).await;
    stage.namespace.kubectl(["delete", "resourcequota", "none"]).await.unwrap();
    stage
        .settled("app", |seen| {
            ensure!(seen.condition("Refused").is_none(), "{:?}", seen.condition("Refused"));
            Ok(())
        })
        .await;
    stage.api::<Service>().get("app").await.unwrap();
    unaffected(&stage, &bystander).await;
}

/// What fails beside actors keeps nobody from coming, nor from coming again, and what becomes of them is told; it is tried again
/// until it is there.
#[tokio::test]
async fn a_service_that_cannot_be_made_holds_up_nobody() {
    let stage = Stage::set("fails-beside", [SimulatedNode::new("one")], [cpus()]).await;
    let name = format!("{}-unanswered", stage.namespace.name());
    stage.apply(&unanswered(&name, stage.namespace.name(), "services")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "trial"}, "spec": {"clusterIP": "None"}});
    is_refused(&stage, ["create", "--dry-run=server", "-f-"], &service, "failed calling webhook").await;
    stage.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    let uids = |seen: &Seen| seen.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    let before = stage.settled("app", Seen::all_placed).await;
    stage.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
    stage
        .settled("app", |seen| {
            ensure!(uids(seen) != uids(&before), "it is not gone yet");
            seen.message("Ready", "True")?;
            seen.all_placed()
        })
        .await;
    assert!(stage.api::<Service>().get_opt("app").await.unwrap().is_none(), "it was made");
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
    wait_for("its Service is there", SOON, async || stage.api::<Service>().get("app").await).await;
}

/// Whose pod may not be taken away keeps it, which is told, and nobody else waits for that; it goes once it may.
#[tokio::test]
async fn a_pod_that_may_not_be_deleted_holds_up_nobody() {
    let stage = Stage::set("no-delete", [SimulatedNode::new("one")], [cpus()]).await;
    stage.apply(&application("app", &[("a", 1, &[("cpu", "1ms")]), ("b", 1, &[("cpu", "1ms")])])).await;
    let before = stage.settled("app", Seen::all_placed).await;
    let of_a = format!("request.name == 'app-a-0' && request.userInfo.username == '{OPERATOR_USER}'");
    let policy = refuse(&stage, ("DELETE", "", "pods"), &of_a, "it stays for now").await;
    let operator = format!("--as={OPERATOR_USER}");
    let delete = ["delete", "pod", "app-a-0", "--dry-run=server", operator.as_str()];
    is_refused(&stage, delete, &json!({}), "it stays for now").await;
    let image = json!([{"op": "replace", "path": "/spec/actors/0/implementations/0/template/spec/containers/0/image", "value": "newer"}]);
    stage
        .namespace
        .kubectl(["patch", "actorapp", "app", "--type=json", "-p", &image.to_string()])
        .await
        .unwrap();
    stage.event("app", "Refused", "Pod app-a-0 cannot be deleted").await;
    let updated = |seen: &Seen, count: i32| -> anyhow::Result<()> {
        let status = seen.application.status.clone().unwrap_or_default();
        let actors = status.actors.unwrap_or_default();
        ensure!(
            status.observed_generation == seen.application.metadata.generation,
            "it is not looked at yet"
        );
        ensure!((actors.updated, actors.running) == (count, 2), "{actors:?}");
        Ok(())
    };
    stage.seen("app", |seen| updated(seen, 1)).await;
    stage.namespace.kubectl(["delete", "pod", "app-b-0"]).await.unwrap();
    let uid = |seen: &Seen, name: &str| seen.pods.iter().find(|pod| pod.name_any() == name)?.uid();
    stage
        .seen("app", |seen| {
            let again = uid(seen, "app-b-0");
            ensure!(again.is_some() && again != uid(&before, "app-b-0"), "it is not there again");
            ensure!(uid(seen, "app-a-0") == uid(&before, "app-a-0"), "it went");
            updated(seen, 1)
        })
        .await;
    allow(&policy).await;
    stage.settled("app", |seen| updated(seen, 2)).await;
}

/// Whose Instance is refused waits, and says for what; the others run.
#[tokio::test]
async fn an_instance_that_is_refused_holds_up_its_actor_alone() {
    let stage = Stage::set("no-instance", [SimulatedNode::new("one")], [cpus()]).await;
    let (of_a_0, words) = ("object.metadata.name == 'app-a-0'", "not this one for now");
    let policy = refuse(&stage, ("CREATE", "cairn.dev", "instances"), of_a_0, words).await;
    let instance = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {"name": "app-a-0"},
        "spec": {"applicationName": "app", "actorGroup": "a", "actor": "a-0", "template": {}}});
    let operator = format!("--as={OPERATOR_USER}");
    let create = ["create", "--dry-run=server", operator.as_str(), "-f-"];
    is_refused(&stage, create, &instance, words).await;
    stage.apply(&application("app", &[("a", 3, &[("cpu", "1ms")])])).await;
    stage.event("app", "Refused", "a-0: ").await;
    stage
        .seen("app", |seen| {
            seen.message("Placed", "True")?;
            let told = seen.message("Ready", "False")?;
            ensure!(told.contains("a-0 waits: ") && told.contains(words), "{told}");
            let runs: Vec<_> = seen.pods.iter().map(kube::ResourceExt::name_any).collect();
            ensure!(runs == ["app-a-1", "app-a-2"], "{runs:?}");
            Ok(())
        })
        .await;
    allow(&policy).await;
    stage.settled("app", super::stage::Seen::all_placed).await;
}

/// A decision that admission refuses is told in its own words, and nothing of it is begun; it is tried again, though nobody touches
/// the application.
#[tokio::test]
async fn a_decision_that_is_refused_is_told_and_tried_again() {
    let stage = Stage::set("no-decision", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&stage).await;
    let (of_app, words) = ("object.metadata.name == 'app'", "nothing is decided for now");
    let policy = refuse(&stage, ("CREATE", "cairn.dev", "placements"), of_app, words).await;
    let operator = format!("--as={OPERATOR_USER}");
    let create = ["create", "--dry-run=server", operator.as_str(), "-f-"];
    is_refused(&stage, create, &decision("app"), words).await;
    stage.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    stage.event("app", "Refused", words).await;
    let refused = stage
        .seen("app", |seen| {
            let told = seen.message("Accepted", "False")?;
            ensure!(told.starts_with("Placement app was refused: ") && told.contains(words), "{told}");
            ensure!(
                seen.condition("Accepted").is_some_and(|it| it.reason == "Refused"),
                "{:?}",
                seen.condition("Accepted")
            );
            let ready = seen.message("Ready", "False")?;
            ensure!(ready == told, "{ready}");
            Ok(())
        })
        .await;
    assert_eq!((refused.decision.is_none(), refused.instances.len(), refused.pods.len()), (true, 0, 0));
    let port = stage.product.operator.port(8080).unwrap();
    let text = e2e::process::http(port, "/metrics").await.unwrap().body;
    let counted = "cairn_operator_reconciles_total{result=\"Refused\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(counted));
    assert!(count.is_some_and(|count| count != "0"), "{count:?}");
    allow(&policy).await;
    let made = stage.settled("app", Seen::all_placed).await;
    assert_eq!(made.application.metadata.generation, refused.application.metadata.generation);
    made.message("Accepted", "True").unwrap();
    unaffected(&stage, &bystander).await;
}

/// More actors than are planned at once: it is said what is too large and what to do, and nothing is made.
#[tokio::test]
async fn an_application_that_is_too_large_is_told_so() {
    let stage = Stage::set("large", [SimulatedNode::new("quiet")], [cpus()]).await;
    let bystander = bystander(&stage).await;
    stage.apply(&application("app", &[("a", 5001, &[("cpu", "1ms")])])).await;
    let seen = stage
        .seen("app", |seen| {
            let told = seen.message("TooLarge", "True")?;
            ensure!(told.contains("wants 5001 actors; at most 5000, divide it"), "{told}");
            ensure!(
                seen.condition("Accepted").is_some_and(|it| it.reason == "TooLarge"),
                "{:?}",
                seen.condition("Accepted")
            );
            Ok(())
        })
        .await;
    assert_eq!((seen.pods.len(), seen.instances.len()), (0, 0));
    unaffected(&stage, &bystander).await;
}
