//! One control plane: its folder, ports and processes, and their start and stop order.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::{
    binaries::{self, Binaries},
    certificates::Authority,
    keeper::{self, Child, Orders},
    kubeconfig::{self, Credentials},
    ports,
    real_nodes::{self, RealNode},
    wait,
};

mod flags;

/// The limit for the API server and the controllers to be ready; four seconds are usual.
const START_LIMIT: Duration = Duration::from_mins(2);

/// The real nodes of a control plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealNodes {
    /// How many there are.
    pub count: usize,
    /// The delay of packets between two of them, in each direction.
    pub delay: Option<Duration>,
    /// Whether the pods of each have a core of their own, as far as the machine has enough.
    pub one_core: bool,
}

/// A running control plane, as `cairn-e2e up` prints it: one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// A folder with kubectl, helm and the other tools for the PATH.
    pub bin: PathBuf,
    /// The files of this run; logs are in `log/`.
    pub state: PathBuf,
    /// The audit log, one JSON event per line.
    pub audit_log: PathBuf,
    /// Each listener's port on 127.0.0.1.
    pub ports: BTreeMap<String, u16>,
    /// Each process's id.
    pub pids: BTreeMap<String, u32>,
    /// The nodes that have a kubelet.
    pub nodes: Vec<RealNode>,
    /// The Kubernetes version whose APIs and features it has, such as `1.33`; without it, that of the programs.
    pub emulated_version: Option<String>,
}

impl ControlPlane {
    /// The API server's URL.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports["kube-apiserver"])
    }

    /// The certificate of the authority that signed the API server's.
    pub fn authority(&self) -> PathBuf {
        self.state.join("pki/ca.crt")
    }

    /// A client with administrator permissions, for the current runtime.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig =
            Kubeconfig::read_from(&self.kubeconfig).context("cannot read the admin's kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Client::try_from(config).context("cannot make a client")
    }
}

/// Makes the supervisor keep the state folder when it stops, after a failure.
///
/// Called while a panic unwinds, so it cannot fail; errors are ignored.
pub(crate) fn mark_failed(state: &Path) {
    let _ = fs::write(state.join("failed"), "");
}

/// The order to restart the API server. The supervisor prints the control plane again when it is ready.
pub(crate) const RESTART: &str = "restart kube-apiserver";

/// The order to stop it until the next restart.
pub(crate) const STOP: &str = "stop kube-apiserver";

/// Starts a control plane with these real nodes, prints it, and runs it until stdin is closed or a signal arrives. With
/// `emulated_version`, it has the APIs and features of that Kubernetes version.
///
/// Then everything is stopped in order and the state folder removed. It is kept, and named on stderr, if
/// something failed or `CAIRN_KEEP=1` is set.
pub async fn up(real_nodes: RealNodes, emulated_version: Option<String>) -> Result<()> {
    let mut orders = Orders::listen()?;
    let binaries = tokio::select! {
        binaries = binaries::ensure(real_nodes.count > 0) => binaries?,
        _ = orders.release() => return Ok(()),
    };
    let state =
        tempfile::Builder::new().prefix("cairn-e2e-").tempdir().context("cannot make a state folder")?.keep();
    let mut running = Running::default();
    let held = match prepare(&binaries, &state, real_nodes.count) {
        Ok((plane, names)) => {
            let plane = ControlPlane { emulated_version, ..plane };
            hold(&mut running, &binaries, (plane, names), real_nodes, &mut orders).await
        }
        Err(error) => Err(error),
    };
    running.stop().await;
    let keep = std::env::var("CAIRN_KEEP").is_ok_and(|value| value == "1");
    if held.is_err() || keep || state.join("failed").exists() {
        eprintln!("control plane stopped; its logs and state are kept in {}", state.display());
    } else {
        fs::remove_dir_all(&state).with_context(|| format!("cannot remove {}", state.display()))?;
    }
    held
}

