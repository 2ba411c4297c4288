//! Churn by foreign pods, which should move no actor.

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

/// The interval at which foreign pods are created.
const PACE: Duration = Duration::from_millis(200);
/// The number of concurrent foreign pods.
const FOREIGN: usize = 50;
/// The number of log lines that are kept of an operator that exited.
const LAST_WORDS: usize = 5;

/// The operator's behaviour under churn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Churn {
    /// The duration.
    pub seconds: f64,
    /// The number of foreign pods.
    pub pods: usize,
    /// The number of actors whose pod was replaced.
    pub moves: usize,
    /// The last log lines of operators that exited meanwhile: each was restarted, as by a Deployment, and the numbers below
    /// are those of the last one.
    #[serde(default)]
    pub ended: Vec<String>,
    /// The number of finished searches.
    pub searches: f64,
    /// These by trigger.
    #[serde(default)]
    pub searches_by: BTreeMap<String, f64>,
    /// Moves by trigger of the search.
    #[serde(default)]
    pub moves_by: BTreeMap<String, f64>,
    /// The cores used by the operator and its solvers.
    pub cores: f64,
    /// The operator's memory at the start.
    pub mib_before: u64,
    /// And at the end.
    pub mib_after: u64,
}

/// The triggers of background searches, which react to no event.
const BACKGROUND: [&str; 2] = ["capacity-freed", "resume"];

/// The searches, or moves, that were triggered by an event.
pub(super) fn caused(of: &BTreeMap<String, f64>) -> f64 {
    sum(of.iter().filter(|(why, _)| !BACKGROUND.contains(&why.as_str())).map(|(_, count)| *count))
}

/// The searches, or moves, of background searches.
pub(super) fn at_leisure(of: &BTreeMap<String, f64>) -> f64 {
    sum(of.values().copied()) - caused(of)
}

/// The sum of no values is 0, which would be -0 otherwise.
fn sum(counts: impl Iterator<Item = f64>) -> f64 {
    counts.fold(0.0, |sum, count| sum + count)
}

/// The counters of an operator at a moment.
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

/// Creates and deletes foreign pods, which the scheduler places: without capacity they stay pending.
///
/// An operator that exits, for example after losing its lease, is restarted, as by a Deployment.
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

/// The last lines of a log.
fn last_words(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}

/// The uids of actors' pods that are not terminating.
async fn actors(client: &Client) -> Result<BTreeSet<String>> {
    let pods = Api::<Pod>::namespaced(client.clone(), HERE);
    let all = pods.list_metadata(&ListParams::default().labels(labels::ACTOR)).await?;
    let stays = all.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stays.filter_map(ResourceExt::uid).collect())
}
