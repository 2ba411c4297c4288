//! `cairn-e2e beside`: the overhead of Placements: the same pods bound through the operator, and by kube-scheduler alone.
//!
//! Alternately, on one otherwise empty control plane.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::ActorApplication;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Cluster, SimulatedNode,
    bench::{BenchSize, HERE, setting, watched},
    scale::{AT_ONCE, apply},
    wait,
};

/// The limit for one run.
const LIMIT: Duration = Duration::from_mins(10);

/// Seconds until everything was bound, both ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The commit of the programs.
    pub commit: String,
    /// From before the first application was created.
    pub seconds_by_decision: f64,
    /// From before the first pod was created.
    pub seconds_by_scheduler: f64,
}

/// Makes the requested number of runs, except those that exist for this commit, and writes `beside.md` and `beside.json`.
pub async fn run(runs: usize, commit: &str, results: &Path) -> Result<()> {
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    let file = results.join("beside.json");
    let mut all: Vec<Run> =
        serde_json::from_str(&fs::read_to_string(&file).unwrap_or_default()).unwrap_or_default();
    all.retain(|run| run.commit == commit);
    if all.len() < runs {
        let size = BenchSize::FULL;
        let cluster = Cluster::start()?;
        let topologies = cluster.plane().state.join("run/topologies");
        fs::create_dir(&topologies)?;
        cluster.install(&topologies, &[]).await?;
        let nodes = (0..size.nodes).map(|index| SimulatedNode::new(format!("node-{index:03}")));
        let _nodes = cluster.nodes(nodes).await?;
        cluster.kubectl_with(["apply", "-f-"], &setting("asp").to_string()).await?;
        let _operator = cluster.start_operator().await?;
        let client = cluster.client().await?;
        while all.len() < runs {
            let seconds_by_decision = by_decision(&client, size).await?;
            let seconds_by_scheduler = by_scheduler(&client, size.applications * size.actors).await?;
            all.push(Run { commit: commit.to_owned(), seconds_by_decision, seconds_by_scheduler });
            eprintln!("{:?}", all.last());
            fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
            fs::write(results.join("beside.md"), page(&all, size, commit))?;
        }
    }
    print!("{}", page(&all, BenchSize::FULL, commit));
    Ok(())
}

/// Seconds until all actors of applications are bound; they are deleted afterwards.
async fn by_decision(client: &Client, size: BenchSize) -> Result<f64> {
    let seconds =
        bound(client, size.applications * size.actors, apply(client, size.applications, size.actors)).await?;
    let api = Api::<ActorApplication>::namespaced(client.clone(), HERE);
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    gone(client).await?;
    Ok(seconds)
}

/// Seconds until kube-scheduler has bound pods with the same requests; they are deleted afterwards.
async fn by_scheduler(client: &Client, pods: usize) -> Result<f64> {
    let api = Api::<Pod>::namespaced(client.clone(), HERE);
    let create = |index| {
        let api = api.clone();
        async move {
            let requests = json!({"cpu": "500m", "memory": "64Mi"});
            let container = json!({"name": "actor", "image": "none", "resources": {"requests": requests}});
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("pod-{index}")},
                "spec": {"containers": [container]}});
            api.create(&PostParams::default(), &serde_json::from_value(pod)?)
                .await
                .context("cannot create a pod")?;
            anyhow::Ok(())
        }
    };
    let all = stream::iter(0..pods).map(create).buffer_unordered(AT_ONCE).try_collect();
    let seconds = bound(client, pods, all).await?;
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    gone(client).await?;
    Ok(seconds)
}

/// Seconds from now until so many pods are bound, while `making` creates them or their applications.
async fn bound(client: &Client, pods: usize, making: impl Future<Output = Result<()>>) -> Result<f64> {
    let started = Instant::now();
    let making = async {
        making.await?;
        std::future::pending::<Result<()>>().await
    };
    tokio::select! {
        seconds = tokio::time::timeout(LIMIT, watched::<Pod>(client, started, has_node, pods)) => {
            seconds.map_err(|_| anyhow!("not everything was bound within {LIMIT:?}"))?
        }
        failed = making => Err(failed.expect_err("it never succeeds")),
    }
}

/// A namespace for this measurement only.
fn has_node(pod: &Pod) -> usize {
    usize::from(pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
}

/// Waits until no pod is left.
async fn gone(client: &Client) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), HERE);
    let gone = wait::until(LIMIT, async || {
        let left = pods.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} pods are left");
        anyhow::Ok(())
    });
    gone.await.map_err(|seen| anyhow!("not everything is deleted: {seen}"))
}

fn page(all: &[Run], size: BenchSize, commit: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "# Plan to pods: Cairn against kube-scheduler alone\n\n{} applications of {} actors under `asp`, then as many pods with the same \
         requests for kube-scheduler alone, on {} simulated\nnodes of four cores. The control plane, KWOK, the operator and its solvers share \
         {cores} cores. The ratio is kube-scheduler's time ÷\nCairn's; 1 is as fast as without Cairn. The targets are a ratio of 0.5 (better 0.8) and 15 s.\n\n\
         | run | ratio | Cairn, all pods bound | kube-scheduler alone |\n|---:|---:|---:|---:|\n",
        size.applications, size.actors, size.nodes
    );
    for (number, run) in all.iter().enumerate() {
        // writing into a String cannot fail
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.1} s | {:.1} s |",
            number + 1,
            run.seconds_by_scheduler / run.seconds_by_decision,
            run.seconds_by_decision,
            run.seconds_by_scheduler
        );
    }
    let _ = writeln!(
        text,
        "\nMade at {commit} by `make bench`, which runs `cairn-e2e beside`; the numbers are in [beside.json](beside.json)."
    );
    text
}
