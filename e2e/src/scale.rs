//! `cairn-e2e scale`: many small applications on many nodes, with churn and changes.
//!
//! Applications of ten actors are applied at once. Measured are the time until all pods are bound and the operator's
//! memory; then foreign pods are created and deleted, five per second, which should move no actor; then applications change one by
//! one, which should trigger no other plan.

mod churn;
mod counters;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::{ActorApplication, Placement};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::{
    churn::{Churn, at_leisure, caused, churn},
    counters::{SEARCHES, by_cause, core_seconds, searches, since},
};
use crate::{
    Cluster, Process, SimulatedNode,
    bench::{HERE, application, application_name, is_bound, setting, watched},
    wait,
};

/// The number of actors per application.
pub const ACTORS: usize = 10;
/// The number of concurrent requests for mass creations and deletions.
pub(crate) const AT_ONCE: usize = 32;
/// The limit until all pods are bound, or a change is reconciled.
const LIMIT: Duration = Duration::from_mins(30);
/// The number of applications that change, one after the other.
const CHANGES: usize = 5;

/// The size of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleSize {
    /// The number of applications with ten actors, applied at once.
    pub applications: usize,
    /// The number of nodes with eight cores.
    pub nodes: usize,
    /// The minutes of churn.
    pub minutes: u64,
}

impl ScaleSize {
    /// The size of the published results.
    pub const FULL: Self = Self { applications: 1000, nodes: 1000, minutes: 60 };
}

/// The results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleResult {
    /// The commit of the programs.
    pub commit: String,
    /// The size.
    #[serde(flatten)]
    pub size: ScaleSize,
    /// From before the first request until every actor was placed.
    pub seconds_until_placed: f64,
    /// Likewise, until the scheduler had bound every pod.
    pub seconds_until_bound: f64,
    /// Likewise, until the operator made no more searches.
    pub seconds_until_quiet: f64,
    /// The core seconds of the operator and its solvers until then.
    pub core_seconds: f64,
    /// The operator's peak memory until then.
    pub peak_mib: u64,
    /// The behaviour under churn.
    pub churn: Churn,
    /// The changes, one after the other.
    pub changes: Vec<ScaleUp>,
}

/// Scaling one application up by one actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// Until the Placement for the new generation was written.
    pub seconds_until_decided: f64,
    /// Until the new actor's pod was bound.
    pub seconds_until_bound: f64,
    /// The searches that finished meanwhile, by trigger.
    pub searches_by: BTreeMap<String, f64>,
    /// The number of other applications whose Placement changed.
    pub others: usize,
}

/// Measures, unless there are results of this commit, and writes `scale.md` and `scale.json` into `results`.
pub async fn run(size: ScaleSize, commit: &str, results: &Path) -> Result<()> {
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    let file = results.join("scale.json");
    let mut all: Vec<ScaleResult> =
        serde_json::from_str(&fs::read_to_string(&file).unwrap_or_default()).unwrap_or_default();
    all.retain(|row| row.commit == commit);
    if !all.iter().any(|row| row.size == size) {
        all.push(measure(size, commit).await?);
        all.sort_by_key(|row| row.size.applications);
        fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
        fs::write(results.join("scale.md"), page(&all, commit))?;
    }
    print!("{}", page(&all, commit));
    Ok(())
}

/// Runs the measurement on a separate control plane.
pub async fn measure(size: ScaleSize, commit: &str) -> Result<ScaleResult> {
    let cluster = Cluster::start()?;
    let topologies = cluster.plane().state.join("run/topologies");
    fs::create_dir(&topologies)?;
    cluster.install(&topologies, &[]).await?;
    let nodes = (0..size.nodes).map(|index| SimulatedNode::new(format!("node-{index:04}")).cpu("8"));
    let _nodes = cluster.nodes(nodes).await?;
    cluster.kubectl_with(["apply", "-f-"], &setting("asp").to_string()).await?;
    let mut operator = cluster.start_operator().await?;
    let client = cluster.client().await?;
    let all = size.applications * ACTORS;
    let started = Instant::now();
    let applied = async {
        apply(&client, size.applications, ACTORS).await?;
        std::future::pending::<Result<()>>().await
    };
    let placed = watched::<Placement>(&client, started, |decision| decision.spec.assignments.len(), all);
    let bound = watched::<Pod>(&client, started, is_bound, all);
    let both = tokio::time::timeout(LIMIT, async { tokio::try_join!(placed, bound) });
    let (seconds_until_placed, seconds_until_bound) = tokio::select! {
        both = both => both.map_err(|_| anyhow!("not everything was placed and bound within {LIMIT:?}"))??,
        failed = applied => return Err(failed.expect_err("it never succeeds")),
    };
    eprintln!(
        "placed {seconds_until_placed:.1} s, bound {seconds_until_bound:.1} s, {:.1} core seconds, {} MiB",
        core_seconds(&operator)?,
        operator.rss_peak_kib()? / 1024
    );
    quiet(&operator).await?;
    let seconds_until_quiet = started.elapsed().as_secs_f64();
    let core_seconds = core_seconds(&operator)?;
    let peak_mib = operator.rss_peak_kib()?.div_ceil(1024);
    eprintln!("quiet {seconds_until_quiet:.1} s, {core_seconds:.1} core seconds, {peak_mib} MiB");
    let mut changes = Vec::new();
    for index in 0..CHANGES {
        changes.push(change(&client, &operator, &application_name(index), all + index + 1).await?);
        eprintln!("{:?}", changes.last());
    }
    let churn = churn(&cluster, &client, &mut operator, Duration::from_mins(size.minutes)).await?;
    eprintln!("{churn:?}");
    Ok(ScaleResult {
        commit: commit.to_owned(),
        size,
        seconds_until_placed,
        seconds_until_bound,
        seconds_until_quiet,
        core_seconds,
        peak_mib,
        churn,
        changes,
    })
}

