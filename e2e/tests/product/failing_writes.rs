//! An API server that answers 500 to writes of one kind: the reason is reported, and everything else continues.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::product::NAMESPACE;
use e2e::{SimulatedNode, wait_for};
use serde_json::json;

use crate::claims::{offer_claimed_devices, withdraw_claimed_devices};
use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, failing_webhook, webhooks};
use crate::installation::cluster;
use crate::would_move::condition;

/// Within this time a failure is reported.
const REPORTED_WITHIN: Duration = Duration::from_mins(1);

/// A kind of objects whose writes fail for one application.
struct FailingKind {
    /// The application; no name is the beginning of another.
    application: &'static str,
    /// Group and resource.
    resource: (&'static str, &'static str),
    /// The beginning of the event's note.
    note: &'static str,
}

const CAIRN: &str = "cairn.dev";

const KINDS: [FailingKind; 10] = {
    const fn kind(
        application: &'static str,
        resource: (&'static str, &'static str),
        note: &'static str,
    ) -> FailingKind {
        FailingKind { application, resource, note }
    }
    [
        kind("no-placement", (CAIRN, "placements"), "failed to write Placement no-placement: "),
        kind("no-instance", (CAIRN, "instances"), "failed to write Instance no-instance-a-0: "),
        kind("no-pod", ("", "pods"), "failed to write Pod no-pod-a-0-trial: "),
        kind(
            "no-claim",
            ("resource.k8s.io", "resourceclaims"),
            "failed to write ResourceClaim no-claim-a-0-",
        ),
        kind("no-service", ("", "services"), "failed to write Service no-service: "),
        kind("no-file", ("", "configmaps"), "failed to write ConfigMap no-file-peers: "),
        kind(
            "no-revision",
            ("apps", "controllerrevisions"),
            "failed to write ControllerRevision no-revision-",
        ),
        kind(
            "status-of-application",
            (CAIRN, "actorapplications/status"),
            "failed to write status of ActorApplication status-of-application: ",
        ),
        kind(
            "status-of-placement",
            (CAIRN, "placements/status"),
            "failed to write status of Placement status-of-placement: ",
        ),
        kind(
            "status-of-instance",
            (CAIRN, "instances/status"),
            "failed to write status of Instance status-of-instance-a-0: ",
        ),
    ]
};

/// An application whose events cannot be written.
const WITHOUT_EVENTS: &str = "no-events";
/// A pool whose status cannot be written.
const POOL: &str = "no-status";

/// Whether an event about an object reports a failed request; `namespace` is that of the event.
async fn is_reported(env: &TestEnv, namespace: &str, name: &str, note: &str) -> Result<()> {
    let events = env.events(namespace, name).await?;
    let is_it = |(reason, said): &(String, String)| {
        reason == "RequestFailed"
            && said.starts_with(note)
            && said.contains("failed calling webhook")
            && said.ends_with("; retrying")
    };
    ensure!(events.iter().any(is_it), "{name}: {events:?}");
    Ok(())
}

