//! `cairn-e2e chaos`: kills or stops the leader of two operators at random moments of rollouts, drains and node losses, and
//! checks the audit log for violations.
//!
//! A batch is one control plane, one seed, and so many strikes of each kind; the seed determines the changes, the moments and the
//! kinds of strikes. After each strike all wanted actors must run again before the next change. Each row names its commit: an
//! interrupted measurement resumes with its last batch.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::ActorApplication;
use fastrand::Rng;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::{
    Cluster, Nodes, Process, SimulatedNode, keeper,
    product::{NAMESPACE, OPERATOR},
    wait,
};

mod batch;
pub mod checker;
mod page;

pub use batch::{Batch, ChaosSize, Form};
use page::page;

/// The namespace of the applications.
const HERE: &str = "chaos";
/// The one group of each application.
const GROUP: &str = "a";
/// The limit for a new leader, and until everything runs again; far above the usual time.
const LIMIT: Duration = Duration::from_mins(5);

/// Runs the requested number of batches, except those that exist for this commit, and writes `chaos.md` and `chaos.json` into
/// `results` after each.
pub async fn run(size: ChaosSize, batches: u64, commit: &str, results: &Path) -> Result<()> {
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    let file = results.join("chaos.json");
    let known: Vec<Batch> =
        serde_json::from_str(&fs::read_to_string(&file).unwrap_or_default()).unwrap_or_default();
    let mut all: Vec<Batch> =
        known.into_iter().filter(|batch| batch.commit == commit && batch.size == size).collect();
    for seed in 1..=batches {
        if all.iter().any(|batch| batch.seed == seed) {
            eprintln!("batch {seed} was run at {commit}");
            continue;
        }
        eprintln!("batch {seed} of {batches}: {} kills and {} hand-overs", size.strikes, size.strikes);
        let batch = measure(size, seed, commit, Some(results)).await?;
        for finding in &batch.findings {
            eprintln!("  {finding}");
        }
        all.push(batch);
        fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
        fs::write(results.join("chaos.md"), page(&all, size, commit))?;
    }
    print!("{}", page(&all, size, commit));
    let found: usize = all.iter().map(|batch| batch.findings.len()).sum();
    ensure!(found == 0, "{found} findings, all of them in {}", results.join("chaos.md").display());
    Ok(())
}

/// Runs one batch on a separate control plane with two operators, nodes and applications. With findings the audit
/// log is kept as `audit-SEED.jsonl` in `kept`.
pub async fn measure(size: ChaosSize, seed: u64, commit: &str, kept: Option<&Path>) -> Result<Batch> {
    let cluster = Cluster::start()?;
    let mut scene = Scene::set(&cluster, size, seed).await?;
    let mut strikes = [vec![true; size.strikes], vec![false; size.strikes]].concat();
    scene.rng.shuffle(&mut strikes);
    let mut batch = Batch {
        commit: commit.to_owned(),
        seed,
        size,
        after_kill: Vec::new(),
        after_stop: Vec::new(),
        until_all_run: Vec::new(),
        changes: Vec::new(),
        lost_nodes: 0,
        drained_nodes: 0,
        updates: 0,
        started: 0,
        stopped: 0,
        hand_overs: 0,
        findings: Vec::new(),
    };
    for is_kill in strikes {
        let mut change = scene.change().await?;
        batch.lost_nodes += usize::from(change.loses);
        batch.drained_nodes += usize::from(change.drain.is_some());
        batch.updates += usize::from(change.updates);
        // no condition to wait for: the strike may happen at any moment
        tokio::time::sleep(Duration::from_millis(scene.rng.u64(0..=size.moments))).await;
        let seconds = scene.strike(is_kill).await?;
        if is_kill { &mut batch.after_kill } else { &mut batch.after_stop }.push(seconds);
        let taken_over = Instant::now();
        if let Some((_, drains)) = &mut change.drain {
            let ended = drains.wait().await.context("cannot wait for kubectl drain")?;
            ensure!(ended.success(), "kubectl drain: {ended}");
        }
        scene.settled().await?;
        batch.until_all_run.push(taken_over.elapsed().as_secs_f64());
        batch.changes.push(change.form);
        scene.make_good(change).await?;
        scene.pair.complete().await?;
    }
    let verdict = checker::check(cluster.audit().await?.events(), HERE);
    (batch.started, batch.stopped) = (verdict.started, verdict.stopped);
    (batch.hand_overs, batch.findings) = (verdict.hand_overs, verdict.findings);
    if let Some(folder) = kept.filter(|_| !batch.findings.is_empty()) {
        let log = folder.join(format!("audit-{seed}.jsonl"));
        fs::copy(&cluster.plane().audit_log, &log)
            .with_context(|| format!("cannot keep {}", log.display()))?;
        eprintln!("  the audit log is kept as {}", log.display());
    }
    Ok(batch)
}

/// Two operators, by their holder identities.
struct Pair<'a> {
    cluster: &'a Cluster,
    leases: Api<Lease>,
    processes: BTreeMap<String, Process>,
    made: usize,
}

