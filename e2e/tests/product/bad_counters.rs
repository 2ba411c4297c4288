//! Answers of Prometheus with bad facts: nothing would move, the reason is counted, and the operator stays small.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Router, body::Bytes};
use e2e::{SimulatedNode, bench::size, process::http, prometheus::Prometheus, wait_for};
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
/// Samples of a part of a large answer.
const PART: usize = 1000;

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
    /// None has arrived for this window, in any answer.
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
            Self::Late => write!(f, "none has arrived yet"),
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
const FAULTS: [(Fault, &[&str]); 14] = [
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
    namespace: Arc<str>,
    /// The worker on the other node.
    elsewhere: Arc<str>,
    fault: Arc<Mutex<Fault>>,
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

    /// The answer of the real Prometheus.
    async fn ask(&self, form: &str) -> anyhow::Result<Value> {
        let answer = http(self.real, &format!("/api/v1/query?{form}")).await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
        Ok(serde_json::from_str(&answer.body)?)
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
    let mut real = match bad.ask(&form).await {
        Ok(real) => real,
        Err(error) => return (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    };
    let mut count = 0;
    match fault {
        Fault::Nothing => {}
        Fault::Late => real["data"]["result"] = json!([]),
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

/// The sum of the operator's counters with one of these prefixes.
async fn counted(env: &TestEnv, series: &[String]) -> anyhow::Result<f64> {
    let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
    let value = |line: &str| series.iter().find_map(|it| line.strip_prefix(it)?.trim().parse::<f64>().ok());
    Ok(text.lines().filter_map(value).sum())
}

/// Prints table rows for the results.
#[tokio::test]
async fn bad_facts_move_nothing_are_counted_and_take_little_memory() {
    let windows = size("CAIRN_BAD_WINDOWS", WINDOWS).unwrap();
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).cpu("1"));
    let mut env = TestEnv::new("bad", nodes, [crate::env::cpus()]).await;
    apply_hub(&env, POLICY, "").await;
    let before = env.wait_reconciled("loaded", AppState::all_placed).await;
    let (beside, elsewhere) = workers_by_place(&before);

    // The hot pair is on one node; if the added samples were true, it would be another one.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seconds = AFTER * (windows + 4);
    let text = samples(env.namespace.name(), (&beside, &beside), (0, 0), (now, seconds));
    let prometheus = Prometheus::with_samples(cluster(), &text).await.unwrap();
    let bad = BadPrometheus {
        real: prometheus.port(),
        namespace: env.namespace.name().into(),
        elsewhere: elsewhere.into(),
        fault: Arc::new(Mutex::new(Fault::Nothing)),
        asked: Arc::default(),
    };
    let url = bad.serve().await;
    env.read_counters_at(&url).await;
    env.wait_until("loaded", |state| {
        let condition = condition(state, "WouldMove");
        ensure!(condition.is_some_and(|it| it.reason == "NoGain"), "{condition:?}");
        Ok(())
    })
    .await;

    let process = env.product.operator.pid();
    let pays = ["cairn_operator_load_decisions_total{verdict=\"pays\"}".to_owned()];
    for (fault, reasons) in FAULTS {
        let series =
            reasons.iter().map(|it| format!("cairn_operator_counters_refused_total{{reason=\"{it}\"}}"));
        let series: Vec<_> = series.collect();
        let refused = counted(&env, &series).await.unwrap();
        // The peak begins anew.
        fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
        bad.set(fault);
        wait_for(&format!("{windows} windows with {fault:?}"), TIMEOUT, async || {
            let asked = bad.asked.load(Ordering::SeqCst);
            // The last one is judged when the next one is read.
            ensure!(asked > windows, "{asked}");
            let now = counted(&env, &series).await?;
            #[expect(clippy::cast_precision_loss, reason = "a few windows")]
            let wanted = refused + windows as f64;
            ensure!(now >= wanted, "{now} refused for {reasons:?}, {wanted} wanted");
            anyhow::Ok(())
        })
        .await;
        let peak = (env.product.operator.rss_peak_kib().unwrap() * 1024).div_ceil(1_000_000);
        println!("| {fault} | {windows} | {} | {peak} |", reasons.join(", "));
        assert!(peak < MAX_MEGABYTES, "{peak} MB with {fault:?}");
        assert!(counted(&env, &pays).await.unwrap() < 0.5, "something would move with {fault:?}");
    }
    let state = env.wait_reconciled("loaded", AppState::all_placed).await;
    assert_eq!(state.places(), before.places(), "nothing moved");
    env.read_no_counters().await;
    delete_policy(POLICY).await;
}
