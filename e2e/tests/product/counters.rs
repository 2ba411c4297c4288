//! Counters of actors in a real Prometheus, with known increments: the windows of the operator equal values computed by hand.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, ensure};
use e2e::{SimulatedNode, process::http, prometheus::Prometheus, wait_for};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, apply_policy, cpus, delete_policy};
use crate::installation::cluster;
use crate::would_move::condition;

/// Seconds of a window; all counters are scraped each second.
const WINDOW: u64 = 10;
/// Every so many seconds the scrapes of `c-0` are missed.
const MISSED: u64 = 25;
/// Seconds of samples before and after now.
const SPAN: (u64, u64) = (240, 420);

/// The value at 1970 of a series that falls.
const FALLS_FROM: f64 = 1e12;

/// One counter of an actor.
struct Counter<'a> {
    name: &'a str,
    application: &'a str,
    actor: &'a str,
    peer: &'a str,
    /// Increase per second.
    rate: f64,
    /// Restarts at 0 every so many seconds, and continues.
    resets: Option<u64>,
    /// Falls at every sample.
    falls: bool,
    jobs: &'a [&'a str],
    /// The label `container` of the kubelet's series.
    container: &'a str,
}

impl<'a> Counter<'a> {
    fn new(name: &'a str, actor: &'a str, peer: &'a str, rate: f64) -> Self {
        let jobs = &["monitoring/cairn-actors"];
        let application = "counted";
        Self { name, application, actor, peer, rate, resets: None, falls: false, jobs, container: "" }
    }

    /// The agent's CPU seconds of a pod.
    fn agent_cpu(actor: &'a str, rate: f64) -> Self {
        let jobs = &["cairn-system/cairn-agent"];
        Self { jobs, ..Self::new("cairn_pod_cpu_task_clock_seconds", actor, "", rate) }
    }

    /// The kubelet's CPU seconds of a container, which two jobs scrape; those of the whole pod without a name.
    fn kubelet_cpu(actor: &'a str, container: &'a str, rate: f64) -> Self {
        let jobs = &["kubelet", "cadvisor"];
        Self { jobs, container, ..Self::new("container_cpu_usage_seconds", actor, "", rate) }
    }

    /// The samples of a second.
    fn samples(&self, namespace: &str, at: u64, text: &mut String) {
        let is_missed = self.actor == "c-0" && at.is_multiple_of(MISSED);
        let steps = self.resets.map_or(at, |resets| at % resets + 1);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let risen = steps as f64 * self.rate;
        let value = if self.falls { FALLS_FROM - risen } else { risen };
        let with = |label: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!(",{label}=\"{value}\"") }
        };
        // Series of pods have no label `actor`.
        let own = if self.name.contains("cpu") {
            with("container", self.container)
        } else {
            with("actor", self.actor) + &with("peer", self.peer)
        };
        let pod = format!("{}-{}", self.application, self.actor);
        for job in self.jobs.iter().filter(|_| !is_missed) {
            let labels = format!("namespace=\"{namespace}\",pod=\"{pod}\",job=\"{job}\"{own}");
            writeln!(text, "{}_total{{{labels}}} {value} {at}", self.name).unwrap();
        }
    }
}

/// All samples in the `OpenMetrics` format.
fn samples(counters: &[Counter], namespace: &str, now: u64) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Counter>> = BTreeMap::new();
    for counter in counters {
        by_name.entry(counter.name).or_default().push(counter);
    }
    let seconds = now - SPAN.0..now + SPAN.1;
    let mut text = String::new();
    for (name, counters) in by_name {
        writeln!(text, "# TYPE {name} counter").unwrap();
        for counter in counters {
            for at in seconds.clone() {
                counter.samples(namespace, at, &mut text);
            }
        }
    }
    writeln!(text, "# TYPE up gauge").unwrap();
    for pod in ["counted-a-0", "counted-b-0", "counted-c-0", "falling-f-0"] {
        for at in seconds.clone() {
            let pod = format!("namespace=\"{namespace}\",pod=\"{pod}\",job=\"monitoring/cairn-actors\"");
            writeln!(text, "up{{{pod}}} 1 {at}").unwrap();
        }
    }
    text + "# EOF\n"
}

/// Three actors that send to each other, and two that expose nothing.
fn manifest() -> Value {
    let group = |name| (name, 1, &[("cpu", "1ms")][..]);
    let mut manifest = application("counted", &["a", "b", "c", "d", "e"].map(group));
    let channel = |from, to| json!({"from": from, "to": to, "rate": "1/s", "pattern": "AllToAll"});
    manifest["spec"]["channels"] = json!([channel("a", "b"), channel("b", "a"), channel("c", "a")]);
    manifest["spec"]["policy"] = json!("ten-seconds");
    manifest
}

