//! Agents that are killed, starved and replaced move no actor.

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
/// GPUs per node; three quarters of all are used.
const GPUS: usize = 2;

/// The extended resource of the fake GPUs.
const RESOURCE: &str = "nvidia.com/gpu";

/// The number of renewals of each Lease by starved agents.
const RENEWALS: usize = 2;

/// The assigned unit of each actor, and the uid of its pod.
fn assignments(state: &AppState) -> BTreeMap<String, (String, Option<String>)> {
    let uid = |actor: &str| state.pods.iter().find(|pod| pod.labels()[crds::labels::ACTOR] == actor)?.uid();
    state
        .places()
        .into_iter()
        .map(|(actor, unit)| (actor.to_owned(), (unit.to_owned(), uid(actor))))
        .collect()
}

/// An application whose arrivals affect no placement: a change only triggers a new plan.
fn manifest(arrivals: usize) -> Value {
    let gpus = u32::try_from(NODES * GPUS * 3 / 4).unwrap();
    let mut manifest = application("app", &[("a", gpus, &[("gpu", "1ms")]), ("b", 10, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][1]["arrivals"] = json!(format!("{arrivals}/s"));
    manifest
}

/// Twenty nodes, each with an agent that discovers this machine and the fake GPUs, and actors on most of these.
struct AgentFleet<'a> {
    env: &'a TestEnv,
    workloads: Vec<Workload<'static>>,
    leases: Api<Lease>,
    pools: Api<DevicePool>,
    before: BTreeMap<String, (String, Option<String>)>,
    decided: usize,
}

impl AgentFleet<'_> {
    async fn start(&self, agents: &[usize]) -> Vec<Process> {
        let program = keeper::built(AGENT).unwrap();
        let start = agents.iter().map(async |agent| {
            let process = self.workloads[*agent].start(&program).await.unwrap();
            process.wait_ready().await.unwrap();
            process
        });
        join_all(start).await
    }

    /// Waits until the pool reports so many nodes with valid agent leases, and offers their GPUs.
    async fn wait_leases(&self, agents: usize) {
        wait_for("the pool reports valid agent leases", TIMEOUT, async || {
            let status = self.pools.get("gpus").await?.status.unwrap_or_default();
            let is_stale = status.conditions.iter().any(|c| c.type_ == "Stale" && c.status == "True");
            ensure!(is_stale == (agents < NODES), "{status:?}");
            ensure!(usize::try_from(status.healthy)? == agents * GPUS, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Triggers a new plan and checks that every actor stays.
    async fn assert_no_moves(&mut self, when: &str) {
        self.decided += 1;
        self.env.apply(&manifest(self.decided)).await;
        let now = self.env.wait_reconciled("app", AppState::all_placed).await;
        assert_eq!(assignments(&now), self.before, "{when}");
    }

    /// The last renewal of each Lease.
    async fn renewals(&self) -> Result<BTreeMap<String, Timestamp>> {
        let leases = self.leases.list(&ListParams::default()).await?;
        let renewal = |lease: Lease| Some((lease.name_any(), lease.spec?.renew_time?.0));
        Ok(leases.into_iter().filter_map(renewal).collect())
    }
}

/// Applies `act` to every agent.
fn for_all(agents: &mut [Process], act: fn(&mut Process) -> Result<()>) {
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
    let mut fleet = AgentFleet {
        env: &env,
        workloads,
        leases: Api::namespaced(env.client.clone(), "cairn-agents"),
        pools: Api::all(env.client.clone()),
        before: BTreeMap::new(),
        decided: 1,
    };
    let all: Vec<_> = (0..NODES).collect();
    let mut agents = fleet.start(&all).await;
    fleet.wait_leases(NODES).await;
    env.apply(&manifest(1)).await;
    fleet.before = assignments(&env.wait_reconciled("app", AppState::all_placed).await);
    let history = env.watch_pods().await;

    // every third agent is killed, and restarted long after its Lease expired
    let killed: Vec<_> = all.iter().copied().filter(|agent| agent % 3 == 0).collect();
    for agent in &killed {
        agents[*agent].kill9().await.unwrap();
    }
    fleet.wait_leases(NODES - killed.len()).await;
    fleet.assert_no_moves("while every third agent is dead").await;
    for (agent, process) in killed.iter().zip(fleet.start(&killed).await) {
        agents[*agent] = process;
    }
    fleet.wait_leases(NODES).await;
    fleet.assert_no_moves("after their restart").await;

    // all are frozen at once, then run for short moments
    for_all(&mut agents, Process::freeze);
    fleet.wait_leases(0).await;
    fleet.assert_no_moves("while no agent runs").await;
    let mut last = fleet.renewals().await.unwrap();
    let mut renewed: BTreeMap<String, usize> = BTreeMap::new();
    wait_for("starved agents renew their Leases", TIMEOUT, async || {
        for_all(&mut agents, Process::thaw);
        let now = fleet.renewals().await?;
        for_all(&mut agents, Process::freeze);
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
    for_all(&mut agents, Process::thaw);
    fleet.wait_leases(NODES).await;
    fleet.assert_no_moves("after the starvation").await;

    // a rolling upgrade: each agent stops, and the next waits until its successor is ready
    for agent in all {
        agents[agent].stop().await.unwrap();
        agents[agent] = fleet.start(&[agent]).await.remove(0);
    }
    fleet.wait_leases(NODES).await;
    fleet.assert_no_moves("after the upgrade").await;

    let history = history.wait_synced().await;
    let is_terminating = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    assert_eq!(history.states().iter().filter(is_terminating).count(), 0, "no pod is deleted");
    assert!(history.pods_per_actor().values().all(|lives| *lives == 1), "{:?}", history.pods_per_actor());
}