/// Starts everything and waits for the end, which is an error unless it was requested.
async fn hold(
    running: &mut Running,
    binaries: &Binaries,
    prepared: (ControlPlane, Vec<String>),
    real_nodes: RealNodes,
    orders: &mut Orders,
) -> Result<()> {
    let mut plane = tokio::select! {
        plane = running.start(binaries, prepared, real_nodes) => plane?,
        _ = orders.release() => return Ok(()),
    };
    loop {
        keeper::say(&plane)?;
        let order = tokio::select! {
            order = orders.next() => order,
            error = running.failure() => return Err(error),
        };
        match order.as_deref() {
            Err(_) => return Ok(()),
            Ok(STOP) => {
                running.0[APISERVER].stop().await?;
                keeper::say(&plane)?;
                match orders.next().await.as_deref() {
                    Err(_) => return Ok(()),
                    Ok(RESTART) => plane = running.restart_apiserver(plane).await?,
                    Ok(other) => bail!("unexpected order while the API server is stopped: {other}"),
                }
            }
            Ok(RESTART) => plane = running.restart_apiserver(plane).await?,
            Ok(other) => bail!("unexpected order: {other}"),
        }
    }
}

/// The index of the API server among the processes.
const APISERVER: usize = 1;

/// The running processes in start order: etcd, the API server, and its clients.
#[derive(Default)]
struct Running(Vec<Child>);

impl Running {
    async fn start(
        &mut self,
        binaries: &Binaries,
        (mut plane, names): (ControlPlane, Vec<String>),
        real_nodes: RealNodes,
    ) -> Result<ControlPlane> {
        self.spawn(&plane, "etcd", flags::etcd(&plane))?;
        // the API server would retry and log an error each time
        let etcd = (Ipv4Addr::LOCALHOST, plane.ports["etcd"]);
        self.until("etcd listens", async || TcpStream::connect(etcd).await).await?;
        self.spawn(&plane, "kube-apiserver", flags::apiserver(&plane))?;
        let client = plane.client().await?;
        self.until("the API server is ready", async || ready(&client).await).await?;
        let mut links = Vec::new();
        for name in names {
            let (node, child) = real_nodes::start(&plane, &name, real_nodes, &mut links).await?;
            plane.nodes.push(node);
            self.0.push(child);
        }
        self.spawn(&plane, "kube-controller-manager", flags::controller_manager(&plane))?;
        self.spawn(&plane, "kube-scheduler", flags::scheduler(&plane))?;
        self.spawn(&plane, "kwok", flags::kwok(&plane, &binaries::kwok_stages(binaries)?))?;
        // created by the controller manager, and needed by every pod
        let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
        self.until("the controllers work", async || accounts.get("default").await).await?;
        Ok(ControlPlane { pids: self.pids(), ..plane })
    }

    fn pids(&self) -> BTreeMap<String, u32> {
        self.0.iter().filter_map(|child| Some((child.name.clone(), child.pid()?))).collect()
    }

    /// Restarts the API server on the same etcd, and waits until it is ready.
    async fn restart_apiserver(&mut self, plane: ControlPlane) -> Result<ControlPlane> {
        let server = &mut self.0[APISERVER];
        server.stop().await?;
        *server = child(&plane, "kube-apiserver", flags::apiserver(&plane))?;
        let client = plane.client().await?;
        self.until("the API server is ready again", async || ready(&client).await).await?;
        Ok(ControlPlane { pids: self.pids(), ..plane })
    }

    fn spawn(&mut self, plane: &ControlPlane, name: &str, flags: Vec<String>) -> Result<()> {
        self.0.push(child(plane, name, flags)?);
        Ok(())
    }

    /// Waits for a condition, and fails at once if a process ends meanwhile.
    async fn until<T, S: std::fmt::Display>(
        &mut self,
        what: &str,
        look: impl AsyncFnMut() -> Result<T, S>,
    ) -> Result<T> {
        tokio::select! {
            found = wait::until(START_LIMIT, look) => {
                found.map_err(|seen| anyhow::anyhow!("waited in vain until {what}; last seen: {seen}"))
            }
            error = self.failure() => Err(error),
        }
    }

