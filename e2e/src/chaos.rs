//! `cairn-e2e chaos`: of two operators the one that leads is killed or stopped at random moments of roll-outs and node
//! losses, and what came of it is read in the audit log.
//!
//! A batch is one control plane, one seed, and so many strikes of each kind; the seed decides what changes, when the strike
//! comes, and of which kind it is. After each strike everything that is wanted must run again before the next change. Each
//! row says at which commit it was measured: a measurement that was stopped goes on with the batch that it was in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
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
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Cluster, Nodes, Process, SimulatedNode, keeper,
    product::{NAMESPACE, OPERATOR},
    wait,
};

pub mod checker;

/// The namespace of the applications.
const HERE: &str = "chaos";
/// The one group of each application.
const GROUP: &str = "a";
/// How long it may take until another leads, and until everything runs again; far more than it does.
const LIMIT: Duration = Duration::from_mins(5);

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// How many nodes of four cores.
    pub nodes: usize,
    /// How many applications.
    pub applications: usize,
    /// How many actors each has at most; it never has fewer than half of them.
    pub actors: u32,
    /// How often the leader is killed, and how often it is stopped.
    pub strikes: usize,
    /// How long a strike may come after a change, in milliseconds.
    pub moments: u64,
    /// How long the operator's lease is valid.
    pub lease_seconds: u32,
}

impl Size {
    /// One of the batches that the results are stated for.
    pub const FULL: Self =
        Self { nodes: 100, applications: 10, actors: 50, strikes: 10, moments: 3000, lease_seconds: 15 };
    /// The same in little, for a test.
    pub const SHORT: Self =
        Self { nodes: 8, applications: 2, actors: 10, strikes: 3, moments: 700, lease_seconds: 4 };
}

/// What came of one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The commit of the programs, as whoever built them names it.
    pub commit: String,
    /// What decided what happens.
    pub seed: u64,
    /// How much of everything.
    #[serde(flatten)]
    pub size: Size,
    /// Seconds from each SIGKILL until another operator held the lease.
    pub after_kill: Vec<f64>,
    /// Seconds from each SIGTERM until another operator held the lease.
    pub after_stop: Vec<f64>,
    /// Seconds from there until everything that was wanted ran.
    pub until_all_run: Vec<f64>,
    /// How many nodes were lost.
    pub lost_nodes: usize,
    /// How many pods were started, as the audit log has it.
    pub started: usize,
    /// How many pods were asked to go.
    pub stopped: usize,
    /// How often another operator began to write.
    pub hand_overs: usize,
    /// What must not have happened, in words.
    pub findings: Vec<String>,
}

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
        let batch = measure(size, seed, commit).await?;
        for finding in &batch.findings {
            eprintln!("  {finding}");
        }
        all.push(batch);
        fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
        fs::write(results.join("chaos.md"), page(&all, size, commit))?;
    }
    print!("{}", page(&all, size, commit));
    Ok(())
}

/// A control plane of its own, two operators, the nodes, the applications, and what is done to them.
pub async fn measure(size: Size, seed: u64, commit: &str) -> Result<Batch> {
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
        lost_nodes: 0,
        started: 0,
        stopped: 0,
        hand_overs: 0,
        findings: Vec::new(),
    };
    for is_kill in strikes {
        let lost = scene.change().await?;
        batch.lost_nodes += usize::from(lost);
        // no condition is waited for: the strike is to come at any moment
        tokio::time::sleep(Duration::from_millis(scene.rng.u64(0..=size.moments))).await;
        let seconds = scene.strike(is_kill).await?;
        if is_kill { &mut batch.after_kill } else { &mut batch.after_stop }.push(seconds);
        let taken_over = Instant::now();
        scene.settled().await?;
        batch.until_all_run.push(taken_over.elapsed().as_secs_f64());
        if lost {
            scene.replace_node().await?;
        }
        scene.pair.complete().await?;
    }
    let verdict = checker::check(cluster.audit().await?.events(), HERE);
    (batch.started, batch.stopped) = (verdict.started, verdict.stopped);
    (batch.hand_overs, batch.findings) = (verdict.hand_overs, verdict.findings);
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

