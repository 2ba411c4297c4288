//! Time to place a requested actor on a large cluster, and the improvement that a background search finds afterwards.
//!
//! `cargo bench --locked --profile dev --workspace --bench place_one` prints a page for `docs/results`.
#![expect(clippy::print_stdout, reason = "the page is what it makes")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::{Assignment, Instance, Placement};
use jiff::Timestamp;
use placement::ix::ActorIx;
use placement::{Budget, Criterion, NoPolicy, Plan, plan};
use portfolio::{ClingoJudge, Limits};
use search::{Greedy, Local};
use world::{
    ApplicationKey, AssembledSnapshot, Index, Objects, Observation, Policy, assemble, decision,
    desired_state, observe,
};

/// Milliseconds that a place may take.
const AIM: f64 = 50.0;
/// Nodes of eight cores, every other one with two GPUs.
const NODES: usize = 1000;
/// Applications of a hundred actors each; the first requests more.
const APPLICATIONS: usize = 20;
/// Number of Instances that it requests, one after the other.
const ASKED: usize = 300;
/// How long the search in the background takes: what the installed policy gives it, three times.
const WALL: Duration = Duration::from_secs(6);

fn nodes(text: &mut String) {
    for node in 0..NODES {
        let (gpus, devices) = match node % 2 {
            0 => (", nvidia.com/gpu: \"2\"", "{id: gpu-0, type: GPU}, {id: gpu-1, type: GPU}"),
            _ => ("", ""),
        };
        let zone = node % 5;
        write!(
            text,
            "\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{node}, labels: {{topology.kubernetes.io/zone: z{zone}}}}}, \
             status: {{allocatable: {{cpu: \"8\", memory: 32Gi, pods: \"110\"{gpus}}}}}}}\
             \n---\n{{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n{node}}}, spec: {{devices: [{devices}]}}}}"
        )
        .unwrap();
    }
    text.push_str(
        "\n---\n{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}}}\
         \n---\n{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}",
    );
}

fn application(text: &mut String, number: usize) {
    let way = |kind: &str, time: &str| {
        format!(
            "{{kind: {kind}, serviceTime: {time}, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]}}}}}}"
        )
    };
    write!(
        text,
        "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app{number}, namespace: ns, uid: app{number}-uid, generation: 1}}, \
         spec: {{actors: [{{name: source, replicas: 20, arrivals: 30/s, implementations: [{}]}}, \
         {{name: worker, replicas: 60, stateBytes: 64Mi, implementations: [{}, {}]}}, \
         {{name: sink, replicas: 20, implementations: [{}]}}], \
         channels: [{{from: source, to: worker, rate: 30/s, messageBytes: 32Ki, pattern: AllToAll, drag: 1}}, \
         {{from: worker, to: sink, rate: 10/s, messageBytes: 4Ki, pattern: AllToAll}}]}}}}",
        way("cpu", "5ms"),
        way("cpu", "20ms"),
        way("gpu", "2ms"),
        way("cpu", "2ms"),
    )
    .unwrap();
}

fn key(number: usize) -> ApplicationKey {
    ApplicationKey { namespace: "ns".to_owned(), name: format!("app{number}") }
}

/// Commits a plan as the operator does.
fn commit(index: &mut Index, key: &ApplicationKey, world: &AssembledSnapshot, plan: &Plan) {
    let snapshot = &world.snapshot;
    let own = ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
    let assignments = own.filter_map(|actor| {
        let unit = &world.units[snapshot.unit_id(plan.assignment[actor]?)];
        let name = snapshot.actor_id(actor).rsplit('/').next()?;
        let (unit, node, pool) = (unit.id.clone(), unit.node.clone(), unit.pool.clone());
        Some(Assignment { actor: name.to_owned(), unit, node, pool })
    });
    let owner = serde_json::json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
        "name": key.name, "uid": format!("{}-uid", key.name), "controller": true});
    let mut placement = Placement::new(&key.name, crds::PlacementSpec::default());
    placement.spec.application.clone_from(&key.name);
    placement.spec.application_generation = 1;
    "p".clone_into(&mut placement.spec.policy);
    placement.spec.demand_digest = Some(world.demand());
    placement.spec.assignments = assignments.collect();
    placement.metadata.namespace = Some(key.namespace.clone());
    placement.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    index.put_placement(Arc::new(placement));
}

fn asked(number: usize) -> Arc<Instance> {
    let instance = serde_json::json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "metadata": {
        "name": format!("more-{number}"), "namespace": "ns", "uid": format!("more-{number}-uid"),
        "ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "name": "app0", "uid": "app0-uid", "controller": true}]},
        "spec": {"applicationName": "app0", "actorGroup": "worker", "origin": "Runtime", "template": {}}});
    Arc::new(serde_json::from_value(instance).unwrap())
}

