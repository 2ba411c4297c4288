//! Outcomes of moves for measured load, with counters that the test sets as the actors move: a trap, in which moved actors are slower
//! at their new places, and an operator that is killed while it judges.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::ensure;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use crds::{MoveStep, OutcomeVerdict};
use e2e::product::NAMESPACE;
use e2e::{Gate, SimulatedNode, bench::size, gate::WRITES, process::http, prometheus::Prometheus, wait_for};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::elective_moves::{history, moves, outcomes};
use crate::env::{AppState, TIMEOUT, TestEnv, cpus, delete_policy};
use crate::installation::cluster;
use crate::would_move::{WORKERS, apply_hub, condition, workers_by_place};

/// Messages per second from outside to each worker, and from the hub to the hot one and to the others.
const OUTSIDE: f64 = 500.0;
const HOT: f64 = 1000.0;
const COLD: f64 = 10.0;
/// Seconds per message, and by which factor actors that were moved are slower.
const SERVICE: f64 = 1e-5;
const SLOWER: f64 = 3.0;

/// Actors whose counters grow at rates that the test sets.
struct Actors {
    namespace: String,
    counted: Mutex<Counted>,
}

struct Counted {
    at: Instant,
    hot: String,
    /// Actors that are slower than before.
    slow: BTreeSet<String>,
    /// Messages from the hub to each worker.
    sent: [f64; WORKERS],
    /// By actor, the hub last: processed messages, and seconds that they took.
    processed: [(f64, f64); WORKERS + 1],
}

fn name(actor: usize) -> String {
    if actor == WORKERS { "hub-0".to_owned() } else { format!("worker-{actor}") }
}

impl Counted {
    /// Counts until now. A slow actor processes as much less as it takes longer; what is sent to it stays the same.
    fn count(&mut self) {
        let seconds = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        for actor in 0..=WORKERS {
            let factor = if self.slow.contains(&name(actor)) { SLOWER } else { 1.0 };
            let sent = if name(actor) == self.hot { HOT } else { COLD };
            if let Some(count) = self.sent.get_mut(actor) {
                *count += sent * seconds;
            }
            let processed = OUTSIDE / factor * seconds;
            self.processed[actor].0 += processed;
            self.processed[actor].1 += processed * SERVICE * factor;
        }
    }
}

impl Actors {
    fn new(namespace: &str, hot: &str) -> Arc<Self> {
        let (hot, slow) = (hot.to_owned(), BTreeSet::new());
        let (sent, processed) = ([0.0; WORKERS], [(0.0, 0.0); WORKERS + 1]);
        let counted = Counted { at: Instant::now(), hot, slow, sent, processed };
        Arc::new(Self { namespace: namespace.to_owned(), counted: Mutex::new(counted) })
    }

    /// From now on these hold.
    fn change(&self, change: impl FnOnce(&mut Counted)) {
        let mut counted = self.counted.lock().unwrap();
        counted.count();
        change(&mut counted);
    }

    /// What the pod of an actor exposes.
    fn metrics(&self, actor: &str) -> String {
        let mut counted = self.counted.lock().unwrap();
        counted.count();
        let position = (0..=WORKERS).find(|at| name(*at) == actor).unwrap();
        let mut text = String::new();
        let (processed, seconds) = counted.processed[position];
        for (metric, value) in
            [("actor_messages_processed_total", processed), ("actor_busy_seconds_total", seconds)]
        {
            writeln!(text, "# TYPE {metric} counter\n{metric}{{actor=\"{actor}\"}} {value}").unwrap();
        }
        if position == WORKERS {
            let application = format!("{}/loaded", self.namespace);
            writeln!(text, "# TYPE actor_channel_messages_total counter").unwrap();
            for (worker, sent) in counted.sent.iter().enumerate() {
                let peer = format!("{application}/{}", name(worker));
                writeln!(text, "actor_channel_messages_total{{actor=\"hub-0\",peer=\"{peer}\"}} {sent}")
                    .unwrap();
            }
        }
        text
    }

    /// The configuration of a Prometheus that scrapes them.
    async fn serve(self: &Arc<Self>) -> Value {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let page = async |State(actors): State<Arc<Self>>, Path(actor): Path<String>| actors.metrics(&actor);
        let pages = Router::new().route("/{actor}", get(page)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, pages).await });
        let target = |actor: String| {
            let labels = json!({"namespace": self.namespace, "pod": format!("loaded-{actor}"), "__metrics_path__": format!("/{actor}")});
            json!({"targets": [address], "labels": labels})
        };
        let targets: Vec<Value> = (0..=WORKERS).map(name).map(target).collect();
        json!({"scrape_configs": [{"job_name": "monitoring/cairn-actors", "scrape_interval": "500ms", "scrape_timeout": "500ms",
            "static_configs": targets}]})
    }
}

/// Whether the condition `WouldMove` has one of these reasons.
fn has_reason(state: &AppState, reasons: &[&str]) -> anyhow::Result<()> {
    let condition = condition(state, "WouldMove");
    ensure!(condition.is_some_and(|it| reasons.contains(&it.reason.as_str())), "{condition:?}");
    Ok(())
}

