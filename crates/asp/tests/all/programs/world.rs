//! Random small snapshots for random policies, with varying numbers of units, kinds, nodes, zones, groups and actors,
//! fixed actors, current placements, and limits in addition to the policy.

use std::collections::BTreeSet;

use fastrand::Rng;
use placement::Snapshot;
use serde_json::{Value, json};

/// The maximum number of assignments, all of which are tried.
const MOST: usize = 1_300;

/// The features of a snapshot.
#[expect(clippy::struct_excessive_bools, reason = "each is something that a world has or has not")]
struct Shape {
    kinds: usize,
    nodes: usize,
    groups: usize,
    memory: bool,
    cores: bool,
    slots: bool,
    domains: bool,
    /// Whether movable actors have a current placement.
    runs: bool,
}

/// A snapshot under a program, and its features.
pub fn world(rng: &mut Rng, program: &str) -> (Snapshot, BTreeSet<String>) {
    let shape = Shape {
        kinds: rng.usize(1..=2),
        nodes: rng.usize(1..=3),
        groups: rng.usize(1..=3),
        memory: rng.u8(..4) > 0,
        cores: rng.u8(..3) == 0,
        slots: rng.u8(..3) == 0,
        domains: rng.u8(..3) == 0,
        runs: rng.u8(..4) == 0,
    };
    let units: Vec<Value> = (0..rng.usize(1..=5)).map(|number| unit(rng, number, &shape)).collect();
    let mut actors: Vec<Value> =
        (0..rng.usize(2..=6)).map(|number| actor(rng, number, &shape, &units)).collect();
    let movable = |actors: &[Value]| actors.iter().filter(|actor| actor["fixed"] != json!(true)).count();
    while (units.len() + 1).pow(u32::try_from(movable(&actors)).unwrap()) > MOST {
        actors.pop();
    }
    let ids: Vec<Value> = actors.iter().map(|actor| actor["id"].clone()).collect();
    let mut pairs = |names: [&str; 3]| -> Vec<Value> {
        let count = rng.usize(..=ids.len());
        let mut pair = || {
            let (a, b) = (rng.choice(&ids).unwrap(), rng.choice(&ids).unwrap());
            json!({names[0]: a, names[1]: b, names[2]: rng.u8(1..5)})
        };
        (0..count).map(|_| pair()).collect()
    };
    let messages = pairs(["from", "to", "count"]);
    let (annoyance, interference) = (pairs(["a", "b", "drag"]), pairs(["a", "b", "drag"]));
    // Some current placements are infeasible.
    let mut constraints = Vec::new();
    for actor in actors.iter().filter(|actor| actor["fixed"] == json!(false)) {
        if rng.u8(..3) == 0 {
            constraints.push(json!({"type": "never", "actors": [actor["id"]], "units": [actor["current"]]}));
        }
    }
    let nodes: Vec<Value> = (0..shape.nodes).map(|number| node(rng, number, &shape)).collect();
    let objectives = [
        json!(["policy"]),
        json!(["communication", "policy"]),
        json!(["policy", "overload"]),
        json!([["policy", "communication"], "annoyance"]),
        json!(["overload", ["communication", "migration"], "policy", "interference"]),
    ];
    let file = json!({"version": 1, "nodes": nodes, "units": units, "actors": actors, "messages": messages,
        "annoyance": annoyance, "interference": interference, "constraints": constraints, "objectives": rng.choice(&objectives).unwrap(),
        "exchangeCost": {"otherKind": rng.u8(1..4), "otherNode": rng.u8(..4), "otherZone": rng.u8(..3)},
        "policy": {"name": "random", "program": program}});
    (Snapshot::read(&file.to_string()).unwrap(), like(&file))
}

/// Zones belong to nodes: some have one of two, others none.
fn zone(node: usize) -> Option<&'static str> {
    [Some("z0"), Some("z1"), None][node]
}

