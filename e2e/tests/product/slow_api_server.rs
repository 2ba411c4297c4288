//! An API server with slow responses.

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

/// The delay of every response: longer than the renewal period of the lease, and a third of its duration.
const LATE: Duration = Duration::from_secs(5);
const ACTORS: usize = 12;
/// The maximum number of requests per pod: dry run, creation, and one retry after a late response.
const TRIES: usize = 3;

async fn lease(env: &TestEnv) -> anyhow::Result<LeaseSpec> {
    let leases = Api::<Lease>::namespaced(env.client.clone(), NAMESPACE);
    Ok(leases.get(OPERATOR).await?.spec.unwrap_or_default())
}

/// Restarts the operator behind a link without delay yet; it leads.
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

/// Restarts the operator without the link, for the next test.
async fn without_a_link(env: &mut TestEnv) {
    let _ = env.product.operator.stop().await;
    env.product.operator = cluster().start_operator().await.unwrap();
}

/// R16: every response is five seconds late; the leader keeps its lease, sends every request once, and finishes.
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
    assert_eq!(env.product.operator.exit(), None, "it stays leader");
    let now = lease(&env).await.unwrap();
    let term = |lease: &LeaseSpec| (lease.lease_transitions, lease.acquire_time.clone());
    assert_eq!(term(&now), term(&first), "without interruption");
    assert!(now.renew_time > first.renew_time, "it renews its lease");
    let lives = history.wait_synced().await.pods_per_actor();
    assert!(lives.len() == ACTORS && lives.values().all(|count| *count == 1), "{lives:?}");
    let asked = cluster.audit().await.unwrap();
    let of_pods = |event: &&e2e::AuditEvent| {
        event.is_by_service_account(NAMESPACE, OPERATOR) && event.resource == "pods" && event.is_write()
    };
    let asked = asked.since(&before).iter().filter(of_pods).count();
    assert!((ACTORS..=ACTORS * TRIES).contains(&asked), "{asked} requests for {ACTORS} pods");

    link.late_by(Duration::ZERO);
    without_a_link(&mut env).await;
}

/// The response to a commit arrives after the application was deleted and recreated under the same name: the new one gets its own
/// plan.
#[tokio::test]
async fn a_late_commit_is_not_taken_for_a_recreated_application() {
    let mut env = TestEnv::new("namesake", [SimulatedNode::new("one")], [cpus()]).await;
    let history = env.watch_pods().await;
    let link = behind_a_link(&mut env).await;
    link.late_by(LATE);
    env.apply(&application("app", &[("old", 1, &[("cpu", "1ms")])])).await;
    let old = wait_for("the Placement is written, and its response is delayed", TIMEOUT, async || {
        env.api::<Placement>().get("app").await
    })
    .await;
    // later requests overtake the delayed response
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
