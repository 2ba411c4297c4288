//! Answers of Prometheus with bad facts: nothing would move, the reason is counted, and the operator stays small.

use std::fmt::{self, Display, Formatter, Write as _};
use std::fs;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Router, body::Bytes};
use e2e::{
    SimulatedNode, bench::size, process::http, product::windows_between, prometheus::Prometheus, wait_for,
};
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::env::{AppState, TIMEOUT, TestEnv, delete_policy};
use crate::installation::cluster;
use crate::would_move::{AFTER, apply_hub, condition, samples, workers_by_place};

/// The policy of the application.
const POLICY: &str = "bad-counters";
/// Windows with each fault, unless `CAIRN_BAD_WINDOWS` says how many.
const WINDOWS: u64 = 2;
/// Resident memory that the operator may have at most.
const MAX_MEGABYTES: u64 = 300;
/// Windows that the operator keeps.
const KEPT: u64 = 16;
/// Samples of a part of a large answer.
const PART: usize = 1000;
/// Seconds by which samples are late.
const LATE: f64 = 600.0;
/// Seconds by which the clock of Prometheus is ahead of the operator's.
const CLOCKS: [i64; 2] = [60, -60];
/// The series that a second Prometheus has of foreign pods, unless `CAIRN_FOREIGN_SERIES` says how many.
const FOREIGN_SERIES: u64 = 1000;
/// When that one has them, in seconds since 1970: more than two samples of a window, as a rate needs.
const FOREIGN_SECONDS: [u64; 3] = [1_750_000_001, 1_750_000_002, 1_750_000_003];

/// What is wrong with the answers to the query for messages.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    /// All have this value.
    Value(&'static str),
    /// So many more, of this actor of the hub's pod to this peer.
    Added {
        count: usize,
        actor: &'static str,
        peer: Peer,
        value: &'static str,
    },
    /// So many more, of another pod.
    Foreign {
        count: usize,
    },
    /// A warning says that not all are there.
    Cut,
    Status,
    Silence,
    /// Those of another Prometheus, which has only foreign pods.
    ForeignSeries,
    /// All samples arrive ten minutes late, so that a window has none when it is asked for.
    Late,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "as they are"),
            Self::Value(value) => write!(f, "all {value}"),
            Self::Added { count, actor, peer, value } => {
                let peer = match peer {
                    Peer::Elsewhere => "to an actor elsewhere",
                    Peer::OtherNamespace => "to an actor of another namespace",
                    Peer::Unknown => "to actors that do not exist",
                };
                write!(f, "{count} more of the hub's pod, from {actor} {peer}, of {value}")
            }
            Self::Foreign { count } => write!(f, "{count} more of foreign pods"),
            Self::Cut => write!(f, "incomplete by a warning"),
            Self::Status => write!(f, "status 500"),
            Self::Silence => write!(f, "no answer"),
            Self::ForeignSeries => write!(f, "of foreign pods alone, as series of a real Prometheus"),
            Self::Late => write!(f, "ten minutes late"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    /// The worker that is on the other node than the hub.
    Elsewhere,
    /// It, but of an application in another namespace.
    OtherNamespace,
    /// Actors that do not exist, each another one.
    Unknown,
}

/// Each fault with the reasons under which it is counted: on a busy machine a large answer may come too late.
const FAULTS: [(Fault, &[&str]); 15] = [
    (Fault::Value("NaN"), &["value"]),
    (Fault::Value("+Inf"), &["value"]),
    (Fault::Value("-1"), &["value"]),
    (Fault::Value("1e300"), &["value"]),
    (Fault::Added { count: 1, actor: "worker-0", peer: Peer::Elsewhere, value: "1e9" }, &["actor"]),
    (Fault::Added { count: 1, actor: "hub-0", peer: Peer::OtherNamespace, value: "1e9" }, &["peer"]),
    (Fault::Added { count: 9000, actor: "hub-0", peer: Peer::Unknown, value: "1" }, &["pairs"]),
    // As many as are read, one more than Prometheus sends at the operator's limit, and as many as there may be without it.
    (Fault::Foreign { count: 199_990 }, &["unknown-pod", "unanswered"]),
    (Fault::Foreign { count: 200_001 }, &["truncated", "unanswered"]),
    (Fault::Foreign { count: 1_000_000 }, &["truncated", "unanswered"]),
    (Fault::ForeignSeries, &["unknown-pod", "truncated", "unanswered"]),
    (Fault::Cut, &["truncated"]),
    (Fault::Status, &["unanswered"]),
    (Fault::Silence, &["unanswered"]),
    (Fault::Late, &["unanswered"]),
];