/// Creates applications as fast as the API server accepts them.
pub(crate) async fn apply(client: &Client, applications: usize, actors: usize) -> Result<()> {
    let api = Api::<ActorApplication>::namespaced(client.clone(), HERE);
    let create = |index| {
        let api = api.clone();
        async move {
            let one: ActorApplication = serde_json::from_value(application(index, actors))?;
            api.create(&PostParams::default(), &one).await.context("cannot create an application")?;
            anyhow::Ok(())
        }
    };
    stream::iter(0..applications).map(create).buffer_unordered(AT_ONCE).try_collect().await
}

/// Waits until the operator has finished no search for ten seconds, at most a minute, because background searches
/// continue for long.
async fn quiet(operator: &Process) -> Result<()> {
    const STILL: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    let mut last = (searches(operator).await?, Instant::now());
    let quiet = wait::until(LIMIT, async || {
        let now = searches(operator).await?;
        if now > last.0 {
            last = (now, Instant::now());
        }
        let still = last.1.elapsed();
        ensure!(still >= STILL || begun.elapsed() >= STILL * 6, "{now} searches, none for {still:?}");
        anyhow::Ok(())
    });
    quiet.await.map_err(|seen| anyhow!("it goes on searching: {seen}"))
}

/// Scales one application up by one actor, and waits until it is bound; `all` is the number of pods afterwards.
async fn change(client: &Client, operator: &Process, name: &str, all: usize) -> Result<ScaleUp> {
    let api = Api::<ActorApplication>::namespaced(client.clone(), HERE);
    let decisions = Api::<Placement>::namespaced(client.clone(), HERE);
    // The generation counts new specs, not status changes.
    let others = async || -> Result<BTreeMap<String, Option<i64>>> {
        let all = decisions.list(&ListParams::default()).await?;
        let other = all.items.into_iter().filter(|decision| decision.name_any() != name);
        Ok(other.map(|decision| (decision.name_any(), decision.metadata.generation)).collect())
    };
    let (before, searched) = (others().await?, by_cause(operator, SEARCHES).await?);
    let started = Instant::now();
    let worker = json!([{"op": "replace", "path": "/spec/actors/1/replicas", "value": ACTORS / 5 * 4}]);
    let patch = Patch::Json::<()>(serde_json::from_value(worker)?);
    let generation = api.patch(name, &PatchParams::default(), &patch).await?.metadata.generation;
    let decided = wait::until(LIMIT, async || {
        let decision = decisions.get(name).await?;
        ensure!(Some(decision.spec.application_generation) == generation, "an older decision");
        anyhow::Ok(started.elapsed().as_secs_f64())
    });
    let pod = format!("{name}-worker-{}", ACTORS / 5 * 4 - 1);
    let pods = Api::<Pod>::namespaced(client.clone(), HERE);
    let bound = wait::until(LIMIT, async || {
        ensure!(is_bound(&pods.get(&pod).await?) == 1, "{pod} is not bound, of {all}");
        anyhow::Ok(started.elapsed().as_secs_f64())
    });
    let (decided, bound) = tokio::join!(decided, bound);
    let seconds = |seen: std::result::Result<f64, String>| seen.map_err(|seen| anyhow!("{name}: {seen}"));
    let after = others().await?;
    Ok(ScaleUp {
        seconds_until_decided: seconds(decided)?,
        seconds_until_bound: seconds(bound)?,
        searches_by: since(&searched, by_cause(operator, SEARCHES).await?),
        others: before.iter().filter(|(name, version)| after.get(*name) != Some(version)).count(),
    })
}

