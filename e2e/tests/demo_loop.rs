//! The world of the demo of the loop: actors in real pods send each other requests, and a real Prometheus scrapes them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use crds::{ActorApplication, Condition, MoveStep, Placement, labels};
use e2e::{
    Cluster, Namespace,
    demo_loop::world::{ACTORS, LoopWorld, NAME, manifest, places, start_cluster},
    pods::is_ready,
    process::http,
    product::windows_between,
    request_reply::{self, SharedFolder},
    wait_for,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(5);
/// The limit for everything, far above the usual time, for busy machines.
const SOON: Duration = Duration::from_mins(5);

/// The application on its nodes.
struct App<'a> {
    world: &'a LoopWorld,
    namespace: Namespace<'a>,
    client: Client,
    shared: SharedFolder,
}

impl App<'_> {
    /// The uid of each actor's pod, when all are ready and none ends.
    async fn wait_ready(&self) -> BTreeMap<String, Option<String>> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), self.namespace.name());
        wait_for("all actors are ready", SOON, async || {
            let found = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
            let ready = found.iter().filter(|pod| is_ready(pod));
            let ready: BTreeMap<_, _> =
                ready.map(|pod| (pod.labels()[labels::ACTOR].clone(), pod.uid())).collect();
            ensure!(ready.len() == ACTORS && found.len() == ACTORS, "{ready:?} of {} pods", found.len());
            anyhow::Ok(ready)
        })
        .await
    }

    async fn placement(&self) -> Result<Placement> {
        Ok(Api::<Placement>::namespaced(self.client.clone(), self.namespace.name()).get(NAME).await?)
    }

    /// Two actors that are on one node, and two that are apart.
    async fn pairs(&self) -> ((usize, usize), (usize, usize)) {
        let places = places(&self.placement().await.unwrap());
        let pair = |together: bool| {
            let mut others = 1..ACTORS;
            (0, others.find(|other| (places[other] == places[&0]) == together).unwrap())
        };
        (pair(true), pair(false))
    }

    /// Waits until the condition `WouldMove` has this status and reason, and counters of all actors are used.
    async fn wait_would_move(&self, status: &str, reason: &str) -> Condition {
        let applications = Api::<ActorApplication>::namespaced(self.client.clone(), self.namespace.name());
        wait_for(&format!("WouldMove is {status} ({reason})"), SOON, async || {
            let seen = applications.get(NAME).await?.status.context("no status")?;
            let condition =
                seen.conditions.iter().find(|it| it.type_ == "WouldMove").context("no WouldMove")?;
            let counters = seen.counters.context("no counters")?;
            ensure!((counters.covered, counters.wanted) == (6, 6), "{counters:?}");
            ensure!((&*condition.status, &*condition.reason) == (status, reason), "{condition:?}");
            anyhow::Ok(condition.clone())
        })
        .await
    }

    /// The windows with data that lie between a change of the load and another time.
    async fn whole_windows(&self, changed: Timestamp, until: Timestamp) -> usize {
        let port = self.world.operator.port(8081).unwrap();
        let load = http(port, &format!("/debug/load/{}/{NAME}", self.namespace.name())).await.unwrap();
        let load: Value = serde_json::from_str(&load.body).unwrap();
        let first = changed.as_duration().as_secs_f64() + WINDOW.as_secs_f64();
        let until = until.as_duration().as_secs_f64();
        windows_between(&load, (first, until))
    }

    /// By the numbers of their requests, no actor was in two pods, and none is silent.
    fn check_requests(&self, uids: &BTreeMap<String, Option<String>>) {
        let journal = self.shared.journal().unwrap();
        request_reply::check(&journal).unwrap();
        let senders: BTreeSet<&String> = journal.iter().map(|request| &request.sender.actor).collect();
        assert_eq!(senders, uids.keys().collect(), "all actors send");
    }
}

#[tokio::test]
async fn the_loop_follows_the_hot_pair_of_real_actors() {
    let cluster = start_cluster().unwrap();
    let world = LoopWorld::install(&cluster, WINDOW).await.unwrap();
    let all = async {
        follow_hot_pair(&cluster, &world).await;
        Ok(())
    };
    world.follow_pods(all).await.unwrap();
}

async fn follow_hot_pair(cluster: &Cluster, world: &LoopWorld) {
    let namespace = cluster.namespace("loop").await.unwrap();
    let client = cluster.client().await.unwrap();
    let app = App { world, namespace, client, shared: SharedFolder::new(true).unwrap() };
    app.namespace.apply(&manifest("DryRun", &app.shared).to_string()).await.unwrap();
    let uids = app.wait_ready().await;
    let (together, apart) = app.pairs().await;

    // `DryRun`: the condition appears, disappears, and nothing moves.
    app.shared.heat(together).unwrap();
    let heated = Timestamp::now();
    app.wait_would_move("False", "NoGain").await;
    // A change is compared with the eight windows before it.
    wait_for("eight windows before the change", SOON, async || {
        let windows = app.whole_windows(heated, Timestamp::now()).await;
        ensure!(windows >= 8, "{windows}");
        anyhow::Ok(())
    })
    .await;
    app.shared.heat(apart).unwrap();
    let changed = Timestamp::now();
    let condition = app.wait_would_move("True", "DryRun").await;
    let windows = app.whole_windows(changed, condition.last_transition_time.0).await;
    assert!(windows <= 3, "{windows} windows after the change");
    let named = [apart.0, apart.1].map(|actor| format!("actor-{actor}"));
    assert!(named.iter().any(|actor| condition.message.contains(actor)), "{}", condition.message);
    app.shared.heat(together).unwrap();
    app.wait_would_move("False", "NoGain").await;
    assert_eq!(app.wait_ready().await, uids, "nothing moved");
    app.check_requests(&uids);

    // `On`, while the load is as it was in `DryRun`: the pair comes to one node, and the gain is judged.
    app.shared.heat(apart).unwrap();
    app.wait_would_move("True", "DryRun").await;
    app.namespace.apply(&manifest("On", &app.shared).to_string()).await.unwrap();
    let judged = wait_for("the moves are judged", SOON, async || {
        let placement = app.placement().await?;
        let moves = placement.status.as_ref().map_or(&[][..], |it| &it.moves);
        ensure!(!moves.is_empty() && moves.iter().all(|it| it.step == MoveStep::Judged), "{moves:?}");
        anyhow::Ok(placement)
    })
    .await;
    let places = places(&judged);
    assert_eq!(places[&apart.0], places[&apart.1], "the hot pair is on one node");
    for it in judged.status.iter().flat_map(|it| &it.moves) {
        assert!(it.realised_percent > Some(0), "{it:?}");
    }
    let after = app.wait_ready().await;
    let moved: BTreeSet<&str> =
        judged.status.iter().flat_map(|it| &it.moves).map(|it| it.actor.as_str()).collect();
    let changed = uids.iter().filter(|(actor, uid)| after.get(*actor) != Some(uid));
    assert_eq!(changed.map(|(actor, _)| actor.as_str()).collect::<BTreeSet<_>>(), moved);
    app.check_requests(&after);
}
