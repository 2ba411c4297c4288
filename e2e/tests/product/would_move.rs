//! Measured load: the condition `WouldMove` appears after the hot pair changed, and disappears when it changes back. Nothing moves.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::ensure;
use crds::Condition;
use e2e::{
    SimulatedNode, command, process::http, product::windows_between, prometheus::Prometheus, wait_for,
};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, apply_policy, cpus, delete_policy};
use crate::installation::cluster;

const POLICY: &str = "three-seconds";

/// A hub that exchanges messages with three workers, under a policy of this name with windows of three seconds; `of_policy` are
/// further parameters.
pub async fn apply_hub(env: &TestEnv, policy: &str, of_policy: &str) -> serde_json::Value {
    let text = format!("window: {WINDOW}s\nbudget: {{wall: 1s}}\n{of_policy}");
    apply_policy(policy, &text).await;
    let group = |name, replicas| (name, replicas, &[("cpu", "1us")][..]);
    let mut manifest = application("loaded", &[group("hub", 1), group("worker", 3)]);
    manifest["spec"]["channels"] =
        json!([{"from": "hub", "to": "worker", "rate": "1/s", "pattern": "AllToAll"}]);
    manifest["spec"]["policy"] = json!(policy);
    env.apply(&manifest).await;
    manifest
}

/// A worker beside the hub, and one on the other node.
pub fn workers_by_place(state: &AppState) -> (String, String) {
    let places = state.places();
    let worker = |beside_hub: bool| {
        let mut workers = (0..WORKERS).map(|worker| format!("worker-{worker}"));
        workers.find(|worker| (places[worker.as_str()] == places["hub-0"]) == beside_hub).unwrap()
    };
    (worker(true), worker(false))
}

/// Seconds of a window.
const WINDOW: u64 = 3;
/// Scrapes in a second.
const SCRAPES: u64 = 2;
/// Seconds from now in which another pair is hot: from, and until.
const CHANGED: (u64, u64) = (60, 100);
/// Seconds of samples before now.
const BEFORE: u64 = 60;
/// Seconds of samples after now in which the test ends, also on a busy machine.
pub const AFTER: u64 = 300;
/// Messages per second of the hot pair, and of the others.
const RATES: (u64, u64) = (1000, 10);
pub const WORKERS: usize = 3;

/// The messages from `hub-0` to each worker, of which one is hot, in the `OpenMetrics` format, for so many seconds after now.
pub fn samples(
    namespace: &str,
    (hot, then_hot): (&str, &str),
    changed: (u64, u64),
    (now, after): (u64, u64),
) -> String {
    let mut text = "# TYPE actor_channel_messages counter\n".to_owned();
    let times = || (0..(BEFORE + after) * SCRAPES).map(|scrape| (now - BEFORE) * SCRAPES + scrape);
    let stamp = |scrape: u64| format!("{}.{}", scrape / SCRAPES, (scrape % SCRAPES) * 10 / SCRAPES);
    let is_changed =
        |scrape: u64| ((now + changed.0) * SCRAPES..(now + changed.1) * SCRAPES).contains(&scrape);
    for worker in (0..WORKERS).map(|worker| format!("worker-{worker}")) {
        let mut count = 0;
        for scrape in times() {
            let is_hot = worker == if is_changed(scrape) { then_hot } else { hot };
            count += if is_hot { RATES.0 } else { RATES.1 };
            let labels = format!(
                "namespace=\"{namespace}\",pod=\"loaded-hub-0\",job=\"monitoring/cairn-actors\",actor=\"hub-0\",peer=\"{namespace}/loaded/{worker}\""
            );
            writeln!(text, "actor_channel_messages_total{{{labels}}} {} {}", count / SCRAPES, stamp(scrape))
                .unwrap();
        }
    }
    text += "# TYPE up gauge\n";
    for scrape in times() {
        let labels =
            format!("namespace=\"{namespace}\",pod=\"loaded-hub-0\",job=\"monitoring/cairn-actors\"");
        writeln!(text, "up{{{labels}}} 1 {}", stamp(scrape)).unwrap();
    }
    text + "# EOF\n"
}

pub fn condition<'a>(state: &'a AppState, type_: &str) -> Option<&'a Condition> {
    let status = state.application.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Waits until the condition `WouldMove` has this status and reason.
