//! `cairn-e2e upgrade`: upgrades an older release with running applications to this tree, and rolls back; no actor is
//! restarted.
//!
//! The older release is a source tree and its programs: its own chart, operator and agents. First the chart is upgraded and
//! the operator replaced, then the agents node by node; then the chart is rolled back, and both likewise. After
//! each step every actor group is scaled up by one, so that the current operator has planned and reconciled every
//! application.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::ActorApplication;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    Cluster, Nodes, Process, SimulatedNode, keeper,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    wait,
};

/// The namespace of the applications.
const HERE: &str = "upgrade";
const NODES: [&str; 3] = ["one", "two", "three"];
/// Applications, and the kind of device of their actors.
const APPLICATIONS: [(&str, &str); 3] = [("plain", "cpu"), ("devices", "gpu"), ("mixed", "gpu")];
/// GPUs of each node.
const GPUS: u32 = 8;
/// The limit for a step, far above the usual time.
const LIMIT: Duration = Duration::from_mins(5);

/// A release: its chart and its programs.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its name in results, a commit for example.
    pub name: String,
    /// Its source tree, of which the chart is used.
    pub tree: PathBuf,
    /// The folder of its programs.
    pub programs: PathBuf,
}

impl Release {
    /// The release of this tree, with the programs built next to this one.
    pub fn of_this_tree(name: &str) -> Result<Self> {
        let programs = keeper::built(OPERATOR)?.parent().context("a program lies in a folder")?.to_owned();
        Ok(Self { name: name.to_owned(), tree: tree(""), programs })
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.programs.join(name);
        ensure!(
            program.is_file(),
            "there is no {} of {}: build that release first",
            program.display(),
            self.name
        );
        Ok(program)
    }
}

/// One step and its result.
#[derive(Clone, Debug)]
pub struct Step {
    what: String,
    seconds: f64,
    /// The number of pods before it.
    before: usize,
    /// How many of them were deleted or are terminating.
    gone: usize,
}

/// Upgrades from `older` to `newer` and back, and writes `upgrade.md` into `results`.
///
/// Fails if an actor was restarted.
pub async fn run(older: &Release, newer: &Release, results: &Path) -> Result<()> {
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    let steps = measure(older, newer).await?;
    let page = page(older, newer, &steps);
    fs::write(results.join("upgrade.md"), &page)?;
    print!("{page}");
    let gone: usize = steps.iter().map(|step| step.gone).sum();
    ensure!(gone == 0, "{gone} pods were started anew or asked to go");
    Ok(())
}

/// Runs all steps on a separate control plane.
pub async fn measure(older: &Release, newer: &Release) -> Result<Vec<Step>> {
    let cluster = Cluster::start()?;
    let mut scene = Scene::set(&cluster, older).await?;
    let mut steps = Vec::new();
    let chart = newer.tree.join("charts/cairn");
    let upgrade = ["upgrade", "cairn"].map(Into::into).into_iter().chain([chart.into_os_string()]);
    let reuse = ["--reuse-values", "--namespace", NAMESPACE].map(Into::into);
    let upgrade: Vec<std::ffi::OsString> = upgrade.chain(reuse).collect();
    let rollback: Vec<std::ffi::OsString> =
        ["rollback", "cairn", "1", "--namespace", NAMESPACE].map(Into::into).into();
    for (from, to, helm) in [(older, newer, upgrade), (newer, older, rollback)] {
        let way = format!("{} to {}", from.name, to.name);
        steps
            .push(scene.step(&format!("chart, {way}"), async |_| cluster.helm(&helm).await.map(drop)).await?);
        steps.push(scene.step(&format!("operator, {way}"), async |scene| scene.hand_over(to).await).await?);
        for node in NODES {
            let what = format!("agent of node {node}, {way}");
            steps.push(scene.step(&what, async |scene| scene.replace_agent(node, to).await).await?);
        }
    }
    Ok(steps)
}

