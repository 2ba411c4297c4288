//! The product as installed by the harness: the chart in the cluster, its programs as processes next to it.
//!
//! KWOK's nodes run no containers, so the chart is installed with no operator replica and with a node selector for
//! the agents that matches nothing: all objects are created and no pod starts. Operator and agent then run as
//! processes, with the chart's settings and tokens of its `ServiceAccount`s. With real
//! nodes, both can run as pods, as for users.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::Value;

use crate::{Cluster, Output, Process, Workload, keeper};

/// The namespace of the release.
pub const NAMESPACE: &str = "cairn-system";
/// The Deployment, and the `ServiceAccount` of its pods.
pub const OPERATOR: &str = "cairn-operator";
/// The `DaemonSet`, and the `ServiceAccount` of its pods.
pub const AGENT: &str = "cairn-node-agent";

/// A path in the source tree, for example `examples/pools.yaml`.
pub fn tree(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a package lies in the workspace");
    root.join(path)
}

/// How many windows with data ended within these seconds since 1970, in the operator's answer about the load of an application.
pub fn windows_between(load: &Value, (first, last): (f64, f64)) -> usize {
    let is_between = |window: &&Value| {
        let ended_at = window["endedAt"].as_f64();
        window["hasData"] == true && ended_at.is_some_and(|it| (first..=last).contains(&it))
    };
    load["windows"]["windows"].as_array().into_iter().flatten().filter(is_between).count()
}

impl Cluster {
    /// Installs the chart; `settings` are arguments of Helm, for example `["--set=operator.leaseSeconds=5"]`.
    ///
    /// The agent publishes the simulated topologies in `topologies`, a file or a folder.
    pub async fn install(&self, topologies: &Path, settings: &[&str]) -> Result<Output> {
        self.install_chart(&tree("charts/cairn"), topologies, settings).await
    }

    /// As [`Cluster::install`], with the chart of another tree.
    pub async fn install_chart(&self, chart: &Path, topologies: &Path, settings: &[&str]) -> Result<Output> {
        let mut simulate = OsString::from("--set-string=agent.simulate=");
        simulate.push(topologies);
        let nothing_starts = ["--set=operator.replicas=0", "--set=agent.nodeSelector.nowhere=here"];
        let settings = nothing_starts.iter().chain(settings).map(OsString::from);
        self.helm_install(chart, [simulate].into_iter().chain(settings)).await
    }

    /// Installs the chart with operator and agents as pods, which needs real nodes and their images.
    pub async fn install_pods(&self, settings: &[&str]) -> Result<Output> {
        self.helm_install(&tree("charts/cairn"), settings.iter().map(OsString::from)).await
    }

    async fn helm_install(
        &self,
        chart: &Path,
        settings: impl IntoIterator<Item = OsString>,
    ) -> Result<Output> {
        let mut arguments: Vec<OsString> = ["install", "cairn"].map(OsString::from).into();
        arguments.push(chart.into());
        arguments.extend(["--create-namespace", "--namespace", NAMESPACE].map(OsString::from));
        arguments.extend(settings);
        self.helm(arguments).await
    }

    /// The operator's Deployment.
    pub async fn operator(&self) -> Result<Workload<'_>> {
        self.deployment(NAMESPACE, OPERATOR).await
    }

    /// Starts the operator and waits until its caches are synced; it may not lead yet.
    pub async fn start_operator(&self) -> Result<Process> {
        let process = self.operator().await?.start(&keeper::built(OPERATOR)?).await?;
        process.wait_ready().await?;
        Ok(process)
    }

    /// Starts the agent of all simulated topologies, and waits until the present ones are published.
    pub async fn start_agent(&self) -> Result<Process> {
        let workload = self.daemon_set(NAMESPACE, AGENT).await?.field("spec.nodeName", "nowhere");
        let process = workload.start(&keeper::built(AGENT)?).await?;
        process.wait_ready().await?;
        Ok(process)
    }

    /// `kubectl-cairn` for this cluster, without arguments.
    pub fn kubectl_cairn(&self) -> Result<tokio::process::Command> {
        let mut command = tokio::process::Command::new(keeper::built("kubectl-cairn")?);
        command.env("KUBECONFIG", &self.plane().kubeconfig);
        Ok(command)
    }
}
