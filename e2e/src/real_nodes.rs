//! Real nodes: each is a kubelet with containerd in its own namespaces, beside the control plane.
//!
//! ```text
//! cairn-e2e up ──stdin──► cairn-e2e node           the node's namespaces: mounts, network, processes
//!   │                        └─► process 1 of the node: reaps processes; when it ends, the kernel kills all others
//!   │                              └─► containerd, kubelet, and every container
//!   └─ forwards 10.0.0.1:443 of each node to the API server, as kube-proxy would
//! ```
//!
//! A node ends when its stdin closes, also when its supervisor is killed. All processes of a PID namespace end with process 1,
//! and the node's mounts and network end with its last process. Its cgroups, which have no owner, are removed then. The
//! sysctls that a kubelet sets are private files. So a node leaves nothing behind on the machine, unless the process that
//! cleans up is killed as well. The next node that starts then removes its empty cgroups.
//!
//! A node has no kube-proxy, so only the API server's Service is reachable, and no cluster DNS unless one is
//! [started](Cluster::start_dns). Pods reach the API server and each other across nodes; the machine reaches pods.
//!
//! Requires root, for namespaces and mounts, and `ip` of iproute2.

use std::{
    ffi::OsStr,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{
    Cluster,
    certificates::Authority,
    command,
    control_plane::{ControlPlane, RealNodes},
    images::Image,
    keeper::{self, Child},
    kubeconfig::{self, Credentials},
    wait,
};

pub use namespaces::{become_node, first_process};
pub use node::run;

mod cgroups;
mod configuration;
mod delay;
mod dns;
mod namespaces;
pub(crate) mod network;
mod node;

/// The pause image, imported on each node at its start.
pub const PAUSE_IMAGE: &str = "registry.local/cairn-e2e-pause:e2e";

/// Its archive, in the state folder of a control plane.
const PAUSE_ARCHIVE: &str = "run/pause.tar";

/// The time limit for a new process to enter its namespaces.
const NAMESPACES_LIMIT: Duration = Duration::from_mins(3);

/// A node with a kubelet, as `cairn-e2e up` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RealNode {
    /// The name of the Node object.
    pub name: String,
    /// The state folder of this node. `run`, `var-lib` and `var-log` are its `/run`, `/var/lib` and `/var/log`.
    pub state: PathBuf,
    /// The address, reachable from the machine.
    pub address: Ipv4Addr,
}

impl RealNode {
    /// The kubelet's folder, inside the node `/var/lib/kubelet`; it contains the sockets of device plugins.
    pub fn kubelet(&self) -> PathBuf {
        self.state.join("var-lib/kubelet")
    }

    /// The socket of the kubelet's PodResources API.
    pub fn pod_resources(&self) -> PathBuf {
        self.kubelet().join("pod-resources/kubelet.sock")
    }

    /// The kubelet's process.
    pub fn kubelet_process(&self) -> Result<Pid> {
        self.process(&configuration::kubelet_config_flag(&self.state), "kubelet")
    }

    /// The process with this flag.
    fn process(&self, flag: &str, name: &str) -> Result<Pid> {
        let is_it = |id: &i32| {
            let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.split('\0').any(|argument| argument == flag)
        };
        let ids = std::fs::read_dir("/proc").context("cannot read /proc")?.flatten();
        let mut ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let id = ids.find(is_it).and_then(Pid::from_raw);
        id.with_context(|| format!("{} has no {name} now", self.name))
    }

    /// Kills the kubelet. The node restarts it; containers keep running.
    pub fn kill_kubelet(&self) -> Result<()> {
        kill_process(self.kubelet_process()?, Signal::KILL)
            .with_context(|| format!("cannot kill the kubelet of {}", self.name))
    }

    /// Kills containerd. The node restarts it; containers keep running.
    pub fn kill_containerd(&self) -> Result<()> {
        let process = self.process(&configuration::containerd_config_flag(&self.state), "containerd")?;
        kill_process(process, Signal::KILL)
            .with_context(|| format!("cannot kill containerd of {}", self.name))
    }

    /// A command of containerd's client in the kubelet's namespace.
    fn ctr(&self, bin: &Path, arguments: &[&OsStr]) -> tokio::process::Command {
        let mut ctr = tokio::process::Command::new(bin.join("ctr"));
        ctr.arg("--address").arg(self.state.join("run/containerd/containerd.sock"));
        ctr.arg("--namespace=k8s.io").args(arguments);
        ctr
    }
}

impl Cluster {
    /// Imports `image` on every real node. Pods that use it need `imagePullPolicy: Never`.
    pub async fn load(&self, image: &Image) -> Result<()> {
        let archive = self.plane().state.join("run").join(format!("image-{}.tar", self.number()));
        image.write(&archive)?;
        self.load_archive(&archive).await?;
        std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
    }

