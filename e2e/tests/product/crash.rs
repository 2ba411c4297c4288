//! The operator is killed in the middle of things. Whoever comes after it goes on: nobody lives twice, nobody is lost.

use std::collections::BTreeSet;

use anyhow::ensure;
use crds::{Instance, Placement};
use e2e::{Cluster, SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};

use crate::stage::{SOON, Stage, application, cpus};

const ACTORS: u32 = 60;

/// Up to where the roll-out came before the operator was killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It is decided, and nothing else.
    Decided,
    /// Some actors have their Instance.
    SomeInstances,
    /// Some actors have their pod.
    SomePods,
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
    let cluster = Cluster::shared();
    let nodes = ["one", "two", "three"].map(|name| SimulatedNode::new(name).cpu("16"));
    let mut stage = Stage::set("crash", nodes, [cpus()]).await;
    let history = stage.watch_pods().await;
    stage.apply(&application("app", &[("a", ACTORS, &[("cpu", "1ms")])])).await;
    let all = ListParams::default();
    let (decisions, instances, pods) =
        (stage.api::<Placement>(), stage.api::<Instance>(), stage.api::<Pod>());
    wait_for("the moment", SOON, async || {
        let there = match moment {
            Moment::Decided => decisions.list(&all).await?.items.len(),
            Moment::SomeInstances => instances.list_metadata(&all).await?.items.len(),
            Moment::SomePods => pods.list_metadata(&all).await?.items.len(),
        };
        ensure!(there > 0, "{there} of what is waited for");
        anyhow::Ok(())
    })
    .await;
    stage.product.operator.kill9().await.unwrap();
    let counts = [
        decisions.list(&all).await.unwrap().items.len(),
        instances.list(&all).await.unwrap().items.len(),
        pods.list(&all).await.unwrap().items.len(),
    ];
    eprintln!("killed {moment:?}: {counts:?} decisions, Instances, pods");
    let before: BTreeSet<_> =
        pods.list(&all).await.unwrap().iter().filter_map(kube::ResourceExt::uid).collect();

    stage.product.operator = cluster.start_operator().await.unwrap();
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    let after: BTreeSet<_> = seen.pods.iter().filter_map(kube::ResourceExt::uid).collect();
    assert!(before.is_subset(&after), "pods that ran were replaced");
    let lives = history.lives();
    assert_eq!(lives.len(), ACTORS as usize);
    assert!(lives.values().all(|count| *count == 1), "{lives:?}");
    let owners: BTreeSet<_> = seen.pods.iter().map(|pod| pod.owner_references()[0].uid.clone()).collect();
    let made: BTreeSet<_> = seen.instances.iter().filter_map(kube::ResourceExt::uid).collect();
    assert_eq!(owners, made, "each pod belongs to its own Instance");
}