async fn wait_would_move(env: &TestEnv, status: &str, reason: &str) -> Condition {
    let state = env
        .wait_until("loaded", |state| {
            let condition = condition(state, "WouldMove");
            let has = |it: &&Condition| (it.status.as_str(), it.reason.as_str()) == (status, reason);
            ensure!(condition.is_some_and(|it| has(&it)), "{condition:?}");
            Ok(())
        })
        .await;
    condition(&state, "WouldMove").unwrap().clone()
}

/// The windows with data that lie between the change of the load, at this second, and the change of the condition.
async fn whole_windows(env: &TestEnv, changed_at: u64, condition: &Condition) -> usize {
    let load = env.load("loaded").await.unwrap();
    let until = condition.last_transition_time.0.as_second();
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let (first, until) = ((changed_at + WINDOW) as f64, until as f64);
    windows_between(&load, (first, until))
}

/// `kubectl cairn plan --windows` repeats the verdict of the operator's last search on the snapshot with the manifest's numbers.
async fn repeat_search(env: &TestEnv) {
    let folder = tempfile::tempdir().unwrap();
    let [snapshot, windows] = ["snapshot.json", "windows.json"].map(|name| folder.path().join(name));
    wait_for("the search is repeated", TIMEOUT, async || {
        let port = env.product.operator.port(8081)?;
        let base = http(port, &format!("/debug/snapshot/{}/loaded/manifest", env.namespace)).await?;
        let load = http(port, &format!("/debug/load/{}/loaded", env.namespace)).await?;
        ensure!((base.status, load.status) == (200, 200), "{} {}", base.body, load.body);
        std::fs::write(&snapshot, &base.body)?;
        std::fs::write(&windows, &load.body)?;
        let mut plan = cluster().kubectl_cairn()?;
        plan.args(["plan", "-o", "json", "--snapshot"]).arg(&snapshot).arg("--windows").arg(&windows);
        let report: Value = serde_json::from_str(&command::run(plan, "").await?.stdout)?;
        let load: Value = serde_json::from_str(&load.body)?;
        ensure!(report["load"]["outcome"] == load["search"]["outcome"], "{report:#} {load:#}");
        ensure!(report["load"]["repeats"] == true, "{report:#}");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_condition_would_move_follows_the_hot_pair_and_nothing_moves() {
    let cluster = cluster();
    // Two actors on each node.
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).cpu("1"));
    let mut env = TestEnv::new("loaded", nodes, [cpus()]).await;
    let mut manifest = apply_hub(&env, POLICY, "").await;
    let before = env.wait_reconciled("loaded", AppState::all_placed).await;
    let places = before.places();
    let (beside, elsewhere) = workers_by_place(&before);

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text = samples(env.namespace.name(), (&beside, &elsewhere), CHANGED, (now, AFTER));
    let prometheus = Prometheus::with_samples(cluster, &text).await.unwrap();
    env.read_counters(&prometheus).await;

    wait_would_move(&env, "False", "NoGain").await;
    let would = wait_would_move(&env, "True", "DryRun").await;
    let named = [format!("{elsewhere} from"), "hub-0 from".to_owned()];
    assert!(named.iter().any(|actor| would.message.contains(actor)), "{}", would.message);
    assert!(would.message.contains("since the load changed"), "{}", would.message);
    let windows = whole_windows(&env, now + CHANGED.0, &would).await;
    assert!(windows <= 3, "{windows} windows after the change");
    repeat_search(&env).await;
    wait_would_move(&env, "False", "NoGain").await;

    let state = env.wait_reconciled("loaded", AppState::all_placed).await;
    assert_eq!(state.places(), places, "nothing moved");
    let counters = state.application.status.as_ref().unwrap().counters.unwrap();
    assert_eq!((counters.covered, counters.wanted), (1, 4), "only the hub reports");

    // `Off`: the manifest's numbers hold, and nothing is reported.
    manifest["spec"]["rebalance"] = json!("Off");
    env.apply(&manifest).await;
    env.wait_until("loaded", |state| {
        ensure!(condition(state, "WouldMove").is_none(), "{:?}", condition(state, "WouldMove"));
        ensure!(state.application.status.as_ref().is_some_and(|status| status.counters.is_none()));
        Ok(())
    })
    .await;

    env.read_no_counters().await;
    delete_policy(POLICY).await;
}
