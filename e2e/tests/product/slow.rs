//! The API server answers, and each answer takes its time.

use std::time::Duration;

use anyhow::ensure;
use crds::Placement;
use e2e::{
    SimulatedNode, keeper,
    product::{NAMESPACE, OPERATOR},
    slow::SlowLink,
    wait_for,
};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, ResourceExt as _};

use crate::installed::cluster;
use crate::stage::{SOON, Seen, Stage, application, cpus};

/// So late comes every answer: long after a lease is usually renewed again, and a third of how long it is valid.
const LATE: Duration = Duration::from_secs(5);
const ACTORS: usize = 12;
/// How often the operator may ask for each actor's pod: once it is made and once it is tried, and once more where an answer came
/// too late.
const TRIES: usize = 3;

async fn lease(stage: &Stage) -> anyhow::Result<LeaseSpec> {
    let leases = Api::<Lease>::namespaced(stage.client.clone(), NAMESPACE);
    Ok(leases.get(OPERATOR).await?.spec.unwrap_or_default())
}

/// Starts the operator anew, behind a link over which answers come at once until they are to be late; it leads.
async fn behind_a_link(stage: &mut Stage) -> SlowLink {
    let link = SlowLink::open(cluster()).await.unwrap();
    let slow = cluster().operator().await.unwrap().server(&link.server());
    let _ = stage.product.operator.stop().await;
    stage.product.operator = slow.start(&keeper::built(OPERATOR).unwrap()).await.unwrap();
    stage.product.operator.wait_ready().await.unwrap();
    wait_for("it leads", SOON, async || {
        let lease = lease(stage).await?;
        ensure!(lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()), "{lease:?}");
        anyhow::Ok(())
    })
    .await;
    link
}

/// Gives the operator back to the other tests as they know it.
async fn without_a_link(stage: &mut Stage) {
    let _ = stage.product.operator.stop().await;
    stage.product.operator = cluster().start_operator().await.unwrap();
}

/// R16: every answer comes five seconds late; who leads goes on leading, asks for everything once, and comes through.
#[tokio::test]
async fn who_is_answered_late_goes_on_leading_and_comes_through() {
    let cluster = cluster();
    let mut stage = Stage::set("slow", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let history = stage.watch_pods().await;
    let link = behind_a_link(&mut stage).await;
    let first = lease(&stage).await.unwrap();

    link.late_by(LATE);
    let before = cluster.audit().await.unwrap();
    stage.apply(&application("app", &[("a", u32::try_from(ACTORS).unwrap(), &[("cpu", "1ms")])])).await;
    stage.settled("app", Seen::all_placed).await;
    assert_eq!(stage.product.operator.exit(), None, "it goes on leading");
    let now = lease(&stage).await.unwrap();
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
    without_a_link(&mut stage).await;
}

/// That a decision was made is answered when its application is gone, and another one has its name: that one gets what it asks for
/// itself.
#[tokio::test]
async fn a_decision_that_is_answered_late_is_not_that_of_a_namesake() {
    let mut stage = Stage::set("namesake", [SimulatedNode::new("one")], [cpus()]).await;
    let history = stage.watch_pods().await;
    let link = behind_a_link(&mut stage).await;
    link.late_by(LATE);
    stage.apply(&application("app", &[("old", 1, &[("cpu", "1ms")])])).await;
    let old = wait_for("it is decided, and whoever did it does not know yet", SOON, async || {
        stage.api::<Placement>().get("app").await
    })
    .await;
    // what is said from now on overtakes that
    link.late_by(Duration::ZERO);
    stage.namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    stage.apply(&application("app", &[("new", 2, &[("cpu", "1ms")])])).await;
    let seen = stage
        .settled("app", |seen| {
            let actors: Vec<_> = seen.places().into_keys().collect();
            ensure!(actors == ["new-0", "new-1"], "{actors:?}");
            ensure!(seen.condition("NameTaken").is_none(), "{:?}", seen.condition("NameTaken"));
            seen.message("Ready", "True").map(drop)
        })
        .await;
    let decision = seen.decision.as_ref().unwrap();
    let owners: Vec<_> = decision.owner_references().iter().map(|owner| owner.uid.clone()).collect();
    assert_eq!(owners, [seen.application.uid().unwrap()]);
    assert_ne!(decision.uid(), old.uid());
    let lives = history.caught_up().await.lives();
    assert_eq!((lives["new-0"], lives["new-1"]), (1, 1), "{lives:?}");
    without_a_link(&mut stage).await;
}
