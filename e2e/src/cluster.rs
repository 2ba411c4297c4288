//! A cluster for tests.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    panic,
    path::PathBuf,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, Once, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, bail};
use kube::Client;

use crate::{
    command::{self, CommandFailed, Output},
    control_plane::{self, ControlPlane, RealNodes},
    keeper,
};

/// A running control plane with administrator access. Stopped on drop.
pub struct Cluster {
    plane: ControlPlane,
    supervisor: std::process::Child,
    /// The connection to the supervisor, which ends when it is closed.
    talk: Mutex<Option<Talk>>,
    numbers: AtomicUsize,
}

/// The two pipes to the supervisor.
struct Talk {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Talk {
    /// The next control plane that the supervisor prints; none if it ended.
    fn plane(&mut self) -> Result<Option<ControlPlane>> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("cannot read from the supervisor")?;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&line).context("unexpected output of the supervisor").map(Some)
    }
}

impl Cluster {
    /// The control plane that all tests of this program share, started on the first call.
    ///
    /// # Panics
    /// If it failed to start; then every test fails, without another attempt.
    #[track_caller]
    pub fn shared() -> &'static Self {
        Self::shared_with(0)
    }

    /// As [`Cluster::shared`], with at least this many [real nodes](crate::real_nodes); the first call decides.
    ///
    /// # Panics
    /// If it failed to start, or has fewer.
    #[track_caller]
    pub fn shared_with(real_nodes: usize) -> &'static Self {
        static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
        let start = || {
            let started = Instant::now();
            let cluster = Self::start_with(real_nodes).map_err(|error| format!("{error:#}"))?;
            let (seconds, state) = (started.elapsed().as_secs_f32(), cluster.plane.state.display());
            eprintln!("control plane ready in {seconds:.1} s ({state})");
            Ok(cluster)
        };
        match SHARED.get_or_init(start) {
            Ok(cluster) if cluster.plane.nodes.len() >= real_nodes => cluster,
            Ok(cluster) => {
                panic!("the control plane was started with {} real nodes", cluster.plane.nodes.len())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a separate control plane. Blocks until it is ready; on the first run the tools are built.
    pub fn start() -> Result<Self> {
        Self::start_with(0)
    }

    /// As [`Cluster::start`], with this many [real nodes](crate::real_nodes), which may not be Ready yet.
    pub fn start_with(real_nodes: usize) -> Result<Self> {
        Self::start_nodes(RealNodes { count: real_nodes, ..RealNodes::default() })
    }

    /// As [`Cluster::start`], with these [real nodes](crate::real_nodes), which may not be Ready yet.
    pub fn start_nodes(real_nodes: RealNodes) -> Result<Self> {
        Self::start_up(real_nodes, None)
    }

    /// As [`Cluster::start`], with the APIs and features of an older Kubernetes version, such as `1.33`.
    pub fn start_emulating(version: &str) -> Result<Self> {
        Self::start_up(RealNodes::default(), Some(version))
    }

    fn start_up(real_nodes: RealNodes, emulated_version: Option<&str>) -> Result<Self> {
        let delay = real_nodes.delay.map(|delay| format!("--delay-microseconds={}", delay.as_micros()));
        let mut supervisor = Command::new(keeper::executable()?)
            .arg("up")
            .arg(format!("--real-nodes={}", real_nodes.count))
            .args(delay)
            .args(real_nodes.one_core.then_some("--one-core"))
            .args(emulated_version.map(|version| format!("--emulated-version={version}")))
            .stdin(Stdio::piped()) // closes when this process ends, however it ends
            .stdout(Stdio::piped())
            .process_group(0) // Ctrl-C is for the test; the supervisor stops things in order
            .spawn()
            .context("cannot start the supervisor `cairn-e2e up`")?;
        let stdin = supervisor.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(supervisor.stdout.take().expect("stdout is piped"));
        let mut talk = Talk { stdin, stdout };
        let Some(plane) = talk.plane()? else {
            let status = supervisor.wait().context("cannot wait for the supervisor")?;
            bail!("the control plane did not start ({status}); the reason is on stderr");
        };
        keep_state_when_a_test_panics(plane.state.clone());
        Ok(Self { plane, supervisor, talk: Mutex::new(Some(talk)), numbers: AtomicUsize::new(1) })
    }

    /// Restarts the API server, or starts a stopped one, with its data. Blocks until it is ready.
    pub fn restart_apiserver(&self) -> Result<()> {
        self.order(control_plane::RESTART)
    }

    /// Stops the API server until it is restarted. The supervisor accepts no other request meanwhile.
    pub fn stop_apiserver(&self) -> Result<()> {
        self.order(control_plane::STOP)
    }

    fn order(&self, order: &str) -> Result<()> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let talk = talk.as_mut().expect("it goes when the cluster does");
        writeln!(talk.stdin, "{order}").context("cannot reach the supervisor")?;
        talk.plane()?.context("the supervisor ended; the reason is on stderr").map(drop)
    }

    /// Its files, ports and processes.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// A client with administrator permissions. Create one per test: it belongs to the test's runtime.
    pub async fn client(&self) -> Result<Client> {
        self.plane.client().await
    }

    /// Runs kubectl as the administrator; an error contains its output.
    pub async fn kubectl(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        self.kubectl_with(arguments, "").await
    }

    /// As [`Cluster::kubectl`], with `input` on stdin: `kubectl_with(["apply", "-f-"], manifest)`.
    pub async fn kubectl_with(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: &str,
    ) -> Result<Output> {
        let mut kubectl = self.command("kubectl");
        kubectl.args(arguments);
        command::run(kubectl.into(), input).await
    }

    /// Creates `manifest`, expects the API server to refuse it, and returns the message.
    pub async fn refused(&self, manifest: &str) -> Result<String> {
        match self.kubectl_with(["create", "-f-"], manifest).await {
            Ok(output) => bail!("expected a refusal, but: {}", output.stdout.trim()),
            Err(error) => Ok(error.downcast::<CommandFailed>()?.output.stderr),
        }
    }

    /// Runs Helm as the administrator, with caches of its own; an error contains its output.
    pub async fn helm(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        let mut helm = self.command("helm");
        helm.args(arguments);
        command::run(helm.into(), "").await
    }

    /// A tool of [`binaries`](crate::binaries) as a command for this cluster, without arguments.
    ///
    /// It writes no cache or configuration into the home folder.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.plane.bin.join(tool));
        let home = self.plane.state.join("run");
        command
            .env("KUBECONFIG", &self.plane.kubeconfig)
            .env("KUBECACHEDIR", home.join("kube"))
            .env("HELM_CACHE_HOME", home.join("helm/cache"))
            .env("HELM_CONFIG_HOME", home.join("helm/config"))
            .env("HELM_DATA_HOME", home.join("helm/data"));
        command
    }

    /// A unique number for names.
    pub(crate) fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.talk.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        // it stops everything within its own limits
        if let Err(error) = self.supervisor.wait() {
            eprintln!("cannot wait for the supervisor: {error}");
        }
        states().remove(&self.plane.state);
    }
}

/// The state folders of running clusters.
fn states() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    static STATES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    STATES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs a panic hook that keeps the state of running clusters.
fn keep_state_when_a_test_panics(state: PathBuf) {
    static HOOK: Once = Once::new();
    states().insert(state);
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            for state in states().iter() {
                control_plane::mark_failed(state);
            }
            previous(info);
        }));
    });
}
