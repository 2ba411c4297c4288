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

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// So late comes every answer: long after a lease is usually renewed again, and a third of how long it is valid.
const LATE: Duration = Duration::from_secs(5);
const ACTORS: usize = 12;
/// How often the operator may ask for each actor's pod: once it is made and once it is tried, and once more where an answer came
/// too late.
const TRIES: usize = 3;

async fn lease(env: &TestEnv) -> anyhow::Result<LeaseSpec> {
    let leases = Api::<Lease>::namespaced(env.client.clone(), NAMESPACE);
    Ok(leases.get(OPERATOR).await?.spec.unwrap_or_default())
}

/// Starts the operator anew, behind a link over which answers come at once until they are to be late; it leads.
async fn behind_a_link(env: &mut TestEnv) -> SlowLink {
    let link = SlowLink::open(cluster()).await.unwrap();
    let slow = cluster().operator().await.unwrap().server(&link.server());
    let _ = env.product.operator.stop().await;
    env.product.operator = slow.start(&keeper::built(OPERATOR).unwrap()).await.unwrap();
    env.product.operator.wait_ready().await.unwrap();
    wait_for("it leads", TIMEOUT, async || {
        let lease = lease(env).await?;
        ensure!(lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()), "{lease:?}");
        anyhow::Ok(())
    })
    .await;
    link
}

/// Gives the operator back to the other tests as they know it.
async fn without_a_link(env: &mut TestEnv) {
    let _ = env.product.operator.stop().await;
    env.product.operator = cluster().start_operator().await.unwrap();
}

/// R16: every answer comes five seconds late; who leads goes on leading, asks for everything once, and comes through.
#[tokio::test]
async fn slow_responses_do_not_cost_leadership() {
    let cluster = cluster();
    let mut env = TestEnv::new("slow", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let history = env.watch_pods().await;
    let link = behind_a_link(&mut env).await;
    let first = lease(&env).await.unwrap();

    link.late_by(LATE);
    let before = cluster.audit().await.unwrap();
    env.apply(&application("app", &[("a", u32::try_from(ACTORS).unwrap(), &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(env.product.operator.exit(), None, "it goes on leading");
    let now = lease(&env).await.unwrap();
    let term = |lease: &LeaseSpec| (lease.lease_transitions, lease.acquire_time.clone());
    assert_eq!(term(&now), term(&first), "without a break");
    assert!(now.renew_time > first.renew_time, "it renews its lease");
    let lives = history.wait_synced().await.pods_per_actor();
    assert!(lives.len() == ACTORS && lives.values().all(|count| *count == 1), "{lives:?}");
    let asked = cluster.audit().await.unwrap();
    let of_pods = |event: &&e2e::AuditEvent| {
        event.is_by_service_account(NAMESPACE, OPERATOR) && event.resource == "pods" && event.is_write()
    };
    let asked = asked.since(&before).iter().filter(of_pods).count();
    assert!((ACTORS..=ACTORS * TRIES).contains(&asked), "it asked {asked} times for {ACTORS} pods");

    link.late_by(Duration::ZERO);
    without_a_link(&mut env).await;
}

/// That a decision was made is answered when its application is gone, and another one has its name: that one gets what it asks for
/// itself.
#[tokio::test]
async fn a_late_commit_is_not_taken_for_a_recreated_application() {
    let mut env = TestEnv::new("namesake", [SimulatedNode::new("one")], [cpus()]).await;
    let history = env.watch_pods().await;
    let link = behind_a_link(&mut env).await;
    link.late_by(LATE);
    env.apply(&application("app", &[("old", 1, &[("cpu", "1ms")])])).await;
    let old = wait_for("it is decided, and whoever did it does not know yet", TIMEOUT, async || {
        env.api::<Placement>().get("app").await
    })
    .await;
    // what is said from now on overtakes that
    link.late_by(Duration::ZERO);
    env.namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    env.apply(&application("app", &[("new", 2, &[("cpu", "1ms")])])).await;
    let state = env
        .wait_reconciled("app", |state| {
            let actors: Vec<_> = state.places().into_keys().collect();
            ensure!(actors == ["new-0", "new-1"], "{actors:?}");
            ensure!(state.condition("NameTaken").is_none(), "{:?}", state.condition("NameTaken"));
            state.message("Ready", "True").map(drop)
        })
        .await;
    let decision = state.decision.as_ref().unwrap();
    let owners: Vec<_> = decision.owner_references().iter().map(|owner| owner.uid.clone()).collect();
    assert_eq!(owners, [state.application.uid().unwrap()]);
    assert_ne!(decision.uid(), old.uid());
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!((lives["new-0"], lives["new-1"]), (1, 1), "{lives:?}");
    without_a_link(&mut env).await;
}
