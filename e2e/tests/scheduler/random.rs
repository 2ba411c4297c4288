//! Random worlds: each is planned offline and recreated on a control plane.
//!
//! `CAIRN_WORLDS` is their number and `CAIRN_WORLDS_FROM` the first seed. The world, the plan and the differences of each failure are
//! kept in the folder `scheduler` of cargo's folder for tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use e2e::{Cluster, bench::size};
use futures::{StreamExt as _, stream};
use kube::Client;

use crate::{
    draw,
    plan::{placed_later, plan},
    trial::{Contradiction, Difference, Trial},
};

/// The number of worlds in `make test`.
const WORLDS: u64 = 40;
/// The number of concurrent worlds.
const AT_ONCE: usize = 8;

/// What is known about one world.
struct Outcome {
    seed: u64,
    placed: usize,
    unplaced: usize,
    differences: Vec<Difference>,
    /// Differences that are intended.
    explained: Vec<Difference>,
}

#[tokio::test]
async fn plans_of_random_worlds_agree_with_kube_scheduler() {
    let (worlds, first) = (size("CAIRN_WORLDS", WORLDS).unwrap(), size("CAIRN_WORLDS_FROM", 1).unwrap());
    let cluster = Cluster::shared();
    let client = cluster.client().await.unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scheduler");
    // best effort: it may not exist
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let work = stream::iter(first..first + worlds).map(|seed| {
        let (client, folder) = (client.clone(), folder.clone());
        async move { (seed, check(cluster, &client, seed, &folder).await) }
    });
    let mut results: Vec<(u64, Result<Outcome>)> = work.buffer_unordered(AT_ONCE).collect().await;
    results.sort_by_key(|(seed, _)| *seed);

    let mut failures = Vec::new();
    let (mut placed, mut unplaced, mut explained) = (0, 0, 0);
    for (seed, result) in &results {
        match result {
            Err(error) => failures.push(format!("world {seed}: {error:#}")),
            Ok(outcome) => {
                (placed, unplaced) = (placed + outcome.placed, unplaced + outcome.unplaced);
                explained += outcome.explained.len();
                for difference in &outcome.explained {
                    println!("intended in world {}: {difference}", outcome.seed);
                }
                let of_it = outcome.differences.iter();
                failures.extend(of_it.map(|difference| format!("world {}: {difference}", outcome.seed)));
            }
        }
    }
    let summary = format!(
        "{worlds} worlds from seed {first}: {placed} actors placed, {unplaced} unplaced, {explained} intended differences"
    );
    // With --nocapture, a row of docs/results/scheduler.md.
    println!("\n| pod templates | {worlds} | {placed} | {unplaced} | {explained} |");
    let (count, folder) = (failures.len(), folder.display());
    assert!(failures.is_empty(), "{summary}, {count} failures, kept in {folder}:\n{}", failures.join("\n"));
}

/// Plans one world, recreates it, and keeps it if there is a difference.
async fn check(cluster: &Cluster, client: &Client, seed: u64, folder: &Path) -> Result<Outcome> {
    let world = draw::world(seed);
    let file = folder.join(format!("{seed}.yaml"));
    fs::write(&file, world.yaml()?).context("cannot write the world")?;
    let (plan, text) = plan(&file).await?;
    let trial = Trial::start(cluster, client, &world).await?;
    let compared = trial.compare(&plan).await;
    trial.end().await?;
    let differences = compared?;
    let later = if differences.iter().any(is_order) { placed_later(&file, &text).await? } else { [].into() };
    let is_intended = |difference: &Difference| is_order(difference) && later.contains(&difference.actor);
    let (explained, differences): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_intended);
    if differences.is_empty() {
        fs::remove_file(&file).context("cannot delete the world")?;
    } else {
        keep(&file, &text, &differences)?;
    }
    let (placed, unplaced) = (plan.placed.len(), plan.unplaced.len());
    Ok(Outcome { seed, placed, unplaced, differences, explained })
}

fn keep(world: &Path, plan: &str, differences: &[Difference]) -> Result<()> {
    let beside = |extension: &str| -> PathBuf { world.with_extension(extension) };
    fs::write(beside("plan.json"), plan).context("cannot write the plan")?;
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    fs::write(beside("txt"), lines.join("\n") + "\n").context("cannot write the differences")
}

/// Whether topology spread or affinity of other actors refuses it. kube-scheduler checks that only when those arrive; a plan holds for
/// every order of its pods, so this actor must be placed once they run.
fn is_order(difference: &Difference) -> bool {
    let Contradiction::Bound { reasons, .. } = &difference.what else { return false };
    reasons.iter().any(|reason| {
        let of_others = reason.split_once(": ").map_or("", |(_, rule)| rule);
        ["topology spread of ", "affinity to pods "].iter().any(|rule| of_others.starts_with(rule))
    })
}
