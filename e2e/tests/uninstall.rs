//! After an uninstall pods keep running; a new installation adopts them, and users can delete everything, because no finalizer waits
//! for an operator.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Result, bail, ensure};
use e2e::{Cluster, Namespace, Process, SimulatedNode, product::NAMESPACE, wait_for};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(3);

/// All kinds of objects that Cairn creates, or users create for it, in a namespace.
const OURS: &str = "actorapplications,placements,instances,controllerrevisions,services,configmaps,pods";

/// All of Cairn's kinds.
const KINDS: &str = "actorapplications,placements,instances,devicepools,nodetopologies";

/// Operator and agent as installed.
struct Product {
    operator: Process,
    agent: Process,
}

impl Product {
    async fn install(cluster: &Cluster, topologies: &Path) -> Self {
        cluster.install(topologies, &[]).await.unwrap();
        let agent = cluster.start_agent().await.unwrap();
        let operator = cluster.start_operator().await.unwrap();
        Self { operator, agent }
    }

    /// Their pods end a moment after the chart is removed.
    async fn uninstall(mut self, cluster: &Cluster) {
        cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
        self.agent.stop().await.unwrap();
        self.operator.stop().await.unwrap();
        wait_for("the namespace of the agents' Leases is gone", SOON, async || {
            let left = cluster.kubectl(["get", "namespace", "cairn-agents", "--ignore-not-found", "-oname"]);
            let left = left.await?.stdout;
            ensure!(left.is_empty(), "{left} is there");
            anyhow::Ok(())
        })
        .await;
    }
}

/// One actor on a GPU, and so many on whole nodes.
fn application(workers: u32) -> Value {
    let implementation = |kind: &str| {
        let requests = json!({"cpu": "500m", "memory": "64Mi"});
        let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
        json!([{"kind": kind, "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}}])
    };
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
    "spec": {"actors": [
        {"name": "eye", "replicas": 1, "arrivals": "1/s", "implementations": implementation("gpu")},
        {"name": "hand", "replicas": workers, "arrivals": "1/s", "implementations": implementation("cpu")},
    ]}})
}

async fn objects(namespace: &Namespace<'_>, kinds: &str) -> Result<Vec<Value>> {
    let said = namespace.kubectl(["get", kinds, "-ojson"]).await?.stdout;
    let mut list: Value = serde_json::from_str(&said)?;
    Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// The uids of the pods by name, none of which is terminating.
async fn pods(namespace: &Namespace<'_>) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = BTreeMap::new();
    for pod in objects(namespace, "pods").await? {
        let metadata = &pod["metadata"];
        let name = text(&metadata["name"]);
        ensure!(metadata["deletionTimestamp"].is_null(), "{name} is going");
        ensure!(pod["status"]["phase"] == "Running", "{name} is {}", pod["status"]["phase"]);
        found.insert(name, text(&metadata["uid"]));
    }
    Ok(found)
}

/// Waits until exactly so many pods exist and run.
async fn all_run(namespace: &Namespace<'_>, expected: usize) -> BTreeMap<String, String> {
    wait_for("all actors run", SOON, async || {
        let found = pods(namespace).await?;
        ensure!(found.len() == expected, "{} of {expected} run", found.len());
        anyhow::Ok(found)
    })
    .await
}

/// Waits until the garbage collector has processed a newly created orphan, so all earlier ones too.
async fn collected(namespace: &Namespace<'_>) {
    let map = |name: &str, owners: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    namespace.apply(&map("owner", json!([])).to_string()).await.unwrap();
    let uid = namespace.kubectl(["get", "configmap", "owner", "-ojsonpath={.metadata.uid}"]).await.unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid.stdout}]);
    namespace.apply(&map("owned", owner).to_string()).await.unwrap();
    namespace.kubectl(["delete", "configmap", "owner"]).await.unwrap();
    wait_for("the garbage collector processes an orphan", SOON, async || {
        let left = namespace.kubectl(["get", "configmap", "owned", "--ignore-not-found", "-oname"]).await?;
        ensure!(left.stdout.is_empty(), "{}", left.stdout);
        anyhow::Ok(())
    })
    .await;
}