/// The product during the upgrade.
struct Scene<'a> {
    cluster: &'a Cluster,
    client: Client,
    topologies: PathBuf,
    operator: Process,
    operators: usize,
    agents: BTreeMap<&'static str, Process>,
    /// Actors in each group.
    replicas: u32,
    _nodes: Nodes<'a>,
}

impl<'a> Scene<'a> {
    async fn set(cluster: &'a Cluster, release: &Release) -> Result<Self> {
        let topologies = cluster.plane().state.join("run/topologies");
        fs::create_dir_all(&topologies)?;
        cluster.install_chart(&release.tree.join("charts/cairn"), &topologies, &[]).await?;
        let nodes = NODES.map(|name| SimulatedNode::new(name).cpu("16").resource("acme.com/gpu", GPUS));
        let nodes = cluster.nodes(nodes).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}});
        let pool = |name: &str, spec: Value| json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name}, "spec": spec});
        let pools = [
            pool("cpus", json!({"kind": "cpu"})),
            pool("gpus", json!({"kind": "gpu", "resource": {"devicePlugin": "acme.com/gpu"}})),
        ];
        let [cpus, gpus] = pools;
        let items = json!({"apiVersion": "v1", "kind": "List", "items": [namespace, cpus, gpus]});
        cluster.kubectl_with(["apply", "-f-"], &items.to_string()).await?;
        let mut scene = Self {
            cluster,
            client: cluster.client().await?,
            operator: start_operator(cluster, release, 0).await?,
            operators: 1,
            agents: BTreeMap::new(),
            topologies,
            replicas: 1,
            _nodes: nodes,
        };
        for node in NODES {
            let agent = scene.start_agent(node, release).await?;
            scene.agents.insert(node, agent);
        }
        for (name, kind) in APPLICATIONS {
            let manifest = application(name, kind, scene.replicas).to_string();
            cluster.kubectl_with(["apply", "-f-"], &manifest).await?;
        }
        scene.settled().await?;
        Ok(scene)
    }

    /// Runs a step, scales every application up, and compares the pods.
    async fn step(&mut self, what: &str, act: impl AsyncFnOnce(&mut Self) -> Result<()>) -> Result<Step> {
        let before = self.settled().await?;
        let started = Instant::now();
        act(self).await.with_context(|| format!("{what} failed"))?;
        self.replicas += 1;
        let applications = Api::<ActorApplication>::namespaced(self.client.clone(), HERE);
        for (name, kind) in APPLICATIONS {
            let groups = application(name, kind, self.replicas)["spec"].take();
            applications.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": groups}))).await?;
        }
        let after = self.settled().await.with_context(|| format!("after: {what}"))?;
        let seconds = started.elapsed().as_secs_f64();
        let gone = before.difference(&after).count();
        eprintln!("{what}: {seconds:.1} s, {} pods, {gone} gone", before.len());
        Ok(Step { what: what.to_owned(), seconds, before: before.len(), gone })
    }

    /// Starts an operator of `release` next to the leader, and stops the latter, as a Deployment does.
    async fn hand_over(&mut self, release: &Release) -> Result<()> {
        let next = start_operator(self.cluster, release, self.operators).await?;
        self.operators += 1;
        let mut before = std::mem::replace(&mut self.operator, next);
        before.stop().await.map(drop)
    }

    async fn replace_agent(&mut self, node: &'static str, release: &Release) -> Result<()> {
        let mut before = self.agents.remove(node).context("it runs")?;
        before.stop().await?;
        let agent = self.start_agent(node, release).await?;
        self.agents.insert(node, agent);
        Ok(())
    }

    /// Starts the agent of one node, and waits until it has published the topology.
    async fn start_agent(&self, node: &str, release: &Release) -> Result<Process> {
        let folder = self.topologies.join(node);
        fs::create_dir_all(&folder)?;
        let devices: Vec<Value> = (0..GPUS).map(|index| json!({"id": format!("gpu-{index}"), "type": "GPU", "vendor": "acme", "model": "one", "health": "ok"})).collect();
        let topology = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": node}, "spec": {"devices": devices}});
        fs::write(folder.join(format!("{node}.yaml")), topology.to_string())?;
        let workload = self.cluster.daemon_set(NAMESPACE, AGENT).await?.field("spec.nodeName", node);
        let workload = workload.arg(format!("--simulate={}", folder.display()));
        let process = workload.start(&release.program(AGENT)?).await?;
        process.wait_ready().await?;
        Ok(process)
    }

    /// Waits until exactly the wanted actors run: the uids of the pods.
    async fn settled(&self) -> Result<BTreeSet<String>> {
        let applications = Api::<ActorApplication>::namespaced(self.client.clone(), HERE);
        let pods = Api::<Pod>::namespaced(self.client.clone(), HERE);
        let settled = wait::until(LIMIT, async || {
            let mut wanted = 0;
            for application in applications.list(&ListParams::default()).await?.items {
                let (name, status) = (application.name_any(), application.status.unwrap_or_default());
                let seen = status.observed_generation == application.metadata.generation;
                let groups = application.spec.actors.len();
                let all = groups * usize::try_from(self.replicas)?;
                let running = status.actors.map_or(0, |actors| actors.running);
                ensure!(seen && usize::try_from(running)? == all, "{name}: {running} of {all} run");
                wanted += all;
            }
            let mut uids = BTreeSet::new();
            for pod in pods.list(&ListParams::default()).await?.items {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                ensure!(phase == Some("Running"), "{} is {phase:?}", pod.name_any());
                ensure!(pod.metadata.deletion_timestamp.is_none(), "{} is going", pod.name_any());
                uids.insert(pod.uid().unwrap_or_default());
            }
            ensure!(uids.len() == wanted, "{} pods of {wanted}", uids.len());
            anyhow::Ok(uids)
        });
        settled.await.map_err(|seen| anyhow!("not everything runs: {seen}"))
    }
}

