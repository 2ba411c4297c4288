//! Noise around a steady load: nothing moves, and nothing is written.
//!
//! `CAIRN_STILL_APPLICATIONS`, `CAIRN_STILL_WINDOWS` and `CAIRN_STILL_SECONDS` are the number of applications, and the number and length of
//! windows. Prints a table row for the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use e2e::{SimulatedNode, bench::size, process::http, prometheus::Prometheus, wait_for};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, apply_policy, cpus, delete_policy};
use crate::idle::{is_lease, is_operator_write, wait_idle};
use crate::installation::cluster;

/// The size without the variables.
const APPLICATIONS: u64 = 3;
const WINDOWS: u64 = 12;
const SECONDS: u64 = 3;
/// Actors of an application, each a group of its own.
const ACTORS: usize = 10;
/// Nodes of an application, on each of which four actors fit.
const NODES: usize = 3;
/// Pairs that exchange messages in each application.
const PAIRS: usize = 15;
/// Messages per second of a pair: the least, and the factor up to the most.
const RATES: (f64, f64) = (10.0, 30.0);
/// Microseconds of work for a message.
const SERVICE_MICROSECONDS: f64 = 100.0;
/// Noise of each pair and each actor, another one in each window.
const NOISE: f64 = 0.2;
/// Scrapes in a window.
const SCRAPES: u64 = 6;
/// Windows that are kept and refilled.
const KEPT: u64 = 16;
/// Seconds until everything is placed and the operator has restarted.
const SETTLING: u64 = 600;
/// Applications that are applied at the same time.
const AT_ONCE: usize = 16;

const POLICY: &str = "still";

/// An application with its mean rates by pair.
struct Steady {
    number: u64,
    name: String,
    pairs: BTreeMap<(usize, usize), f64>,
}

impl Steady {
    #[expect(clippy::disallowed_methods, reason = "rounded rates of one run")]
    fn random(number: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(number);
        let mut pairs = BTreeMap::new();
        while pairs.len() < PAIRS {
            let (from, to) = (rng.usize(..ACTORS), rng.usize(..ACTORS));
            if from != to {
                pairs.insert((from, to), (RATES.0 * RATES.1.powf(rng.f64())).round());
            }
        }
        Self { number, name: format!("still-{number}"), pairs }
    }

    fn nodes(&self) -> impl Iterator<Item = SimulatedNode> {
        (0..NODES)
            .map(|at| SimulatedNode::new(format!("{}-{at}", self.name)).cpu("8").label("of", &self.name))
    }

    /// What the manifest says is the mean of what is measured.
    fn manifest(&self) -> Value {
        let container =
            json!({"name": "actor", "image": "none", "resources": {"requests": {"cpu": "1900m"}}});
        let template = json!({"spec": {"containers": [container], "nodeSelector": {"of": self.name}}});
        let group = |at: usize| {
            json!({"name": format!("g{at}"), "replicas": 1, "implementations": [
                {"kind": "cpu", "serviceTime": format!("{SERVICE_MICROSECONDS}us"), "template": template}]})
        };
        let channel = |(&(from, to), rate): (&(usize, usize), &f64)| json!({"from": format!("g{from}"), "to": format!("g{to}"), "rate": format!("{rate}/s"), "pattern": "AllToAll"});
        json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": self.name}, "spec": {
            "policy": POLICY, "rebalance": "On", "actors": (0..ACTORS).map(group).collect::<Vec<_>>(),
            "channels": self.pairs.iter().map(channel).collect::<Vec<_>>()}})
    }

    /// The counters of all scrapes, by metric: lines in the `OpenMetrics` format.
    fn samples(&self, namespace: &str, scrapes: &Scrapes, text: &mut Samples) {
        let mut rng = fastrand::Rng::with_seed(self.number ^ 0x5eed);
        let mut factor = || 1.0 + NOISE * (2.0 * rng.f64() - 1.0);
        let labels = |actor: usize| {
            let name = &self.name;
            format!(
                "namespace=\"{namespace}\",pod=\"{name}-g{actor}-0\",job=\"monitoring/cairn-actors\",actor=\"g{actor}-0\""
            )
        };
        for (&(from, to), rate) in &self.pairs {
            let labels = format!("{},peer=\"{namespace}/{}/g{to}-0\"", labels(from), self.name);
            scrapes.counter("actor_channel_messages_total", &labels, *rate, &mut factor, &mut text.messages);
        }
        for actor in 0..ACTORS {
            let received: f64 =
                self.pairs.iter().filter(|((_, to), _)| *to == actor).map(|(_, rate)| rate).sum();
            let work = received * SERVICE_MICROSECONDS / 1e6;
            scrapes.counter("actor_busy_seconds_total", &labels(actor), work, &mut factor, &mut text.work);
            for scrape in scrapes.all() {
                let at = scrapes.second(scrape);
                writeln!(text.up, "up{{{}}} 1 {at:.1}", labels(actor)).unwrap();
            }
        }
    }
}

/// Samples by metric.
#[derive(Default)]
struct Samples {
    messages: String,
    work: String,
    up: String,
}

/// When the actors are scraped.
struct Scrapes {
    first: u64,
    window: u64,
    windows: u64,
}

