//! `cairn-e2e demo-loop`: the closed loop on two real nodes, with and without moves for measured load.
//!
//! Six actors send requests to each other; one pair is hot, and another one in each phase. The cable between the nodes has a
//! delay. All figures are those that Prometheus scraped from the actors.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use crds::{ActorApplication, MoveStep, Placement};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    Cluster, Namespace, Process,
    control_plane::{self, RealNodes},
    demo::story::Story,
    images::Image,
    keeper,
    product::{self, NAMESPACE, tree},
    prometheus::Prometheus,
    wait,
};

/// The delay of the cable in each direction.
const DELAY: Duration = Duration::from_micros(2500);
/// The length of a window of counters.
const WINDOW: Duration = Duration::from_secs(10);
/// Windows of a phase.
const WINDOWS: u32 = 12;
/// The service time of a request in microseconds.
const SERVICE: u32 = 300;
/// The hot pair of each phase.
const PAIRS: [(usize, usize); 5] = [(0, 3), (1, 2), (2, 4), (3, 5), (1, 5)];
/// Actors.
const ACTORS: usize = 6;
/// Their image.
const IMAGE: &str = "registry.local/loop-actor:e2e";
/// The name of the application and of its policy.
const NAME: &str = "loop";
/// The limit for everything else.
const LIMIT: Duration = Duration::from_mins(5);
/// The time between two looks at the pods.
const FOLLOW: Duration = Duration::from_millis(500);
/// The width of a bar.
const BAR: f64 = 40.0;

/// Runs both halves and stops everything afterwards, also after errors and Ctrl-C.
///
/// # Errors
/// When the machine lacks what real nodes need, or something does not start.
pub async fn run(phases: usize, commit: &str, results: Option<&Path>) -> Result<()> {
    let story = Story::begin();
    ensure!((1..=PAIRS.len()).contains(&phases), "--phases must be from 1 to {}", PAIRS.len());
    for program in [product::OPERATOR, product::AGENT, "cairn-e2e-actor", "cairn-e2e-pause"] {
        keeper::built(program)?;
    }
    story.step("Starting a real control plane and two real nodes, each with a kubelet and containerd;");
    story.say(format!("a cable between them with a delay of {} ms each way", DELAY.as_secs_f64() * 1000.0));
    let nodes = RealNodes { count: 2, delay: Some(DELAY) };
    let cluster = Cluster::start_nodes(nodes)?;
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
        std::fs::write(folder.join("demo-loop.md"), page).context("cannot write the results")?;
    }
    Ok(())
}

/// Both halves; returns the page of results.
async fn show(cluster: &Cluster, story: &Story, phases: usize, commit: &str) -> Result<String> {
    let names: Vec<&str> = cluster.plane().nodes.iter().map(|node| node.name.as_str()).collect();
    cluster.wait_nodes_ready(&names).await?;
    let actor = Image::new(IMAGE, "/actor").program(&keeper::built("cairn-e2e-actor")?, "/actor")?;
    cluster.load(&actor).await?;
    cluster.start_dns().await?;
    story.step(format!(
        "Installing the chart with Helm into {NAMESPACE}; the operator reads a real Prometheus"
    ));
    cluster.install(&tree("examples/topologies"), &[]).await?;
    let (prometheus, file) = cluster.reloading_prometheus(&scraping(&[])).await?;
    let follow = follow_pods(cluster.client().await?, file);
    let _agent = cluster.start_agent().await?;
    let url = format!("--prometheus-url={}", prometheus.url()?);
    let operator = cluster.operator().await?.arg(url).start(&keeper::built(product::OPERATOR)?).await?;
    operator.wait_ready().await?;
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
        "spec": {"kind": "cpu"}});
    let text = format!("window: {}s\nbudget: {{wall: 1s}}\n", WINDOW.as_secs());
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"cairn.dev/policy": "true"}},
        "data": {"policy.yaml": text}});
    for object in [pool, policy] {
        cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await?;
    }
    let both = both(cluster, &prometheus, story, phases);
    let halves = tokio::select! {
        halves = both => halves?,
        failed = follow => return Err(failed.err().unwrap_or_else(|| anyhow!("the targets are not followed"))),
    };
    let _: &Process = &operator;
    Ok(compare(story, &halves, commit))
}

