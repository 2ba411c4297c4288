//! The oldest Kubernetes version that the chart permits, which has no dynamic resource allocation: actors are placed, and a pool that
//! the cluster cannot serve is named and changes nothing.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use crds::{ActorApplication, DevicePool};
use e2e::{Cluster, Namespace, SimulatedNode, product::tree, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(3);

/// The version in the chart's `kubeVersion`, such as `1.33`.
fn oldest() -> String {
    let chart = fs::read_to_string(tree("charts/cairn/Chart.yaml")).unwrap();
    let line = chart.lines().find_map(|line| line.strip_prefix("kubeVersion: \">=")).unwrap();
    line.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn application(name: &str, kind: &str) -> Value {
    let requests = json!({"cpu": "500m", "memory": "64Mi"});
    let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
    let template = json!({"spec": {"containers": [container]}});
    let implementation = json!({"kind": kind, "serviceTime": "1ms", "template": template});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": name},
        "spec": {"actors": [{"name": "actor", "replicas": 2, "arrivals": "1/s", "implementations": [implementation]}]}})
}

/// The uids of the pods, all of which run.
async fn running(namespace: &Namespace<'_>, cluster: &Cluster) -> Result<Vec<Option<String>>> {
    let pods = Api::<Pod>::namespaced(cluster.client().await?, namespace.name());
    let pods = pods.list(&ListParams::default()).await?.items;
    for pod in &pods {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(phase == Some("Running"), "{} is {phase:?}", pod.name_any());
    }
    Ok(pods.iter().map(Pod::uid).collect())
}

#[tokio::test]
async fn a_pool_of_claimed_devices_is_unsupported_and_changes_no_pod() {
    let cluster = Cluster::start_emulating(&oldest()).unwrap();
    let groups = cluster.kubectl(["api-versions"]).await.unwrap().stdout;
    assert!(!groups.lines().any(|group| group == "resource.k8s.io/v1"), "{groups}");
    cluster.install(Path::new(""), &[]).await.unwrap();
    let _nodes = cluster.nodes([SimulatedNode::new("one")]).await.unwrap();
    let mut operator = cluster.start_operator().await.unwrap();
    let pool = |name: &str, spec: Value| json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name}, "spec": spec});
    let apply =
        async |object: Value| cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    apply(pool("cpus", json!({"kind": "cpu"}))).await;
    let namespace = cluster.namespace("oldest").await.unwrap();
    namespace.apply(&application("on-cpus", "cpu").to_string()).await.unwrap();
    let before = wait_for("both actors run", SOON, async || {
        let pods = running(&namespace, &cluster).await?;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        anyhow::Ok(pods)
    })
    .await;

    apply(pool(
        "claimed",
        json!({"kind": "npu", "resource": {"dra": {"deviceClassName": "npu.example.com"}}}),
    ))
    .await;
    namespace.apply(&application("on-npus", "npu").to_string()).await.unwrap();
    let pools = Api::<DevicePool>::all(cluster.client().await.unwrap());
    wait_for("the pool is unsupported", SOON, async || {
        let pool = pools.get("claimed").await?;
        let conditions = pool.status.context("no status")?.conditions;
        let unsupported = conditions.iter().find(|it| it.type_ == "Unsupported" && it.status == "True");
        let message = &unsupported.with_context(|| format!("{conditions:?}"))?.message;
        ensure!(
            message.contains("resource.k8s.io/v1") && message.contains("use resource.devicePlugin"),
            "{message}"
        );
        anyhow::Ok(())
    })
    .await;
    let applications = Api::<ActorApplication>::namespaced(cluster.client().await.unwrap(), namespace.name());
    wait_for("its actors wait", SOON, async || {
        let application = applications.get("on-npus").await?;
        let conditions = application.status.context("no status")?.conditions;
        let placed = conditions.iter().find(|it| it.type_ == "Placed").context("no condition Placed")?;
        ensure!(placed.status == "False" && placed.message.contains("npu"), "{placed:?}");
        anyhow::Ok(())
    })
    .await;

    // A restarted operator, as after a change of versions, finds the same.
    operator.stop().await.unwrap();
    let operator = cluster.start_operator().await.unwrap();
    operator.wait_ready().await.unwrap();
    namespace.apply(&application("later", "cpu").to_string()).await.unwrap();
    let after = wait_for("later actors run, too", SOON, async || {
        let pods = running(&namespace, &cluster).await?;
        ensure!(pods.len() == 4, "{} pods", pods.len());
        anyhow::Ok(pods)
    })
    .await;
    assert!(before.iter().all(|uid| after.contains(uid)), "{before:?} became {after:?}");
    let doctor = cluster.kubectl_cairn().unwrap().arg("doctor").output().await.unwrap();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("no dynamic resource allocation"), "{doctor}");
}
