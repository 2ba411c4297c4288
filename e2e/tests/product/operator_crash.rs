//! The operator is killed during a rollout. The next one continues: no actor runs twice, none is lost.

use std::collections::BTreeSet;

use anyhow::ensure;
use crds::{Instance, Placement};
use e2e::{Gate, SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

const ACTORS: usize = 60;
/// The number of objects created before the kill.
const SOME: usize = 20;

/// The progress of the rollout at the moment of the kill.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The Placement is written, and nothing else.
    Decided,
    /// Some actors have their Instance, none has its pod.
    SomeInstances,
    /// Some actors have their pod.
    SomePods,
}

impl Moment {
    /// How many creations of Instances and pods are admitted; the next ones block.
    fn rooms(self) -> [(&'static str, usize); 2] {
        match self {
            Self::Decided => [("instances", 0), ("pods", 0)],
            Self::SomeInstances => [("instances", SOME), ("pods", 0)],
            Self::SomePods => [("instances", ACTORS), ("pods", SOME)],
        }
    }

    /// Whether the counts of Placements, Instances and pods match this moment.
    fn is_it(self, [decisions, instances, pods]: [usize; 3]) -> bool {
        decisions == 1
            && match self {
                Self::Decided => instances == 0 && pods == 0,
                Self::SomeInstances => instances == SOME && pods == 0,
                Self::SomePods => pods == SOME && (SOME..=ACTORS).contains(&instances),
            }
    }

    /// The resource whose creation is blocked at this moment.
    fn next(self) -> &'static str {
        match self {
            Self::Decided | Self::SomeInstances => "instances",
            Self::SomePods => "pods",
        }
    }
}

#[tokio::test]
async fn killed_after_the_decision() {
    killed(Moment::Decided).await;
}

#[tokio::test]
async fn killed_after_some_instances() {
    killed(Moment::SomeInstances).await;
}

#[tokio::test]
async fn killed_after_some_pods() {
    killed(Moment::SomePods).await;
}

async fn killed(moment: Moment) {
    let cluster = cluster();
    let nodes = ["one", "two", "three"].map(|name| SimulatedNode::new(name).cpu("16"));
    let mut env = TestEnv::new("crash", nodes, [cpus()]).await;
    let history = env.watch_pods().await;
    let gate = Gate::close(cluster, &env.namespace, &moment.rooms()).await.unwrap();
    env.apply(&application("app", &[("a", u32::try_from(ACTORS).unwrap(), &[("cpu", "1ms")])])).await;
    let all = ListParams::default();
    let (decisions, instances, pods) = (env.api::<Placement>(), env.api::<Instance>(), env.api::<Pod>());
    let counted = async || {
        anyhow::Ok([
            decisions.list_metadata(&all).await?.items.len(),
            instances.list_metadata(&all).await?.items.len(),
            pods.list_metadata(&all).await?.items.len(),
        ])
    };
    wait_for("the moment", TIMEOUT, async || {
        let counts = counted().await?;
        let held = gate.held(moment.next());
        ensure!(moment.is_it(counts) && held > 0, "{counts:?} Placements, Instances, pods, {held} held");
        anyhow::Ok(())
    })
    .await;
    env.product.operator.kill9().await.unwrap();
    // the blocked creations are refused, so nothing arrives after the kill
    gate.open();
    let counts = counted().await.unwrap();
    assert!(moment.is_it(counts), "killed {moment:?}: {counts:?} Placements, Instances, pods");
    let before: BTreeSet<_> =
        pods.list(&all).await.unwrap().iter().filter_map(kube::ResourceExt::uid).collect();

    env.product.operator = cluster.start_operator().await.unwrap();
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    let after: BTreeSet<_> = state.pods.iter().filter_map(kube::ResourceExt::uid).collect();
    assert!(before.is_subset(&after), "running pods were replaced");
    let lives = history.wait_synced().await.pods_per_actor();
    assert_eq!(lives.len(), ACTORS);
    assert!(lives.values().all(|count| *count == 1), "{lives:?}");
    let owners: BTreeSet<_> = state.pods.iter().map(|pod| pod.owner_references()[0].uid.clone()).collect();
    let made: BTreeSet<_> = state.instances.iter().filter_map(kube::ResourceExt::uid).collect();
    assert_eq!(owners, made, "each pod belongs to its own Instance");
}
