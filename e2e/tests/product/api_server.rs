//! The API server throttles, expires watches, lacks a CRD, or changes while a plan is made.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use e2e::{
    AuditEvent, SimulatedNode, keeper,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    wait_for,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::Request,
};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

/// The operator's requests after `before`, from the audit log.
async fn asked(before: &e2e::AuditLog) -> anyhow::Result<Vec<AuditEvent>> {
    let now = cluster().audit().await?;
    let by_it = |event: &&AuditEvent| event.is_by_service_account(NAMESPACE, OPERATOR);
    Ok(now.since(before).iter().filter(by_it).cloned().collect())
}

/// Sends a dry-run create as this service account and returns the HTTP status code.
async fn answer_to(
    env: &TestEnv,
    account: &str,
    namespace: &str,
    url: &str,
    body: &Value,
) -> anyhow::Result<u16> {
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let mut request = Request::new(url).create(&parameters, body.to_string().into_bytes())?;
    let user = format!("system:serviceaccount:{namespace}:{account}");
    request.headers_mut().insert("impersonate-user", user.parse()?);
    match env.client.request::<DynamicObject>(request).await {
        Ok(_) => Ok(201),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(other) => Err(other.into()),
    }
}

const THROTTLED: usize = 12;
/// The number of lease renewals to wait for while throttled; one every two seconds.
const RENEWALS: usize = 3;
/// The maximum number of requests per pod and renewal; without backoff there would be hundreds.
const TRIES: usize = 10;

/// R16: the API server answers pod creations with 429. The operator stays leader, retries with backoff, and finishes when the
/// throttling ends.
#[tokio::test]
async fn throttled_pod_creations_back_off_and_succeed_later() {
    let cluster = cluster();
    let env = TestEnv::new("throttled", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let history = env.watch_pods().await;
    let flow = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "nothing"},
         "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"}}}},
        {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "pods-of-the-operator"},
         "spec": {"matchingPrecedence": 10, "priorityLevelConfiguration": {"name": "nothing"}, "rules": [{
            "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": OPERATOR, "namespace": NAMESPACE}}],
            "resourceRules": [{"verbs": ["create"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}]}]}}]});
    cluster.kubectl_with(["apply", "-f-"], &flow.to_string()).await.unwrap();
    // the one concurrent request that is always admitted waits at the gate
    let gate = e2e::Gate::close(cluster, &env.namespace, &[("pods", 0)]).await.unwrap();
    let before = cluster.audit().await.unwrap();
    env.apply(&application("app", &[("a", u32::try_from(THROTTLED).unwrap(), &[("cpu", "1ms")])])).await;
    let tried = wait_for("some lease renewals while throttled", TIMEOUT, async || {
        let asked = asked(&before).await?;
        let is_throttled = |event: &&AuditEvent| event.resource == "pods" && event.code == 429;
        let first = asked.iter().find(is_throttled).ok_or_else(|| anyhow!("it was not throttled"))?;
        let renewed = |event: &&AuditEvent| event.resource == "leases" && event.received > first.received;
        let renewals = asked.iter().filter(|event| event.is_write()).filter(renewed).count();
        ensure!(renewals >= RENEWALS, "{renewals} renewals");
        Ok((renewals, asked.iter().filter(is_throttled).count()))
    })
    .await;
    assert!(tried.1 <= THROTTLED * TRIES * (tried.0 + 1), "renewals, pod requests: {tried:?}");
    assert_eq!(env.product.operator.exit(), None, "it stays leader");
    let started = history.wait_synced().await.pods_per_actor();
    assert!(started.is_empty(), "{started:?}");

    gate.open();
    cluster.kubectl(["delete", "flowschema", "pods-of-the-operator"]).await.unwrap();
    env.wait_reconciled("app", AppState::all_placed).await;
    cluster.kubectl(["delete", "prioritylevelconfiguration", "nothing"]).await.unwrap();
    let lives = history.wait_synced().await.pods_per_actor();
    assert!(lives.len() == THROTTLED && lives.values().all(|count| *count == 1), "{lives:?}");
    env.product.operator.wait_ready().await.unwrap();
}

/// An outage that no healthy operator ends in. Its Lease of 15 s was renewed at most 2 s before, and is at most 2 s afterwards.
const SURVIVED: Duration = Duration::from_secs(10);

