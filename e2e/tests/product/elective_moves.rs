//! Moves that are made for a gain: for measured load, one after the other, and back if they fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use crds::{MoveDecision, MoveOutcome, MoveProgress, MoveStep, labels};
use e2e::{
    Gate, SimulatedNode,
    bench::size,
    gate::WRITES,
    pods::{is_ready, ready_since},
    process::http,
    product::NAMESPACE,
    prometheus::Prometheus,
    wait_for,
};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::env::{AppState, PodHistory, TIMEOUT, TestEnv, application, apply_policy, cpus, delete_policy};
use crate::installation::cluster;
use crate::would_move::{AFTER, apply_hub, samples, workers_by_place};

/// The policy of the application whose hot pair changes.
const POLICY: &str = "moves";

pub fn moves(state: &AppState) -> &[MoveProgress] {
    state.decision.as_ref().and_then(|decision| decision.status.as_ref()).map_or(&[], |it| &it.moves)
}

/// The most actors of a group that were not ready at the same time, after all were.
fn most_down(history: &PodHistory, wanted: usize) -> usize {
    let (mut ready, mut all_were, mut most) = (BTreeSet::new(), false, 0);
    for pod in history.states() {
        let actor = pod.labels().get(labels::ACTOR).cloned().unwrap_or_default();
        if !actor.starts_with("a-") {
            continue;
        }
        if is_ready(&pod) {
            ready.insert((actor, pod.uid()));
        } else {
            ready.remove(&(actor, pod.uid()));
        }
        all_were |= ready.len() == wanted;
        if all_were {
            most = most.max(wanted - ready.len().min(wanted));
        }
    }
    most
}

