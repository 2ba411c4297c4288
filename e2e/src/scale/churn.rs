//! Strangers come and go, and nobody is to move.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::Result;
use crds::labels;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::counters::{MOVES, SEARCHES, by_cause, core_seconds, resident_mib, searches, since};
use crate::{Cluster, Process, bench::HERE};

/// How often a foreign pod comes.
const PACE: Duration = Duration::from_millis(200);
/// So many foreign pods are there at the same time.
const FOREIGN: usize = 50;
/// So many of its last lines are kept of an operator that ended.
const LAST_WORDS: usize = 5;

/// The operator while foreign pods came and went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Churn {
    /// How long it lasted.
    pub seconds: f64,
    /// How many foreign pods came.
    pub pods: usize,
    /// How many actors have another pod than before.
    pub moves: usize,
    /// The last words of operators that ended meanwhile: each was started anew, as a Deployment does, and the figures below
    /// are those of the last.
    #[serde(default)]
    pub ended: Vec<String>,
    /// How many searches the operator ended.
    pub searches: f64,
    /// Of those, by what made them due.
    #[serde(default)]
    pub searches_by: BTreeMap<String, f64>,
    /// Actors that were decided to be elsewhere, by what made the search due.
    #[serde(default)]
    pub moves_by: BTreeMap<String, f64>,
    /// Cores that the operator and its solvers used.
    pub cores: f64,
    /// Memory that the operator held at its beginning.
    pub mib_before: u64,
    /// And at its end.
    pub mib_after: u64,
}

/// What could merely be better is looked at in the background, in its turn: these are no answers to anything that happens.
const BACKGROUND: [&str; 2] = ["chance", "second-look"];

/// Of searches, or moves, those that answered something: not those of looks in the background.
pub(super) fn caused(of: &BTreeMap<String, f64>) -> f64 {
    sum(of.iter().filter(|(why, _)| !BACKGROUND.contains(&why.as_str())).map(|(_, count)| *count))
}

/// Of searches, or moves, those of looks in the background.
pub(super) fn at_leisure(of: &BTreeMap<String, f64>) -> f64 {
    sum(of.values().copied()) - caused(of)
}

/// That of nothing is 0, which would be -0 else.
fn sum(counts: impl Iterator<Item = f64>) -> f64 {
    counts.fold(0.0, |sum, count| sum + count)
}

/// What an operator had done and used at a moment.
struct SoFar {
    when: Instant,
    searches: f64,
    searches_by: BTreeMap<String, f64>,
    moves_by: BTreeMap<String, f64>,
    core_seconds: f64,
    mib: u64,
}

impl SoFar {
    async fn of(operator: &Process) -> Result<Self> {
        Ok(Self {
            when: Instant::now(),
            searches: searches(operator).await?,
            searches_by: by_cause(operator, SEARCHES).await?,
            moves_by: by_cause(operator, MOVES).await?,
            core_seconds: core_seconds(operator)?,
            mib: resident_mib(operator)?,
        })
    }
}

/// Has foreign pods come and go, wherever the scheduler puts them: a kubelet would refuse those for which there is no room.
///
/// An operator that ends is started anew: who loses the lease ends, and it is a Deployment that keeps it running elsewhere.
pub(super) async fn churn(
    cluster: &Cluster,
    client: &Client,
    operator: &mut Process,
    limit: Duration,
) -> Result<Churn> {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let before = actors(client).await?;
    let mut sofar = SoFar::of(operator).await?;
    let started = Instant::now();
    let (mut made, mut ticks) = (0, tokio::time::interval(PACE));
    let mut ended = Vec::new();
    let name = |number: usize| format!("foreign-{number}");
    while started.elapsed() < limit {
        ticks.tick().await;
        if let Some(exit) = operator.exit() {
            let words = format!("{exit}: {}", last_words(&operator.printed()?));
            eprintln!("after {:.0} s the operator ended, {words}", started.elapsed().as_secs_f64());
            ended.push(words);
            *operator = cluster.start_operator().await?;
            sofar = SoFar::of(operator).await?;
        }
        let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name(made)},
            "spec": {"containers": [container]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        made += 1;
        if let Some(old) = made.checked_sub(FOREIGN + 1) {
            pods.delete(&name(old), &DeleteParams::default().grace_period(0)).await?;
        }
    }
    let after = actors(client).await?;
    let now = SoFar::of(operator).await?;
    Ok(Churn {
        seconds: started.elapsed().as_secs_f64(),
        pods: made,
        moves: before.difference(&after).count(),
        ended,
        searches: now.searches - sofar.searches,
        searches_by: since(&sofar.searches_by, now.searches_by),
        moves_by: since(&sofar.moves_by, now.moves_by),
        cores: (now.core_seconds - sofar.core_seconds) / (now.when - sofar.when).as_secs_f64(),
        mib_before: sofar.mib,
        mib_after: now.mib,
    })
}

/// The last lines of what was printed.
fn last_words(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}

/// The pods of actors, by uid; those that are being deleted were moved before.
async fn actors(client: &Client) -> Result<BTreeSet<String>> {
    let pods = Api::<Pod>::namespaced(client.clone(), HERE);
    let all = pods.list_metadata(&ListParams::default().labels(labels::ACTOR)).await?;
    let stays = all.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stays.filter_map(ResourceExt::uid).collect())
}