impl Pair<'_> {
    /// Starts operators until two are ready.
    async fn complete(&mut self) -> Result<()> {
        // on a slow machine an operator may have lost its lease and exited
        self.processes.retain(|_, process| process.exit().is_none());
        while self.processes.len() < 2 {
            let name = format!("{OPERATOR}-{}", self.made);
            self.made += 1;
            let workload = self.cluster.operator().await?.field("metadata.name", &name);
            let process = workload.start(&keeper::built(OPERATOR)?).await?;
            process.wait_ready().await?;
            self.processes.insert(name, process);
        }
        Ok(())
    }

    /// Waits until a running operator other than `not` holds the lease.
    async fn leader(&self, not: &str) -> Result<String> {
        let led = wait::until(LIMIT, async || {
            let lease = self.leases.get(OPERATOR).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let runs = self.processes.get(&holder).is_some_and(|process| process.exit().is_none());
            ensure!(runs && holder != not, "the lease is held by {holder:?}");
            anyhow::Ok(holder)
        });
        led.await.map_err(|seen| anyhow!("no leader: {seen}"))
    }
}

/// A started change.
struct StartedChange {
    form: Form,
    updates: bool,
    loses: bool,
    /// The drained node, and the drain, which ends when the node has no pods left.
    drain: Option<(String, Child)>,
}

/// The desired state of an application.
#[derive(Clone, Copy, Debug)]
struct DesiredApplication {
    replicas: u32,
    /// The template number, which increases.
    edition: u32,
}

impl DesiredApplication {
    fn image(self) -> String {
        format!("none:{}", self.edition)
    }
}

/// A running batch.
struct Scene<'a> {
    rng: Rng,
    size: ChaosSize,
    client: Client,
    wanted: BTreeMap<String, DesiredApplication>,
    /// The next changes, in reverse order.
    forms: Vec<Form>,
    nodes_made: usize,
    pair: Pair<'a>,
    nodes: Nodes<'a>,
}