async fn start_operator(cluster: &Cluster, release: &Release, number: usize) -> Result<Process> {
    let workload = cluster.operator().await?.field("metadata.name", &format!("{OPERATOR}-{number}"));
    let process = workload.start(&release.program(OPERATOR)?).await?;
    process.wait_ready().await?;
    Ok(process)
}

/// Two groups, one on CPUs and one on this kind, whose actors gain nothing from a move: a deleted pod
/// is an effect of the upgrade.
fn application(name: &str, kind: &str, replicas: u32) -> Value {
    let group = |name: &str, kind: &str| {
        let requests = json!({"cpu": "100m", "memory": "64Mi"});
        let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
        let implementation =
            json!({"kind": kind, "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}});
        json!({"name": name, "replicas": replicas, "arrivals": "1/s", "implementations": [implementation]})
    };
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": name, "namespace": HERE},
        "spec": {"actors": [group("front", "cpu"), group("back", kind)]}})
}

fn page(older: &Release, newer: &Release, steps: &[Step]) -> String {
    let mut text = format!(
        "# Upgrade and rollback with running applications\n\nFrom {} to {} and back, each with its own chart, CRDs, operator and agents, on a \
         control plane with three\nsimulated nodes and three applications. After each step every actor group is scaled up by one; the step ends when\nthe \
         new actors run, so each application has been planned by the new version.\n\n\
         | step | seconds | pods before | pods restarted or deleted (target 0) |\n|---|---:|---:|---:|\n",
        older.name, newer.name
    );
    for Step { what, seconds, before, gone } in steps {
        // writing into a String cannot fail
        let _ = writeln!(text, "| {what} | {seconds:.1} | {before} | {gone} |");
    }
    text + &format!("\nMade at {} by `make bench`, which runs `cairn-e2e upgrade`.\n", newer.name)
}