/// One batch while it runs.
struct Scene<'a> {
    rng: Rng,
    size: Size,
    client: Client,
    /// How many actors each application is to have.
    wanted: BTreeMap<String, u32>,
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
        let wanted =
            (0..size.applications).map(|index| (format!("app-{index}"), size.actors * 3 / 4)).collect();
        let rng = Rng::with_seed(seed);
        let mut scene = Self { rng, size, client, wanted, nodes_made: size.nodes, pair, nodes };
        scene.pair.complete().await?;
        for (name, replicas) in &scene.wanted {
            scene.create(name, *replicas).await?;
        }
        scene.settled().await?;
        Ok(scene)
    }

    fn applications(&self) -> Api<ActorApplication> {
        Api::namespaced(self.client.clone(), HERE)
    }

    async fn create(&self, name: &str, replicas: u32) -> Result<()> {
        let manifest = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": name}, "spec": {"actors": [group(replicas)]}});
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

    /// Begins a roll-out, or takes a node away, or both; tells whether a node is lost.
    async fn change(&mut self) -> Result<bool> {
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        let name = names[self.rng.usize(..names.len())].clone();
        let replicas = self.rng.u32(self.size.actors / 2..=self.size.actors);
        let (rolls_out, anew, loses) = match self.rng.u8(..4) {
            0 => (true, true, false),
            1 => (true, false, false),
            2 => (true, false, true),
            _ => (false, false, true),
        };
        if rolls_out {
            self.wanted.insert(name.clone(), replicas);
        }
        if anew {
            self.applications().delete(&name, &DeleteParams::default()).await?;
            self.create(&name, replicas).await?;
        } else if rolls_out {
            let patch = Patch::Merge(json!({"spec": {"actors": [group(replicas)]}}));
            self.applications().patch(&name, &PatchParams::default(), &patch).await?;
        }
        if loses {
            let at = self.rng.usize(..self.nodes.names().len());
            let node = self.nodes.names()[at].clone();
            self.nodes.delete(&node).await?;
        }
        Ok(loses)
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
        let actors = |(name, replicas): (&String, &u32)| -> Vec<String> {
            (0..*replicas).map(|index| format!("{name}-{GROUP}-{index}")).collect()
        };
        let expected: BTreeSet<String> = self.wanted.iter().flat_map(actors).collect();
        let settled = wait::until(LIMIT, async || {
            for application in self.applications().list(&ListParams::default()).await?.items {
                let (name, status) = (application.name_any(), application.status.unwrap_or_default());
                let seen = status.observed_generation == application.metadata.generation;
                let running = status.actors.map_or(-1, |actors| actors.running);
                let wanted = self.wanted[&name];
                ensure!(seen && i64::from(running) == i64::from(wanted), "{name}: {running} of {wanted} run");
            }
            let mut running = BTreeSet::new();
            for pod in pods.list(&ListParams::default()).await?.items {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                let is_there = self.nodes.names().iter().any(|name| name == node);
                let name = pod.name_any();
                ensure!(phase == Some("Running") && is_there, "{name} is {phase:?} on {node:?}");
                ensure!(pod.metadata.deletion_timestamp.is_none(), "{name} is going");
                running.insert(name);
            }
            ensure!(running == expected, "{} pods of {}", running.len(), expected.len());
            anyhow::Ok(())
        });
        settled.await.map_err(|seen| anyhow!("not everything runs: {seen}"))
    }
}

fn node(index: usize) -> SimulatedNode {
    SimulatedNode::new(format!("node-{index:03}"))
}

/// Actors with nothing to gain by a move, so that one is never right where the place is still there.
fn group(replicas: u32) -> Value {
    let requests = json!({"cpu": "500m", "memory": "64Mi"});
    let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
    let implementation =
        json!({"kind": "cpu", "serviceTime": "1ms", "template": {"spec": {"containers": [container]}}});
    json!({"name": GROUP, "replicas": replicas, "arrivals": "1/s", "implementations": [implementation]})
}

/// Seconds of one kind that a batch measured.
type Durations = fn(&Batch) -> &Vec<f64>;

fn page(all: &[Batch], size: Size, commit: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let gather = |of: Durations| {
        let mut seconds: Vec<f64> = all.iter().flat_map(of).copied().collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    };
    let sum = |of: fn(&Batch) -> usize| all.iter().map(of).sum::<usize>();
    let mut text = format!(
        "# Operators that are killed at random moments\n\n{} nodes, {} applications of up to {} actors each, two operators with a \
         lease of {} s; etcd, API server,\ncontroller manager, scheduler, KWOK and both operators share {cores} cores. An \
         application gets more or fewer actors, is deleted and made\nanew, or a node goes; up to {} ms later the operator that \
         leads is killed (SIGKILL) or stopped (SIGTERM).\n\n| after | times | median | worst | aim |\n|---|---:|---:|---:|---:|\n",
        size.nodes, size.applications, size.actors, size.lease_seconds, size.moments
    );
    let rows: [(&str, Durations, &str); 3] = [
        ("SIGKILL, until another leads", |batch| &batch.after_kill, "20 s"),
        ("SIGTERM, until another leads", |batch| &batch.after_stop, "3 s"),
        ("that, until everything runs", |batch| &batch.until_all_run, ""),
    ];
    for (what, of, aim) in rows {
        let seconds = gather(of);
        let at = |index: usize| seconds.get(index).copied().unwrap_or_default();
        let (median, worst) = (at(seconds.len() / 2), at(seconds.len().saturating_sub(1)));
        // writing into a String cannot fail
        let _ = writeln!(text, "| {what} | {} | {median:.1} s | {worst:.1} s | {aim} |", seconds.len());
    }
    let _ = writeln!(
        text,
        "\n{} pods were started and {} were asked to go, {} nodes were lost, and {} times another operator began to write.\n",
        sum(|batch| batch.started),
        sum(|batch| batch.stopped),
        sum(|batch| batch.lost_nodes),
        sum(|batch| batch.hand_overs)
    );
    let findings: Vec<&String> = all.iter().flat_map(|batch| &batch.findings).collect();
    let _ = writeln!(
        text,
        "What must not have happened, by the audit log (an actor twice, an actor lost, a pod deleted that should stay, two \
         operators\nthat write): {}.",
        findings.len()
    );
    for finding in findings {
        let _ = writeln!(text, "- {finding}");
    }
    let _ = writeln!(
        text,
        "\nMade at {commit} by `make bench`, which runs `cairn-e2e chaos`; the numbers are in [chaos.json](chaos.json)."
    );
    text
}
