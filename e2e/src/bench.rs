//! `cairn-e2e bench`: speed, memory and writes of the product, measured from outside on a real control plane.
//!
//! Applications are applied at once to simulated nodes. Measured are the seconds until every actor is placed and
//! until every pod is bound, the operator's peak memory, and its writes.
//!
//! Each row names its commit. Rows of this commit are kept, those of others are dropped:
//! so an interrupted measurement resumes, and no table mixes two versions.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::{Placement, labels};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    Cluster, SimulatedNode,
    product::{self, NAMESPACE, OPERATOR},
};

/// The namespace of the applications.
pub(crate) const HERE: &str = "bench";
/// The limit of a measurement.
const LIMIT: Duration = Duration::from_mins(5);

/// The size of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchSize {
    /// The number of applications, applied at once.
    pub applications: usize,
    /// The number of actors per application, at least five.
    pub actors: usize,
    /// The number of nodes with four cores.
    pub nodes: usize,
}

impl BenchSize {
    /// The size of the published results.
    pub const FULL: Self = Self { applications: 10, actors: 100, nodes: 200 };
    /// A small size for a test.
    pub const SHORT: Self = Self { applications: 5, actors: 20, nodes: 20 };

    fn all(self) -> usize {
        self.applications * self.actors
    }
}

/// The results with one strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchResult {
    /// The commit of the programs.
    pub commit: String,
    /// The strategy of the policy.
    pub strategy: String,
    /// The size.
    #[serde(flatten)]
    pub size: BenchSize,
    /// From before the first request until every actor was placed.
    pub seconds_until_placed: f64,
    /// Likewise, until the scheduler had bound every pod.
    pub seconds_until_bound: f64,
    /// The peak memory of the operator's process; solvers are separate processes.
    pub operator_peak_mib: u64,
    /// The operator's writes, without the lease.
    pub writes: BTreeMap<String, usize>,
    /// Their total, divided by the number of actors.
    pub writes_per_actor: f64,
}

/// Measures each strategy without results of this commit, prints a table, and writes `e2e.md` and `e2e.json`
/// into `results` after each.
pub async fn run(size: BenchSize, commit: &str, results: &Path) -> Result<()> {
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    let mut all = rows_of(&fs::read_to_string(results.join("e2e.json")).unwrap_or_default(), size, commit);
    for strategy in ["greedy", "asp"] {
        if all.iter().any(|measured| measured.strategy == strategy) {
            eprintln!("{strategy} was measured at {commit}");
            continue;
        }
        eprintln!("measuring {} actors on {} nodes with {strategy}", size.all(), size.nodes);
        all.push(measure(size, commit, strategy).await?);
        write(&all, size, commit, results)?;
    }
    print!("{}", table(&all));
    Ok(())
}

/// The rows of a file of this commit and size; none if the file has another format.
fn rows_of(text: &str, size: BenchSize, commit: &str) -> Vec<BenchResult> {
    let rows: Vec<BenchResult> = serde_json::from_str(text).unwrap_or_default();
    rows.into_iter().filter(|row| row.commit == commit && row.size == size).collect()
}

fn write(all: &[BenchResult], size: BenchSize, commit: &str, results: &Path) -> Result<()> {
    let table = table(all);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let page = format!(
        "# From `kubectl apply` to bound pods\n\n{} applications of {} actors are applied at once to {} simulated nodes of \
         four cores.\nThe control plane, KWOK and the operator share {cores} cores.\n\n{table}\n\
         Times start before the first manifest is sent. Peak memory is that of the operator process, without its solver processes.\n\
         Writes are counted in the API server's audit log, without lease renewals.\n\n\
         Made at {commit} by `make bench`, which runs `cairn-e2e bench`; the numbers are in [e2e.json](e2e.json).\n",
        size.applications, size.actors, size.nodes
    );
    fs::write(results.join("e2e.md"), page)?;
    fs::write(results.join("e2e.json"), serde_json::to_string_pretty(all)? + "\n")?;
    Ok(())
}

/// Runs the measurement on a separate control plane; everything is stopped afterwards.
pub async fn measure(size: BenchSize, commit: &str, strategy: &str) -> Result<BenchResult> {
    ensure!(size.actors >= 5, "an application has at least five actors here");
    let cluster = Cluster::start()?;
    let topologies = cluster.plane().state.join("run/topologies");
    fs::create_dir(&topologies)?;
    cluster.install(&topologies, &[]).await?;
    let nodes = (0..size.nodes).map(|index| SimulatedNode::new(format!("node-{index:03}")));
    let _nodes = cluster.nodes(nodes).await?;
    cluster.kubectl_with(["apply", "-f-"], &setting(strategy).to_string()).await?;
    let operator = cluster.start_operator().await?;
    let client = cluster.client().await?;
    let before = cluster.audit().await?;

    let manifests: Vec<_> = (0..size.applications).map(|index| application(index, size.actors)).collect();
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": manifests}).to_string();
    let started = Instant::now();
    let applied = async {
        cluster.kubectl_with(["apply", "-f-"], &manifest).await?;
        std::future::pending::<Result<()>>().await
    };
    let placed =
        watched::<Placement>(&client, started, |decision| decision.spec.assignments.len(), size.all());
    let bound = watched::<Pod>(&client, started, is_bound, size.all());
    let both = tokio::time::timeout(LIMIT, async { tokio::try_join!(placed, bound) });
    let (seconds_until_placed, seconds_until_bound) = tokio::select! {
        both = both => both.map_err(|_| anyhow!("not everything was placed and bound within {LIMIT:?}"))??,
        failed = applied => return Err(failed.expect_err("it never succeeds")),
    };
    let operator_peak_mib = operator.rss_peak_kib()?.div_ceil(1024);
    let after = cluster.audit().await?;
    let mut writes = BTreeMap::new();
    for event in after.since(&before) {
        if event.is_write() && event.is_by_service_account(NAMESPACE, OPERATOR) && event.resource != "leases"
        {
            let status = if event.subresource.is_empty() { "" } else { "/status" };
            *writes.entry(format!("{} {}{status}", event.verb, event.resource)).or_default() += 1;
        }
    }
    let all = u32::try_from(writes.values().sum::<usize>())?;
    let actors = u32::try_from(size.all())?;
    Ok(BenchResult {
        commit: commit.to_owned(),
        strategy: strategy.to_owned(),
        size,
        seconds_until_placed,
        seconds_until_bound,
        operator_peak_mib,
        writes,
        writes_per_actor: f64::from(all) / f64::from(actors),
    })
}