impl Scrapes {
    fn all(&self) -> std::ops::Range<u64> {
        0..self.windows * SCRAPES
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    fn second(&self, scrape: u64) -> f64 {
        self.first as f64 + (scrape * self.window) as f64 / SCRAPES as f64
    }

    /// A counter with a mean increase per second and noise that changes once in a window.
    fn counter(
        &self,
        name: &str,
        labels: &str,
        mean: f64,
        factor: &mut impl FnMut() -> f64,
        text: &mut String,
    ) {
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let between = self.window as f64 / SCRAPES as f64;
        let (mut value, mut rate) = (0.0, mean);
        for scrape in self.all() {
            if scrape.is_multiple_of(SCRAPES) {
                rate = mean * factor();
            }
            value += rate * between;
            writeln!(text, "{name}{{{labels}}} {value:.6} {:.1}", self.second(scrape)).unwrap();
        }
    }
}

/// The least number of settled windows of any application, and the end of the oldest newest window.
async fn windows(env: &TestEnv, applications: &[Steady]) -> anyhow::Result<(usize, f64)> {
    let (mut fewest, mut oldest) = (usize::MAX, f64::INFINITY);
    for Steady { name, .. } in applications {
        let load = env.load(name).await?;
        let windows = load["windows"]["windows"].as_array().context("no windows")?;
        let settled = windows.iter().filter(|it| it["settled"] == true && it["hasData"] == true);
        fewest = fewest.min(settled.count());
        oldest = oldest.min(windows.first().and_then(|it| it["endedAt"].as_f64()).unwrap_or_default());
    }
    Ok((fewest, oldest))
}

#[tokio::test]
async fn noise_around_a_steady_load_moves_and_writes_nothing() {
    let cluster = cluster();
    let applications = size("CAIRN_STILL_APPLICATIONS", APPLICATIONS).unwrap();
    let applications: Vec<_> = (0..applications).map(Steady::random).collect();
    let length = size("CAIRN_STILL_SECONDS", SECONDS).unwrap();
    let count = size("CAIRN_STILL_WINDOWS", WINDOWS).unwrap();
    let mut env = TestEnv::new("still", applications.iter().flat_map(Steady::nodes), [cpus()]).await;
    apply_policy(POLICY, &format!("window: {length}s\nbudget: {{wall: 2s}}\n")).await;
    let apply = |application: &Steady| {
        let (env, name, manifest) = (&env, application.name.clone(), application.manifest());
        async move {
            env.apply(&manifest).await;
            env.wait_reconciled(&name, AppState::all_placed).await
        }
    };
    let placed: Vec<AppState> = stream::iter(&applications).map(apply).buffered(AT_ONCE).collect().await;

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = (KEPT + 2) * length;
    let scrapes =
        Scrapes { first: now - before, window: length, windows: (before + SETTLING) / length + count + KEPT };
    let mut samples = Samples::default();
    for application in &applications {
        application.samples(env.namespace.name(), &scrapes, &mut samples);
    }
    let Samples { messages, work, up } = samples;
    let text = format!(
        "# TYPE actor_channel_messages counter\n{messages}# TYPE actor_busy_seconds counter\n{work}# TYPE up gauge\n{up}# EOF\n"
    );
    let prometheus = Prometheus::with_samples(cluster, &text).await.unwrap();
    drop(text);
    env.read_counters(&prometheus).await;
    wait_for("the windows before are read", TIMEOUT, async || {
        let (fewest, _) = windows(&env, &applications).await?;
        ensure!(fewest >= 8, "{fewest} settled windows");
        anyhow::Ok(())
    })
    .await;
    wait_idle().await;

    let log = cluster.audit().await.unwrap();
    let (_, begin) = windows(&env, &applications).await.unwrap();
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let (end, limit) = (begin + (count * length) as f64, TIMEOUT + Duration::from_secs(count * length));
    wait_for("the windows have passed", limit, async || {
        let (_, oldest) = windows(&env, &applications).await?;
        ensure!(oldest >= end, "{oldest} of {end}");
        anyhow::Ok(())
    })
    .await;
    let now = cluster.audit().await.unwrap();
    let writes = now.since(&log).iter().filter(|event| is_operator_write(event) && !is_lease(event));
    let writes: Vec<_> = writes.collect();
    let metrics = http(env.product.operator.port(8080).unwrap(), "/metrics").await.unwrap().body;
    let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok();
    let decisions = metrics.lines().filter(|line| line.starts_with("cairn_operator_load_decisions_total"));
    let searches: f64 = decisions.filter_map(value).sum();
    let evictions = writes.iter().filter(|event| event.subresource == "eviction").count();
    println!(
        "| {} × {ACTORS} | {count} of {length} s | {searches} | {evictions} | {} |",
        applications.len(),
        writes.len()
    );
    assert!(writes.is_empty(), "{:?}", writes.iter().take(20).collect::<Vec<_>>());
    assert!(searches > 0.0, "the load is looked at: {metrics}");
    for (application, placed) in applications.iter().zip(&placed) {
        let state = env.observe(&application.name).await.unwrap();
        assert_eq!(state.places(), placed.places(), "{}", application.name);
    }
    env.read_no_counters().await;
    delete_policy(POLICY).await;
}