/// Actors on two full nodes, of which the one beside the hub is hot. The operator has looked for moves and found none.
async fn hot_beside_hub(name: &'static str) -> (TestEnv, Arc<Actors>, Prometheus) {
    let nodes = ["one", "two"].map(|node| SimulatedNode::new(node).cpu("1"));
    let mut env = TestEnv::new(name, nodes, [cpus()]).await;
    apply_hub(&env, name, "rebalance: {mode: \"On\", giveUp: 30s}\n").await;
    let placed = env.wait_reconciled("loaded", AppState::all_placed).await;
    let (beside, _) = workers_by_place(&placed);
    let actors = Actors::new(env.namespace.name(), &beside);
    let (prometheus, _) = cluster().reloading_prometheus(&actors.serve().await).await.unwrap();
    env.read_counters(&prometheus).await;
    env.wait_until("loaded", |state| has_reason(state, &["NoGain"])).await;
    (env, actors, prometheus)
}

/// Makes the worker hot that is not beside the hub.
async fn change_hot_pair(env: &TestEnv, actors: &Actors) {
    let (_, elsewhere) = workers_by_place(&env.observe("loaded").await.unwrap());
    actors.change(|counted| counted.hot = elsewhere);
}

#[tokio::test]
async fn moves_that_make_actors_slower_are_a_loss_and_the_next_ones_wait() {
    const NAME: &str = "trap";
    let (mut env, actors, _prometheus) = hot_beside_hub(NAME).await;
    change_hot_pair(&env, &actors).await;
    let moved = env
        .wait_until("loaded", |state| {
            ensure!(!moves(state).is_empty(), "no moves");
            Ok(())
        })
        .await;
    let movers: BTreeSet<String> = moves(&moved).iter().map(|it| it.actor.clone()).collect();
    actors.change(|counted| counted.slow = movers);
    env.wait_event("loaded", "MoveJudged", "loss").await;
    let judged = env.wait_until("loaded", |state| has_reason(state, &["Waiting"])).await;
    // The messages between the actors, which are the same as before, promise the gain still.
    for it in moves(&judged) {
        assert!(it.realised_percent.unwrap() > 0, "{it:?}");
    }
    let shown = history(&env, "loaded").await;
    assert!(shown.contains("loss"), "{shown}");
    wait_for("the loss is counted", TIMEOUT, async || {
        let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
        ensure!(text.contains("cairn_operator_move_outcomes_total{outcome=\"loss\"} 1"), "it is not");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(judged.places(), env.observe("loaded").await.unwrap().places(), "nothing moves meanwhile");
    env.read_no_counters().await;
    delete_policy(NAME).await;
}

/// Writes before which the operator is killed, from the end of the moves on, unless `CAIRN_OUTCOME_KILLS` says how many.
const KILLS: u64 = 2;

/// The operator is killed before each of its writes while it judges moves, and so after each of them; the next one judges them once.
/// Prints a table row for the results.
#[tokio::test]
async fn the_next_operator_judges_moves_once() {
    const NAME: &str = "judged";
    let (mut env, actors, prometheus) = hot_beside_hub(NAME).await;
    let user = format!("system:serviceaccount:{NAMESPACE}:{}", e2e::product::OPERATOR);
    let kills = usize::try_from(size("CAIRN_OUTCOME_KILLS", KILLS).unwrap()).unwrap();
    for written in 0..kills {
        change_hot_pair(&env, &actors).await;
        let all = |step: MoveStep| {
            move |state: &AppState| {
                ensure!(!moves(state).is_empty(), "no moves");
                ensure!(moves(state).iter().all(|it| it.step == step), "{:?}", moves(state));
                Ok(())
            }
        };
        env.wait_until("loaded", all(MoveStep::Running)).await;
        let gate = Gate::close_writes(cluster(), &env.namespace, user.clone(), written).await.unwrap();
        let is_judged = all(MoveStep::Judged);
        wait_for("a write is held, or none is left", TIMEOUT, async || {
            let is_held = gate.held(WRITES) > 0;
            ensure!(is_held || env.observe("loaded").await.is_ok_and(|state| is_judged(&state).is_ok()));
            anyhow::Ok(())
        })
        .await;
        env.product.operator.kill9().await.unwrap();
        gate.open();
        env.start_reading(&prometheus.url().unwrap()).await;
        let judged = env.wait_until("loaded", is_judged).await;
        for it in moves(&judged) {
            assert!(it.realised_percent.is_some(), "{it:?}");
        }
        let decisions = written + 1;
        let outcomes = outcomes(&env, "loaded").await;
        assert_eq!(outcomes.len(), decisions, "{outcomes:?}");
        assert!(outcomes.iter().all(|it| it.verdict == OutcomeVerdict::Paid), "{outcomes:?}");
        env.wait_until("loaded", |state| has_reason(state, &["NoGain", "SmallGain", "UncertainGain"])).await;
    }
    // A table row for the results.
    println!("| {kills} | {} |", outcomes(&env, "loaded").await.len());
    env.read_no_counters().await;
    delete_policy(NAME).await;
}