fn node(rng: &mut Rng, number: usize, shape: &Shape) -> Value {
    let mut node = json!({"id": format!("n{number}")});
    if let Some(region) = rng.choice([Some("eu"), Some("us"), None]).unwrap() {
        node["labels"] = json!({"region": region});
    }
    if shape.cores {
        node["provides"] = json!({"cores": rng.u8(3..12)});
    }
    node
}

fn unit(rng: &mut Rng, number: usize, shape: &Shape) -> Value {
    let node = rng.usize(..shape.nodes);
    let kind = if rng.usize(..shape.kinds) == 0 { "cpu" } else { "gpu" };
    let mut unit = json!({"id": format!("u{number}"), "kind": kind, "node": format!("n{node}"),
        "capacity": rng.u8(1..9)});
    if let Some(zone) = zone(node) {
        unit["zone"] = json!(zone);
    }
    if shape.domains && rng.bool() {
        unit["numa"] = json!(format!("m{}", rng.u8(..2)));
    }
    if shape.memory && rng.u8(..6) > 0 {
        unit["provides"] = json!({"memory": rng.u8(4..14)});
    }
    if shape.slots && rng.u8(..3) > 0 {
        unit["slots"] = json!(rng.u8(1..5));
    }
    unit
}

fn actor(rng: &mut Rng, number: usize, shape: &Shape, units: &[Value]) -> Value {
    let home = rng.choice(units).unwrap();
    let stays = rng.u8(..6) == 0;
    let application = if stays && rng.bool() { "q" } else { "p" };
    let mut actor = json!({"id": format!("s/{application}/a-{number}"), "runsOn": {}});
    for kind in ["cpu", "gpu"] {
        if *kind == home["kind"] || rng.bool() {
            let mut way = json!({"work": rng.u8(1..5)});
            if shape.memory {
                way["requires"] = json!({"memory": rng.u8(..4)});
            }
            if shape.cores && rng.bool() {
                way["nodeRequires"] = json!({"cores": rng.u8(1..4)});
            }
            actor["runsOn"][kind] = way;
        }
    }
    if rng.u8(..6) > 0 {
        actor["group"] = json!(format!("g{}", rng.usize(..shape.groups)));
    }
    if rng.bool() {
        actor["labels"] = json!({"noise": "high"});
    }
    if stays || (shape.runs && rng.u8(..3) > 0) {
        (actor["current"], actor["fixed"]) = (home["id"].clone(), json!(stays));
        actor["moveCost"] = json!(rng.u8(..4));
    }
    actor
}

/// The features as words of a table.
fn like(file: &Value) -> BTreeSet<String> {
    let list = |name: &str| file[name].as_array().unwrap().clone();
    let (units, actors, nodes) = (list("units"), list("actors"), list("nodes"));
    let different = |list: &[Value], name: &str| -> usize {
        list.iter().filter_map(|one| one[name].as_str()).collect::<BTreeSet<&str>>().len()
    };
    let stay = actors.iter().filter(|actor| actor["fixed"] == json!(true)).count();
    let some = |list: &[Value], name: &str| list.iter().any(|one| !one[name].is_null());
    let mut like = BTreeSet::from([
        format!("· actors: {}", actors.len()),
        ["· no fixed actor", "· one fixed actor", "· two or more fixed actors"][stay.min(2)].to_owned(),
        format!("· units: {}", units.len()),
        format!("· unit kinds: {}", different(&units, "kind")),
        format!("· nodes: {}", different(&units, "node")),
        ["· at most one group", "· two groups", "· three groups"]
            [different(&actors, "group").saturating_sub(1)]
        .to_owned(),
    ]);
    let mut note = |is_so: bool, words: &str| {
        if is_so {
            like.insert(format!("· {words}"));
        }
    };
    note(some(&units, "slots"), "slots");
    note(some(&units, "numa"), "domains");
    note(some(&units, "provides"), "memory of units");
    note(some(&nodes, "provides"), "cores of nodes");
    note(units.iter().any(|unit| unit["zone"].is_null()), "a node in no zone");
    note(actors.iter().any(|actor| actor["fixed"] == json!(false)), "a running actor that may move");
    note(!list("constraints").is_empty(), "a running actor that must move");
    like
}