/// Seconds from `started` until the number of the namespace's objects reaches `all`.
pub(crate) async fn watched<K>(
    client: &Client,
    started: Instant,
    count: fn(&K) -> usize,
    all: usize,
) -> Result<f64>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + 'static,
{
    let api = Api::<K>::namespaced(client.clone(), HERE);
    let (mut counts, mut total) = (BTreeMap::new(), 0);
    let mut version = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    loop {
        let events = api.watch(&WatchParams::default(), &version).await?;
        let mut events = events.boxed();
        while let Some(event) = events.next().await {
            match event.context("the watch broke")? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().unwrap_or_default();
                    let now = count(&object);
                    total = total + now - counts.insert(object.name_any(), now).unwrap_or(0);
                }
                WatchEvent::Deleted(object) => {
                    version = object.resource_version().unwrap_or_default();
                    total -= counts.remove(&object.name_any()).unwrap_or(0);
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => return Err(anyhow!("the watch broke: {}", error.message)),
            }
            if total >= all {
                return Ok(started.elapsed().as_secs_f64());
            }
        }
    }
}

pub(crate) fn is_bound(pod: &Pod) -> usize {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    usize::from(node.is_some() && pod.labels().contains_key(labels::ACTOR))
}

/// The namespace, the pool and the policy.
pub(crate) fn setting(strategy: &str) -> Value {
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": HERE, "namespace": NAMESPACE, "labels": {"cairn.dev/policy": "true"}},
        "data": {"policy.yaml": format!("strategy: {strategy}\n")}});
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
        "spec": {"kind": "cpu"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}});
    json!({"apiVersion": "v1", "kind": "List", "items": [namespace, pool, policy]})
}

/// The name of an application, by its number.
pub(crate) fn application_name(index: usize) -> String {
    format!("app-{index:02}")
}

/// Sources that send to workers, and one sink that all workers send to.
pub(crate) fn application(index: usize, actors: usize) -> Value {
    let sources = actors / 5;
    let group = |name: &str, replicas: usize, arrivals: &str| {
        let requests = json!({"cpu": "500m", "memory": "64Mi"});
        let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
        let implementation =
            json!({"kind": "cpu", "serviceTime": "5ms", "template": {"spec": {"containers": [container]}}});
        json!({"name": name, "replicas": replicas, "arrivals": arrivals, "implementations": [implementation]})
    };
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
        "metadata": {"name": application_name(index), "namespace": HERE},
        "spec": {"policy": HERE,
            "actors": [group("source", sources, "20/s"), group("worker", actors - sources - 1, "0/s"), group("sink", 1, "0/s")],
            "channels": [{"from": "source", "to": "worker", "rate": "20/s", "pattern": "AllToAll"},
                {"from": "worker", "to": "sink", "rate": "1/s", "pattern": "AllToAll"}]}})
}

fn table(all: &[BenchResult]) -> String {
    let head = "| strategy | actors | nodes | all actors placed | all pods bound | operator peak memory | writes per actor |\n\
                |---|---:|---:|---:|---:|---:|---:|\n";
    let row = |measured: &BenchResult| {
        format!(
            "| {} | {} | {} | {:.1} s | {:.1} s | {} MiB | {:.2} |\n",
            measured.strategy,
            measured.size.all(),
            measured.size.nodes,
            measured.seconds_until_placed,
            measured.seconds_until_bound,
            measured.operator_peak_mib,
            measured.writes_per_actor
        )
    };
    head.to_owned() + &all.iter().map(row).collect::<String>()
}

/// The size of a measurement from an environment variable, or the default.
///
/// # Errors
/// When the variable is not a number.
pub fn size(variable: &str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(value) => value.parse().with_context(|| format!("{variable}={value} must be a whole number")),
        Err(_) => Ok(default),
    }
}

/// The default results folder: `docs/results` of the source tree.
pub fn results() -> std::path::PathBuf {
    product::tree("docs/results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_other_commits_or_sizes_are_kept_apart() {
        let row = |commit: &str, size: BenchSize, strategy: &str| BenchResult {
            commit: commit.into(),
            strategy: strategy.into(),
            size,
            seconds_until_placed: 1.5,
            seconds_until_bound: 2.5,
            operator_peak_mib: 7,
            writes: BTreeMap::new(),
            writes_per_actor: 1.0,
        };
        let rows = [
            row("a", BenchSize::FULL, "greedy"),
            row("b", BenchSize::FULL, "asp"),
            row("a", BenchSize::SHORT, "asp"),
        ];
        let text = serde_json::to_string(&rows).unwrap();
        assert_eq!(rows_of(&text, BenchSize::FULL, "a"), rows[..1]);
        assert_eq!(rows_of(&text, BenchSize::FULL, "c"), []);
        assert_eq!(rows_of("", BenchSize::FULL, "a"), []);
        // rows of an old format without a commit
        assert_eq!(rows_of(&text.replace("\"commit\"", "\"comet\""), BenchSize::FULL, "a"), []);
    }
}