    /// Imports `image` on one real node.
    pub async fn load_on(&self, node: &RealNode, image: &Image) -> Result<()> {
        let archive = self.plane().state.join("run").join(format!("image-{}.tar", self.number()));
        image.write(&archive)?;
        self.import(&archive, std::slice::from_ref(node)).await?;
        std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
    }

    /// Imports the image in an archive on every real node.
    pub async fn load_archive(&self, archive: &Path) -> Result<()> {
        self.import(archive, &self.plane().nodes).await
    }

    async fn import(&self, archive: &Path, nodes: &[RealNode]) -> Result<()> {
        let plane = self.plane();
        let words = [OsStr::new("images"), OsStr::new("import"), archive.as_os_str()];
        let imports = nodes.iter().map(async |node| {
            let imported = command::run(node.ctr(&plane.bin, &words), "").await;
            imported.with_context(|| format!("{} cannot import the image {}", node.name, archive.display()))
        });
        futures::future::try_join_all(imports).await.map(drop)
    }
}

/// The start-up parameters of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    node: RealNode,
    /// The folder of the tools.
    bin: PathBuf,
    /// The certificate authority of the kubelet's clients.
    authority: PathBuf,
    /// The archive of [`PAUSE_IMAGE`].
    pause: PathBuf,
    network: network::Network,
    /// Cores of the machine that pods of the node cannot use, by number.
    foreign_cores: Vec<usize>,
}

/// The end of a node's network links: the process in its network namespace, and its addresses.
pub(crate) struct Link(u32, network::Network);

/// Prepares `count` nodes: names, certificates and the pause image.
pub(crate) fn prepare(authority: &Authority, state: &Path, count: usize) -> Result<Vec<String>> {
    let names: Vec<_> = (0..count).map(|number| format!("real-{number}")).collect();
    for name in &names {
        authority.client(name, &format!("system:node:{name}"), &["system:nodes"])?;
    }
    if count > 0 {
        Image::new(PAUSE_IMAGE, "/pause")
            .program(&keeper::built("cairn-e2e-pause")?, "/pause")?
            .write(&state.join(PAUSE_ARCHIVE))?;
    }
    Ok(names)
}

/// Starts the prepared node `name` beside `plane`, whose API server must be reachable.
///
/// Does not wait until the Node is Ready. `links` are those of the nodes started before; its own is appended.
pub(crate) async fn start(
    plane: &ControlPlane,
    name: &str,
    nodes: RealNodes,
    links: &mut Vec<Link>,
) -> Result<(RealNode, Child)> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "real nodes need root for namespaces and mounts; run this as root, in a container with --privileged"
    );
    let state = plane.state.join(name);
    for folder in ["run", "var-lib", "var-log", "containerd", "cni", "cdi", "opt", "sysctls"] {
        let folder = state.join(folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
    }
    let pki = plane.state.join("pki");
    let (certificate, key) = (pki.join(format!("{name}.crt")), pki.join(format!("{name}.key")));
    let credentials = Credentials::Certificate { certificate: &certificate, key: &key };
    kubeconfig::write(
        &state.join("kubeconfig"),
        network::SERVER,
        &plane.authority(),
        credentials,
        "default",
    )?;

    cgroups::remove_abandoned();
    let cores = std::thread::available_parallelism().context("cannot count the cores")?.get();
    let own_core = links.len() % cores;
    let log = plane.state.join("log").join(format!("{name}.log"));
    let mut child = Child::spawn_held(name, &log, &["node", &cgroups::name(name)])?;
    let pid = child.pid().context("the node has ended")?;
    let separate = wait::until(NAMESPACES_LIMIT, async || namespaces::are_separate(pid)).await;
    separate.map_err(|seen| {
        anyhow::anyhow!("{name} cannot enter its own namespaces: {seen}\n{}", child.last_words())
    })?;
    let (network, listener) = network::Network::join(pid)?;
    for Link(other_pid, other) in links.iter() {
        network.connect(pid, *other, *other_pid, nodes.delay)?;
    }
    links.push(Link(pid, network));
    tokio::spawn(network::forward(listener, plane.ports["kube-apiserver"]));
    let node = RealNode { name: name.to_owned(), state, address: network.node() };
    let plan = Plan {
        node: node.clone(),
        bin: plane.bin.clone(),
        authority: plane.authority(),
        pause: plane.state.join(PAUSE_ARCHIVE),
        network,
        foreign_cores: (0..cores).filter(|core| nodes.one_core && *core != own_core).collect(),
    };
    child.tell(&plan).await?;
    Ok((node, child))
}
