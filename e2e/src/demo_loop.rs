//! `cairn-e2e demo-loop`: the closed loop on two real nodes, with and without moves for measured load, and at the best places.
//!
//! Six actors send requests to each other; one pair is hot, and in each phase another one, which is on two nodes when the phase
//! begins. Without moves, the hot pair is on one node in two of five phases, as a pair drawn at random would be. The cable between
//! the nodes has a delay. All figures are those that Prometheus scraped from the actors.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow, ensure};
use crds::{ActorApplication, MoveStep, Placement, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::{Instant, sleep_until};

use self::{
    figures::{Part, WINDOW, WINDOWS, pair_on_one_node, pair_on_two_nodes, pair_without_moves},
    world::{ACTORS, DELAY, LoopWorld, NAME, manifest, places},
};
use crate::{
    Cluster, Namespace, control_plane,
    demo::story::Story,
    keeper,
    pods::ready_since,
    product::{self, NAMESPACE},
    prometheus::Prometheus,
    request_reply::SharedFolder,
    wait,
};

mod figures;
pub mod world;

/// The most phases.
const PHASES: usize = 5;
/// The limit for everything else.
const LIMIT: Duration = Duration::from_mins(5);

/// Runs all parts and stops everything afterwards, also after errors and Ctrl-C.
///
/// # Errors
/// When the machine lacks what real nodes need, or something does not start.
pub async fn run(phases: usize, commit: &str, results: Option<&Path>) -> Result<()> {
    let story = Story::begin();
    ensure!((1..=PHASES).contains(&phases), "--phases must be from 1 to {PHASES}");
    for program in [product::OPERATOR, product::AGENT, "cairn-e2e-actor", "cairn-e2e-pause"] {
        keeper::built(program)?;
    }
    story.step("Starting a real control plane and two real nodes, each with a kubelet and containerd;");
    story.say(format!("a cable between them with a delay of {} ms each way", DELAY.as_secs_f64() * 1000.0));
    let cluster = world::start_cluster()?;
    let shown = tokio::select! {
        shown = show(&cluster, &story, phases, commit) => {
            if shown.is_err() {
                control_plane::mark_failed(&cluster.plane().state);
            }
            shown
        }
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    drop(cluster);
    story.step("Stopped everything; nothing is left running");
    let page = shown?;
    if let Some(folder) = results {
        for (name, text) in [("demo-loop.md", page), ("demo-loop.txt", story.text())] {
            std::fs::write(folder.join(name), text).context("cannot write the results")?;
        }
    }
    Ok(())
}

/// All parts; returns the page of results.
async fn show(cluster: &Cluster, story: &Story, phases: usize, commit: &str) -> Result<String> {
    story.step(format!(
        "Installing the chart with Helm into {NAMESPACE}; the operator reads a real Prometheus"
    ));
    let world = LoopWorld::install(cluster, WINDOW).await?;
    let parts = world.follow_pods(all_parts(cluster, &world.prometheus, story, phases)).await?;
    Ok(figures::compare(story, &parts, commit))
}

/// The application with moves, without them, and without them while the hot pair is on one node: the best static placement of
/// each phase, because all actors are alike.
async fn all_parts(
    cluster: &Cluster,
    prometheus: &Prometheus,
    story: &Story,
    phases: usize,
) -> Result<Vec<Part>> {
    let begin = |name, mode| {
        story.say("");
        story.step(format!(
            "{ACTORS} actors with rebalance: \"{mode}\"; a line for each window of {} s",
            WINDOW.as_secs()
        ));
        Scene::begin(cluster, prometheus, story, (name, mode))
    };
    let on = begin("On", "On").await?.watch(phases, pair_on_two_nodes).await?;
    let off = begin("Off", "Off").await?.watch(phases, pair_without_moves).await?;
    let best = begin("Best", "Off").await?.watch(1, pair_on_one_node).await?;
    Ok(vec![on, off, best])
}

/// One part: the application in one mode.
struct Scene<'a> {
    namespace: Namespace<'a>,
    client: Client,
    prometheus: &'a Prometheus,
    story: &'a Story,
    /// The name of this part.
    name: &'static str,
    /// Names the hot pair.
    shared: SharedFolder,
    /// When the first phase begins, and in seconds since the epoch.
    begin: (Instant, u64),
}

impl<'a> Scene<'a> {
    async fn begin(
        cluster: &'a Cluster,
        prometheus: &'a Prometheus,
        story: &'a Story,
        (name, mode): (&'static str, &'static str),
    ) -> Result<Self> {
        let namespace = cluster.namespace(&format!("loop-{}", name.to_lowercase())).await?;
        let client = cluster.client().await?;
        let shared = SharedFolder::new(false)?;
        // Time for the pods to start.
        let begin = Instant::now() + WINDOW * 3;
        let since = (SystemTime::now().duration_since(UNIX_EPOCH)? + WINDOW * 3).as_secs();
        namespace.apply(&manifest(mode, &shared).to_string()).await?;
        let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
        let running = wait::until(LIMIT, async || {
            let found = pods.list(&ListParams::default().labels(labels::ACTOR)).await?;
            let running = found.iter().filter(|pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            });
            let running = running.count();
            ensure!(running == ACTORS, "{running} of {ACTORS} actors run");
            anyhow::Ok(())
        });
        running.await.map_err(|seen| anyhow!("the actors do not start: {seen}"))?;
        Ok(Self { namespace, client, prometheus, story, name, shared, begin: (begin, since) })
    }

    /// Prints a line for each window, and deletes the application. `next` is the hot pair of the next phase.
    async fn watch(self, phases: usize, next: impl Fn(&Part) -> Option<(usize, usize)>) -> Result<Part> {
        let mut part = Part::new(self.name);
        let windows = u32::try_from(phases)? * WINDOWS;
        for window in 0..windows {
            if window % WINDOWS == 0 {
                sleep_until(self.begin.0 + WINDOW * window).await;
                part.places = places(&self.placement().await?);
                let pair = next(&part).context("there is no such pair of actors")?;
                self.shared.heat(pair)?;
                part.pairs.push(pair);
            }
            sleep_until(self.begin.0 + WINDOW * (window + 1)).await;
            self.line(window, &mut part).await?;
        }
        self.namespace.kubectl(["delete", "actorapplication", NAME, "--wait=true"]).await?;
        Ok(part)
    }

    async fn placement(&self) -> Result<Placement> {
        let placements = Api::<Placement>::namespaced(self.client.clone(), self.namespace.name());
        placements.get_opt(NAME).await?.context("there is no Placement")
    }

    async fn line(&self, window: u32, part: &mut Part) -> Result<()> {
        let pair = *part.pairs.last().context("no pair is hot")?;
        let (namespace, seconds) = (self.namespace.name(), WINDOW.as_secs());
        let rate =
            format!("sum(increase(actor_channel_messages_total{{namespace=\"{namespace}\"}}[{seconds}s]))");
        let answers = self.prometheus.query(&rate).await?.first().map_or(0.0, |(_, value)| *value);
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let throughput = answers / seconds as f64;
        let application =
            Api::<ActorApplication>::namespaced(self.client.clone(), namespace).get(NAME).await?;
        let decision = self.placement().await?;
        part.places = places(&decision);
        let is_local = part.are_on_one_node(pair);
        let conditions = application.status.iter().flat_map(|status| &status.conditions);
        let gate = conditions.into_iter().find(|it| it.type_ == "WouldMove");
        let gate = gate.map_or("", |condition| condition.reason.as_str());
        self.follow(window / WINDOWS, &decision, part).await?;
        let moves = decision.status.iter().flat_map(|status| &status.moves);
        let moves: Vec<String> = moves
            .map(|it| {
                let step = match (it.step, it.realised_percent) {
                    (MoveStep::Judged, Some(realised)) => {
                        format!("gained {realised} % of {} %", it.expected_percent.unwrap_or(0))
                    }
                    (step, _) => step.to_string(),
                };
                format!("{} to {}: {step}", it.actor, it.to.split('/').next().unwrap_or_default())
            })
            .collect();
        let moves = moves.join("; ");
        part.throughput.push(throughput);
        part.local.push(is_local);
        let where_ = if is_local { "on one node" } else { "apart" };
        self.story.say(format!(
            "{:>4} s  hot pair {}-{} {where_:<11}  {throughput:>6.0} answers/s  {gate:<13}  {}",
            u64::from(window + 1) * seconds,
            pair.0,
            pair.1,
            if part.moves == moves { "" } else { &moves }
        ));
        part.moves = moves;
        Ok(())
    }

    /// Records when the moves of a phase were decided, and when the last of their actors was ready.
    async fn follow(&self, phase: u32, decision: &Placement, part: &mut Part) -> Result<()> {
        let seconds = WINDOW.as_secs() * u64::from(WINDOWS);
        let changed = i64::try_from(self.begin.1 + u64::from(phase) * seconds)?;
        let since_change = |time: &crds::MicroTime| time.0.as_second() - changed;
        let all = decision
            .spec
            .moves
            .iter()
            .filter_map(|it| Some((&it.actor, since_change(it.decided_at.as_ref()?))));
        let moves: BTreeMap<&String, i64> = all.filter(|(_, decided)| *decided >= 0).collect();
        let now = part.phases.entry(phase).or_default();
        let Some(decided) = moves.values().min() else { return Ok(()) };
        now.decided.get_or_insert(*decided);
        let pods = Api::<Pod>::namespaced(self.client.clone(), self.namespace.name());
        let pods = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
        let arrived = pods
            .iter()
            .filter(|pod| pod.labels().get(labels::ACTOR).is_some_and(|it| moves.contains_key(it)));
        let ready = arrived.filter_map(|pod| Some(ready_since(pod)?.as_second() - changed));
        now.ready = ready.filter(|ready| *ready >= *decided).max().or(now.ready);
        Ok(())
    }
}