/// The output of `kubectl cairn history`.
pub async fn history(env: &TestEnv, name: &str) -> String {
    let mut command = cluster().kubectl_cairn().unwrap();
    let output = command.args(["history", name, "-n", env.namespace.name()]).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// The history of an application.
async fn revisions(env: &TestEnv, name: &str) -> Vec<ControllerRevision> {
    let (of_it, history) = (labels::APPLICATION, labels::HISTORY);
    let of_it = ListParams::default().labels(&format!("{of_it}={name},{history}={}", labels::MOVES));
    env.api::<ControllerRevision>().list(&of_it).await.unwrap().items
}

/// The outcomes in the history of an application.
pub async fn outcomes(env: &TestEnv, name: &str) -> Vec<MoveOutcome> {
    let revisions = revisions(env, name).await;
    let texts = revisions.iter().filter_map(|it| it.annotations().get(labels::OUTCOME));
    texts.map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// How often each actor of an application was moved, by its history, in which each decision stands once.
async fn moves_in_history(env: &TestEnv, name: &str) -> BTreeMap<String, usize> {
    let (mut moved, mut decided) = (BTreeMap::new(), Vec::new());
    for revision in revisions(env, name).await {
        let decision: MoveDecision = serde_json::from_value(revision.data.unwrap().0).unwrap();
        assert!(!decided.contains(&decision.decided_at), "{:?} stands twice", decision.decided_at);
        decided.push(decision.decided_at);
        for it in decision.moves {
            *moved.entry(it.actor).or_default() += 1;
        }
    }
    moved
}

/// How many pods of each actor of an application were evicted, by the audit log. A pod that is being deleted may be evicted again, until
/// the watch delivers the deletion.
async fn evictions(env: &TestEnv, name: &str) -> BTreeMap<String, usize> {
    let log = cluster().audit().await.unwrap();
    let (mut evicted, mut stopping) = (BTreeMap::new(), BTreeSet::new());
    for event in log.events().iter().filter(|event| event.namespace == env.namespace.name()) {
        if (event.resource.as_str(), event.subresource.as_str(), event.verb.as_str())
            == ("pods", "", "create")
        {
            // The request of a creation may have no name.
            let created = event.request["metadata"]["name"].as_str().unwrap_or(&event.name);
            if !event.is_trial() && (200..300).contains(&event.code) {
                stopping.remove(created);
            }
        }
        let is_eviction = (event.resource.as_str(), event.subresource.as_str()) == ("pods", "eviction");
        let is_done = (200..300).contains(&event.code) && !event.is_trial();
        let actor = event.name.strip_prefix(&format!("{name}-"));
        if is_eviction && is_done && stopping.insert(event.name.clone()) {
            *evicted.entry(actor.unwrap_or(&event.name).to_owned()).or_default() += 1;
        }
    }
    evicted
}

/// Waits until the operator's metrics show moves that were judged.
async fn wait_metrics(env: &TestEnv, name: &str) {
    let gain = |kind: &str| {
        let namespace = env.namespace.name();
        let labels = format!("application=\"{name}\",kind=\"{kind}\",namespace=\"{namespace}\"");
        format!("cairn_operator_gain_ratio{{{labels}}} ")
    };
    let wanted = [
        "cairn_operator_move_outcomes_total{outcome=\"paid\"} ".to_owned(),
        "cairn_operator_move_step_seconds_count{step=\"Running\"} ".to_owned(),
        gain("expected"),
        gain("realised"),
    ];
    wait_for("metrics of the moves", TIMEOUT, async || {
        let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
        for metric in &wanted {
            let is_shown = |line: &str| line.starts_with(metric) && !line.ends_with(" 0");
            ensure!(text.lines().any(is_shown), "no {metric}");
        }
        anyhow::Ok(())
    })
    .await;
}

/// Makes another pair hot than the one that is on one node, and waits until the moves for it are judged. Returns the application then,
/// and the worker of the pair. Both nodes have one core, and are full.
pub async fn move_hot_pair(env: &mut TestEnv) -> (AppState, String) {
    let cluster = cluster();
    apply_hub(env, POLICY, "rebalance: {mode: \"On\", giveUp: 30s}\n").await;
    let before = env.wait_reconciled("loaded", AppState::all_placed).await;
    let (beside, elsewhere) = workers_by_place(&before);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text = samples(env.namespace.name(), (&beside, &elsewhere), (50, 290), (now, AFTER));
    let prometheus = Prometheus::with_samples(cluster, &text).await.unwrap();
    env.read_counters(&prometheus).await;
    let judged = env
        .wait_until("loaded", |state| {
            let moves = moves(state);
            ensure!(!moves.is_empty() && moves.iter().all(|it| it.step == MoveStep::Judged), "{moves:?}");
            Ok(())
        })
        .await;
    wait_metrics(env, "loaded").await;
    env.read_no_counters().await;
    delete_policy(POLICY).await;
    (judged, elsewhere)
}

#[tokio::test]
async fn measured_load_moves_actors_and_the_outcome_is_judged() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).cpu("1"));
    let mut env = TestEnv::new("moved", nodes, [cpus()]).await;
    let pods = env.watch_pods().await;
    let (judged, elsewhere) = move_hot_pair(&mut env).await;
    let places = judged.places();
    assert_eq!(places[elsewhere.as_str()], places["hub-0"], "the hot pair is on one node");
    let moved: BTreeSet<&str> = moves(&judged).iter().map(|it| it.actor.as_str()).collect();
    assert_eq!(moved.len(), 2, "{:?}", moves(&judged));
    let gain = judged.spec().gain.clone().unwrap();
    assert_eq!(gain.why, "change");
    for it in moves(&judged) {
        assert_eq!(it.expected_percent, Some(gain.expected_percent));
        let realised = it.realised_percent.unwrap();
        let third = gain.expected_percent / 3;
        // The windows of an early decision include one with both loads, so more may be gained than expected.
        assert!(realised >= gain.expected_percent - third, "{realised} of {}", gain.expected_percent);
    }
    for (actor, lives) in pods.wait_synced().await.pods_per_actor() {
        let expected = if moved.contains(actor.as_str()) { 2 } else { 1 };
        assert_eq!(lives, expected, "pods of {actor}");
    }
    env.wait_event("loaded", "Moved", "it was stopped for").await;
    env.wait_event("loaded", "MoveJudged", "paid").await;
    let shown = history(&env, "loaded").await;
    for part in ["change", "paid", &elsewhere] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}

