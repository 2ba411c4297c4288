//! What all tests here share: two nodes with a kubelet, and the product on them.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{
    Cluster, Process, RealNode,
    images::Image,
    keeper,
    process::Launch,
    product::{AGENT, NAMESPACE, OPERATOR},
    wait_for,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

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

/// Waits until nobody else changes the cluster, and keeps it until the guard is dropped.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The product as users have it: operator and agents as pods on the nodes, devices from plugins. Installed once.
pub async fn product() {
    static PLUGINS: OnceCell<Vec<Process>> = OnceCell::const_new();
    PLUGINS.get_or_init(install).await;
}

async fn install() -> Vec<Process> {
    let cluster = cluster().await;
    let image = |name: &str| {
        let program = format!("/{name}");
        let image = Image::new(&format!("registry.local/{name}:e2e"), &program);
        image.program(&keeper::built(name).unwrap(), &program).unwrap()
    };
    let mut agent = image(AGENT);
    for (node, _) in DEVICES {
        agent = agent.text(&machine(node).to_string(), &format!("/machines/{node}.yaml"));
    }
    let pause = keeper::built("cairn-e2e-pause").unwrap();
    let actor = Image::new(ACTOR_IMAGE, "/actor").program(&pause, "/actor").unwrap();
    for image in [agent, image(OPERATOR), actor] {
        cluster.load(&image).await.unwrap();
    }

    let plugins = DEVICES.map(|(name, _)| {
        let arguments = [
            format!("--kubelet={}", node(name).kubelet().display()),
            format!("--resource={RESOURCE}"),
            format!("--devices={}", devices(name).join(",")),
        ];
        let launch = Launch { arguments: arguments.into(), ..Launch::default() };
        cluster.run("device-plugin", &keeper::built("cairn-e2e-device-plugin").unwrap(), launch).unwrap()
    });

    let mut settings: Vec<_> = [("agent", AGENT), ("operator", OPERATOR)]
        .iter()
        .flat_map(|(part, name)| {
            let image = format!("--set={part}.image");
            [
                format!("{image}.repository=registry.local/{name}"),
                format!("{image}.tag=e2e"),
                format!("{image}.pullPolicy=Never"),
            ]
        })
        .collect();
    // each agent describes the node that it is on: the kubelet puts the name in
    settings.push("--set=agent.simulate=/machines/$(NODE_NAME).yaml".into());
    settings.push("--set=agent.leaseSeconds=6".into());
    settings.push("--set=agent.podResources=Enabled".into());
    cluster.install_pods(&settings.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let (sets, deployments) = (
        Api::<DaemonSet>::namespaced(client.clone(), NAMESPACE),
        Api::<Deployment>::namespaced(client, NAMESPACE),
    );
    wait_for("operator and agents are ready", SOON, async || {
        let agents = sets.get(AGENT).await?.status.unwrap_or_default();
        let operators = deployments.get(OPERATOR).await?.status.unwrap_or_default();
        let ready = (usize::try_from(agents.number_ready)?, operators.ready_replicas);
        ensure!(ready == (DEVICES.len(), Some(1)), "{ready:?}");
        anyhow::Ok(())
    })
    .await;
    plugins.into()
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