/// The application in both modes, one after the other.
async fn both(cluster: &Cluster, prometheus: &Prometheus, story: &Story, phases: usize) -> Result<Vec<Half>> {
    let mut halves = Vec::new();
    for mode in ["On", "Off"] {
        story.say("");
        story.step(format!(
            "{ACTORS} actors with rebalance: \"{mode}\"; a line for each window of {} s",
            WINDOW.as_secs()
        ));
        let scene = Scene::begin(cluster, prometheus, story, mode, phases).await?;
        halves.push(scene.watch().await?);
    }
    Ok(halves)
}

/// The scrape configuration for the pods of applications, as the chart's `PodMonitor` makes it: labels of the target, and none
/// that a pod could forge.
fn scraping(pods: &[Pod]) -> serde_json::Value {
    let target = |pod: &Pod| {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone())?;
        let labels = json!({"namespace": pod.namespace()?, "pod": pod.name_any()});
        Some(json!({"targets": [format!("{address}:9100")], "labels": labels}))
    };
    let targets: Vec<_> = pods.iter().filter_map(target).collect();
    json!({"scrape_configs": [{"job_name": "monitoring/cairn-actors", "honor_labels": false, "honor_timestamps": false,
        "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": targets}]})
}

/// Keeps the targets of Prometheus those of the pods; never ends.
async fn follow_pods(client: Client, file: PathBuf) -> Result<()> {
    let pods = Api::<Pod>::all(client);
    let mut written = String::new();
    loop {
        let there = pods.list(&ListParams::default().labels(crds::labels::ACTOR)).await?.items;
        let text = scraping(&there).to_string();
        if text != written {
            std::fs::write(&file, &text).context("cannot write the targets of Prometheus")?;
            written = text;
        }
        sleep(FOLLOW).await;
    }
}

/// One half: the application in one mode.
struct Scene<'a> {
    namespace: Namespace<'a>,
    client: Client,
    prometheus: &'a Prometheus,
    story: &'a Story,
    mode: &'static str,
    phases: usize,
    /// When the first phase begins.
    begin: Instant,
}

/// What a half measured.
struct Half {
    mode: &'static str,
    /// Answers per second in each window.
    throughput: Vec<f64>,
    /// Whether the hot pair was on one node at the end of each window.
    local: Vec<bool>,
    /// The moves as they were last printed.
    moves: String,
}

impl<'a> Scene<'a> {
    async fn begin(
        cluster: &'a Cluster,
        prometheus: &'a Prometheus,
        story: &'a Story,
        mode: &'static str,
        phases: usize,
    ) -> Result<Self> {
        let namespace = cluster.namespace(&format!("loop-{}", mode.to_lowercase())).await?;
        let client = cluster.client().await?;
        // Time for the pods to start, and for the gate to know the noise of the first hot pair.
        let begin = Instant::now() + WINDOW * 3;
        let since = SystemTime::now().duration_since(UNIX_EPOCH)? + WINDOW * 3;
        namespace.apply(&manifest(mode, since.as_secs(), phases).to_string()).await?;
        let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
        let running = wait::until(LIMIT, async || {
            let found = pods.list(&ListParams::default().labels(crds::labels::ACTOR)).await?;
            let running = found.iter().filter(|pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            });
            let running = running.count();
            ensure!(running == ACTORS, "{running} of {ACTORS} actors run");
            anyhow::Ok(())
        });
        running.await.map_err(|seen| anyhow!("the actors do not start: {seen}"))?;
        Ok(Self { namespace, client, prometheus, story, mode, phases, begin })
    }

    /// Prints a line for each window, and deletes the application.
    async fn watch(self) -> Result<Half> {
        let windows = u32::try_from(self.phases)? * WINDOWS;
        let mut half =
            Half { mode: self.mode, throughput: Vec::new(), local: Vec::new(), moves: String::new() };
        for window in 0..windows {
            sleep_until(self.begin + WINDOW * (window + 1)).await;
            let phase = usize::try_from(window / WINDOWS)?;
            self.line(window, PAIRS[phase], &mut half).await?;
        }
        self.namespace.kubectl(["delete", "actorapplication", NAME, "--wait=true"]).await?;
        Ok(half)
    }

    async fn line(&self, window: u32, pair: (usize, usize), half: &mut Half) -> Result<()> {
        let (namespace, seconds) = (self.namespace.name(), WINDOW.as_secs());
        let rate =
            format!("sum(increase(actor_channel_messages_total{{namespace=\"{namespace}\"}}[{seconds}s]))");
        let answers = self.prometheus.query(&rate).await?.first().map_or(0.0, |(_, value)| *value);
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let throughput = answers / seconds as f64;
        let application =
            Api::<ActorApplication>::namespaced(self.client.clone(), namespace).get(NAME).await?;
        let Some(decision) =
            Api::<Placement>::namespaced(self.client.clone(), namespace).get_opt(NAME).await?
        else {
            bail!("there is no Placement")
        };
        let places: BTreeMap<&str, &str> =
            decision.spec.assignments.iter().map(|it| (it.actor.as_str(), it.node.as_str())).collect();
        let node = |index: usize| places.get(format!("actor-{index}").as_str()).copied();
        let is_local = node(pair.0) == node(pair.1);
        let conditions = application.status.iter().flat_map(|status| &status.conditions);
        let gate = conditions.into_iter().find(|it| it.type_ == "WouldMove");
        let gate = gate.map_or("", |condition| condition.reason.as_str());
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
        half.throughput.push(throughput);
        half.local.push(is_local);
        let where_ = if is_local { "on one node" } else { "apart" };
        self.story.say(format!(
            "{:>4} s  hot pair {}-{} {where_:<11}  {throughput:>6.0} answers/s  {gate:<13}  {}",
            u64::from(window + 1) * seconds,
            pair.0,
            pair.1,
            if half.moves == moves { "" } else { &moves }
        ));
        half.moves = moves;
        Ok(())
    }
}