/// Restarts the API server and waits until the operator logs an expired resource version (410) and lists that kind again; false if
/// the operator exits instead. Also returns how long the outage was.
async fn reads_what_expired(env: &TestEnv) -> anyhow::Result<(bool, Duration)> {
    let operator = &env.product.operator;
    let (before, heard) = (cluster().audit().await?, operator.printed()?.len());
    let began = Instant::now();
    cluster().restart_apiserver()?;
    let outage = began.elapsed();
    let read = wait_for("the expired kind is listed again", TIMEOUT, async || {
        if operator.exit().is_some() {
            return Ok(false);
        }
        let printed = operator.printed()?;
        let too_old = printed[heard..].lines().filter(|line| line.contains("too old resource version"));
        let kind = |line: &str| Some(line.split_once("kind=")?.1.split_whitespace().next()?.to_lowercase());
        let kinds: BTreeSet<String> = too_old.filter_map(kind).collect();
        let asked = asked(&before).await?;
        let is_read = |event: &AuditEvent| {
            let kind = event.resource.strip_suffix('s');
            event.verb == "list" && event.code == 200 && kind.is_some_and(|kind| kinds.contains(kind))
        };
        ensure!(asked.iter().any(is_read), "{kinds:?} expired, {} requests", asked.len());
        Ok(true)
    });
    Ok((read.await, outage))
}

/// R17: after a restart the API server does not know the watched resource version any more (410). The operator lists again and
/// writes nothing twice.
#[tokio::test]
async fn an_expired_watch_relists_without_duplicate_writes() {
    let cluster = cluster();
    let mut env = TestEnv::new("gap", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let start = cluster.audit().await.unwrap();
    env.apply(&application("app", &[("a", 4, &[("cpu", "1ms")])])).await;
    let first = env.wait_reconciled("app", AppState::all_placed).await;
    // if the outage outlasts the lease, the operator exits, and its successor has no watches yet
    let mut tries = 0;
    let outage = loop {
        let (is_read, outage) = reads_what_expired(&env).await.unwrap();
        if is_read {
            break outage;
        }
        assert!(outage > SURVIVED, "the operator exited in an outage of {outage:?}");
        tries += 1;
        assert!(tries < 3, "the operator exits each time");
        env.product.operator = cluster.start_operator().await.unwrap();
    };
    let patch = json!({"spec": {"paused": true}}).to_string();
    // the operator may still be reconnecting, or exit late
    let after = wait_for("a change is reconciled", TIMEOUT, async || {
        if env.product.operator.exit().is_some() {
            assert!(outage > SURVIVED, "the operator exited after an outage of {outage:?}");
            env.product.operator = cluster.start_operator().await?;
        }
        env.namespace.kubectl(["patch", "actorapp", "app", "--type=merge", "-p", &patch]).await?;
        let state = env.observe("app").await?;
        state.message("Paused", "True")?;
        anyhow::Ok(state)
    })
    .await;
    let uids = |state: &AppState| -> BTreeSet<_> { state.pods.iter().map(kube::ResourceExt::uid).collect() };
    assert_eq!(uids(&after), uids(&first), "no pod is recreated");
    let started = |event: &&AuditEvent| {
        event.resource == "pods" && event.verb == "create" && event.code == 201 && !event.is_trial()
    };
    let here = |event: &&AuditEvent| event.namespace == env.namespace.name();
    let all = asked(&start).await.unwrap();
    assert_eq!(all.iter().filter(here).filter(started).count(), 4, "each pod is created once");
}

/// R15: an operator that starts before a CRD waits for it and continues when it is installed.
#[tokio::test]
async fn the_operator_waits_for_missing_crds() {
    let cluster = cluster();
    let mut env = TestEnv::new("kinds", ["one", "two"].map(SimulatedNode::new), []).await;
    let _ = env.product.operator.stop().await;
    cluster.kubectl(["delete", "crd", "devicepools.cairn.dev"]).await.unwrap();
    let before = cluster.audit().await.unwrap();
    let workload = cluster.operator().await.unwrap();
    env.product.operator = workload.start(&keeper::built(OPERATOR).unwrap()).await.unwrap();
    wait_for("the CRD is missing", TIMEOUT, async || {
        let asked = asked(&before).await?;
        let in_vain = |event: &AuditEvent| event.uri.contains("/devicepools") && event.code == 404;
        ensure!(asked.iter().any(in_vain), "{} requests", asked.len());
        anyhow::Ok(())
    })
    .await;
    let file = tree("charts/cairn/files/crds/devicepools.yaml");
    cluster
        .kubectl(["apply".into(), "--server-side".into(), "-f".into(), file.into_os_string()])
        .await
        .unwrap();
    env.product.operator.wait_ready().await.unwrap();
    wait_for("the CRD is served", TIMEOUT, async || {
        cluster.kubectl_with(["apply", "-f-"], &cpus().to_string()).await.map(drop)
    })
    .await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
}

/// `lose` removes the only GPU between plan and commit, and another one is added: the plan is discarded without side effects, and a
/// new one is made.
async fn lost_meanwhile(prefix: &str, lose: impl AsyncFnOnce(&TestEnv)) {
    let cluster = cluster();
    let node = |name: &str| SimulatedNode::new(name).resource("acme.com/gpu", 1);
    let mut env = TestEnv::new(prefix, [node("one")], [gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 1).await;
    let history = env.watch_pods().await;
    let gate = e2e::Gate::close(cluster, &env.namespace, &[("placements", 0)]).await.unwrap();
    env.apply(&application("app", &[("a", 1, &[("gpu", "1ms")])])).await;
    wait_for("the commit is held", TIMEOUT, async || {
        ensure!(gate.held("placements") > 0, "nothing is held");
        anyhow::Ok(())
    })
    .await;
    lose(&env).await;
    env.wait_offered("gpus", 0).await;
    env.describe_devices("two", &[("gpu-0", "GPU")]);
    env.nodes.add(node("two")).await.unwrap();
    env.wait_offered("gpus", 1).await;
    gate.open();
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(state.places()["a-0"], "two/gpus-0");
    assert_eq!(history.wait_synced().await.pods_per_actor()["a-0"], 1);
    assert_eq!(history.unschedulable(), Vec::<String>::new());
}

/// R32: a foreign pod takes the only GPU during planning.
#[tokio::test]
async fn a_device_taken_during_planning_is_not_committed() {
    lost_meanwhile("meanwhile", async |env| {
        let limits = json!({"requests": {"acme.com/gpu": "1"}, "limits": {"acme.com/gpu": "1"}});
        env
            .apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": {"nodeName": "one",
                "containers": [{"name": "c", "image": "none", "resources": limits}]}}))
            .await;
    })
    .await;
}

