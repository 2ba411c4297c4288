//! What all tests here share: two nodes with a kubelet, and the product on them.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    Cluster, Process, RealNode,
    images::Image,
    keeper,
    process::Launch,
    product::{AGENT, NAMESPACE},
    wait_for,
};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything may take; far more than it does, for machines with other things to do.
pub const SOON: Duration = Duration::from_mins(2);

/// The image of pods that do nothing.
pub const ACTOR_IMAGE: &str = "registry.local/actor:e2e";

/// The resource of the devices, and how many each node has.
pub const RESOURCE: &str = "nvidia.com/gpu";
pub const DEVICES: [(&str, usize); 2] = [("real-0", 1), ("real-1", 2)];

/// The control plane with its nodes, both Ready.
pub async fn cluster() -> &'static Cluster {
    let cluster = Cluster::shared_with(DEVICES.len());
    cluster.wait_nodes_ready(&DEVICES.map(|(name, _)| name)).await.unwrap();
    cluster
}

/// The node of this name.
pub fn node(name: &str) -> &'static RealNode {
    let nodes = &Cluster::shared_with(DEVICES.len()).plane().nodes;
    nodes.iter().find(|node| node.name == name).unwrap()
}

/// The names of a node's devices, the same for plugin and topology.
pub fn devices(node: &str) -> Vec<String> {
    let (_, count) = DEVICES.iter().find(|(name, _)| *name == node).unwrap();
    (0..*count).map(|number| format!("GPU-{node}-{number}")).collect()
}

/// The machine that the agent of a node describes.
pub fn machine(node: &str) -> Value {
    let devices: Vec<_> = devices(node)
        .iter()
        .map(|id| json!({"id": id, "type": "GPU", "vendor": "nvidia", "model": "A100"}))
        .collect();
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": node},
        "spec": {"devices": devices}})
}

/// The installed product: agents as pods on the nodes, the operator as a process beside them.
pub struct Product {
    pub _operator: Process,
    _plugins: Vec<Process>,
}

/// The product, installed by the first who asks.
pub async fn product() -> &'static Product {
    static PRODUCT: OnceCell<Product> = OnceCell::const_new();
    PRODUCT.get_or_init(install).await
}

async fn install() -> Product {
    let cluster = cluster().await;
    let mut image = Image::new("registry.local/cairn-node-agent:e2e", "/cairn-node-agent")
        .program(&keeper::built(AGENT).unwrap(), "/cairn-node-agent")
        .unwrap();
    for (node, _) in DEVICES {
        image = image.text(&machine(node).to_string(), &format!("/machines/{node}.yaml"));
    }
    cluster.load(&image).await.unwrap();
    let pause = keeper::built("cairn-e2e-pause").unwrap();
    cluster.load(&Image::new(ACTOR_IMAGE, "/actor").program(&pause, "/actor").unwrap()).await.unwrap();

    let plugins = DEVICES.map(|(name, _)| {
        let kubelet = node(name).kubelet().display().to_string();
        let arguments = [
            format!("--kubelet={kubelet}"),
            format!("--resource={RESOURCE}"),
            format!("--devices={}", devices(name).join(",")),
        ];
        let launch = Launch { arguments: arguments.into(), ..Launch::default() };
        cluster.run("device-plugin", &keeper::built("cairn-e2e-device-plugin").unwrap(), launch).unwrap()
    });

    // each agent describes the node that it is on: the kubelet puts the name in
    let settings = [
        "--set=agent.image.repository=registry.local/cairn-node-agent",
        "--set=agent.image.tag=e2e",
        "--set=agent.image.pullPolicy=Never",
        "--set=agent.leaseSeconds=6",
    ];
    cluster.install_agents(Path::new("/machines/$(NODE_NAME).yaml"), &settings).await.unwrap();
    let client = cluster.client().await.unwrap();
    let sets = Api::<DaemonSet>::namespaced(client.clone(), NAMESPACE);
    wait_for("an agent is ready on every node", SOON, async || {
        let set = sets.get(AGENT).await?;
        let status = set.status.unwrap_or_default();
        ensure!(
            status.observed_generation == set.metadata.generation
                && usize::try_from(status.number_ready)? == DEVICES.len(),
            "{} of {}",
            status.number_ready,
            status.desired_number_scheduled
        );
        anyhow::Ok(())
    })
    .await;
    Product { _operator: cluster.start_operator().await.unwrap(), _plugins: plugins.into() }
}

/// The agents' pods.
pub async fn agents() -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(cluster().await.client().await?, NAMESPACE);
    let of_it = ListParams::default().labels("app.kubernetes.io/component=node-agent");
    Ok(pods.list(&of_it).await?.items)
}

/// The processes of a pod, by their ids on this machine.
pub fn processes(pod: &Pod) -> Vec<u32> {
    let uid = pod.uid().unwrap();
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // one that ends meanwhile is in no cgroup
    let in_pod = |id: &u32| {
        std::fs::read_to_string(format!("/proc/{id}/cgroup")).is_ok_and(|cgroups| cgroups.contains(&uid))
    };
    ids.filter(in_pod).collect()
}

/// A line `NAME: VALUE` of the status of a process.
pub fn status_of(process: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
}