impl<'a> Scene<'a> {
    async fn set(cluster: &'a Cluster, size: ChaosSize, seed: u64) -> Result<Self> {
        let lease = format!("--set=operator.leaseSeconds={}", size.lease_seconds);
        cluster.install(Path::new(""), &[&lease]).await?;
        let nodes = (0..size.nodes).map(node);
        let nodes = cluster.nodes(nodes).await?;
        let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
            "spec": {"kind": "cpu"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}});
        let setting = json!({"apiVersion": "v1", "kind": "List", "items": [namespace, pool]});
        cluster.kubectl_with(["apply", "-f-"], &setting.to_string()).await?;
        let client = cluster.client().await?;
        let leases = Api::namespaced(client.clone(), NAMESPACE);
        let pair = Pair { cluster, leases, processes: BTreeMap::new(), made: 0 };
        let at_first = DesiredApplication { replicas: size.actors, edition: 0 };
        let wanted = (0..size.applications).map(|index| (format!("app-{index}"), at_first)).collect();
        let rng = Rng::with_seed(seed);
        let mut scene =
            Self { rng, size, client, wanted, forms: Vec::new(), nodes_made: size.nodes, pair, nodes };
        scene.pair.complete().await?;
        for (name, wanted) in &scene.wanted {
            scene.create(name, *wanted).await?;
        }
        scene.settled().await?;
        Ok(scene)
    }

    fn applications(&self) -> Api<ActorApplication> {
        Api::namespaced(self.client.clone(), HERE)
    }

    async fn create(&self, name: &str, wanted: DesiredApplication) -> Result<()> {
        let manifest = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": name}, "spec": {"actors": [group(wanted)], "update": self.update()}});
        let application: ActorApplication = serde_json::from_value(manifest)?;
        let created = wait::until(LIMIT, async || {
            match self.applications().create(&PostParams::default(), &application).await {
                // its predecessor is still being deleted
                Err(kube::Error::Api(status)) if status.code == 409 => Err(anyhow!("{}", status.message)),
                created => Ok(created),
            }
        });
        created.await.map_err(|seen| anyhow!("cannot create {name}: {seen}"))??;
        Ok(())
    }

    /// The rollout speed: a fifth of the largest application at once.
    fn update(&self) -> Value {
        json!({"maxUnavailable": (self.size.actors / 5).max(1)})
    }

    /// Starts a change.
    async fn change(&mut self) -> Result<StartedChange> {
        if self.forms.is_empty() {
            self.forms = Form::ALL.to_vec();
            self.rng.shuffle(&mut self.forms);
        }
        let form = self.forms.pop().context("there are forms")?;
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        let name = names[self.rng.usize(..names.len())].clone();
        let coin = self.rng.bool();
        let updates =
            matches!(form, Form::Update | Form::LossAndUpdate) || (coin && matches!(form, Form::Drain));
        let resizes = matches!(form, Form::Replicas | Form::Anew) || (coin && matches!(form, Form::Loss));
        let mut wanted = self.wanted[&name];
        if resizes {
            wanted.replicas = self.rng.u32(self.size.actors * 9 / 10..=self.size.actors * 11 / 10);
        }
        wanted.edition += u32::from(updates);
        self.wanted.insert(name.clone(), wanted);
        if matches!(form, Form::Anew) {
            self.applications().delete(&name, &DeleteParams::default()).await?;
            self.create(&name, wanted).await?;
        } else if updates || resizes {
            let patch = Patch::Merge(json!({"spec": {"actors": [group(wanted)]}}));
            self.applications().patch(&name, &PatchParams::default(), &patch).await?;
        }
        let at = self.rng.usize(..self.nodes.names().len());
        let node = self.nodes.names()[at].clone();
        let loses = matches!(form, Form::Loss | Form::LossAndUpdate);
        if loses {
            self.nodes.delete(&node).await?;
        }
        let drain = if matches!(form, Form::Drain) { Some((node.clone(), self.drain(&node)?)) } else { None };
        Ok(StartedChange { form, updates, loses, drain })
    }

    /// Starts a drain of a node.
    fn drain(&self, node: &str) -> Result<Child> {
        let mut kubectl = self.pair.cluster.command("kubectl");
        kubectl.args(["drain", node, "--ignore-daemonsets", &format!("--timeout={}s", LIMIT.as_secs())]);
        let mut kubectl = tokio::process::Command::from(kubectl);
        kubectl.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        kubectl.spawn().context("cannot start kubectl")
    }

    /// Restores the capacity that a change removed.
    async fn make_good(&mut self, change: StartedChange) -> Result<()> {
        if change.loses {
            self.replace_node().await?;
        }
        if let Some((node, _)) = change.drain {
            self.pair.cluster.kubectl(["uncordon", &node]).await?;
        }
        Ok(())
    }

    /// Adds a node under a new name, to restore the capacity.
    async fn replace_node(&mut self) -> Result<()> {
        self.nodes_made += 1;
        self.nodes.add(node(self.nodes_made)).await
    }

    /// Kills or stops the leader: the seconds until the other one leads.
    async fn strike(&mut self, is_kill: bool) -> Result<f64> {
        let leader = self.pair.leader("").await?;
        let mut process = self.pair.processes.remove(&leader).context("it runs")?;
        let struck = Instant::now();
        let ended = async {
            // its exit does not matter here: if it ignores SIGTERM, it is killed
            if is_kill { process.kill9().await } else { process.stop().await }
        };
        let (_, taken_over) = tokio::join!(ended, async {
            self.pair.leader(&leader).await.map(|_| struck.elapsed().as_secs_f64())
        });
        taken_over
    }

    /// Waits until exactly the wanted actors run.
    async fn settled(&self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), HERE);
        let actors = |(name, wanted): (&String, &DesiredApplication)| -> Vec<(String, String)> {
            (0..wanted.replicas).map(|index| (format!("{name}-{GROUP}-{index}"), wanted.image())).collect()
        };
        let expected: BTreeMap<String, String> = self.wanted.iter().flat_map(actors).collect();
        let settled = wait::until(LIMIT, async || {
            for application in self.applications().list(&ListParams::default()).await?.items {
                let (name, status) = (application.name_any(), application.status.unwrap_or_default());
                let seen = status.observed_generation == application.metadata.generation;
                let running = status.actors.map_or(-1, |actors| actors.running);
                let wanted = self.wanted[&name].replicas;
                ensure!(seen && i64::from(running) == i64::from(wanted), "{name}: {running} of {wanted} run");
            }
            let mut running = BTreeMap::new();
            for pod in pods.list(&ListParams::default()).await?.items {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                let is_there = self.nodes.names().iter().any(|name| name == node);
                let name = pod.name_any();
                ensure!(phase == Some("Running") && is_there, "{name} is {phase:?} on {node:?}");
                ensure!(pod.metadata.deletion_timestamp.is_none(), "{name} is going");
                let spec = pod.spec.unwrap_or_default();
                let image = spec.containers.into_iter().find_map(|container| container.image);
                running.insert(name, image.unwrap_or_default());
            }
            ensure!(running.len() == expected.len(), "{} pods of {}", running.len(), expected.len());
            let other = expected.iter().find(|(name, image)| running.get(*name) != Some(image));
            ensure!(other.is_none(), "{other:?} is not there");
            anyhow::Ok(())
        });
        settled.await.map_err(|seen| anyhow!("not everything runs: {seen}"))
    }
}

fn node(index: usize) -> SimulatedNode {
    SimulatedNode::new(format!("node-{index:03}"))
}

/// Actors that gain nothing from a move, so that a move is wrong while their unit exists.
fn group(wanted: DesiredApplication) -> Value {
    let requests = json!({"cpu": "500m", "memory": "64Mi"});
    let container = json!({"name": "actor", "image": wanted.image(), "resources": {"requests": requests}});
    let implementation =
        json!({"kind": "cpu", "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}});
    json!({"name": GROUP, "replicas": wanted.replicas, "arrivals": "1/s", "implementations": [implementation]})
}
