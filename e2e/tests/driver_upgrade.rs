//! A node's GPU driver is released for an upgrade: the agent unloads it, no new actors are placed, running ones stay.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use crds::{ActorApplication, DevicePool, NodeTopology};
use e2e::{
    Cluster, Namespace, Process, SimulatedNode,
    hardware::{Driver, FakeKubelet},
    keeper,
    product::AGENT,
    wait_for,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;

const SOON: Duration = Duration::from_mins(3);

const NODE: &str = "released";

/// An actor that needs one or two GPUs.
fn application(replicas: u32) -> String {
    let container = json!({"name": "actor", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
    let gpu = json!({"kind": "gpu", "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}});
    let group = json!({"name": "one", "replicas": replicas, "arrivals": "1/s", "implementations": [gpu]});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "vision"},
        "spec": {"actors": [group]}})
    .to_string()
}

/// How many descriptors of a file a process and its children hold: a driver can be unloaded only if its device is closed.
fn holds(process: &Process, file: &Path) -> usize {
    let children = format!("/proc/{0}/task/{0}/children", process.pid());
    let children = fs::read_to_string(children).unwrap_or_default();
    let pids = children.split_whitespace().map(str::to_owned).chain([process.pid().to_string()]);
    let descriptors = pids.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten().flatten();
    descriptors.filter(|entry| fs::read_link(entry.path()).is_ok_and(|held| held == file)).count()
}

/// The node, its fake driver, and API clients.
struct Scene<'a> {
    cluster: &'a Cluster,
    namespace: Namespace<'a>,
    topologies: Api<NodeTopology>,
    pools: Api<DevicePool>,
    pods: Api<Pod>,
    applications: Api<ActorApplication>,
}

impl Scene<'_> {
    /// Sets or removes the label that releases the drivers.
    async fn label(&self, is_released: bool) {
        let label = if is_released { "cairn.dev/gpu-driver=released" } else { "cairn.dev/gpu-driver-" };
        self.cluster.kubectl(["label", "node", NODE, label]).await.unwrap();
    }

    /// Sets the label by which NVIDIA's GPU operator pauses a component while it upgrades the driver, or the one of use.
    async fn pause(&self, is_paused: bool) {
        let value = if is_paused { "paused-for-driver-upgrade" } else { "true" };
        let label = format!("nvidia.com/gpu.deploy.device-plugin={value}");
        self.cluster.kubectl(["label", "--overwrite", "node", NODE, &label]).await.unwrap();
    }

    /// Waits until the agent reports the driver as released, or not.
    async fn released(&self, wanted: bool) {
        wait_for("the agent reports the state of the driver", SOON, async || {
            let conditions = self.topologies.get(NODE).await?.status.unwrap_or_default().conditions;
            let released = conditions.iter().find(|condition| condition.type_ == "DriverReleased");
            ensure!(released.is_some_and(|it| it.status == "True") == wanted, "{conditions:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Waits until this many GPUs and partitions have this health, and returns their driver version.
    async fn gpus(&self, health: &str, parts: usize) -> String {
        wait_for("the GPUs have the expected state", SOON, async || {
            let spec = self.topologies.get(NODE).await?.spec;
            let of_type = |type_: &'static str| spec.devices.iter().filter(move |it| it.type_ == type_);
            ensure!(of_type("GPU Partition").count() == parts, "{:?}", spec.summary());
            let wrong = of_type("GPU").find(|gpu| gpu.health.to_string() != health);
            ensure!(wrong.is_none(), "{wrong:?}");
            let driver = of_type("GPU").next().and_then(|gpu| gpu.driver.clone());
            driver.context("no driver")
        })
        .await
    }

    /// Waits until so many units can take an actor.
    async fn offered(&self, units: i32) {
        wait_for("the pool has the expected units", SOON, async || {
            let status = self.pools.get("gpus").await?.status.unwrap_or_default();
            ensure!(status.healthy == units, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Waits until so many of the wanted actors run, and returns the uids of their pods.
    async fn run(&self, running: i32, wanted: i32) -> Vec<String> {
        wait_for("the expected actors run", SOON, async || {
            let application = self.applications.get("vision").await?;
            let status = application.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == application.metadata.generation, "{status:?}");
            let actors = status.actors.clone().unwrap_or_default();
            ensure!((actors.running, actors.wanted) == (running, wanted), "{status:?}");
            let pods = self.pods.list(&ListParams::default()).await?;
            let mut uids: Vec<_> = pods.iter().filter_map(ResourceExt::uid).collect();
            uids.sort();
            anyhow::Ok(uids)
        })
        .await
    }
}

#[tokio::test]
async fn a_label_releases_the_driver_and_a_new_agent_loads_the_new_one() {
    let cluster = Cluster::shared();
    cluster.install(Path::new(""), &["--set=agent.podResources=Enabled"]).await.unwrap();
    let node = SimulatedNode::new(NODE).resource("nvidia.com/gpu", 2);
    let _nodes = cluster.nodes([node]).await.unwrap();
    let run = cluster.plane().state.join("run");
    let device = run.join("nvidiactl");
    fs::write(&device, "").unwrap();
    let device = fs::canonicalize(device).unwrap();
    let kubelet = FakeKubelet::start(&run.join("released.sock"), Vec::new());
    let driver = Driver::new(run.join("released.driver"), 2).unwrap();
    let now = |words: &str| driver.set(&format!("device={} {words}", device.display())).unwrap();
    now("");
    let workload = cluster.gpu_agent(NODE, &driver, &kubelet).await.unwrap();
    let program = keeper::built(AGENT).unwrap();
    let agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    let _operator = cluster.start_operator().await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace("handover").await.unwrap();
    let scene = Scene {
        cluster,
        topologies: Api::all(client.clone()),
        pools: Api::all(client.clone()),
        pods: Api::namespaced(client.clone(), namespace.name()),
        applications: Api::namespaced(client, namespace.name()),
        namespace,
    };
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "gpus"},
        "spec": {"kind": "gpu", "resource": {"devicePlugin": "nvidia.com/gpu"}}});
    cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    scene.offered(2).await;
    scene.namespace.apply(&application(1)).await.unwrap();
    let first = scene.run(1, 1).await;
    assert_eq!(scene.gpus("ok", 0).await, "nvidia 580.65.06");
    assert!(holds(&agent, &device) > 0, "the fake driver keeps its device open like the real one");

    // released: the device is closed when the agent reports it, no new actors start, running ones stay
    scene.label(true).await;
    scene.released(true).await;
    assert_eq!(holds(&agent, &device), 0);
    scene.gpus("unknown", 0).await;
    scene.offered(0).await;
    scene.namespace.apply(&application(2)).await.unwrap();
    assert_eq!(scene.run(1, 2).await, first);
    assert_eq!(holds(&agent, &device), 0, "the driver is not used meanwhile");

    // an agent that starts meanwhile does not load it either
    let mut agent = agent;
    agent.stop().await.unwrap();
    let agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    scene.released(true).await;
    assert_eq!(holds(&agent, &device), 0);

    // one GPU was partitioned meanwhile: the same agent continues with the current devices; as the node still offers two whole
    // ones, no actor is added
    now("mig=1");
    scene.label(false).await;
    scene.gpus("ok", 2).await;
    scene.released(false).await;
    assert_eq!(scene.run(1, 2).await, first);
    assert!(holds(&agent, &device) > 0);

    // the GPU operator pauses its components before it unloads the driver
    scene.pause(true).await;
    scene.released(true).await;
    assert_eq!(holds(&agent, &device), 0);
    scene.pause(false).await;
    scene.released(false).await;
    scene.gpus("ok", 2).await;

    // another driver version: a restarted agent loads its library
    scene.label(true).await;
    scene.released(true).await;
    now("version=590.44.01");
    scene.label(false).await;
    let exit = agent.wait_ended(SOON).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}", agent.printed().unwrap());
    assert!(agent.printed().unwrap().contains("NVIDIA's driver was replaced, 580.65.06 by 590.44.01"));
    let agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    wait_for("the new driver is known", SOON, async || {
        let driver = scene.gpus("ok", 0).await;
        ensure!(driver == "nvidia 590.44.01", "{driver}");
        anyhow::Ok(())
    })
    .await;
    assert!(scene.run(2, 2).await.contains(&first[0]));
    drop(agent);
}
