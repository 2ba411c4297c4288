//! Shared by all tests here: two nodes with a kubelet, and the product on them.

use std::{path::PathBuf, sync::Mutex as SyncMutex, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    AuditEvent, Cluster, Process, RealNode,
    images::Image,
    keeper,
    kubelet_api::BROKEN,
    process::Launch,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    release, wait_for,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::live::{self, Live};

/// The limit for everything, far above the usual time, for busy machines.
pub const SOON: Duration = Duration::from_mins(5);

/// The image of idle pods.
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

/// The names of a node's NPUs; those of `real-1` are [`BROKEN`]. They have no plugin unless a test starts one.
pub fn npus(node: &str) -> Vec<String> {
    let name = if node == "real-0" { "npu" } else { BROKEN };
    (0..2).map(|number| format!("{name}-{number}")).collect()
}

/// The simulated topology of a node.
pub fn machine(node: &str) -> Value {
    let gpus = devices(node).into_iter();
    let gpus = gpus.map(|id| json!({"id": id, "type": "GPU", "vendor": "nvidia", "model": "A100"}));
    let npus = npus(node).into_iter();
    let npus = npus.map(|id| json!({"id": id, "type": "NPU", "vendor": "acme", "model": "N1"}));
    let devices: Vec<_> = gpus.chain(npus).collect();
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": node},
        "spec": {"devices": devices}})
}

/// Waits for exclusive use of the cluster, until the guard is dropped.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The product as users install it, and what it reported with the real hardware.
pub struct Product {
    /// What the agents discovered on the machine itself.
    pub live: Live,
    /// The device plugins, by node.
    pub plugins: SyncMutex<Vec<(&'static str, Process)>>,
}

/// Operator and agents as pods, devices from plugins. Installed once: first with agents that discover the machine,
/// which has no GPU; then upgraded to agents with simulated GPUs.
pub async fn product() -> &'static Product {
    static PRODUCT: OnceCell<Product> = OnceCell::const_new();
    PRODUCT.get_or_init(install).await
}

async fn install() -> Product {
    let cluster = cluster().await;
    // the images of `make images`, and an agent image with simulated topologies for later
    let folder = released();
    release::make(&folder, "registry.local", "e2e").unwrap();
    for name in [AGENT, OPERATOR] {
        cluster.load_archive(&folder.join(format!("{name}.tar"))).await.unwrap();
    }
    let mut agent = release::image(AGENT, "registry.local", "described").unwrap();
    for (node, _) in DEVICES {
        agent = agent.text(&machine(node).to_string(), &format!("/machines/{node}.yaml"));
    }
    let pause = keeper::built("cairn-e2e-pause").unwrap();
    let actor = Image::new(ACTOR_IMAGE, "/actor").program(&pause, "/actor").unwrap();
    for image in [agent, actor] {
        cluster.load(&image).await.unwrap();
    }
    let mut plugins = Vec::new();
    for (name, _) in DEVICES {
        plugins.push((name, plugin(name, RESOURCE, &devices(name))));
    }

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
    settings.push("--set=agent.leaseSeconds=6".into());
    settings.push("--set=agent.podResources=Enabled".into());
    let domains = "--set=agent.numaDomains.enabled=true";
    let discovering: Vec<_> = settings.iter().map(String::as_str).chain([domains]).collect();
    cluster.install_pods(&discovering).await.unwrap();
    all_ready().await;
    let live = live::look().await;

    // each agent publishes its own node: the kubelet sets the name
    settings.push("--set=agent.image.tag=described".into());
    settings.push("--set=agent.simulate=/machines/$(NODE_NAME).yaml".into());
    let chart = tree("charts/cairn");
    let upgrade = ["upgrade", "cairn", chart.to_str().unwrap(), "--namespace", NAMESPACE];
    cluster.helm(upgrade.into_iter().chain(settings.iter().map(String::as_str))).await.unwrap();
    all_ready().await;
    Product { live, plugins: SyncMutex::new(plugins) }
}

/// The folder of the images of operator and agent, as `make images` writes them.
pub fn released() -> PathBuf {
    Cluster::shared_with(DEVICES.len()).plane().state.join("run/images")
}

