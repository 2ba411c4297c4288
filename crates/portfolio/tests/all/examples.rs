//! The example policies: each has its documented effect, on a snapshot where it matters.

use placement::ix::{ActorIx, UnitIx};
use placement::{Budget, Judged, Plan, Snapshot, plan};
use portfolio::{ClingoJudge, Limits};
use serde_json::{Value, json};

use crate::asp;

fn example(name: &str) -> String {
    let path = format!("{}/../../policies/examples/{name}.lp", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn units(count: usize, kind: &str, nodes: usize) -> Vec<Value> {
    let unit = |i: usize| {
        json!({"id": format!("n{}/{kind}-{i}", i % nodes), "kind": kind, "node": format!("n{}", i % nodes),
            "zone": format!("z{}", i % nodes % 2), "capacity": 100, "provides": {"memoryMiB": 8192},
            "powerWatts": 300, "idleWatts": 50})
    };
    (0..count).map(unit).collect()
}

fn actor(name: &str, work: u64) -> Value {
    json!({"id": format!("shop/app/{name}"), "runsOn": {"cpu": work, "gpu": 1}})
}

fn world(units: &[Value], actors: &[Value], program: Option<&str>) -> Snapshot {
    // All actors exchange messages: without a rule they would share a unit.
    let ids: Vec<Value> = actors.iter().map(|actor| actor["id"].clone()).collect();
    let messages: Vec<Value> = ids
        .iter()
        .enumerate()
        .flat_map(|(i, a)| ids[i + 1..].iter().map(move |b| json!({"from": a, "to": b, "count": 1})))
        .collect();
    let region = |i: usize| if i.is_multiple_of(2) { "eu" } else { "us" };
    let nodes: Vec<Value> = (0..4)
        .map(|i| {
            json!({"id": format!("n{i}"), "zone": format!("z{}", i % 2),
            "labels": {"topology.kubernetes.io/region": region(i)}})
        })
        .collect();
    let policy = program.map(|program| json!({"name": "example", "program": program}));
    let mut file = json!({"version": 1, "nodes": nodes, "units": units, "actors": actors, "messages": messages,
        "exchangeCost": {"otherKind": 5, "otherNode": 3, "otherZone": 3}});
    if let Some(policy) = policy {
        file["policy"] = policy;
    }
    Snapshot::read(&file.to_string()).unwrap()
}

fn decide(snapshot: &Snapshot) -> Plan {
    let judge = ClingoJudge::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default(), 2_000);
    plan(snapshot, &asp(), &judge, &Budget::effort(None, 1)).unwrap()
}

/// Places without the example, and with it.
fn places(name: &str, units: &[Value], actors: &[Value]) -> [Vec<String>; 2] {
    let of = |program: Option<&str>| {
        let snapshot = world(units, actors, program);
        let plan = decide(&snapshot);
        let unit = |place: &Option<UnitIx>| {
            place.map_or("nowhere".to_owned(), |unit| snapshot.unit_id(unit).to_owned())
        };
        plan.assignment.iter().map(unit).collect()
    };
    [of(None), of(Some(&example(name)))]
}

fn all_on_one(places: &[String]) -> bool {
    places.iter().all(|place| *place == places[0])
}

#[test]
fn data_stays_in_its_region() {
    let mut actors: Vec<Value> = (0..4).map(|i| actor(&format!("a-{i}"), 1)).collect();
    actors[0]["labels"] = json!({"data-region": "eu"});
    actors[1]["labels"] = json!({"data-region": "us"});
    let [without, with] = places("data-residency", &units(4, "cpu", 4), &actors);
    assert!(all_on_one(&without), "{without:?}");
    assert!(with[0].starts_with("n0/") || with[0].starts_with("n2/"), "{with:?}");
    assert!(with[1].starts_with("n1/") || with[1].starts_with("n3/"), "{with:?}");
}

#[test]
fn batch_stays_off_accelerators_where_it_can() {
    let mut actors: Vec<Value> = (0..3).map(|i| actor(&format!("a-{i}"), 60)).collect();
    actors[0]["labels"] = json!({"tier": "batch"});
    actors[1]["labels"] = json!({"tier": "batch"});
    actors[1]["runsOn"] = json!({"gpu": 1});
    let mut all = units(1, "cpu", 1);
    all.extend(units(1, "gpu", 1));
    let [without, with] = places("batch-off-gpus", &all, &actors);
    assert!(all_on_one(&without) && without[0].contains("gpu"), "{without:?}");
    assert_eq!(with, ["n0/cpu-0", "n0/gpu-0", "n0/gpu-0"]);
}

#[test]
fn groups_and_pairs_are_spread_over_zones() {
    let mut actors: Vec<Value> = (0..4).map(|i| actor(&format!("a-{i}"), 1)).collect();
    for actor in &mut actors {
        actor["group"] = json!("a");
    }
    actors[0]["labels"] = json!({"pair": "p"});
    actors[3]["labels"] = json!({"pair": "p"});
    let [without, with] = places("spread-over-zones", &units(4, "cpu", 4), &actors);
    assert!(all_on_one(&without), "{without:?}");
    let zone = |place: &String| place.as_bytes()[1] % 2;
    let first = with.iter().filter(|place| zone(place) == zone(&with[0])).count();
    // Half of four, rounded up as in the example: (N+1)/2.
    assert_eq!(first, 2, "{with:?}");
    assert_ne!(zone(&with[0]), zone(&with[3]));
}

#[test]
fn groups_and_pairs_of_different_applications_are_independent() {
    for (other, are_apart) in [("shop/app/b-0", true), ("shop/other/a-0", false), ("away/app/a-0", false)] {
        for mark in [json!({"group": "a"}), json!({"labels": {"pair": "p"}})] {
            let mut actors = vec![actor("a-0", 1), actor("a-1", 1)];
            actors[1]["id"] = json!(other);
            for actor in &mut actors {
                for (key, value) in mark.as_object().unwrap() {
                    actor[key] = value.clone();
                }
            }
            // Two nodes of one zone: a rule that binds both actors leaves one of them unplaced.
            let all: Vec<Value> = units(4, "cpu", 4).into_iter().step_by(2).collect();
            let [_, with] = places("spread-over-zones", &all, &actors);
            let unplaced = with.contains(&"nowhere".to_owned());
            assert_eq!(unplaced, are_apart, "{other} {mark}: {with:?}");
        }
    }
}

#[test]
fn noisy_actors_are_apart_and_sensitive_ones_undisturbed() {
    let mut actors: Vec<Value> = (0..3).map(|i| actor(&format!("a-{i}"), 1)).collect();
    actors[0]["labels"] = json!({"noise": "high"});
    actors[1]["labels"] = json!({"noise": "high"});
    actors[2]["labels"] = json!({"noise": "sensitive"});
    let snapshot = |objectives: Value| {
        let mut file: Value = serde_json::from_str(
            &world(&units(3, "cpu", 3), &actors, Some(&example("noisy-neighbour"))).write(),
        )
        .unwrap();
        file["objectives"] = objectives;
        Snapshot::read(&file.to_string()).unwrap()
    };
    let node = |snapshot: &Snapshot, plan: &Plan, actor| {
        snapshot.node_of(plan.assignment[ActorIx::new(actor)].unwrap())
    };
    // Where communication ranks above the policy, the sensitive actor joins its peer and pays the penalty.
    let costly = snapshot(json!(["overload", "communication", "policy"]));
    let plan = decide(&costly);
    assert_ne!(node(&costly, &plan, 0), node(&costly, &plan, 1));
    assert_eq!(plan.cost.policy, 10);
    // Where the policy ranks above communication, all three are apart.
    let quiet = snapshot(json!(["overload", "policy", "communication"]));
    let plan = decide(&quiet);
    assert_eq!(plan.cost.policy, 0);
    assert!(plan.optimal);
}

#[test]
fn a_node_draws_no_more_than_its_breaker_allows() {
    // Three units of 350 W on each node, each filled by one actor.
    let mut actors: Vec<Value> = (0..4).map(|i| actor(&format!("a-{i}"), 100)).collect();
    for actor in &mut actors {
        actor["runsOn"] = json!({"cpu": 100});
    }
    let [without, with] = places("power-cap", &units(6, "cpu", 2), &actors);
    let most = |places: &[String]| {
        (0..2)
            .map(|node| places.iter().filter(|place| place.starts_with(&format!("n{node}/"))).count())
            .max()
            .unwrap()
    };
    assert_eq!((most(&without), most(&with)), (3, 2), "{without:?} {with:?}");
}

#[test]
fn headroom_stays_free() {
    // Three times 31 exceed nine tenths of the capacity of 100, but not the capacity.
    let mut actors: Vec<Value> = (0..3).map(|i| actor(&format!("a-{i}"), 31)).collect();
    for actor in &mut actors {
        actor["runsOn"] = json!({"cpu": 31});
    }
    let [without, with] = places("reserve-headroom", &units(2, "cpu", 1), &actors);
    assert!(all_on_one(&without), "{without:?}");
    assert!(!all_on_one(&with), "{with:?}");
    // Memory: 8,192 MiB less 2,048.
    let mut hungry = vec![actor("a-0", 1), actor("a-1", 1)];
    for actor in &mut hungry {
        actor["requires"] = json!({"memoryMiB": 4000});
    }
    let [without, with] = places("reserve-headroom", &units(2, "cpu", 1), &hungry);
    assert!(all_on_one(&without) && !all_on_one(&with), "{without:?} {with:?}");
}

/// The names of all examples.
fn examples() -> Vec<String> {
    let folder = format!("{}/../../policies/examples", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A thousand actors on two hundred units of fifty nodes, in which every example applies often.
fn thousand(program: &str) -> Snapshot {
    let unit = |i: usize| {
        let (kind, node) = (if i % 4 == 3 { "gpu" } else { "cpu" }, i / 4);
        json!({"id": format!("n{node}/{kind}-{}", i % 4), "kind": kind, "node": format!("n{node}"),
            "zone": format!("z{}", node % 5), "capacity": 100, "provides": {"memoryMiB": 16384},
            "powerWatts": 200, "idleWatts": 50})
    };
    let node = |i: usize| {
        let region = if i.is_multiple_of(2) { "eu" } else { "us" };
        json!({"id": format!("n{i}"), "zone": format!("z{}", i % 5),
            "labels": {"topology.kubernetes.io/region": region}})
    };
    let actor = |i: usize| {
        let mut labels = json!({"tier": if i.is_multiple_of(2) { "batch" } else { "live" }});
        match i % 25 {
            0 => labels["noise"] = json!("high"),
            1..=8 => labels["noise"] = json!("sensitive"),
            9..=12 => labels["data-region"] = json!(if i.is_multiple_of(2) { "eu" } else { "us" }),
            13 => labels["pair"] = json!(format!("p{}", i / 50)),
            _ => {}
        }
        json!({"id": format!("shop/app/a-{i}"), "group": format!("g{}", i / 20), "labels": labels,
            "runsOn": {"cpu": 8, "gpu": 2}, "requires": {"memoryMiB": 512}})
    };
    let message = |i: usize| json!({"from": format!("shop/app/a-{i}"), "to": format!("shop/app/a-{}", (i + 7) % 1000), "count": 3});
    let list = |count: usize, one: &dyn Fn(usize) -> Value| (0..count).map(one).collect::<Vec<Value>>();
    let file = json!({"version": 1, "nodes": list(50, &node), "units": list(200, &unit), "actors": list(1000, &actor),
        "messages": list(1000, &message), "exchangeCost": {"otherKind": 5, "otherNode": 3, "otherZone": 3},
        "policy": {"name": "example", "program": program}});
    Snapshot::read(&file.to_string()).unwrap()
}

/// Effort that repairs a first placement of a thousand actors that violates rules.
const EFFORT: u64 = 4_000;

/// Within the default budgets of a policy, and clingo confirms the plan.
#[test]
fn every_example_holds_for_a_thousand_actors() {
    let judge = ClingoJudge::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default(), 2_000);
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    for name in examples {
        let snapshot = thousand(&example(&name));
        let (_, size) = judge.examine(&snapshot).unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let says = size.conclusions + size.constraints + size.penalties;
        assert!(says >= 40, "{name} has little to say here: {size:?}");
        let plan = plan(&snapshot, &asp(), &judge, &Budget::effort(Some(EFFORT), 1))
            .unwrap_or_else(|refused| panic!("{name}: {refused}"));
        assert_eq!(plan.cost.unplaced, 0, "{name}: {size:?}");
        assert_ne!(plan.judged, Judged::None, "{name}");
    }
}