/// The application: six actors that all talk to each other.
fn manifest(mode: &str, begin: u64, phases: usize) -> serde_json::Value {
    let pairs: Vec<String> = PAIRS[..phases].iter().map(|(one, other)| format!("{one}-{other}")).collect();
    let phase = WINDOW.as_secs() * u64::from(WINDOWS);
    let variables = [
        ("HOT_PAIRS", pairs.join(",")),
        ("PHASES_BEGIN", begin.to_string()),
        ("PHASE_SECONDS", phase.to_string()),
        ("SERVICE_MICROSECONDS", SERVICE.to_string()),
    ];
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let probe = json!({"httpGet": {"path": "/metrics", "port": "metrics"}, "periodSeconds": 1});
    // Three of them fit on a node.
    let container = json!({"name": "actor", "image": IMAGE, "imagePullPolicy": "Never", "env": variables,
        "ports": [{"name": "metrics", "containerPort": 9100}], "readinessProbe": probe,
        "resources": {"requests": {"cpu": "500m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}});
    let implementation = json!({"kind": "cpu", "serviceTime": format!("{SERVICE}us"), "template": template});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": NAME}, "spec": {
        "policy": NAME, "rebalance": mode,
        "actors": [{"name": "actor", "replicas": ACTORS, "implementations": [implementation]}],
        "channels": [{"from": "actor", "to": "actor", "rate": "10/s", "pattern": "AllToAll"}]}})
}

fn mean(numbers: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few windows")]
    let count = numbers.len().max(1) as f64;
    numbers.iter().sum::<f64>() / count
}

/// Prints both halves beside each other; returns the page of results.
fn compare(story: &Story, halves: &[Half], commit: &str) -> String {
    let all: Vec<f64> = halves.iter().map(|half| mean(&half.throughput)).collect();
    // The throughput while the hot pair is on one node: what the best static placement of a phase has.
    let local = halves.iter().flat_map(|half| half.throughput.iter().zip(&half.local));
    let best: Vec<f64> =
        local.filter(|(_, is_local)| **is_local).map(|(throughput, _)| *throughput).collect();
    let most = all.iter().copied().fold(1.0, f64::max);
    story.say("");
    story.step("Answers per second, mean of all windows:");
    for (half, mean) in halves.iter().zip(&all) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the width")]
        let width = (mean / most * BAR) as usize;
        story.say(format!("{:<4} {:<40} {mean:>6.0}", half.mode, "█".repeat(width)));
    }
    let mut page = String::from("# The closed loop on two real nodes\n\n");
    page +=
        "| mode | answers/s | beside `Off` | windows with the hot pair on one node |\n|---|---|---|---|\n";
    let off = all.last().copied().unwrap_or(1.0).max(1.0);
    for (half, mean) in halves.iter().zip(&all) {
        let local = half.local.iter().filter(|local| **local).count();
        let _ = writeln!(
            page,
            "| `{}` | {mean:.0} | {:.2} | {local} of {} |",
            half.mode,
            mean / off,
            half.local.len()
        );
    }
    let _ = writeln!(
        page,
        "\nWith the hot pair on one node, the actors exchange {:.0} answers per second.\n\nMade at {commit} by `make demo-loop`: six actors, {} ms each way, windows of {} s, {WINDOWS} windows a phase.",
        self::mean(&best),
        DELAY.as_secs_f64() * 1000.0,
        WINDOW.as_secs()
    );
    page
}