/// Forwards queries to a real Prometheus, and makes the answers bad.
#[derive(Clone)]
struct BadPrometheus {
    /// The port of the real one.
    real: u16,
    /// The port of another one, which has only series of foreign pods.
    foreign: u16,
    namespace: Arc<str>,
    /// The worker on the other node.
    elsewhere: Arc<str>,
    fault: Arc<Mutex<Fault>>,
    /// When the run began, in seconds since 1970; the first samples are a minute older.
    began: f64,
    /// Seconds by which its clock is ahead.
    ahead: Arc<AtomicI64>,
    /// Queries for messages with this fault.
    asked: Arc<AtomicU64>,
}

impl BadPrometheus {
    /// Serves on loopback; returns the URL.
    async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let pages = Router::new().route("/api/v1/query", post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, pages).await });
        url
    }

    /// The answer of the real Prometheus, with the times of this one.
    async fn ask(&self, form: &str, fault: Fault) -> anyhow::Result<Value> {
        #[expect(clippy::cast_precision_loss, reason = "a minute")]
        let ahead = self.ahead.load(Ordering::SeqCst) as f64;
        let parameters = form.split('&');
        let asked = parameters.clone().find_map(|it| it.strip_prefix("time="));
        let asked = asked.map(str::parse::<f64>).transpose()?.map(|time| time - ahead);
        // Nothing had arrived then.
        let late = matches!(fault, Fault::Late).then_some(self.began - LATE);
        let mut form = parameters.filter(|it| !it.starts_with("time=")).collect::<Vec<_>>().join("&");
        if let Some(time) = late.or(asked) {
            write!(form, "&time={time:.3}")?;
        }
        let answer = http(self.real, &format!("/api/v1/query?{form}")).await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
        let mut answer: Value = serde_json::from_str(&answer.body)?;
        for sample in answer["data"]["result"].as_array_mut().context("an instant vector")? {
            let time = sample["value"][0].as_f64().context("a time")?;
            sample["value"][0] = json!(time + ahead);
        }
        Ok(answer)
    }

    /// The answer of the Prometheus that has only foreign pods, as if its samples were of the time that is asked for.
    async fn ask_for_foreign(&self, form: &str) -> anyhow::Result<Response> {
        let (times, others): (Vec<&str>, Vec<&str>) =
            form.split('&').partition(|parameter| parameter.starts_with("time="));
        let asked = times.first().and_then(|time| Some(time.split_once('=')?.1.to_owned()));
        let form = others.join("&");
        let time = FOREIGN_SECONDS[FOREIGN_SECONDS.len() - 1];
        let answer = http(self.foreign, &format!("/api/v1/query?{form}&time={time}")).await?;
        let asked = asked.unwrap_or_else(|| format!("{:.3}", since_1970().as_secs_f64()));
        let body = answer.body.replace(&format!("[{time},"), &format!("[{asked},"));
        Ok((StatusCode::from_u16(answer.status)?, body).into_response())
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
        self.asked.store(0, Ordering::SeqCst);
    }

    /// A sample that the real Prometheus does not have, at this time, after a comma.
    fn sample(&self, fault: Fault, number: usize, at: &Value) -> String {
        let (namespace, elsewhere) = (&self.namespace, &self.elsewhere);
        let (labels, value) = if let Fault::Added { actor, peer, value, .. } = fault {
            let peer = match peer {
                Peer::Elsewhere => format!("{namespace}/loaded/{elsewhere}"),
                Peer::OtherNamespace => format!("other/loaded/{elsewhere}"),
                Peer::Unknown => format!("{namespace}/loaded/gone-{number}"),
            };
            let pod = format!(r#""namespace":"{namespace}","pod":"loaded-hub-0""#);
            (format!(r#"{pod},"actor":"{actor}","peer":"{peer}""#), value)
        } else {
            let pod = format!(r#""namespace":"foreign","pod":"loaded-hub-{number}""#);
            (format!(r#"{pod},"actor":"hub-0","peer":"foreign/loaded/{elsewhere}""#), "1e9")
        };
        format!(r#",{{"metric":{{{labels}}},"value":[{at},"{value}"]}}"#)
    }
}

async fn answer(State(bad): State<BadPrometheus>, form: String) -> Response {
    let is_of_messages = form.contains("actor_channel_messages_total");
    let fault = match *bad.fault.lock().unwrap() {
        fault if is_of_messages || matches!(fault, Fault::Late) => fault,
        _ => Fault::Nothing,
    };
    bad.asked.fetch_add(u64::from(is_of_messages), Ordering::SeqCst);
    let failed = |error: anyhow::Error| (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response();
    if matches!(fault, Fault::ForeignSeries) {
        return bad.ask_for_foreign(&form).await.unwrap_or_else(failed);
    }
    let mut real = match bad.ask(&form, fault).await {
        Ok(real) => real,
        Err(error) => return failed(error),
    };
    let mut count = 0;
    match fault {
        Fault::Nothing | Fault::Late | Fault::ForeignSeries => {}
        Fault::Value(value) => {
            for sample in real["data"]["result"].as_array_mut().unwrap() {
                sample["value"][1] = json!(value);
            }
        }
        Fault::Cut => real["warnings"] = json!(["results truncated due to limit"]),
        Fault::Status => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Fault::Silence => std::future::pending().await,
        Fault::Added { count: more, .. } | Fault::Foreign { count: more } => count = more,
    }
    if count == 0 {
        return real.to_string().into_response();
    }
    // In parts, so that this process stays small, too.
    let result = real["data"]["result"].take();
    let at = result[0]["value"][0].clone();
    real["data"]["result"] = json!("all");
    let text = real.to_string();
    let (head, tail) = text.split_once("\"all\"").expect("the result has been replaced");
    let real = result.as_array().expect("an instant vector").iter().map(Value::to_string);
    let head = format!("{head}[{}", real.collect::<Vec<_>>().join(","));
    let tail = format!("]{tail}");
    let middle = (0..count.div_ceil(PART)).map(move |part| {
        let numbers = part * PART..((part + 1) * PART).min(count);
        numbers.map(|number| bad.sample(fault, number, &at)).collect::<String>()
    });
    let parts = std::iter::once(head).chain(middle).chain([tail]);
    let parts = parts.map(|part| Ok::<_, std::convert::Infallible>(Bytes::from(part)));
    Body::from_stream(stream::iter(parts)).into_response()
}

/// The time since 1970.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Messages of so many pods that are not of the application, in the `OpenMetrics` format.
fn foreign_samples(count: u64) -> String {
    let mut text = "# TYPE actor_channel_messages counter\n".to_owned();
    for pod in 0..count {
        for (at, second) in FOREIGN_SECONDS.iter().enumerate() {
            writeln!(
                text,
                "actor_channel_messages_total{{namespace=\"foreign\",pod=\"pod-{pod}\",job=\"cairn-actors\",actor=\"hub-0\",peer=\"foreign/loaded/worker-0\"}} {} {second}",
                at * 1000
            )
            .unwrap();
        }
    }
    text + "# EOF\n"
}

/// The sum of the operator's series with one of these prefixes.
async fn counted(env: &TestEnv, prefixes: &[String]) -> anyhow::Result<f64> {
    let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
    let lines = text.lines().filter(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}

/// How often something would move.
async fn would_moves(env: &TestEnv) -> anyhow::Result<f64> {
    counted(env, &["cairn_operator_load_decisions_total{verdict=\"pays\"}".to_owned()]).await
}

/// The samples and windows that were refused for one of these reasons.
async fn refused(env: &TestEnv, reasons: &[&str]) -> anyhow::Result<f64> {
    let series = |reason: &&str| format!("cairn_operator_counters_refused_total{{reason=\"{reason}\"}}");
    counted(env, &reasons.iter().map(series).collect::<Vec<_>>()).await
}

/// Waits until the operator has judged that nothing should move.
async fn wait_no_gain(env: &TestEnv) {
    env.wait_until("loaded", |state| {
        let condition = condition(state, "WouldMove");
        ensure!(condition.is_some_and(|it| it.reason == "NoGain"), "{condition:?}");
        Ok(())
    })
    .await;
}

/// Prints table rows for the results.
#[tokio::test]
async fn bad_facts_move_nothing_are_counted_and_take_little_memory() {
    let windows = size("CAIRN_BAD_WINDOWS", WINDOWS).unwrap();
    // A run that was interrupted goes on.
    let skipped = usize::try_from(size("CAIRN_BAD_SKIP", 0).unwrap()).unwrap();
    let foreign_series = size("CAIRN_FOREIGN_SERIES", FOREIGN_SERIES).unwrap();
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).cpu("1"));
    let mut env = TestEnv::new("bad", nodes, [crate::env::cpus()]).await;
    apply_hub(&env, POLICY, "").await;
    let before = env.wait_reconciled("loaded", AppState::all_placed).await;
    let (beside, elsewhere) = workers_by_place(&before);

    let foreign = Prometheus::with_samples(cluster(), &foreign_samples(foreign_series)).await.unwrap();
    // The hot pair is on one node; if the added samples were true, it would be another one.
    let seconds = AFTER * (windows + 4);
    let text = samples(env.namespace.name(), (&beside, &beside), (0, 0), (since_1970().as_secs(), seconds));
    let prometheus = Prometheus::with_samples(cluster(), &text).await.unwrap();
    let bad = BadPrometheus {
        real: prometheus.port(),
        foreign: foreign.port(),
        namespace: env.namespace.name().into(),
        elsewhere: elsewhere.into(),
        fault: Arc::new(Mutex::new(Fault::Nothing)),
        began: since_1970().as_secs_f64(),
        ahead: Arc::default(),
        asked: Arc::default(),
    };
    let url = bad.serve().await;
    env.read_counters_at(&url).await;
    wait_no_gain(&env).await;

    let process = env.product.operator.pid();
    for (fault, reasons) in FAULTS.into_iter().skip(skipped) {
        let before = refused(&env, reasons).await.unwrap();
        // The peak begins anew.
        fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
        bad.set(fault);
        wait_for(&format!("{windows} windows with {fault:?}"), TIMEOUT, async || {
            let asked = bad.asked.load(Ordering::SeqCst);
            // The last one is judged when the next one is read.
            ensure!(asked > windows, "{asked}");
            let now = refused(&env, reasons).await?;
            #[expect(clippy::cast_precision_loss, reason = "a few windows")]
            let wanted = before + windows as f64;
            ensure!(now >= wanted, "{now} refused for {reasons:?}, {wanted} wanted");
            anyhow::Ok(())
        })
        .await;
        let peak = (env.product.operator.rss_peak_kib().unwrap() * 1024).div_ceil(1_000_000);
        println!("| {fault} | {windows} | {} | {peak} |", reasons.join(", "));
        assert!(peak < MAX_MEGABYTES, "{peak} MB with {fault:?}");
        assert!(would_moves(&env).await.unwrap() < 0.5, "something would move with {fault:?}");
    }
    for ahead in CLOCKS {
        follow_clock(&mut env, (&bad, &url), ahead, windows).await;
    }

    // Nothing moved because the samples were refused: as facts of the hub itself they are followed.
    bad.set(Fault::Added { count: 1, actor: "hub-0", peer: Peer::Elsewhere, value: "1e9" });
    wait_for("true samples are followed", TIMEOUT, async || {
        let would_moves = would_moves(&env).await?;
        ensure!(would_moves > 0.5, "{would_moves}");
        anyhow::Ok(())
    })
    .await;
    let state = env.wait_reconciled("loaded", AppState::all_placed).await;
    assert_eq!(state.places(), before.places(), "nothing moved");
    env.read_no_counters().await;
    delete_policy(POLICY).await;
}

/// A new operator, for whose clock Prometheus' one is wrong, reads the samples as they are: none is refused, nothing would move.
async fn follow_clock(env: &mut TestEnv, (bad, url): (&BadPrometheus, &str), ahead: i64, windows: u64) {
    bad.set(Fault::Nothing);
    bad.ahead.store(ahead, Ordering::SeqCst);
    #[expect(clippy::cast_precision_loss, reason = "a minute")]
    let begin = since_1970().as_secs_f64() + ahead as f64;
    env.read_counters_at(url).await;
    wait_for(&format!("{windows} windows with a clock of {ahead} s"), TIMEOUT, async || {
        let load = env.load("loaded").await?;
        ensure!(load["search"].is_object(), "nothing was searched: {load:#}");
        let read = windows_between(&load, (begin, f64::MAX)) as u64;
        ensure!(read > windows.min(KEPT - 1), "{read}");
        anyhow::Ok(())
    })
    .await;
    wait_no_gain(env).await;
    let peak = (env.product.operator.rss_peak_kib().unwrap() * 1024).div_ceil(1_000_000);
    println!("| as they are, of a clock that is {ahead} s ahead | {windows} | | {peak} |");
    // On a busy machine an answer may come too late.
    let reasons = FAULTS.iter().flat_map(|(_, reasons)| *reasons).filter(|it| **it != "unanswered");
    let reasons: Vec<_> = reasons.copied().collect();
    assert!(refused(env, &reasons).await.unwrap() < 0.5, "samples are refused with a clock of {ahead} s");
    assert!(would_moves(env).await.unwrap() < 0.5, "something would move with a clock of {ahead} s");
}
