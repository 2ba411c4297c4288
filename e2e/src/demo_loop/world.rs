//! The world of the demo of the loop: the product on real nodes, a real Prometheus, and six actors that send requests to each other.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::Result;
use crds::{Placement, labels};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    Cluster, Process,
    control_plane::RealNodes,
    keeper,
    product::{self, NAMESPACE, tree},
    prometheus::Prometheus,
    request_reply::{self, SERVICE_MICROSECONDS, SharedFolder},
};

/// The delay of the cable in each direction.
pub(super) const DELAY: Duration = Duration::from_micros(2500);
/// Actors.
pub const ACTORS: usize = 6;
/// The name of the application and of its policy.
pub const NAME: &str = "loop";

/// Starts a control plane with two real nodes, each with one core; the cable between them has a delay.
///
/// # Errors
/// The machine lacks what real nodes need.
pub fn start_cluster() -> Result<Cluster> {
    Cluster::start_nodes(RealNodes { count: 2, delay: Some(DELAY), one_core: true })
}

/// The installed product, with the pool and the policy of the application.
pub struct LoopWorld {
    /// Scrapes the actors.
    pub prometheus: Prometheus,
    /// Reads it.
    pub operator: Process,
    _agent: Process,
    client: Client,
    /// The configuration of Prometheus.
    targets: PathBuf,
}

impl LoopWorld {
    /// Waits for the nodes, and installs all; windows have this length.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn install(cluster: &Cluster, window: Duration) -> Result<Self> {
        let names: Vec<&str> = cluster.plane().nodes.iter().map(|node| node.name.as_str()).collect();
        cluster.wait_nodes_ready(&names).await?;
        request_reply::load(cluster).await?;
        cluster.start_dns().await?;
        cluster.install(&tree("examples/topologies"), &[]).await?;
        let (prometheus, targets) = cluster.reloading_prometheus(&request_reply::scraping(&[])).await?;
        let agent = cluster.start_agent().await?;
        let url = format!("--prometheus-url={}", prometheus.url()?);
        let operator = cluster.operator().await?.arg(url).start(&keeper::built(product::OPERATOR)?).await?;
        operator.wait_ready().await?;
        let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
            "spec": {"kind": "cpu"}});
        let text = format!("window: {}s\nbudget: {{wall: 1s}}\n", window.as_secs());
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"cairn.dev/policy": "true"}},
            "data": {"policy.yaml": text}});
        for object in [pool, policy] {
            cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await?;
        }
        Ok(Self { prometheus, operator, _agent: agent, client: cluster.client().await?, targets })
    }

    /// Runs `action` while Prometheus scrapes the pods that there are.
    ///
    /// # Errors
    /// `action` fails, or the pods cannot be followed.
    pub async fn follow_pods<T>(&self, action: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = action => done,
            Err(error) = request_reply::follow_pods(self.client.clone(), self.targets.clone()) => Err(error),
        }
    }
}

/// The application: six actors that all talk to each other.
pub fn manifest(mode: &str, shared: &SharedFolder) -> Value {
    // Three of them fit on a node.
    let template = shared.template("260m");
    let implementation =
        json!({"kind": "cpu", "serviceTime": format!("{SERVICE_MICROSECONDS}us"), "template": template});
    // Otherwise the volume of the machine would keep the actors on their nodes.
    let metadata = json!({"name": NAME, "annotations": {(labels::MAY_MOVE): "true"}});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": metadata, "spec": {
        "policy": NAME, "rebalance": mode,
        "actors": [{"name": "actor", "replicas": ACTORS, "implementations": [implementation]}],
        "channels": [{"from": "actor", "to": "actor", "rate": "10/s", "pattern": "AllToAll"}]}})
}

/// The node of each actor, by its number.
pub fn places(placement: &Placement) -> BTreeMap<usize, String> {
    let number = |actor: &str| actor.rsplit_once('-')?.1.parse().ok();
    let places = placement.spec.assignments.iter();
    places.filter_map(|it| Some((number(&it.actor)?, it.node.clone()))).collect()
}
