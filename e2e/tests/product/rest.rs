//! With nothing to do, the operator writes nothing; with something to do, it does it at once.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    AuditEvent, Cluster, SimulatedNode,
    product::{NAMESPACE, OPERATOR},
    wait_for,
};
use serde_json::json;

use crate::stage::{SOON, Stage, application, cpus};

/// How many renewals of its lease are waited for; there is one every two seconds.
const RENEWALS: usize = 6;

#[tokio::test]
async fn at_rest_only_the_lease_is_written_and_a_change_is_answered_at_once() {
    let cluster = Cluster::shared();
    let stage = Stage::set("rest", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    stage.apply(&application("app", &[("a", 4, &[("cpu", "1ms")])])).await;
    stage.settled("app", super::stage::Seen::all_placed).await;

    let is_lease = |event: &&AuditEvent| event.resource == "leases";
    let by_it = |event: &&AuditEvent| event.is_write() && event.is_by_service_account(NAMESPACE, OPERATOR);
    // the last words about the start may still be on their way: it is at rest once a renewal follows a renewal
    let mut before = cluster.audit().await.unwrap();
    wait_for("two renewals in a row", SOON, async || {
        let now = cluster.audit().await?;
        let writes: Vec<_> = now.since(&before).iter().filter(by_it).collect();
        if writes.iter().any(|event| !is_lease(event)) {
            before = now;
            anyhow::bail!("it still writes");
        }
        ensure!(writes.len() >= 2, "{} renewals", writes.len());
        before = now;
        Ok(())
    })
    .await;
    let writes = wait_for("some renewals", SOON, async || {
        let now = cluster.audit().await?;
        let writes: Vec<_> = now.since(&before).iter().filter(by_it).cloned().collect();
        ensure!(writes.iter().filter(is_lease).count() >= RENEWALS, "{} writes", writes.len());
        anyhow::Ok(writes)
    })
    .await;
    let surplus: Vec<_> = writes.iter().filter(|event| !is_lease(event)).collect();
    assert_eq!(surplus, Vec::<&AuditEvent>::new());

    let before = cluster.audit().await.unwrap();
    stage
        .patch(
            "app",
            &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
        )
        .await;
    stage.settled("app", super::stage::Seen::all_placed).await;
    let after = cluster.audit().await.unwrap();
    let after = after.since(&before);
    let asked = after.iter().find(|event| {
        event.resource == "actorapplications" && event.verb == "patch" && event.user == "admin"
    });
    let answered = after.iter().filter(by_it).find(|event| event.resource == "placements");
    let took = answered.unwrap().received.duration_since(asked.unwrap().received);
    assert!(took.unsigned_abs() < Duration::from_secs(2), "decided {took:#} after the change");
}
