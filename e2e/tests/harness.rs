//! The harness itself: assumptions of the product's tests.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::bail;
use e2e::{
    AuditEvent, Cluster, SimulatedNode, control_plane::ControlPlane, keeper, process::Launch, wait_for,
};

const SOON: Duration = Duration::from_mins(3);

#[tokio::test]
async fn a_pod_runs_on_a_simulated_node_with_the_requested_resources() {
    let cluster = Cluster::shared();
    let nodes = [
        SimulatedNode::new("plain").label("for", "pods"),
        SimulatedNode::new("gpus").label("for", "pods").resource("nvidia.com/gpu", 2),
    ];
    let nodes = cluster.nodes(nodes).await.unwrap();
    let namespace = cluster.namespace("pods").await.unwrap();
    let manifest = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "actor"}, "spec": {
        "nodeSelector": {"for": "pods"},
        "containers": [{"name": "actor", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}"#;
    namespace.apply(manifest).await.unwrap();
    wait_for("the pod runs on the node with GPUs", SOON, async || {
        let seen = namespace.kubectl([
            "get",
            "pod",
            "-ojsonpath={.items[0].status.phase} {.items[0].spec.nodeName}",
        ]);
        let seen = seen.await?.stdout;
        if seen == "Running gpus" { Ok(()) } else { bail!("{seen}") }
    })
    .await;
    // KWOK deletes pods by name, sometimes twice: admission refuses a pod whose deletion was not requested.
    let by_kwok = ["delete", "pod", "actor", "--now", "--as=kwok", "--as-group=system:masters"];
    wait_for("KWOK must not delete it", SOON, async || {
        let trial = by_kwok.into_iter().chain(["--dry-run=server"]);
        match namespace.kubectl(trial).await {
            Err(refused) if refused.to_string().contains("the deletion of this pod was not requested") => {
                Ok(())
            }
            other => bail!("{other:?}"),
        }
    })
    .await;
    let refused = namespace.kubectl(by_kwok).await.unwrap_err().to_string();
    assert!(refused.contains("the deletion of this pod was not requested"), "{refused}");
    namespace.kubectl(["delete", "pod", "actor"]).await.unwrap();
    drop(nodes);
    wait_for("no node is left", SOON, async || {
        let seen = cluster.kubectl(["get", "node", "-lfor=pods", "-oname"]).await?.stdout;
        if seen.is_empty() { Ok(()) } else { bail!("{seen}") }
    })
    .await;
}

#[tokio::test]
async fn tests_have_separate_namespaces_that_are_deleted() {
    let cluster = Cluster::shared();
    let (one, other) = (cluster.namespace("own").await.unwrap(), cluster.namespace("own").await.unwrap());
    assert_ne!(one.name(), other.name());
    let name = one.name().to_owned();
    one.kubectl(["create", "configmap", "settings"]).await.unwrap();
    assert_eq!(
        other.kubectl(["get", "configmap", "settings", "--ignore-not-found"]).await.unwrap().stdout,
        ""
    );
    drop(one);
    wait_for("the namespace is gone", SOON, async || {
        let seen = cluster.kubectl(["get", "namespace", &name, "--ignore-not-found"]).await?.stdout;
        if seen.is_empty() { Ok(()) } else { bail!("{seen}") }
    })
    .await;
}

#[tokio::test]
async fn refusals_contain_the_api_server_message() {
    let cluster = Cluster::shared();
    let message = cluster.refused(r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "No"}}"#);
    let message = message.await.unwrap();
    assert!(message.contains(r#"metadata.name: Invalid value: "No""#), "{message}");
    let error = cluster.kubectl(["get", "unicorns"]).await.unwrap_err().to_string();
    assert!(error.contains(r#"the server doesn't have a resource type "unicorns""#), "{error}");
}

#[tokio::test]
async fn the_audit_log_attributes_requests() {
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("audit").await.unwrap();
    let before = cluster.audit().await.unwrap();
    namespace.kubectl(["create", "configmap", "seen"]).await.unwrap();
    let after = cluster.audit().await.unwrap();
    let here = |event: &&AuditEvent| event.namespace == namespace.name() && event.name == "seen";
    let seen: Vec<_> = after.since(&before).iter().filter(here).collect();
    let [event] = seen.as_slice() else { panic!("one request, not {seen:#?}") };
    assert_eq!((event.user.as_str(), event.verb.as_str(), event.code), ("admin", "create", 201));
    assert!(event.is_write() && event.user_agent.starts_with("kubectl/"), "{event:?}");
    assert_eq!(before.events().iter().filter(here).count(), 0);
}

#[tokio::test]
async fn the_tools_have_the_pinned_versions() {
    let cluster = Cluster::shared();
    assert!(cluster.helm(["version", "--short"]).await.unwrap().stdout.starts_with("v4.3.1"));
    let version = cluster.kubectl(["version", "-ojson"]).await.unwrap().stdout;
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.36.3");
    let kubeconform = cluster.command("kubeconform").arg("-v").output().unwrap();
    assert_eq!(String::from_utf8(kubeconform.stdout).unwrap().trim(), "v0.8.0");
}

/// The "product" is `kubectl proxy`: it listens, has a probe, and its permissions are those of its token.
#[tokio::test]
async fn a_workload_runs_as_a_process_with_its_service_account() {
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("workload").await.unwrap();
    namespace.apply(&WORKLOAD.replace("NAMESPACE", namespace.name())).await.unwrap();
    let before = cluster.audit().await.unwrap();

    let rendered = cluster.deployment(namespace.name(), "product").await.unwrap();
    let mut product = rendered.arg("-v=1").start(&cluster.plane().bin.join("kubectl")).await.unwrap();
    product.wait_ready().await.unwrap();
    assert_ne!(product.port(8001).unwrap(), 8001);
    let allowed = product.get(&format!("/api/v1/namespaces/{namespace}/configmaps")).await.unwrap();
    assert_eq!(allowed.0, 200, "{allowed:?}");
    let refused = product.get(&format!("/api/v1/namespaces/{namespace}/secrets")).await.unwrap();
    assert_eq!(refused.0, 403, "{refused:?}");

    let after = cluster.audit().await.unwrap();
    let by_it = |event: &&AuditEvent| event.is_by_service_account(namespace.name(), "product");
    let its: Vec<_> = after.since(&before).iter().filter(by_it).collect();
    let answers =
        its.iter().filter(|event| !event.resource.is_empty()).map(|event| (&*event.resource, event.code));
    assert_eq!(answers.collect::<Vec<_>>(), [("configmaps", 200), ("secrets", 403)]);
    let grants = cluster.grants(namespace.name(), "product").await.unwrap();
    let unused =
        grants.iter().filter(|grant| !its.iter().any(|event| grant.allowed(event))).map(ToString::to_string);
    assert_eq!(unused.collect::<Vec<_>>(), [format!("watch configmaps in {namespace}")]);

    product.freeze().unwrap();
    assert!(product.exit().is_none());
    product.thaw().unwrap();
    product.stop().await.unwrap();
    assert!(product.get("/version").await.is_err());
}

const WORKLOAD: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: product}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: product}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: product}
subjects: [{kind: ServiceAccount, name: product, namespace: NAMESPACE}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: product}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: product}
spec:
  replicas: 0
  selector: {matchLabels: {app: product}}
  template:
    metadata: {labels: {app: product}}
    spec:
      serviceAccountName: product
      containers:
      - name: product
        image: none
        args: [proxy, --port=8001, "--reject-paths=^$"]
        ports: [{name: http, containerPort: 8001}]
        readinessProbe: {httpGet: {path: /version, port: http}}
