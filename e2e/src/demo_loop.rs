//! `cairn-e2e demo-loop`: the closed loop on two real nodes, with and without moves for measured load, and at the best places.
//!
//! Six actors send requests to each other; one pair is hot, and another one in each phase. The cable between the nodes has a
//! delay. All figures are those that Prometheus scraped from the actors.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use crds::{ActorApplication, MoveStep, Placement};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use self::figures::{DELAY, Part, WINDOW, WINDOWS};
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

mod figures;

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

/// Runs all parts and stops everything afterwards, also after errors and Ctrl-C.
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
    let nodes = RealNodes { count: 2, delay: Some(DELAY), one_core: true };
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

/// All parts; returns the page of results.
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
    let all = all_parts(cluster, &prometheus, story, phases);
    let parts = tokio::select! {
        parts = all => parts?,
        failed = follow => return Err(failed.err().unwrap_or_else(|| anyhow!("the targets are not followed"))),
    };
    let _: &Process = &operator;
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
    let begin = |name, mode, pairs: &[(usize, usize)]| {
        story.say("");
        story.step(format!(
            "{ACTORS} actors with rebalance: \"{mode}\"; a line for each window of {} s",
            WINDOW.as_secs()
        ));
        Scene::begin(cluster, prometheus, story, (name, mode), pairs.to_vec())
    };
    let on = begin("On", "On", &PAIRS[..phases]).await?.watch().await?;
    let off = begin("Off", "Off", &PAIRS[..phases]).await?.watch().await?;
    let pair = off.pair_on_one_node().context("no two actors are on one node")?;
    let best = begin("Best", "Off", &[pair]).await?.watch().await?;
    if best.local.iter().all(|local| *local) {
        return Ok(vec![on, off, best]);
    }
    story.say(format!("The hot pair {}-{} is apart: this part is left out.", pair.0, pair.1));
    Ok(vec![on, off])
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

/// One part: the application in one mode.
struct Scene<'a> {
    namespace: Namespace<'a>,
    client: Client,
    prometheus: &'a Prometheus,
    story: &'a Story,
    /// The name of this part.
    name: &'static str,
    /// The hot pair of each phase.
    pairs: Vec<(usize, usize)>,
    /// When the first phase begins, and in seconds since the epoch.
    begin: (Instant, u64),
}

impl<'a> Scene<'a> {
    async fn begin(
        cluster: &'a Cluster,
        prometheus: &'a Prometheus,
        story: &'a Story,
        (name, mode): (&'static str, &'static str),
        pairs: Vec<(usize, usize)>,
    ) -> Result<Self> {
        let namespace = cluster.namespace(&format!("loop-{}", name.to_lowercase())).await?;
        let client = cluster.client().await?;
        // Time for the pods to start, and for the gate to know the noise of the first hot pair.
        let begin = Instant::now() + WINDOW * 3;
        let since = (SystemTime::now().duration_since(UNIX_EPOCH)? + WINDOW * 3).as_secs();
        namespace.apply(&manifest(mode, since, &pairs).to_string()).await?;
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
        Ok(Self { namespace, client, prometheus, story, name, pairs, begin: (begin, since) })
    }

    /// Prints a line for each window, and deletes the application.
    async fn watch(self) -> Result<Part> {
        let mut part = Part::new(self.name);
        for (window, pair) in (0..).zip(self.pairs.iter().flat_map(|pair| [*pair; WINDOWS as usize])) {
            sleep_until(self.begin.0 + WINDOW * (window + 1)).await;
            self.line(window, pair, &mut part).await?;
        }
        self.namespace.kubectl(["delete", "actorapplication", NAME, "--wait=true"]).await?;
        Ok(part)
    }

    async fn line(&self, window: u32, pair: (usize, usize), part: &mut Part) -> Result<()> {
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
        self.follow(window / WINDOWS, &decision, part).await?;
        part.places = places.iter().map(|(actor, node)| ((*actor).to_owned(), (*node).to_owned())).collect();
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
        let pods = pods.list(&ListParams::default().labels(crds::labels::ACTOR)).await?.items;
        let arrived = pods
            .iter()
            .filter(|pod| pod.labels().get(crds::labels::ACTOR).is_some_and(|it| moves.contains_key(it)));
        let ready = arrived.filter_map(|pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let ready = conditions.into_iter().find(|it| it.type_ == "Ready" && it.status == "True")?;
            Some(ready.last_transition_time.as_ref()?.0.as_second() - changed)
        });
        now.ready = ready.filter(|ready| *ready >= *decided).max().or(now.ready);
        Ok(())
    }
}

/// The application: six actors that all talk to each other.
fn manifest(mode: &str, begin: u64, pairs: &[(usize, usize)]) -> serde_json::Value {
    let pairs: Vec<String> = pairs.iter().map(|(one, other)| format!("{one}-{other}")).collect();
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
        "resources": {"requests": {"cpu": "260m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}});
    let implementation = json!({"kind": "cpu", "serviceTime": format!("{SERVICE}us"), "template": template});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": NAME}, "spec": {
        "policy": NAME, "rebalance": mode,
        "actors": [{"name": "actor", "replicas": ACTORS, "implementations": [implementation]}],
        "channels": [{"from": "actor", "to": "actor", "rate": "10/s", "pattern": "AllToAll"}]}})
}
