//! Two operators: one leads, and the standby takes over when the leader ends or is partitioned. Never both.

use anyhow::ensure;
use e2e::{
    AuditEvent, Cluster, SimulatedNode, keeper,
    product::{NAMESPACE, OPERATOR},
    wait_for,
};
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// The holder of the operator's lease.
async fn holder(cluster: &Cluster) -> anyhow::Result<String> {
    let lease = ["get", "lease", "cairn-operator", "-n", NAMESPACE, "-ojsonpath={.spec.holderIdentity}"];
    Ok(cluster.kubectl(lease).await?.stdout)
}

#[tokio::test]
async fn a_standby_takes_over_from_a_partitioned_leader() {
    let cluster = cluster();
    let mut env = TestEnv::new("election", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    wait_for("the first leads", TIMEOUT, async || {
        let holder = holder(cluster).await?;
        ensure!(!holder.is_empty(), "no leader");
        anyhow::Ok(())
    })
    .await;
    let first = holder(cluster).await.unwrap();
    let before = cluster.audit().await.unwrap();
    let name = if first == "cairn-operator-0" { "cairn-operator-1" } else { "cairn-operator-0" };
    let second = cluster.operator().await.unwrap().field("metadata.name", name);
    let second = second.start(&keeper::built(OPERATOR).unwrap()).await.unwrap();
    second.wait_ready().await.unwrap();

    // the first one leads, and all writes are its own
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let by_operators = |event: &&AuditEvent| event.is_by_service_account(NAMESPACE, OPERATOR);
    let waiting = cluster.audit().await.unwrap();
    let all: Vec<_> = waiting.since(&before).iter().filter(by_operators).collect();
    let writers: std::collections::BTreeSet<_> =
        all.iter().filter(|event| event.is_write()).map(|event| &event.credential).collect();
    let everybody: std::collections::BTreeSet<_> = all.iter().map(|event| &event.credential).collect();
    assert_eq!((writers.len(), everybody.len()), (1, 2), "one of two writes: {writers:?} of {everybody:?}");
    let first_credential = (*writers.first().unwrap()).clone();
    assert_eq!(holder(cluster).await.unwrap(), first);

    // it is frozen, as on a hanging machine, while there is work
    env.product.operator.freeze().unwrap();
    env.patch(
        "app",
        &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
    )
    .await;
    wait_for("the second leads", TIMEOUT, async || {
        let holder = holder(cluster).await?;
        ensure!(holder == name, "{holder} leads");
        anyhow::Ok(())
    })
    .await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let taken_over = cluster.audit().await.unwrap();

    // it resumes, finds its lease lost, and exits without a write
    env.product.operator.thaw().unwrap();
    let exit = env.product.operator.wait_ended(TIMEOUT).await.unwrap();
    assert_eq!(exit.code, Some(1), "{exit}");
    env.patch("app", &json!({"spec": {"channels": []}})).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let after = cluster.audit().await.unwrap();
    let late: Vec<_> = after
        .since(&taken_over)
        .iter()
        .filter(by_operators)
        .filter(|event| event.is_write() && event.credential == first_credential && event.code < 400)
        .collect();
    assert_eq!(late, Vec::<&AuditEvent>::new(), "the first wrote after it lost the lease");

    // an operator that is stopped by SIGTERM releases the lease at once
    let mut second = std::mem::replace(&mut env.product.operator, second);
    drop(second.stop().await);
    let exit = env.product.operator.stop().await.unwrap();
    assert_eq!(exit.code, Some(0), "{exit}");
    assert_eq!(holder(cluster).await.unwrap(), "");
    env.product.operator = cluster.start_operator().await.unwrap();
    env.patch("app", &json!({"spec": {"paused": true}})).await;
    env.wait_until("app", |state| state.message("Paused", "True").map(drop)).await;
}

/// A leader that is stopped during a write does not release its lease, because the request could arrive under the next leader. The
/// next operator waits until the lease expires.
#[tokio::test]
async fn a_leader_stopped_during_a_write_does_not_release_its_lease() {
    let cluster = cluster();
    let mut env = TestEnv::new("sudden", ["one"].map(SimulatedNode::new), [cpus()]).await;
    let history = env.watch_pods().await;
    let gate = e2e::Gate::close(cluster, &env.namespace, &[("pods", 0)]).await.unwrap();
    env.apply(&application("app", &[("a", 1, &[("cpu", "1ms")])])).await;
    wait_for("a write is in flight", TIMEOUT, async || {
        ensure!(gate.held("pods") > 0, "no write");
        anyhow::Ok(())
    })
    .await;
    let leads = holder(cluster).await.unwrap();
    let exit = env.product.operator.stop().await.unwrap();
    assert_eq!(exit.code, Some(0), "{exit}");
    assert_eq!(holder(cluster).await.unwrap(), leads, "it is not released");
    gate.open();
    env.product.operator = cluster.start_operator().await.unwrap();
    env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(history.wait_synced().await.pods_per_actor()["a-0"], 1);
}
