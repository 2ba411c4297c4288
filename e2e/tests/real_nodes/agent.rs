//! The agent as run by the chart's DaemonSet: its user, what it publishes, how often it writes.

use anyhow::{bail, ensure};
use crds::NodeTopology;
use e2e::{AuditEvent, AuditLog, wait_for};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::scene::{
    DEVICES, SOON, agent_process, agents, alone, by_agent, cluster, devices, machine, npus, product,
    status_of, tell_of,
};

/// The number of lease renewals per agent to wait for, to detect other writes.
const RENEWALS: usize = 4;

/// One test for all parts about agents, which would disturb each other.
#[tokio::test]
async fn idle_agents_write_only_leases() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;

    // as in the chart: the user that owns the kubelet's socket, without capabilities, and a read-only
    // root file system
    let before = agents().await.unwrap();
    assert_eq!(before.len(), DEVICES.len());
    for pod in &before {
        let agent = agent_process(pod);
        assert_eq!(status_of(agent, "Uid"), "0\t0\t0\t0");
        assert_eq!(status_of(agent, "CapBnd"), "0000000000000000");
        assert_eq!(status_of(agent, "CapEff"), "0000000000000000");
        assert_eq!((status_of(agent, "NoNewPrivs"), status_of(agent, "Seccomp")), ("1".into(), "2".into()));
        let mounts = std::fs::read_to_string(format!("/proc/{agent}/mounts")).unwrap();
        let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap();
        assert!(root.split(' ').nth(3).unwrap().starts_with("ro"), "{root}");
    }

    tell_of("described hardware", &before).await;

    // each the devices of its own node
    let topologies = Api::<NodeTopology>::all(cluster.client().await.unwrap());
    for (node, _) in DEVICES {
        let found = topologies.get(node).await.unwrap();
        let ids: Vec<_> = found.spec.devices.iter().map(|device| device.id.clone()).collect();
        assert_eq!(ids, [devices(node), npus(node)].concat());
        wait_for("all devices are released", SOON, async || {
            let held = topologies.get(node).await?.status.unwrap_or_default().allocations;
            ensure!(held.is_empty(), "{held:?}");
            anyhow::Ok(())
        })
        .await;
    }

    at_rest().await;
    one_write_per_change(&topologies, "before").await;

    // the API server restarts; the agents keep running
    cluster.restart_apiserver().unwrap();
    let restarted = cluster.audit().await.unwrap();
    wait_for("the agents renew their leases again", SOON, async || {
        let now = cluster.audit().await?;
        let events = now.since(&restarted);
        let renewed = |node: &str| events.iter().any(|event| is_lease_of(event, node));
        ensure!(DEVICES.iter().all(|(node, _)| renewed(node)), "{} events", events.len());
        anyhow::Ok(())
    })
    .await;
    one_write_per_change(&topologies, "after").await;
    for pod in agents().await.unwrap() {
        assert!(before.iter().any(|other| other.uid() == pod.uid()), "{} is new", pod.name_any());
        let containers = pod.status.unwrap().container_statuses.unwrap();
        assert!(containers.iter().all(|container| container.restart_count == 0), "{containers:?}");
    }
}

fn is_lease_of(event: &AuditEvent, node: &str) -> bool {
    by_agent(event) && event.resource == "leases" && event.name == format!("cairn-agent-{node}")
}

/// Idle agents write only their leases.
async fn at_rest() {
    let cluster = cluster().await;
    // late writes about their start, or about pods that have just ended, may still arrive
    let mut before = cluster.audit().await.unwrap();
    wait_for("only lease renewals in a row", SOON, async || {
        let now = cluster.audit().await?;
        let writes = writes_since(&now, &before);
        if let Some(other) = writes.iter().find(|event| event.resource != "leases") {
            before = now;
            bail!("other writes: {other:?}");
        }
        for (node, _) in DEVICES {
            let renewals = writes.iter().filter(|event| is_lease_of(event, node)).count();
            ensure!(renewals >= RENEWALS, "{renewals} of {node}");
        }
        anyhow::Ok(())
    })
    .await;
}

/// A forged device in a node's topology is removed by that node's agent, with one write.
async fn one_write_per_change(topologies: &Api<NodeTopology>, when: &str) {
    let cluster = cluster().await;
    let (node, _) = DEVICES[0];
    let before = cluster.audit().await.unwrap();
    let mut changed = machine(node);
    changed["spec"]["devices"][0]["model"] = json!(when);
    let by_another_manager = PatchParams::apply("another-manager").force();
    topologies.patch(node, &by_another_manager, &Patch::Apply(changed)).await.unwrap();
    wait_for("the agent restores it", SOON, async || {
        let model = topologies.get(node).await?.spec.devices[0].model.clone();
        if model.as_deref() == Some("A100") { Ok(()) } else { bail!("{model:?}") }
    })
    .await;
    // its write about that precedes its next renewal
    let writes = wait_for("a renewal after that", SOON, async || {
        let now = cluster.audit().await?;
        let writes = writes_since(&now, &before);
        let put_right = writes.iter().position(|event| event.resource == "nodetopologies");
        let renewed = writes.iter().rposition(|event| is_lease_of(event, node));
        ensure!(put_right.is_some() && renewed > put_right, "{} writes", writes.len());
        anyhow::Ok(writes)
    })
    .await;
    let spec = |event: &&AuditEvent| event.resource == "nodetopologies" && event.subresource.is_empty();
    let specs: Vec<_> = writes.iter().filter(spec).collect();
    assert_eq!(specs.len(), 1, "{specs:#?}");
    let status = |event: &&AuditEvent| event.subresource == "status";
    assert!(writes.iter().filter(status).count() <= 1, "{writes:#?}");
}

fn writes_since(now: &AuditLog, before: &AuditLog) -> Vec<AuditEvent> {
    now.since(before).iter().filter(|event| by_agent(event)).cloned().collect()
}
