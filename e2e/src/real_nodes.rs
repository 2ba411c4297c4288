//! Real nodes: a kubelet with containerd, each in namespaces of its own, beside the control plane.
//!
//! ```text
//! cairn-e2e up ──stdin──► cairn-e2e node           the node's namespaces: mounts, network, processes
//!   │                        └─► process 1 of the node: reaps, and takes everything with it when it ends
//!   │                              └─► containerd, kubelet, and every container
//!   └─ forwards 10.0.0.1:443 of each node to the API server, as kube-proxy would
//! ```
//!
//! A node ends when its stdin closes, which the kernel does for a supervisor that is killed. With process 1 of a
//! process namespace every process in it ends, with the last process go its mounts and its network, and the
//! cgroups, which have no owner, are removed then. The sysctls that a kubelet sets are files of its own. So a node
//! leaves nothing behind on the machine, unless whoever cleans up is killed as well: its empty cgroups then go when the
//! next node starts.
//!
//! What a node does not have: kube-proxy, so the only Service with an address is that of the API server, and a cluster DNS,
//! unless one is [started](Cluster::start_dns). Pods reach each other, whatever node they are on, and the API server; the
//! machine reaches pods.
//!
//! It needs root, for namespaces and mounts, and `ip` of iproute2.

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
    control_plane::ControlPlane,
    images::Image,
    keeper::{self, Child},
    kubeconfig::{self, Credentials},
    wait,
};

pub use namespaces::{become_node, first_process};
pub use node::run;

mod cgroups;
mod configuration;
mod dns;
mod namespaces;
pub(crate) mod network;
mod node;

/// The image that holds a pod's namespaces; each node has it from its start.
pub const PAUSE_IMAGE: &str = "registry.local/cairn-e2e-pause:e2e";

/// Where it is written, in the state folder of a control plane.
const PAUSE_ARCHIVE: &str = "run/pause.tar";

/// How long a new process may take until it has its namespaces.
const NAMESPACES_LIMIT: Duration = Duration::from_mins(3);

/// A node with a kubelet, as `cairn-e2e up` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RealNode {
    /// The name of its Node.
    pub name: String,
    /// Everything of this node. `run`, `var-lib` and `var-log` are what it has at `/run`, `/var/lib` and `/var/log`.
    pub state: PathBuf,
    /// Its address, which the machine reaches.
    pub address: Ipv4Addr,
}

impl RealNode {
    /// The folder of the kubelet, which it knows as `/var/lib/kubelet`: device plugins' sockets are in it.
    pub fn kubelet(&self) -> PathBuf {
        self.state.join("var-lib/kubelet")
    }

    /// The socket on which the kubelet says which pod has which device.
    pub fn pod_resources(&self) -> PathBuf {
        self.kubelet().join("pod-resources/kubelet.sock")
    }

    /// The process of the kubelet.
    pub fn kubelet_process(&self) -> Result<Pid> {
        let flag = configuration::kubelet_config_flag(&self.state);
        let is_it = |id: &i32| {
            let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.split('\0').any(|argument| argument == flag)
        };
        let ids = std::fs::read_dir("/proc").context("cannot read /proc")?.flatten();
        let mut ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let id = ids.find(is_it).and_then(Pid::from_raw);
        id.with_context(|| format!("{} has no kubelet now", self.name))
    }

    /// Kills the kubelet. The node starts another one; what runs in containers goes on meanwhile.
    pub fn kill_kubelet(&self) -> Result<()> {
        kill_process(self.kubelet_process()?, Signal::KILL)
            .with_context(|| format!("cannot kill the kubelet of {}", self.name))
    }

    /// containerd's own client, for the containers of the kubelet.
    fn ctr(&self, bin: &Path, arguments: &[&OsStr]) -> tokio::process::Command {
        let mut ctr = tokio::process::Command::new(bin.join("ctr"));
        ctr.arg("--address").arg(self.state.join("run/containerd/containerd.sock"));
        ctr.arg("--namespace=k8s.io").args(arguments);
        ctr
    }
}

impl Cluster {
    /// Gives `image` to every real node. Pods that use it say `imagePullPolicy: Never`.
    pub async fn load(&self, image: &Image) -> Result<()> {
        let archive = self.plane().state.join("run").join(format!("image-{}.tar", self.number()));
        image.write(&archive)?;
        self.load_archive(&archive).await?;
        std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
    }

    /// Gives the image in an archive to every real node.
    pub async fn load_archive(&self, archive: &Path) -> Result<()> {
        let plane = self.plane();
        let words = [OsStr::new("images"), OsStr::new("import"), archive.as_os_str()];
        let imports = plane.nodes.iter().map(async |node| {
            let imported = command::run(node.ctr(&plane.bin, &words), "").await;
            imported.with_context(|| format!("{} does not take the image {}", node.name, archive.display()))
        });
        futures::future::try_join_all(imports).await.map(drop)
    }
}

/// What a node is told at its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    node: RealNode,
    /// The folder of the tools.
    bin: PathBuf,
    /// The authority that signs clients of the kubelet.
    authority: PathBuf,
    /// An archive with [`PAUSE_IMAGE`].
    pause: PathBuf,
    network: network::Network,
}

/// Where the cables of a node end: the process whose network it is, and its addresses.
pub(crate) struct Cable(u32, network::Network);

/// Prepares `count` nodes: their names, their certificates, and the image that every node has.
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

/// Starts the node `name` of those that were prepared, beside `plane`, whose API server must answer.
///
/// It has started when this returns; when it is Ready, its Node says so. `cables` are those of the nodes that were started
/// before; it is added to them.
pub(crate) async fn start(
    plane: &ControlPlane,
    name: &str,
    cables: &mut Vec<Cable>,
) -> Result<(RealNode, Child)> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "real nodes need root, for their namespaces and mounts: run this as root, in a container with --privileged"
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
    let log = plane.state.join("log").join(format!("{name}.log"));
    let mut child = Child::spawn_held(name, &log, &["node", &cgroups::name(name)])?;
    let pid = child.pid().context("it has not been waited for")?;
    let separate = wait::until(NAMESPACES_LIMIT, async || namespaces::are_separate(pid)).await;
    separate.map_err(|seen| {
        anyhow::anyhow!("{name} gets no namespaces of its own: {seen}\n{}", child.last_words())
    })?;
    let (network, listener) = network::Network::join(pid)?;
    for Cable(other_pid, other) in cables.iter() {
        network.connect(pid, *other, *other_pid)?;
    }
    cables.push(Cable(pid, network));
    tokio::spawn(network::forward(listener, plane.ports["kube-apiserver"]));
    let node = RealNode { name: name.to_owned(), state, address: network.node() };
    let plan = Plan {
        node: node.clone(),
        bin: plane.bin.clone(),
        authority: plane.authority(),
        pause: plane.state.join(PAUSE_ARCHIVE),
        network,
    };
    child.tell(&plan).await?;
    Ok((node, child))
}
