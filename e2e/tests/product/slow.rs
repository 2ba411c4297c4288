//! The API server answers, and each answer takes its time.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    SimulatedNode, keeper,
    product::{NAMESPACE, OPERATOR},
    slow::SlowLink,
    wait_for,
};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus};

/// So late comes every answer: long after a lease is usually renewed again, and a third of how long it is valid.
const LATE: Duration = Duration::from_secs(5);
const ACTORS: usize = 12;
/// How often the operator may ask for each actor's pod: once it is made and once it is tried, and once more where an answer came
/// too late.
const TRIES: usize = 3;

/// Every answer comes five seconds late: who leads goes on leading, asks for everything once, and comes through.
#[tokio::test]
async fn who_is_answered_late_goes_on_leading_and_comes_through() {
    let cluster = cluster();
    let mut stage = Stage::set("slow", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let history = stage.watch_pods().await;
    let link = SlowLink::open(cluster).await.unwrap();
    let slow = cluster.operator().await.unwrap().server(&link.server());
    let _ = stage.product.operator.stop().await;
    stage.product.operator = slow.start(&keeper::built(OPERATOR).unwrap()).await.unwrap();
    stage.product.operator.wait_ready().await.unwrap();
    let leases = Api::<Lease>::namespaced(stage.client.clone(), NAMESPACE);
    let lease = async || anyhow::Ok(leases.get(OPERATOR).await?.spec.unwrap_or_default());
    let first = wait_for("it leads", SOON, async || {
        let lease = lease().await?;
        ensure!(lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()), "{lease:?}");
        Ok(lease)
    })
    .await;

    link.late_by(LATE);
    let before = cluster.audit().await.unwrap();
    stage.apply(&application("app", &[("a", u32::try_from(ACTORS).unwrap(), &[("cpu", "1ms")])])).await;
    stage.settled("app", Seen::all_placed).await;
    assert_eq!(stage.product.operator.exit(), None, "it goes on leading");
    let now = lease().await.unwrap();
    let term = |lease: &LeaseSpec| (lease.lease_transitions, lease.acquire_time.clone());
    assert_eq!(term(&now), term(&first), "without a break");
    assert!(now.renew_time > first.renew_time, "it renews its lease");
    let lives = history.caught_up().await.lives();
    assert!(lives.len() == ACTORS && lives.values().all(|count| *count == 1), "{lives:?}");
    let asked = cluster.audit().await.unwrap();
    let of_pods = |event: &&e2e::AuditEvent| {
        event.is_by_service_account(NAMESPACE, OPERATOR) && event.resource == "pods" && event.is_write()
    };
    let asked = asked.since(&before).iter().filter(of_pods).count();
    assert!((ACTORS..=ACTORS * TRIES).contains(&asked), "it asked {asked} times for {ACTORS} pods");

    link.late_by(Duration::ZERO);
    let _ = stage.product.operator.stop().await;
    stage.product.operator = cluster.start_operator().await.unwrap();
}