/// Numbers of a list of pairs, by actor and peer.
fn pairs(list: &Value) -> BTreeMap<String, &Value> {
    let key = |one: &Value| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("{}{} {}{}", text("actor"), text("from"), text("peer"), text("to"))
    };
    list.as_array().into_iter().flatten().map(|one| (key(one), one)).collect()
}

/// Whether no missed scrape is at an edge of the window: `increase()` extrapolates less there.
fn is_even(window: &Value) -> bool {
    let ended_at = window["endedAt"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let (window, missed) = (WINDOW as f64, MISSED as f64);
    [ended_at, ended_at - window].iter().all(|edge| {
        let after = edge.rem_euclid(missed);
        after.min(missed - after) > 1.5
    })
}

#[tokio::test]
async fn windows_equal_the_known_increments_of_a_real_prometheus() {
    let cluster = cluster();
    let mut env = TestEnv::new("counters", [SimulatedNode::new("one")], [cpus()]).await;
    apply_policy("ten-seconds", &format!("window: {WINDOW}s\nmessageQuantum: 1000\n")).await;
    let mut falling = application("falling", &[("f", 1, &[("cpu", "1ms")])]);
    falling["spec"]["policy"] = json!("ten-seconds");
    for manifest in [manifest(), falling] {
        env.apply(&manifest).await;
    }
    for name in ["counted", "falling"] {
        env.wait_reconciled(name, AppState::all_placed).await;
    }
    let port = env.product.operator.port(8081).unwrap();
    let path = format!("/debug/load/{}/counted", env.namespace);
    assert_eq!(http(port, &path).await.unwrap().status, 404, "no Prometheus is configured");

    let [a, b] = ["a-0", "b-0"].map(|actor| peer(&env, actor));
    let g = format!("{}/falling/g-0", env.namespace);
    let channel = |name, actor, peer, rate| Counter::new(name, actor, peer, rate);
    let counters = [
        // 10 messages of 2,500 bytes a second, with resets: 100 × 3 in a window
        Counter { resets: Some(7), ..channel("actor_channel_messages", "a-0", &b, 10.0) },
        channel("actor_channel_bytes", "a-0", &b, 25_000.0),
        // scraped by two jobs
        Counter {
            jobs: &["monitoring/cairn-actors", "other/cairn-actors"],
            ..channel("actor_channel_messages", "b-0", &a, 7.0)
        },
        // with missed scrapes
        channel("actor_channel_messages", "c-0", &a, 5.0),
        // 20 rollbacks of 100 µs, 10 null messages of 20 µs and 10 ms of idle time in a window, over 100 µs
        channel("actor_channel_rollbacks", "b-0", &a, 2.0),
        channel("actor_channel_null_messages", "b-0", &a, 1.0),
        channel("actor_channel_idle_seconds", "b-0", &a, 0.001),
        channel("actor_busy_seconds", "a-0", "", 0.25),
        channel("actor_busy_seconds", "b-0", "", 0.5),
        channel("actor_busy_seconds", "c-0", "", 0.125),
        channel("actor_messages_processed", "a-0", "", 12.0),
        // CPU seconds where no counter of the actor has its work: the agent's, else those of the kubelet's containers, without the
        // series of the whole pod and of its sandbox
        Counter::agent_cpu("a-0", 0.75),
        Counter::agent_cpu("d-0", 0.5),
        Counter::kubelet_cpu("d-0", "actor", 0.875),
        Counter::kubelet_cpu("e-0", "actor", 0.25),
        Counter::kubelet_cpu("e-0", "sidecar", 0.125),
        Counter::kubelet_cpu("e-0", "", 0.375),
        Counter::kubelet_cpu("e-0", "POD", 0.25),
        // refused, for its own application alone: no counter, although its increase would be a large number
        Counter { falls: true, application: "falling", ..channel("actor_channel_messages", "f-0", &g, 10.0) },
        // refused: a peer in another namespace, an actor of another pod, a pod that does not exist; windows with impossible values
        // are a matter of crates/counters
        channel("actor_channel_bytes", "a-0", "elsewhere/counted/b-0", 1.0),
        channel("actor_busy_seconds", "none-0", "", 1.0),
    ];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text = samples(&counters, env.namespace.name(), now);
    let prometheus = Prometheus::with_samples(cluster, &text).await.unwrap();
    env.read_counters(&prometheus).await;

    check_load(&env).await;
    check_metrics(&env).await;
    env.wait_until("falling", |state| {
        let condition = condition(state, "CountersUnavailable");
        ensure!(condition.is_some_and(|it| it.status == "True"), "{condition:?}");
        Ok(())
    })
    .await;

    // The next leader has kept nothing, and asks for all earlier windows at once.
    env.read_counters(&prometheus).await;
    check_load(&env).await;

    env.read_no_counters().await;
    delete_policy("ten-seconds").await;
}

/// Waits until all windows are read and enough of them can be used; they have the known increments.
async fn check_load(env: &TestEnv) {
    let load = wait_for("settled windows with data", TIMEOUT, async || {
        let load = env.load("counted").await?;
        let windows = load["windows"]["windows"].as_array().context("no windows")?;
        let settled = windows.iter().filter(|it| it["settled"] == true && it["hasData"] == true).count();
        ensure!(settled >= 4 && windows.len() == 16, "{settled} of {}: {windows:?}", windows.len());
        anyhow::Ok(load)
    })
    .await;
    check_windows(&load["windows"]);
    check_measured(&load["measured"]);
}

fn peer(env: &TestEnv, actor: &str) -> String {
    format!("{}/counted/{actor}", env.namespace.name())
}

/// Each window has exactly the known increments.
fn check_windows(file: &Value) {
    let windows = file["windows"].as_array().unwrap();
    let (messages, annoyance) = (pairs(&file["messages"]), pairs(&file["annoyance"]));
    let mut checked = 0;
    for (at, window) in windows.iter().enumerate().filter(|(_, window)| window["hasData"] == true) {
        assert_eq!(window["minScrapes"].as_u64(), Some(WINDOW), "{window}");
        let number = |value: &Value| value.as_f64().unwrap();
        let expected = [("a-0 b-0", 300.0), ("b-0 a-0", 70.0), ("c-0 a-0", 50.0)];
        for (pair, expected) in
            expected.into_iter().filter(|(pair, _)| !pair.starts_with('c') || is_even(window))
        {
            let seen = number(&messages[pair]["values"][at]);
            assert!((seen - expected).abs() < 1e-4, "{pair} {seen} {window}");
            checked += usize::from(pair.starts_with('c'));
        }
        let seen = number(&annoyance["b-0 a-0"]["values"][at]);
        assert!((seen - 122.0).abs() < 1e-3, "{seen}");
    }
    assert!(checked > 4, "{checked}");
    assert_eq!(messages.len(), 3, "{messages:?}");
}

/// The mean is in whole numbers.
fn check_measured(measured: &Value) {
    let count = |list: &str, pair: &str| pairs(&measured[list])[pair]["count"].as_u64();
    assert_eq!(count("messages", "a-0 b-0"), Some(300), "{measured}");
    assert_eq!(count("messages", "b-0 a-0"), Some(70), "{measured}");
    assert_eq!(count("annoyance", "b-0 a-0"), Some(122), "{measured}");
    assert_eq!(measured["work"]["a-0"]["cpu"], 2_500_000);
    assert_eq!(measured["work"]["b-0"]["cpu"], 5_000_000);
    assert_eq!(measured["work"]["d-0"]["cpu"], 5_000_000);
    assert_eq!(measured["work"]["e-0"]["cpu"], 3_750_000);
    assert_eq!((&measured["covered"], &measured["wanted"]), (&json!(5), &json!(5)));
}

/// Refused samples are counted by reason, and ticks are timed.
async fn check_metrics(env: &TestEnv) {
    let port = env.product.operator.port(8080).unwrap();
    wait_for("the metrics of the reader", TIMEOUT, async || {
        let text = http(port, "/metrics").await?.body;
        let value = |series: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
            value.with_context(|| format!("no {series}: {text}"))
        };
        for (reason, is_counted) in
            [("value", true), ("peer", true), ("unknown-pod", true), ("truncated", false)]
        {
            let count = value(&format!("cairn_operator_counters_refused_total{{reason=\"{reason}\"}}"))?;
            ensure!((count > 0.0) == is_counted, "{reason} {count}");
        }
        ensure!(value("cairn_operator_tick_seconds_count")? >= 16.0);
        ensure!(value("cairn_operator_counters_age_seconds{window=\"10s\"}")? < 60.0);
        Ok(())
    })
    .await;
}