fn page(all: &[ScaleResult], commit: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "# Scale: many applications on many nodes\n\nApplications of {ACTORS} actors each, applied at once to simulated nodes of eight \
         cores, under `asp`. The control plane, KWOK, the\noperator, its solvers and the harness share {cores} cores. A ratio above 1 misses \
         the target.\n\n| applications × nodes | all actors placed | all pods bound | bound \
         ÷ target (300 s) | last search ends | operator CPU seconds | operator peak memory | peak ÷ target (300 MB) |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    let ratio = |value: f64, aim: f64| value / aim;
    // writing into a String cannot fail
    for row in all {
        let peak = f64::from(u32::try_from(row.peak_mib).unwrap_or(u32::MAX));
        let _ = writeln!(
            text,
            "| {} × {} | {:.1} s | {:.1} s | {:.2} | {:.1} s | {:.1} | {} MiB | {:.2} |",
            row.size.applications,
            row.size.nodes,
            row.seconds_until_placed,
            row.seconds_until_bound,
            ratio(row.seconds_until_bound, 300.0),
            row.seconds_until_quiet,
            row.core_seconds,
            row.peak_mib,
            ratio(peak * 1_048_576.0, 300e6)
        );
    }
    text += "\n## Steady state under churn\n\nFive pods of other owners are created and deleted each second, placed by kube-scheduler. Background searches run\n\
             regardless; searches and moves triggered by an event are counted apart. After an operator restart, searches, CPU and memory\n\
             are those of the last process.\n\n\
             | applications × nodes | seconds | foreign pods | operator restarts (target 0) | actors whose pod changed (target 0) | triggered moves (target 0) | triggered searches | \
             moves of background searches | background searches | CPU cores | cores ÷ target (0.2) | memory before and after |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for row in all {
        let churn = &row.churn;
        let _ = writeln!(
            text,
            "| {} × {} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {:.3} | {:.2} | {} and {} MiB |",
            row.size.applications,
            row.size.nodes,
            churn.seconds,
            churn.pods,
            churn.ended.len(),
            churn.moves,
            caused(&churn.moves_by),
            caused(&churn.searches_by),
            at_leisure(&churn.moves_by),
            at_leisure(&churn.searches_by),
            churn.cores,
            ratio(churn.cores, 0.2),
            churn.mib_before,
            churn.mib_after
        );
    }
    text += "\n## Scaling one application\n\nApplications are scaled up by one or more actors, one after the other.\n\n\
             | applications × nodes | decided | bound | worst bound ÷ target (2 s) | triggered searches (target 1 each) | background searches \
             | changed decisions of other applications (target 0) |\n|---|---:|---:|---:|---:|---:|---:|\n";
    for row in all {
        let per_change = |of: fn(&ScaleUp) -> f64| {
            let all: Vec<String> = row.changes.iter().map(|change| format!("{:.1}", of(change))).collect();
            all.join(", ")
        };
        let worst = row.changes.iter().map(|change| change.seconds_until_bound).fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "| {} × {} | {} s | {} s | {:.2} | {} | {} | {} |",
            row.size.applications,
            row.size.nodes,
            per_change(|change| change.seconds_until_decided),
            per_change(|change| change.seconds_until_bound),
            ratio(worst, 2.0),
            per_change(|change| caused(&change.searches_by)),
            per_change(|change| at_leisure(&change.searches_by)),
            row.changes.iter().map(|change| change.others).sum::<usize>()
        );
    }
    let _ = writeln!(
        text,
        "\nMade at {commit} by `make bench`, which runs `cairn-e2e scale`; the numbers are in [scale.json](scale.json)."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_mebibytes_is_compared_with_megabytes() {
        let row = |peak: u64| -> ScaleResult {
            let churn = json!({"seconds": 60.0, "pods": 300, "moves": 0, "searches": 0.0, "cores": 0.1,
                "mibBefore": 279, "mibAfter": 282});
            let row = json!({"commit": "here", "applications": 1000, "nodes": 1000, "minutes": 1, "secondsUntilPlaced": 300.0,
                "secondsUntilBound": 300.0, "secondsUntilQuiet": 330.0, "coreSeconds": 200.0, "peakMib": peak,
                "churn": churn, "changes": []});
            serde_json::from_value(row).unwrap()
        };
        for (peak, cells) in
            [(294, "| 294 MiB | 1.03 |"), (286, "| 286 MiB | 1.00 |"), (143, "| 143 MiB | 0.50 |")]
        {
            let text = page(&[row(peak)], "here");
            assert!(text.contains("peak ÷ target (300 MB)") && text.contains(cells), "{text}");
        }
    }
}
