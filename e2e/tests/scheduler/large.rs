//! A large application whose groups all have anti-affinity over hosts and spread over zones: its plan beside kube-scheduler's placement.
//!
//! `CAIRN_LARGE_ACTORS` and `CAIRN_LARGE_NODES` are its size, for the long form; the nodes are a multiple of four.

use std::{fs, path::Path};

use e2e::{Cluster, bench::size};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    draw::WORLD,
    plan::{Cost, cost_of, plan_with},
    trial::Trial,
    world::World,
};

/// The size in `make test`.
const ACTORS: u64 = 60;
const NODES: u64 = 8;
const ZONES: usize = 4;

#[tokio::test]
async fn a_large_plan_is_no_worse_than_greedy_and_kube_scheduler() {
    let sizes = [("CAIRN_LARGE_ACTORS", ACTORS), ("CAIRN_LARGE_NODES", NODES)];
    let [actors, nodes] = sizes.map(|(name, short)| usize::try_from(size(name, short).unwrap()).unwrap());
    let cluster = Cluster::shared();
    let client = cluster.client().await.unwrap();
    let world = world(actors, nodes);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large.yaml");
    fs::write(&file, world.yaml().unwrap()).unwrap();

    let (plan, text) = plan_with(&file, &[]).await.unwrap();
    let (greedy, greedy_text) = plan_with(&file, &["--strategy", "greedy"]).await.unwrap();
    let trial = Trial::start(cluster, &client, &world).await.unwrap();
    let by_scheduler = trial.unpinned(&plan).await.unwrap();
    let differences = trial.compare(&plan).await.unwrap();
    trial.end().await.unwrap();

    let planned = Cost::of(&text).unwrap();
    let rows = [
        ("the plan", plan.placed.len(), planned.clone()),
        ("the plan of `greedy`", greedy.placed.len(), Cost::of(&greedy_text).unwrap()),
        ("kube-scheduler", by_scheduler.len(), cost_of(&file, &by_scheduler).await.unwrap()),
    ];
    // With --nocapture, rows of docs/results/scheduler.md.
    for (who, placed, cost) in &rows {
        let [overload, communication] = cost.levels;
        let seconds =
            if who.starts_with("the plan") { format!("{:.2} s", cost.seconds) } else { String::new() };
        println!("| {actors} on {nodes} | {who} | {placed} | {overload} | {communication} | {seconds} |");
    }
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(plan.placed.len(), actors, "unplaced: {:?}", plan.unplaced);
    for (who, placed, cost) in &rows[1..] {
        assert!(
            *placed < actors || planned.levels <= cost.levels,
            "{planned:?} is worse than {who}: {cost:?}"
        );
    }
}

/// Groups of different sizes, each a ring or nothing within, each talking to a group before it.
fn world(actors: usize, nodes: usize) -> World {
    let mut rng = Rng::with_seed(1);
    let name = "large";
    let mut sizes = Vec::new();
    let mut left = actors;
    while left > 0 {
        let size = [nodes / 8, nodes / 4, nodes / 2, nodes * 3 / 4][rng.usize(0..4)].clamp(1, left);
        sizes.push(size);
        left -= size;
    }
    let groups: Vec<Value> = (0..).zip(&sizes).map(|(index, size)| group(index, *size)).collect();
    let mut channels = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let mut talk = |from: usize, to: usize, pattern: &str, rate: usize| {
            channels.push(json!({"from": format!("g{from}"), "to": format!("g{to}"), "pattern": pattern,
                "rate": format!("{rate}/s"), "messageBytes": 1000}));
        };
        if rng.bool() && *size > 1 {
            talk(index, index, "Ring", rng.usize(1..=20));
        }
        if index > 0 {
            let before = rng.usize(0..index);
            let pattern = if sizes[before] == *size { "OneToOne" } else { "AllToAll" };
            talk(before, index, pattern, rng.usize(1..=20));
        }
    }
    let node = |index: usize| {
        let (annotation, value) = e2e::nodes::ANNOTATION;
        let node = format!("{name}-n{index:03}");
        let zone = format!("{name}-z{}", index % ZONES);
        let amounts = json!({"cpu": "16", "memory": "32Gi", "pods": "110"});
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "annotations": {annotation: value}, "labels": {WORLD: name,
                "kubernetes.io/hostname": node, "topology.kubernetes.io/zone": zone}},
            "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "allocatable": amounts, "capacity": amounts}})
    };
    World {
        name: name.to_owned(),
        namespaces: vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {WORLD: name}}}),
        ],
        runtime_class: None,
        volumes: Vec::new(),
        nodes: (0..nodes).map(node).collect(),
        foreign: Vec::new(),
        pool: json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name},
            "spec": {"kind": "cpu", "nodeSelector": {"matchLabels": {WORLD: name}}}}),
        application: json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": "app", "namespace": name}, "spec": {"actors": groups, "channels": channels}}),
    }
}

fn group(index: usize, replicas: usize) -> Value {
    let (name, labels) = (format!("g{index}"), json!({"app": format!("g{index}")}));
    let apart = json!({"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"});
    let spread = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels}});
    let spec = json!({"nodeSelector": {WORLD: "large"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "topologySpreadConstraints": [spread],
        "containers": [{"name": "actor", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}]});
    json!({"name": name, "replicas": replicas, "arrivals": "10/s",
        "implementations": [{"kind": "cpu", "serviceTime": "5ms", "template": {"metadata": {"labels": labels}, "spec": spec}}]})
}
