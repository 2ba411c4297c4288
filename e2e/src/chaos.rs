//! `cairn-e2e chaos`: of two operators the one that leads is killed or stopped at random moments of roll-outs, rolling updates,
//! drains and node losses, and what came of it is read in the audit log.
//!
//! A batch is one control plane, one seed, and so many strikes of each kind; the seed decides what changes, when the strike
//! comes, and of which kind it is. After each strike everything that is wanted must run again before the next change. Each
//! row says at which commit it was measured: a measurement that was stopped goes on with the batch that it was in.

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

pub use batch::{Batch, Form, Size};
use page::page;

/// The namespace of the applications.
const HERE: &str = "chaos";
/// The one group of each application.
const GROUP: &str = "a";
/// How long it may take until another leads, and until everything runs again; far more than it does.
const LIMIT: Duration = Duration::from_mins(5);

/// Runs as many batches as asked for, less those that there are of this commit, and writes `chaos.md` and `chaos.json` into
/// `results` after each.
pub async fn run(size: Size, batches: u64, commit: &str, results: &Path) -> Result<()> {
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

/// A control plane of its own, two operators, the nodes, the applications, and what is done to them. Where something is found, the audit
/// log is `audit-SEED.jsonl` in `kept`.
pub async fn measure(size: Size, seed: u64, commit: &str, kept: Option<&Path>) -> Result<Batch> {
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
        // no condition is waited for: the strike is to come at any moment
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

/// Two operators, by the names that they hold the lease by.
struct Pair<'a> {
    cluster: &'a Cluster,
    leases: Api<Lease>,
    processes: BTreeMap<String, Process>,
    made: usize,
}

impl Pair<'_> {
    /// Starts operators until two are there and ready.
    async fn complete(&mut self) -> Result<()> {
        // one that lost its lease on a machine that was too slow has ended by itself
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

    /// Waits until an operator that runs holds the lease, other than `not`.
    async fn leader(&self, not: &str) -> Result<String> {
        let led = wait::until(LIMIT, async || {
            let lease = self.leases.get(OPERATOR).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let runs = self.processes.get(&holder).is_some_and(|process| process.exit().is_none());
            ensure!(runs && holder != not, "the lease is held by {holder:?}");
            anyhow::Ok(holder)
        });
        led.await.map_err(|seen| anyhow!("nobody leads: {seen}"))
    }
}

/// What was begun.
struct Change {
    form: Form,
    updates: bool,
    loses: bool,
    /// The node that is drained, and who does it: it ends when none of its pods is left.
    drain: Option<(String, Child)>,
}

/// What an application is to have.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    replicas: u32,
    /// Which template: later ones are larger.
    edition: u32,
}

impl Wanted {
    fn image(self) -> String {
        format!("none:{}", self.edition)
    }
}

/// One batch while it runs.
struct Scene<'a> {
    rng: Rng,
    size: Size,
    client: Client,
    wanted: BTreeMap<String, Wanted>,
    /// What comes next, the last first.
    forms: Vec<Form>,
    nodes_made: usize,
    pair: Pair<'a>,
    nodes: Nodes<'a>,
}

impl<'a> Scene<'a> {
    async fn set(cluster: &'a Cluster, size: Size, seed: u64) -> Result<Self> {
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
        let at_first = Wanted { replicas: size.actors, edition: 0 };
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

    async fn create(&self, name: &str, wanted: Wanted) -> Result<()> {
        let manifest = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": name}, "spec": {"actors": [group(wanted)], "update": self.update()}});
        let application: ActorApplication = serde_json::from_value(manifest)?;
        let created = wait::until(LIMIT, async || {
            match self.applications().create(&PostParams::default(), &application).await {
                // the one before it has not gone yet
                Err(kube::Error::Api(status)) if status.code == 409 => Err(anyhow!("{}", status.message)),
                created => Ok(created),
            }
        });
        created.await.map_err(|seen| anyhow!("cannot create {name}: {seen}"))??;
        Ok(())
    }

    /// How fast templates roll out: a fifth of the largest application at once.
    fn update(&self) -> Value {
        json!({"maxUnavailable": (self.size.actors / 5).max(1)})
    }

    /// Begins one thing or several at once.
    async fn change(&mut self) -> Result<Change> {
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
        Ok(Change { form, updates, loses, drain })
    }

    /// Begins to evict everybody from a node, as administrators do.
    fn drain(&self, node: &str) -> Result<Child> {
        let mut kubectl = self.pair.cluster.command("kubectl");
        kubectl.args(["drain", node, "--ignore-daemonsets", &format!("--timeout={}s", LIMIT.as_secs())]);
        let mut kubectl = tokio::process::Command::from(kubectl);
        kubectl.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        kubectl.spawn().context("cannot start kubectl")
    }

    /// Gives back the room that a change took away.
    async fn make_good(&mut self, change: Change) -> Result<()> {
        if change.loses {
            self.replace_node().await?;
        }
        if let Some((node, _)) = change.drain {
            self.pair.cluster.kubectl(["uncordon", &node]).await?;
        }
        Ok(())
    }

    /// Adds a node of another name, so that there is as much room as before.
    async fn replace_node(&mut self) -> Result<()> {
        self.nodes_made += 1;
        self.nodes.add(node(self.nodes_made)).await
    }

    /// Kills or stops the operator that leads: seconds until the other one does.
    async fn strike(&mut self, is_kill: bool) -> Result<f64> {
        let leader = self.pair.leader("").await?;
        let mut process = self.pair.processes.remove(&leader).context("it runs")?;
        let struck = Instant::now();
        let ended = async {
            // how it ended is no matter here: one that does not obey is killed
            if is_kill { process.kill9().await } else { process.stop().await }
        };
        let (_, taken_over) = tokio::join!(ended, async {
            self.pair.leader(&leader).await.map(|_| struck.elapsed().as_secs_f64())
        });
        taken_over
    }

    /// Waits until exactly what is wanted runs.
    async fn settled(&self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), HERE);
        let actors = |(name, wanted): (&String, &Wanted)| -> Vec<(String, String)> {
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

/// Actors with nothing to gain by a move, so that one is never right where the place is still there.
fn group(wanted: Wanted) -> Value {
    let requests = json!({"cpu": "500m", "memory": "64Mi"});
    let container = json!({"name": "actor", "image": wanted.image(), "resources": {"requests": requests}});
    let implementation =
        json!({"kind": "cpu", "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}});
    json!({"name": GROUP, "replicas": wanted.replicas, "arrivals": "1/s", "implementations": [implementation]})
}
