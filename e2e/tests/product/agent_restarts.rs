//! Agents that are killed, starved, and replaced one after the other: what they do to themselves moves nobody.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use crds::DevicePool;
use e2e::{Process, SimulatedNode, Workload, hardware::Driver, keeper, product::AGENT, wait_for};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

const NODES: usize = 20;
/// The GPUs of each node; three quarters of all are used.
const GPUS: usize = 2;

/// The resource that the stand-in's GPUs are offered as.
const RESOURCE: &str = "nvidia.com/gpu";

/// How often each Lease is renewed by agents that hardly get to run.
const RENEWALS: usize = 2;

/// Where each actor was decided to be, and the uid of its pod.
fn kept(state: &AppState) -> BTreeMap<String, (String, Option<String>)> {
    let uid = |actor: &str| state.pods.iter().find(|pod| pod.labels()[crds::labels::ACTOR] == actor)?.uid();
    state
        .places()
        .into_iter()
        .map(|(actor, unit)| (actor.to_owned(), (unit.to_owned(), uid(actor))))
        .collect()
}

/// An application with as many arrivals as told, which no place is better or worse for: it is only decided anew.
fn manifest(arrivals: usize) -> Value {
    let gpus = u32::try_from(NODES * GPUS * 3 / 4).unwrap();
    let mut manifest = application("app", &[("a", gpus, &[("gpu", "1ms")]), ("b", 10, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][1]["arrivals"] = json!(format!("{arrivals}/s"));
    manifest
}

/// Twenty nodes, an agent on each that looks at this machine and at the stand-in's GPUs, and actors on most of these.
struct Scene<'a> {
    env: &'a TestEnv,
    workloads: Vec<Workload<'static>>,
    leases: Api<Lease>,
    pools: Api<DevicePool>,
    before: BTreeMap<String, (String, Option<String>)>,
    decided: usize,
}

impl Scene<'_> {
    async fn start(&self, agents: &[usize]) -> Vec<Process> {
        let program = keeper::built(AGENT).unwrap();
        let start = agents.iter().map(async |agent| {
            let process = self.workloads[*agent].start(&program).await.unwrap();
            process.wait_ready().await.unwrap();
            process
        });
        join_all(start).await
    }

    /// Waits until the pool says that so many nodes' agents are heard of, and offers their GPUs.
    async fn heard(&self, agents: usize) {
        wait_for("the pool knows whose agents are heard", TIMEOUT, async || {
            let status = self.pools.get("gpus").await?.status.unwrap_or_default();
            let is_stale = status.conditions.iter().any(|c| c.type_ == "Stale" && c.status == "True");
            ensure!(is_stale == (agents < NODES), "{status:?}");
            ensure!(usize::try_from(status.healthy)? == agents * GPUS, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Has the application decided anew, and everybody stay.
    async fn nobody_moves(&mut self, when: &str) {
        self.decided += 1;
        self.env.apply(&manifest(self.decided)).await;
        let now = self.env.wait_reconciled("app", AppState::all_placed).await;
        assert_eq!(kept(&now), self.before, "{when}");
    }

    /// When each Lease was renewed last.
    async fn renewals(&self) -> Result<BTreeMap<String, Timestamp>> {
        let leases = self.leases.list(&ListParams::default()).await?;
        let renewal = |lease: Lease| Some((lease.name_any(), lease.spec?.renew_time?.0));
        Ok(leases.into_iter().filter_map(renewal).collect())
    }
}

/// Has every agent do something.
fn all_of(agents: &mut [Process], act: fn(&mut Process) -> Result<()>) {
    for agent in agents {
        act(agent).unwrap();
    }
}

#[tokio::test]
async fn killed_starved_and_replaced_agents_move_no_actor() {
    let names: Vec<_> = (0..NODES).map(|number| format!("node-{number:02}")).collect();
    let nodes =
        names.iter().map(|name| SimulatedNode::new(name).resource(RESOURCE, u32::try_from(GPUS).unwrap()));
    let gpus = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "gpus"},
        "spec": {"kind": "gpu", "resource": {"devicePlugin": RESOURCE}}});
    let env = TestEnv::new("twenty", nodes, [cpus(), gpus]).await;
    let cluster = cluster();
    let run = cluster.plane().state.join("run");
    let driver = Driver::new(run.join("twenty.driver"), GPUS).unwrap();
    let mut workloads = Vec::new();
    for name in &names {
        let workload = cluster.agent_beside(name, &driver).await.unwrap();
        workloads.push(workload.without("--simulate").arg("--lease-seconds=6"));
    }
    let mut scene = Scene {
        env: &env,
        workloads,
        leases: Api::namespaced(env.client.clone(), "cairn-agents"),
        pools: Api::all(env.client.clone()),
        before: BTreeMap::new(),
        decided: 1,
    };
    let all: Vec<_> = (0..NODES).collect();
    let mut agents = scene.start(&all).await;
    scene.heard(NODES).await;
    env.apply(&manifest(1)).await;
    scene.before = kept(&env.wait_reconciled("app", AppState::all_placed).await);
    let history = env.watch_pods().await;

    // every third is killed; another one starts when its Lease is long over
    let killed: Vec<_> = all.iter().copied().filter(|agent| agent % 3 == 0).collect();
    for agent in &killed {
        agents[*agent].kill9().await.unwrap();
    }
    scene.heard(NODES - killed.len()).await;
    scene.nobody_moves("while every third agent is dead").await;
    for (agent, process) in killed.iter().zip(scene.start(&killed).await) {
        agents[*agent] = process;
    }
    scene.heard(NODES).await;
    scene.nobody_moves("with other agents on those nodes").await;

    // all stand still at once, and then run for a moment now and again
    all_of(&mut agents, Process::freeze);
    scene.heard(0).await;
    scene.nobody_moves("while no agent runs").await;
    let mut last = scene.renewals().await.unwrap();
    let mut renewed: BTreeMap<String, usize> = BTreeMap::new();
    wait_for("agents that hardly run renew their Leases", TIMEOUT, async || {
        all_of(&mut agents, Process::thaw);
        let now = scene.renewals().await?;
        all_of(&mut agents, Process::freeze);
        for (name, at) in now {
            if last.insert(name.clone(), at).is_some_and(|before| before < at) {
                *renewed.entry(name).or_default() += 1;
            }
        }
        let well = renewed.values().filter(|times| **times >= RENEWALS).count();
        ensure!(well == NODES, "{renewed:?}");
        anyhow::Ok(())
    })
    .await;
    all_of(&mut agents, Process::thaw);
    scene.heard(NODES).await;
    scene.nobody_moves("after the agents had starved").await;

    // an upgrade: one after the other ends in order, and the next waits until another one is ready in its place
    for agent in all {
        agents[agent].stop().await.unwrap();
        agents[agent] = scene.start(&[agent]).await.remove(0);
    }
    scene.heard(NODES).await;
    scene.nobody_moves("after the upgrade").await;

    let history = history.wait_synced().await;
    let going = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    assert_eq!(history.states().iter().filter(going).count(), 0, "nobody went");
    assert!(history.pods_per_actor().values().all(|lives| *lives == 1), "{:?}", history.pods_per_actor());
}