/// Waits until a namespace has no objects of these kinds except the default ones.
async fn nothing_of(kinds: &str, namespace: &Namespace<'_>) {
    wait_for("nothing is left", SOON, async || {
        let said = namespace.kubectl(["get", kinds, "-oname"]).await?.stdout;
        let left: Vec<_> = said.lines().filter(|name| *name != "configmap/kube-root-ca.crt").collect();
        if left.is_empty() { Ok(()) } else { bail!("{left:?}") }
    })
    .await;
}

#[tokio::test]
async fn pods_survive_an_uninstall_until_they_are_deleted() {
    let cluster = Cluster::shared();
    let topologies = cluster.plane().state.join("run/topologies");
    fs::create_dir(&topologies).unwrap();
    let machine = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": "one"},
        "spec": {"devices": [{"id": "gpu-0", "type": "GPU"}, {"id": "gpu-1", "type": "GPU"}]}});
    fs::write(topologies.join("one.yaml"), machine.to_string()).unwrap();
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let _nodes = cluster.nodes(nodes).await.unwrap();
    let product = Product::install(cluster, &topologies).await;
    let pool = |name: &str, spec: Value| json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name}, "spec": spec});
    let gpus = pool("gpus", json!({"kind": "gpu", "resource": {"devicePlugin": "acme.com/gpu"}}));
    let pools =
        json!({"apiVersion": "v1", "kind": "List", "items": [pool("cpus", json!({"kind": "cpu"})), gpus]});
    cluster.kubectl_with(["apply", "-f-"], &pools.to_string()).await.unwrap();
    let (keeps, leaves) =
        (cluster.namespace("keeps").await.unwrap(), cluster.namespace("leaves").await.unwrap());
    for namespace in [&keeps, &leaves] {
        namespace.apply(&application(2).to_string()).await.unwrap();
    }
    let (kept, left) = (all_run(&keeps, 3).await, all_run(&leaves, 3).await);

    // the pods keep running, and no deletion blocks
    product.uninstall(cluster).await;
    for namespace in [&keeps, &leaves] {
        for object in objects(namespace, &format!("{OURS},devicepools,nodetopologies")).await.unwrap() {
            let metadata = &object["metadata"];
            assert!(metadata["finalizers"].is_null(), "{} {metadata}", object["kind"]);
        }
        collected(namespace).await;
    }
    assert_eq!((pods(&keeps).await.unwrap(), pods(&leaves).await.unwrap()), (kept.clone(), left.clone()));

    // a new installation adopts them
    let product = Product::install(cluster, &topologies).await;
    keeps.apply(&application(3).to_string()).await.unwrap();
    let more = all_run(&keeps, 4).await;
    assert!(kept.iter().all(|(name, uid)| more.get(name) == Some(uid)), "{kept:?} became {more:?}");
    assert_eq!(all_run(&leaves, 3).await, left);
    product.uninstall(cluster).await;

    // deleting the applications deletes their pods
    leaves.kubectl(["delete", "actorapplications", "--all"]).await.unwrap();
    nothing_of(OURS, &leaves).await;

    // to keep only the pods, orphan them first
    keeps.kubectl(["delete", "instances", "--all", "--cascade=orphan"]).await.unwrap();
    keeps.kubectl(["delete", "actorapplications", "--all"]).await.unwrap();
    nothing_of("actorapplications,placements,instances,controllerrevisions,services", &keeps).await;
    let said = cluster.kubectl(["get", "crds", "-oname"]).await.unwrap().stdout;
    let crds: Vec<&str> = said.lines().filter(|name| name.ends_with(".cairn.dev")).collect();
    assert_eq!(crds.len(), KINDS.split(',').count(), "{crds:?}");
    cluster.kubectl(["delete"].into_iter().chain(crds)).await.unwrap();
    wait_for("the CRDs are deleted", SOON, async || {
        let said = cluster.kubectl(["get", "crds", "-oname"]).await?.stdout;
        ensure!(!said.contains("cairn.dev"), "{said}");
        anyhow::Ok(())
    })
    .await;
    collected(&keeps).await;
    assert_eq!(pods(&keeps).await.unwrap(), more);
    for pod in objects(&keeps, "pods").await.unwrap() {
        assert!(pod["metadata"]["ownerReferences"].is_null(), "{}", pod["metadata"]);
    }
}