/// A plugin that gives a node these devices.
pub fn plugin(name: &str, resource: &str, devices: &[String]) -> Process {
    let arguments = [
        format!("--kubelet={}", node(name).kubelet().display()),
        format!("--resource={resource}"),
        format!("--devices={}", devices.join(",")),
    ];
    let launch = Launch { arguments: arguments.into(), ..Launch::default() };
    let program = keeper::built("cairn-e2e-device-plugin").unwrap();
    Cluster::shared_with(DEVICES.len()).run("device-plugin", &program, launch).unwrap()
}

/// Waits until both operators and one agent per node are ready with the current chart.
async fn all_ready() {
    let client = cluster().await.client().await.unwrap();
    let (sets, deployments) = (
        Api::<DaemonSet>::namespaced(client.clone(), NAMESPACE),
        Api::<Deployment>::namespaced(client, NAMESPACE),
    );
    wait_for("operator and agents are ready", SOON, async || {
        let set = sets.get(AGENT).await?;
        let agents = set.status.unwrap_or_default();
        let operators = deployments.get(OPERATOR).await?.status.unwrap_or_default();
        let updated = usize::try_from(agents.updated_number_scheduled.unwrap_or(0))?;
        let ready = (updated, usize::try_from(agents.number_ready)?, operators.ready_replicas);
        ensure!(agents.observed_generation == set.metadata.generation, "the DaemonSet is not reconciled");
        ensure!(ready == (DEVICES.len(), DEVICES.len(), Some(2)), "{ready:?}");
        // terminating pods of before the upgrade do not count
        let pods = self::agents().await?.len();
        ensure!(pods == DEVICES.len(), "{pods} pods of agents");
        anyhow::Ok(())
    })
    .await;
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
    // an ended process has no cgroup
    let in_pod = |id: &u32| {
        std::fs::read_to_string(format!("/proc/{id}/cgroup")).is_ok_and(|cgroups| cgroups.contains(&uid))
    };
    ids.filter(in_pod).collect()
}

/// The process of an agent in its pod.
pub fn agent_process(pod: &Pod) -> u32 {
    *processes(pod).iter().find(|id| status_of(**id, "Name") == "cairn-node-agen").unwrap()
}

/// When a process started, to a hundredth of a second.
pub fn started(process: u32) -> Timestamp {
    let first = |path: &str, field: usize| -> f64 {
        let text = std::fs::read_to_string(path).unwrap();
        // the second field is a name, which may have spaces in it
        let fields = text.rsplit_once(')').map_or(text.as_str(), |(_, rest)| rest);
        fields.split_whitespace().nth(field).unwrap().parse().unwrap()
    };
    let ticks = first(&format!("/proc/{process}/stat"), 19);
    let age = first("/proc/uptime", 0) - ticks / 100.0;
    Timestamp::now() - SignedDuration::from_secs_f64(age)
}

/// With --nocapture, rows of docs/results/node-agent/real-nodes.md: the time until each agent published, and its memory.
pub async fn tell_of(what: &str, agents: &[Pod]) {
    let cluster = cluster().await;
    for pod in agents {
        let node = pod.spec.as_ref().unwrap().node_name.as_ref().unwrap();
        let process = agent_process(pod);
        let since = started(process);
        let published = wait_for("the write of the NodeTopology is in the audit log", SOON, async || {
            let log = cluster.audit().await?;
            let of_node = |event: &&AuditEvent| event.resource == "nodetopologies" && event.name == *node;
            let mut writes = log.events().iter().filter(|event| by_agent(event)).filter(of_node);
            let first = writes.clone().find(|event| event.received >= since);
            first
                .map(|event| event.received)
                .with_context(|| format!("since {since}: {:?}", writes.next_back()))
        })
        .await;
        let took = published.duration_since(since).as_secs_f64();
        let memory = status_of(process, "VmRSS");
        eprintln!("\n| {what} | {node} | {took:.2} s | {memory} |");
    }
}

/// Whether it is a write of an agent.
pub fn by_agent(event: &AuditEvent) -> bool {
    event.is_write() && event.is_by_service_account(NAMESPACE, AGENT)
}

/// A line `NAME: VALUE` of the status of a process.
pub fn status_of(process: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
}