/// Everything that the operator computes between observing a requested Instance and writing the decision.
fn decide(index: &Index, policy: &Policy) -> (AssembledSnapshot, Plan) {
    let key = key(0);
    let application = index.application(&key).unwrap();
    let before = decision(index.placement(&key).unwrap());
    let wanted = desired_state(index, application, &policy.name);
    assert!(control::only_requests_changed(&wanted, &before, |name| name.starts_with("inst-")));
    let Observation { assembled: world, inputs: facts, infeasible } =
        observe(index, application, policy, Some(&before), Timestamp::UNIX_EPOCH).unwrap();
    let why = control::plan_reason(None, &facts, &wanted, Some(&before), &infeasible, Duration::ZERO);
    assert_eq!(why, Some(control::PlanReason::Incomplete));
    let plan = control::place_one(&world.snapshot, &BTreeSet::new()).expect("there is room");
    (world, plan)
}

/// Values of the levels.
fn levels(plan: &Plan) -> String {
    let value = |criterion| plan.cost.of(criterion);
    let levels = [Criterion::Overload, Criterion::Communication, Criterion::Migration, Criterion::Annoyance];
    levels.map(|criterion| format!("{} {}", <&str>::from(criterion), value(criterion))).join(", ")
}

fn main() {
    portfolio::run_child_if_asked();
    let mut text = String::new();
    nodes(&mut text);
    (0..APPLICATIONS).for_each(|number| application(&mut text, number));
    let mut objects = Objects::default();
    objects.read("bench", &text).unwrap();
    let mut index = Index::of(&objects);
    let policy = Policy::builtin("p");
    for number in 0..APPLICATIONS {
        let world = assemble(&index, &key(number), &policy, Timestamp::UNIX_EPOCH).unwrap();
        let actors = world.snapshot.actors() as u64;
        let budget = Budget { effort: Some(actors), seed: 1, stop: &|| false, left: None };
        let plan = plan(&world.snapshot, &Greedy, &NoPolicy, &budget).unwrap();
        commit(&mut index, &key(number), &world, &plan);
    }
    let judge = ClingoJudge::new(Limits::default(), policy.wall_milliseconds).at_once();
    let (mut times, mut judged, mut verdicts) = (Vec::new(), Vec::new(), BTreeMap::<&str, usize>::new());
    for number in 0..ASKED {
        index.put_instance(asked(number));
        let began = Instant::now();
        let (world, plan) = decide(&index, &policy);
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        let plan = plan.judged_again(&world.snapshot, &judge).unwrap();
        judged.push(began.elapsed().as_secs_f64() * 1000.0);
        *verdicts.entry(plan.judged.into()).or_default() += 1;
        commit(&mut index, &key(0), &world, &plan);
    }
    let row = |what: &str, times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        let (middle, p99, most) = (at(50), at(99), at(100));
        format!("| {what} | {middle:.1} ms | {p99:.1} ms | {most:.1} ms | {:.2} |\n", p99 / AIM)
    };

    let world = assemble(&index, &key(0), &policy, Timestamp::UNIX_EPOCH).unwrap();
    let stays = plan(
        &world.snapshot,
        &control::KeepRunning(Box::new(Greedy)),
        &NoPolicy,
        &Budget { effort: Some(1), seed: 1, stop: &|| false, left: None },
    );
    let stays = stays.unwrap();
    let began = Instant::now();
    let stop = || began.elapsed() >= WALL;
    let better =
        plan(&world.snapshot, &Local, &NoPolicy, &Budget { effort: None, seed: 1, stop: &stop, left: None })
            .unwrap();
    println!(
        "| measured | median | p99 | max | p99 ÷ target ({AIM} ms) |\n|---|---:|---:|---:|---:|\n{}{}",
        row("placement of a requested Instance, checked by clingo", &mut judged),
        row("the same without clingo", &mut times)
    );
    println!("Checks by clingo: {verdicts:?}.\n");
    println!(
        "{NODES} nodes with {} units, {APPLICATIONS} applications of 100 actors; one application requests {ASKED} Instances, one after the \
         other. Measured is the computation from the operator's caches to the decision, without API reads and writes.\n",
        world.units.len()
    );
    println!(
        "After {ASKED} Instances the objective is {}; `local` improves it in {} s to {} with {} moves.",
        levels(&stays),
        WALL.as_secs(),
        levels(&better),
        better.moves.len()
    );
}