/// Writes of each kind fail for an application of its own, all at the same time.
#[tokio::test]
async fn failing_writes_of_one_kind_are_reported_and_block_no_other_application() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).cpu("16"));
    let env = TestEnv::new("failing-writes", nodes, [cpus()]).await;
    offer_claimed_devices(&env).await;
    let namespace = env.namespace.name();
    let of_application = |kind: &FailingKind| {
        let FailingKind { application, resource, .. } = kind;
        let condition =
            format!("request.namespace == '{namespace}' && object.metadata.name.startsWith('{application}')");
        failing_webhook(application, *resource, &condition)
    };
    let mut hooks: Vec<_> = KINDS.iter().map(of_application).collect();
    let its_events = format!("object.regarding.name == '{WITHOUT_EVENTS}'");
    hooks.push(failing_webhook(WITHOUT_EVENTS, ("events.k8s.io", "events"), &its_events));
    let its_status = format!("object.metadata.name == '{POOL}'");
    hooks.push(failing_webhook(POOL, (CAIRN, "devicepools/status"), &its_status));
    let name = format!("{namespace}-fails");
    env.apply(&webhooks(&name, &hooks)).await;
    let refused = ["create", "configmap", "no-file-trial", "--dry-run=server"];
    wait_for("the webhooks are in force", TIMEOUT, async || {
        let created = env.namespace.kubectl(refused).await;
        ensure!(
            created.is_err_and(|error| format!("{error:#}").contains("failed calling webhook")),
            "created"
        );
        anyhow::Ok(())
    })
    .await;

    for FailingKind { application: name, .. } in &KINDS {
        let kind = if *name == "no-claim" { "npu" } else { "cpu" };
        env.apply(&application(name, &[("a", 1, &[(kind, "1ms")])])).await;
    }
    env.apply(&application(WITHOUT_EVENTS, &[("a", 1, &[("cpu", "1ms")]), ("b", 1, &[("fpga", "1ms")])]))
        .await;
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": POOL},
        "spec": {"kind": "none", "resource": {"devicePlugin": "example.com/none"}, "nodeSelector": {"matchLabels": {"no": "node"}}}});
    env.apply(&pool).await;
    wait_for("each failure is an event", REPORTED_WITHIN, async || {
        for FailingKind { application, note, .. } in &KINDS {
            is_reported(&env, namespace, application, note).await?;
        }
        is_reported(&env, "default", POOL, &format!("failed to write status of DevicePool {POOL}: ")).await
    })
    .await;

    wait_for("each failure is a condition, where one can be written", REPORTED_WITHIN, async || {
        let writable = KINDS.iter().filter(|kind| kind.application != "status-of-application");
        for FailingKind { application, note, .. } in writable {
            let state = env.observe(application).await?;
            let message = state.message("RequestFailed", "True")?;
            ensure!(message.contains(note), "{application}: {message}");
        }
        anyhow::Ok(())
    })
    .await;

    // the status of one object does not wait for that of another
    for (name, condition) in [("status-of-instance", "Placed"), ("status-of-placement", "Ready")] {
        env.wait_until(name, |state| state.message(condition, "True").map(drop)).await;
    }
    // without events the failure is reported in a condition
    let without_events = env
        .wait_until(WITHOUT_EVENTS, |state| {
            let message = state.message("Placed", "False")?;
            ensure!(message.contains("b-0 ("), "{message}");
            ensure!(state.pods.len() == 1, "{} pods", state.pods.len());
            Ok(())
        })
        .await;
    assert_eq!(env.events(namespace, WITHOUT_EVENTS).await.unwrap(), []);
    // an application that comes later is planned, started and reported
    env.apply(&application("bystander", &[("a", 1, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("bystander", AppState::all_placed).await;
    assert!(env.product.operator.exit().is_none(), "it runs");

    // everything is retried until it succeeds
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
    for FailingKind { application, .. } in &KINDS {
        env.wait_reconciled(application, |state| {
            state.message("Ready", "True")?;
            ensure!(condition(state, "RequestFailed").is_none(), "{application}: it still fails");
            state.all_placed()
        })
        .await;
    }
    assert!(env.product.operator.exit().is_none(), "it runs");
    assert_eq!(without_events.application.metadata.generation, Some(1));
    for FailingKind { application: name, .. } in &KINDS {
        env.namespace.kubectl(["delete", "actorapp", name]).await.unwrap();
    }
    withdraw_claimed_devices(&env).await;
}

/// An operator that cannot renew its Lease exits before another replica may acquire it, as after a lost election.
/// Running actors are unaffected, and the next operator continues.
#[tokio::test]
async fn an_operator_whose_lease_cannot_be_renewed_ends_in_order() {
    let mut env = TestEnv::new("failing-lease", [SimulatedNode::new("one")], [cpus()]).await;
    env.apply(&application("before", &[("a", 1, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("before", AppState::all_placed).await;
    let its_lease = format!("request.namespace == '{NAMESPACE}' && object.metadata.name == 'cairn-operator'");
    let name = format!("{}-fails", env.namespace.name());
    let hook = failing_webhook("lease", ("coordination.k8s.io", "leases"), &its_lease);
    env.apply(&webhooks(&name, &[hook])).await;
    let exit = env.product.operator.wait_ended(TIMEOUT).await.unwrap();
    assert_eq!(exit.code, Some(1), "it neither panics nor is killed: {exit}");
    env.apply(&application("during", &[("a", 1, &[("cpu", "1ms")])])).await;
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
    env.product.operator = cluster().start_operator().await.unwrap();
    env.wait_reconciled("during", AppState::all_placed).await;
    let after = env.observe("before").await.unwrap();
    let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&after), uids(&before));
}