    /// Waits until any process ends, and returns which and why.
    async fn failure(&mut self) -> anyhow::Error {
        let ends = self.0.iter_mut().map(|child| {
            Box::pin(async {
                let status = child
                    .ended()
                    .await
                    .map_or_else(|error| format!("{error:#}"), |status| status.to_string());
                anyhow::anyhow!("{} ended ({status}); its last words:\n{}", child.name, child.last_words())
            })
        });
        futures::future::select_all(ends).await.0
    }

    /// Stops the clients concurrently, then the API server, then etcd: each would wait for a missing server.
    async fn stop(mut self) {
        let clients = self.0.split_off(self.0.len().min(2));
        let mut errors = futures::future::join_all(clients.into_iter().map(stop)).await;
        while let Some(child) = self.0.pop() {
            errors.push(stop(child).await);
        }
        for error in errors.iter().filter_map(|stopped| stopped.as_ref().err()) {
            eprintln!("{error:#}");
        }
    }
}

fn child(plane: &ControlPlane, name: &str, flags: Vec<String>) -> Result<Child> {
    let log = plane.state.join("log").join(format!("{name}.log"));
    Child::spawn(name, &log, &plane.bin.join(name), flags)
}

async fn stop(mut child: Child) -> Result<()> {
    child.stop().await.map(drop)
}

async fn ready(client: &Client) -> Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a constant request is valid");
    match client.request_text(request).await?.as_str() {
        "ok" => Ok(()),
        other => bail!("/readyz answers {other}"),
    }
}

/// Creates the folders, ports, certificates and kubeconfigs of a new control plane; also returns the names of its
/// real nodes.
fn prepare(binaries: &Binaries, state: &Path, real_nodes: usize) -> Result<(ControlPlane, Vec<String>)> {
    for folder in ["bin", "etcd", "log", "pki", "run"] {
        fs::create_dir(state.join(folder)).with_context(|| format!("cannot write to {}", state.display()))?;
    }
    for (name, path) in binaries.iter() {
        symlink(path, state.join("bin").join(name)).with_context(|| format!("cannot link {name}"))?;
    }
    let names = ["etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];
    let ports = names.map(str::to_owned).into_iter().zip(ports::free::<6>()?).collect();
    let plane = ControlPlane {
        kubeconfig: state.join("admin.kubeconfig"),
        bin: state.join("bin"),
        state: state.to_owned(),
        audit_log: state.join("log/audit.jsonl"),
        ports,
        pids: BTreeMap::new(),
        nodes: Vec::new(),
        emulated_version: None,
    };
    let authority = Authority::create(&state.join("pki"))?;
    authority.server("kube-apiserver")?;
    authority.client("front-proxy", "front-proxy-client", &[])?;
    authority.client("kubelet-client", "kube-apiserver", &[])?;
    authority.token_keys("service-accounts")?;
    let administrators: &[&str] = &["system:masters"];
    for (name, user, groups) in [
        ("admin", "admin", administrators),
        ("kwok", "kwok", administrators),
        ("kube-controller-manager", "system:kube-controller-manager", &[]),
        ("kube-scheduler", "system:kube-scheduler", &[]),
    ] {
        authority.client(name, user, groups)?;
        let (certificate, key) = (authority.path(name, "crt"), authority.path(name, "key"));
        let credentials = Credentials::Certificate { certificate: &certificate, key: &key };
        let path = state.join(format!("{name}.kubeconfig"));
        kubeconfig::write(&path, &plane.server(), &authority.certificate(), credentials, "default")?;
    }
    fs::write(state.join("audit-policy.yaml"), flags::AUDIT_POLICY)?;
    let nodes = real_nodes::prepare(&authority, state, real_nodes)?;
    Ok((plane, nodes))
}
