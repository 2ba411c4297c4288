//! An idle operator writes nothing; on a change it reacts at once.

use anyhow::ensure;
use e2e::{
    AuditEvent, SimulatedNode,
    product::{NAMESPACE, OPERATOR},
    wait_for,
};
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// The number of lease renewals to wait for; one every two seconds.
const RENEWALS: usize = 6;
/// Fewer renewals than fit between two periodic resyncs.
const RESYNC_RENEWALS: usize = 60;

pub fn is_lease(event: &AuditEvent) -> bool {
    event.resource == "leases"
}

/// Whether the operator wrote it.
pub fn is_operator_write(event: &AuditEvent) -> bool {
    event.is_write() && event.is_by_service_account(NAMESPACE, OPERATOR)
}

/// Waits until the operator writes nothing but its lease.
pub async fn wait_idle() {
    let cluster = cluster();
    // late status patches, also of a search that was interrupted and resumed, may still arrive
    let mut before = cluster.audit().await.unwrap();
    wait_for("only renewals in a row", TIMEOUT, async || {
        let now = cluster.audit().await?;
        let writes: Vec<_> =
            now.since(&before).iter().filter(|event| is_operator_write(event)).cloned().collect();
        if let Some(other) = writes.iter().find(|event| !is_lease(event)) {
            before = now;
            anyhow::bail!("it still writes: {other:?}");
        }
        ensure!(writes.len() >= RENEWALS, "{} renewals", writes.len());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_operator_writes_only_its_lease_and_reacts_at_once() {
    let cluster = cluster();
    let env = TestEnv::new("rest", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&application("app", &[("a", 4, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;

    wait_idle().await;
    let before = cluster.audit().await.unwrap();
    env.patch(
        "app",
        &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
    )
    .await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let after = cluster.audit().await.unwrap();
    let after = after.since(&before);
    let asked = after.iter().find(|event| {
        event.resource == "actorapplications" && event.verb == "patch" && event.user == "admin"
    });
    let answered =
        after.iter().filter(|event| is_operator_write(event)).find(|event| event.resource == "placements");
    let (asked, answered) = (asked.unwrap().received, answered.unwrap().received);
    let between = after
        .iter()
        .filter(|event| is_operator_write(event))
        .filter(|event| is_lease(event))
        .filter(|event| (asked..answered).contains(&event.received));
    let renewals = between.count();
    assert!(renewals < RESYNC_RENEWALS, "placed {renewals} renewals after the change");
}