/// R37: the only GPU is lost during planning.
#[tokio::test]
async fn a_device_lost_during_planning_is_not_committed() {
    lost_meanwhile("vanished", async |env| env.describe_devices("one", &[("gpu-0:lost", "GPU")])).await;
}

/// An unanswered commit blocks only its own application.
#[tokio::test]
async fn an_unanswered_commit_delays_no_other_application() {
    let cluster = cluster();
    let env = TestEnv::new("unanswered", [SimulatedNode::new("one")], [cpus()]).await;
    let beside = cluster.namespace("answered").await.unwrap();
    let gate = e2e::Gate::close(cluster, &env.namespace, &[("placements", 0)]).await.unwrap();
    let manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    env.apply(&manifest).await;
    wait_for("the commit is held", TIMEOUT, async || {
        ensure!(gate.held("placements") == 1, "nothing is held");
        anyhow::Ok(())
    })
    .await;
    beside.apply(&manifest.to_string()).await.unwrap();
    wait_for("the other is placed while the first is held", TIMEOUT, async || {
        beside.kubectl(["get", "placement", "app"]).await?;
        ensure!(gate.held("placements") == 1, "it was released meanwhile: {}", gate.held("placements"));
        anyhow::Ok(())
    })
    .await;
    gate.open();
    env.wait_reconciled("app", AppState::all_placed).await;
}

/// R59: the permissions of agents affect neither leadership nor placements.
#[tokio::test]
async fn agents_cannot_write_the_leader_lease_or_placements() {
    let env = TestEnv::new("deposed", ["one"].map(SimulatedNode::new), [cpus()]).await;
    let leases = Api::<Lease>::namespaced(env.client.clone(), NAMESPACE);
    let holder = async || anyhow::Ok(leases.get(OPERATOR).await?.spec.and_then(|spec| spec.holder_identity));
    let before = holder().await.unwrap();
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let placement = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Placement", "metadata": {"name": "app"}, "spec": {}});
    let forged = [
        (format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"), lease(OPERATOR)),
        (format!("/apis/cairn.dev/v1alpha1/namespaces/{}/placements", env.namespace), placement),
    ];
    for (url, body) in forged {
        assert_eq!(answer_to(&env, AGENT, NAMESPACE, &url, &body).await.unwrap(), 403, "{url}");
    }
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:{AGENT}");
    for verb in ["update", "patch", "delete"] {
        let may =
            ["auth", "can-i", verb, "leases.coordination.k8s.io/cairn-operator", "-n", NAMESPACE, &user];
        let output = cluster().kubectl(may).await;
        let output = output.map_or_else(|no| no.to_string(), |yes| yes.stdout);
        assert!(output.contains("no"), "{verb}: {output}");
    }
    assert_eq!(holder().await.unwrap(), before, "the holder is the same");
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
}