"#;

/// If the owner of the pipe is killed, the supervisor stops everything and removes the state folder.
#[tokio::test]
async fn a_killed_owner_leaves_no_control_plane() {
    let mut holder = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut supervisor = Command::new(keeper::executable().unwrap())
        .arg("up")
        .stdin(holder.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let plane: ControlPlane = serde_json::from_str(&line).unwrap();
    assert_eq!(plane.pids.len(), 5);
    assert!(plane.pids.values().all(|pid| is_alive(*pid)));

    holder.kill().unwrap(); // SIGKILL
    holder.wait().unwrap();
    assert!(supervisor.wait().unwrap().success());
    assert_eq!(plane.pids.iter().filter(|(_, pid)| is_alive(**pid)).collect::<Vec<_>>(), []);
    assert!(!plane.state.exists());
}

/// If the keeper itself is killed, the kernel kills its process.
#[tokio::test]
async fn processes_die_with_their_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = Command::new(keeper::executable().unwrap())
        .args(["keep", "--log"])
        .arg(folder.path().join("log"))
        .args(["sleep", "600"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let keeper::Report::Running(pid) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
    assert!(is_alive(pid));
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    wait_for("the process is gone", SOON, async || if is_alive(pid) { Err("it lives") } else { Ok(()) })
        .await;
}

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    let cluster = Cluster::shared();
    let sleep = || {
        let launch = Launch { arguments: vec!["600".into()], ..Launch::default() };
        cluster.run("sleep", Path::new("/bin/sleep"), launch).unwrap()
    };
    let mut process = sleep();
    assert!(process.rss_peak_kib().unwrap() > 0);
    assert_eq!(process.stop().await.unwrap().to_string(), "signal 15");
    assert_eq!(sleep().kill9().await.unwrap().to_string(), "signal 9");
    let dropped = sleep();
    let pid = dropped.pid();
    drop(dropped);
    assert!(!is_alive(pid));
}

/// Whether the process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the state follows the name, which is in parentheses and may contain anything
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