/// Actors that talk to one that is pinned to a node.
fn follows(actors: u32, node: &str, policy: &str) -> Value {
    let mut manifest = application("app", &[("a", actors, &[("cpu", "1ms")]), ("c", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][1]["pinTo"] = json!({"node": node});
    manifest["spec"]["channels"] =
        json!([{"from": "a", "to": "c", "rate": "100/s", "messageBytes": "1Ki", "pattern": "AllToAll"}]);
    manifest["spec"]["policy"] = json!(policy);
    manifest
}

#[tokio::test]
async fn a_new_manifest_moves_one_actor_at_a_time() {
    let env = TestEnv::new("turns", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&follows(3, "one", "throughput")).await;
    let at = |node: &'static str| {
        move |state: &AppState| {
            state.all_placed()?;
            ensure!(state.places().values().all(|unit| unit.starts_with(node)), "{:?}", state.places());
            Ok(())
        }
    };
    env.wait_reconciled("app", at("one/")).await;
    let pods = env.watch_pods().await;
    env.apply(&follows(3, "two", "throughput")).await;
    env.wait_reconciled("app", at("two/")).await;
    assert_eq!(most_down(pods.wait_synced().await, 3), 1);
    let shown = history(&env, "app").await;
    assert!(shown.contains("manifest") && shown.contains("a-2"), "{shown}");
    let evicted = evictions(&env, "app").await;
    assert_eq!(evicted.keys().collect::<Vec<_>>(), ["a-0", "a-1", "a-2", "c-0"]);
    assert_eq!(moves_in_history(&env, "app").await, evicted, "each eviction is in the history, once");
}

/// Whether all actors run on a node, and no move is open.
fn has_moved_to(node: &'static str) -> impl Fn(&AppState) -> anyhow::Result<()> {
    move |state| {
        state.check_reconciled()?;
        state.all_placed()?;
        ensure!(state.places().values().all(|unit| unit.starts_with(node)), "{:?}", state.places());
        ensure!(moves(state).iter().all(|it| it.step == MoveStep::Running), "{:?}", moves(state));
        Ok(())
    }
}

/// The operator is killed before each of its writes while actors move, and so after each of them; the next one goes on.
#[tokio::test]
async fn the_next_operator_goes_on_from_every_write_of_a_move() {
    let cluster = cluster();
    let mut env = TestEnv::new("writes", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&follows(1, "one", "throughput")).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let pods = env.watch_pods().await;
    let user = format!("system:serviceaccount:{NAMESPACE}:{}", e2e::product::OPERATOR);
    let mut lives = 1;
    for written in 0.. {
        let node = if written % 2 == 0 { "two" } else { "one" };
        let gate = Gate::close_writes(cluster, &env.namespace, user.clone(), written).await.unwrap();
        env.apply(&follows(1, node, "throughput")).await;
        let has_moved = has_moved_to(node);
        let is_killed = wait_for("a write is held, or none is left", TIMEOUT, async || {
            let is_held = gate.held(WRITES) > 0;
            ensure!(is_held || env.observe("app").await.is_ok_and(|state| has_moved(&state).is_ok()));
            anyhow::Ok(is_held)
        })
        .await;
        if is_killed {
            env.product.operator.kill9().await.unwrap();
            gate.open();
            env.product.operator = cluster.start_operator().await.unwrap();
        }
        env.wait_until("app", has_moved).await;
        lives += 1;
        let seen = pods.wait_synced().await;
        for (actor, lived) in seen.pods_per_actor() {
            assert_eq!(lived, lives, "pods of {actor}, after {written} writes");
        }
        if !is_killed {
            assert!(written > 5, "a move has more than {written} writes");
            return;
        }
    }
}

/// Random kills, unless `CAIRN_MOVE_KILLS` says how many; the latest, after the change that makes the moves due.
const KILLS: u64 = 3;
const LATEST: Duration = Duration::from_millis(2500);

/// The operator is killed at random moments of moves; the next one goes on. Prints a table row for the results.
#[tokio::test]
async fn the_next_operator_goes_on_from_random_moments() {
    let kills = size("CAIRN_MOVE_KILLS", KILLS).unwrap();
    let cluster = cluster();
    let mut env = TestEnv::new("moments", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    env.apply(&follows(3, "one", "throughput")).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let pods = env.watch_pods().await;
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut lives, mut open, mut seconds) = (1, 0, Vec::new());
    for round in 0..kills {
        let node = if round % 2 == 0 { "two" } else { "one" };
        env.apply(&follows(3, node, "throughput")).await;
        // No condition to wait for: any moment is right.
        tokio::time::sleep(LATEST.mul_f64(rng.f64())).await;
        env.product.operator.kill9().await.unwrap();
        let has_moved = has_moved_to(node);
        open += usize::from(env.observe("app").await.is_ok_and(|state| has_moved(&state).is_err()));
        env.product.operator = cluster.start_operator().await.unwrap();
        wait_for("the next operator leads", TIMEOUT, async || {
            let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
            ensure!(text.lines().any(|line| line == "cairn_operator_leading 1"), "it waits for the Lease");
            anyhow::Ok(())
        })
        .await;
        let led = Instant::now();
        env.wait_until("app", has_moved).await;
        seconds.push(led.elapsed().as_secs_f64());
        lives += 1;
        let seen = pods.wait_synced().await;
        assert_eq!(most_down(seen, 3), 1, "at most one actor is stopped at a time, in round {round}");
        for (actor, lived) in seen.pods_per_actor() {
            assert_eq!(lived, lives, "pods of {actor} in round {round}");
        }
    }
    // The history keeps ten decisions. A move may be decided again before it begins.
    if kills <= 10 {
        let moved = moves_in_history(&env, "app").await;
        for (actor, lived) in pods.pods_per_actor() {
            let listed = moved.get(&actor).copied().unwrap_or(0);
            assert!(
                listed >= lived - 1,
                "{actor} moved {} times, and {listed} are in the history",
                lived - 1
            );
        }
    }
    let moves: usize = pods.pods_per_actor().values().map(|lived| lived - 1).sum();
    seconds.sort_by(f64::total_cmp);
    let (median, most) = (seconds[seconds.len() / 2], seconds.last().unwrap());
    println!("| {kills} | {open} | {moves} | {median:.1} s | {most:.1} s |");
    assert!(*most <= 60.0, "the moves take {most:.1} s from the next leader on");
}

/// The status of pods on a node is not updated: as with a kubelet that never reports.
const UNREPORTED: &str = "unreported-pods";

async fn report_no_pods(node: &str) {
    let expression =
        format!("request.userInfo.username != 'kwok' || object.spec.?nodeName.orValue('') != '{node}'");
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]}]);
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": UNREPORTED}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression, "message": "its kubelet does not report"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": UNREPORTED}, "spec": {"policyName": UNREPORTED, "validationActions": ["Deny"]}});
    for object in [policy, binding] {
        cluster().kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn an_actor_that_does_not_become_ready_goes_back() {
    let env = TestEnv::new("back", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    report_no_pods("two").await;
    apply_policy("impatient", "rebalance: {giveUp: 3s}\n").await;
    env.apply(&follows(3, "one", "impatient")).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    env.apply(&follows(3, "two", "impatient")).await;
    env.wait_event("app", "Refused", "not ready within 3 s after the move").await;
    env.wait_event("app", "MoveWithdrawn", "withdrawn").await;
    let is_back = |state: &AppState| {
        let back: Vec<_> = state.pods.iter().filter(|pod| pod.name_any().starts_with("app-a-")).collect();
        for pod in &back {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            ensure!(node == Some("one"), "{} is on {node:?}", pod.name_any());
            ensure!(ready_since(pod).is_some(), "{} is not ready", pod.name_any());
        }
        ensure!(back.len() == 3, "{} pods", back.len());
        Ok(())
    };
    let back = env.wait_until("app", |state| {
        is_back(state)?;
        let refusals = state.decision.iter().flat_map(|it| &it.status).flat_map(|it| &it.refusals);
        let mut refusals = refusals.filter(|it| it.reason.contains("not ready"));
        ensure!(refusals.any(|it| it.cause.is_some()), "no refusal with a cause");
        Ok(())
    });
    let back = back.await;
    let decided = back.spec().gain.clone().unwrap().decided_at.0;
    for pod in back.pods.iter().filter(|pod| pod.name_any().starts_with("app-a-")) {
        // The policy's `giveUp`, and 30 s.
        let took = ready_since(pod).unwrap().duration_since(decided);
        assert!(took <= SignedDuration::from_secs(33), "{} is back after {took}", pod.name_any());
    }

    // The cause remains: a further plan moves no actor there.
    let uids =
        |state: &AppState| state.pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<Vec<_>>();
    env.patch("app", &json!({"spec": {"priority": 1}})).await;
    let again = env
        .wait_until("app", |state| {
            let planned = state.decision.as_ref().map(|it| it.spec.application_generation);
            ensure!(planned == state.application.metadata.generation, "generation {planned:?} is planned");
            is_back(state)
        })
        .await;
    assert_eq!(uids(&again), uids(&back), "no actor is stopped again");
    delete_policy("impatient").await;
    let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    cluster().kubectl(["delete", kinds, UNREPORTED]).await.unwrap();
}
