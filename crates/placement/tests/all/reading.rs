//! The snapshot file: reading, writing and error messages.

use placement::file::{Levels, SnapshotFile};
use placement::ix::UnitIx;
use placement::room::Rooms;
use placement::weighted::Weighted;
use placement::{Criterion, LARGEST, Snapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

use testkit::line::{self, any_file};

/// A file that uses every field.
const WORLD: &str = r#"{"version":1,"name":"all","for":"vision/surveillance","windowMicroseconds":30000000,"nodes":[{"id":"n","zone":"z","labels":{"region":"eu"},"provides":{"cpuMilli":31000,"pods":110}}],"units":[{"id":"n/cpu-0","kind":"cpu","node":"n","zone":"z","numa":"0","pool":"cpus","capacity":222,"slots":4,"provides":{"memory":64},"powerWatts":9,"idleWatts":0},{"id":"n/gpu-0","kind":"gpu","node":"n","capacity":1}],"actors":[{"id":"v/s/a","group":"a","runsOn":{"cpu":81,"gpu":{"work":3,"requires":{"memory":2},"nodeRequires":{"cpuMilli":500}}},"requires":{"memory":4},"labels":{"tier":"batch"},"moveCost":500,"current":"n/cpu-0"},{"id":"v/s/b","runsOn":{"cpu":1},"fixed":true,"current":"n/cpu-0"}],"messages":[{"from":"v/s/a","to":"v/s/b","count":17}],"annoyance":[{"a":"v/s/a","b":"v/s/b","drag":3}],"interference":[{"a":"v/s/a","b":"v/s/b","drag":2}],"exchangeCost":{"kinds":{"cpu":{"cpu":1,"gpu":5}},"otherKind":20,"otherNuma":1,"otherNode":30,"otherZone":30,"pairs":[{"a":"n/cpu-0","b":"n/gpu-0","cost":1}]},"sharedLinks":[{"id":"n/port","units":["n/cpu-0"],"to":["n/gpu-0"],"direct":[["n/cpu-0","n/gpu-0"]],"capacity":7}],"constraints":[{"type":"apart","on":"node","actors":["v/s/a","v/s/b"]},{"type":"together","on":"unit","actors":["v/s/a"],"reason":"one cache"},{"type":"pin","actor":"v/s/a","unit":"n/cpu-0"},{"type":"only","actors":["v/s/a"],"nodes":["n"],"reason":"disktype=ssd"},{"type":"never","actors":["v/s/a"],"units":["n/gpu-0"],"exceptCurrent":true,"reason":"cordoned"},{"type":"never","actors":["v/s/a"],"zones":["z"]},{"type":"prefer","actor":"v/s/a","unit":"n/gpu-0","weight":5},{"type":"reserve","unit":"n/cpu-0","resource":"memory","quantity":8},{"type":"powerCap","on":"all","max":300,"reason":"one fuse"},{"type":"avoid","actors":["v/s/a"],"nodes":["n"],"reason":"evicts"}],"policy":{"name":"throughput","program":"forbid(A,U) :- a(A), u(U).\\n"},"objectives":["overload",["communication","migration"],"annoyance"]}"#;

#[test]
fn every_field_is_read_and_written() {
    assert_eq!(Snapshot::read(WORLD).unwrap().write(), WORLD);
}

#[test]
fn omitted_fields_have_defaults() {
    let snapshot = Snapshot::read(r#"{"version":1}"#).unwrap();
    assert_eq!(
        snapshot.write(),
        r#"{"version":1,"units":[],"actors":[],"exchangeCost":{"kinds":{}},"objectives":["overload",["communication","migration"],"annoyance"]}"#
    );
}

/// The error after setting `pointer` to `value`; a final `-` appends to a list, null removes the field.
fn refused(pointer: &str, value: Value) -> String {
    let mut world: Value = serde_json::from_str(WORLD).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let at = world.pointer_mut(parent).unwrap();
    match (at, value) {
        (Value::Array(list), value) if key == "-" => list.push(value),
        (Value::Array(list), value) => list[key.parse::<usize>().unwrap()] = value,
        (Value::Object(map), Value::Null) => _ = map.remove(key).unwrap(),
        (Value::Object(map), value) => _ = map.insert(key.to_owned(), value),
        _ => panic!("nothing at {pointer}"),
    }
    Snapshot::read(&world.to_string()).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}

#[test]
fn duplicate_fields_of_constraints_are_rejected() {
    let read = |fields: &str| {
        let world = format!("{{\"version\":1,\"constraints\":[{{{fields}}}]}}");
        Snapshot::read(&world).unwrap_err().to_string()
    };
    assert_eq!(
        [r#""type":"pin","unit":"a","unit":"b""#, r#""type":"pin","type":"apart""#].map(read),
        [
            "constraints[0].unit: `unit` is given twice; keep one at line 1 column 59",
            "constraints[0].type: `type` is given twice; keep one at line 1 column 48",
        ]
    );
}

/// The message without its line number.
fn without_line(refused: &str) -> &str {
    refused.split_once(" at line ").map_or(refused, |(messages, _)| messages)
}

#[test]
fn values_inside_constraints_are_read_strictly_and_refused_with_their_path() {
    let read = |fields: &str| {
        let world = format!("{{\"version\":1,\"constraints\":[{{\"actors\":[],{fields}}}]}}");
        without_line(&Snapshot::read(&world).unwrap_err().to_string()).to_owned()
    };
    let messages = [
        r#""type":"apart","on":"node","when":1"#,
        r#""type":"quota","max":-1"#,
        r#""type":"quota","max":1,"units":{"u":-1}"#,
        r#""type":"only","zones":[7]"#,
        r#""type":"peers","peers":[],"domains":[["n"]],"max":1"#,
        r#""type":"peers","peers":[],"domains":[{"nodes":["n",7]}],"max":1"#,
        r#""type":"peers","peers":[],"domains":[{"rack":"r"}],"max":1"#,
        r#""type":"peers","peers":[],"domains":[],"join":"all""#,
    ];
    insta::assert_snapshot!(messages.map(read).join("\n"), @r"
    constraints[0].when: a constraint of type `apart` has no field `when`; remove it
    constraints[0].max: invalid value: integer `-1`, expected a whole number from 0 to 2^53
    constraints[0].units.u: invalid value: integer `-1`, expected a whole number from 0 to 2^53
    constraints[0].zones[0]: invalid type: integer `7`, expected a string
    constraints[0].domains[0]: is a list; give an object, with its fields by name: nodes, others
    constraints[0].domains[0].nodes[1]: invalid type: integer `7`, expected a string
    constraints[0].domains[0].rack: unknown field `rack`, expected `nodes` or `others`
    constraints[0].join: unknown variant `all`, expected `peer` or `first`
    ");
}

#[test]
fn duplicate_fields_of_objects_are_rejected_with_their_path() {
    for (from, with, place, key) in [
        (r#""version":1"#, r#","version":1"#, ".", "version"),
        (r#""region":"eu""#, r#","region":"us""#, "nodes[0].labels.region", "region"),
        (r#""pods":110"#, r#","pods":110"#, "nodes[0].provides.pods", "pods"),
        (r#""capacity":222"#, r#","capacity":223"#, "units[0]", "capacity"),
        (r#""memory":64"#, r#","memory":1"#, "units[0].provides.memory", "memory"),
        (r#""cpu":81"#, r#","cpu":82"#, "actors[0].runsOn.cpu", "cpu"),
        (r#""cpu":81"#, r#","\u0063pu":82"#, "actors[0].runsOn.cpu", "cpu"),
        (r#""work":3"#, r#","work":3"#, "actors[0].runsOn.gpu.work", "work"),
        (r#""memory":2"#, r#","memory":2"#, "actors[0].runsOn.gpu.requires.memory", "memory"),
        (r#""cpuMilli":500"#, r#","cpuMilli":5"#, "actors[0].runsOn.gpu.nodeRequires.cpuMilli", "cpuMilli"),
        (r#""memory":4"#, r#","memory":5"#, "actors[0].requires.memory", "memory"),
        (r#""tier":"batch""#, r#","tier":"""#, "actors[0].labels.tier", "tier"),
        (r#""count":17"#, r#","count":17"#, "messages[0]", "count"),
        (r#""gpu":5"#, r#","cpu":1"#, "exchangeCost.kinds.cpu.cpu", "cpu"),
        (r#"{"cpu":1,"gpu":5}"#, r#","cpu":{}"#, "exchangeCost.kinds.cpu", "cpu"),
        (r#""quantity":8"#, r#","unit":"n/cpu-0""#, "constraints[7].unit", "unit"),
        (r#""name":"throughput""#, r#","name":"throughput""#, "policy", "name"),
    ] {
        assert_eq!(WORLD.matches(from).count(), 1, "{from}");
        let refused = Snapshot::read(&WORLD.replace(from, &format!("{from}{with}"))).unwrap_err().to_string();
        assert_eq!(without_line(&refused), format!("{place}: `{key}` is given twice; keep one"), "{with}");
    }
}

#[test]
fn a_list_is_not_an_object() {
    let rows = [
        ("/nodes/0", json!(["n"])),
        ("/units/1", json!(["n/gpu-0", "gpu", "n"])),
        ("/units/0/others", json!([120, 2])),
        ("/actors/1", json!(["v/s/b"])),
        ("/actors/0/runsOn", json!([])),
        ("/actors/0/runsOn/gpu", json!([3])),
        ("/messages/0", json!(["v/s/a", "v/s/b", 17])),
        ("/annoyance/0", json!(["v/s/a", "v/s/b", 3])),
        ("/exchangeCost", json!([])),
        ("/exchangeCost/pairs/0", json!(["n/cpu-0", "n/gpu-0", 1])),
        ("/constraints/2", json!(["pin", "v/s/a", "n/cpu-0"])),
        ("/policy", json!(["throughput"])),
        ("/policy", json!(7)),
    ];
    let messages = rows.map(|(pointer, value)| without_line(&refused(pointer, value)).to_owned());
    let whole = Snapshot::read("[1]").unwrap_err().to_string();
    insta::assert_snapshot!([&messages[..], &[without_line(&whole).to_owned()]].concat().join("\n"), @r"
    nodes[0]: is a list; give an object, with its fields by name: id, zone, labels, provides, licenceCost
    units[1]: is a list; give an object, with its fields by name: id, kind, node, zone, numa, pool, capacity, slots, provides, others, powerWatts, idleWatts
    units[0].others: is a list; give an object, with its fields by name: work, count
    actors[1]: is a list; give an object, with its fields by name: id, group, runsOn, requires, labels, moveCost, fixed, current, arriving
    actors[0].runsOn: invalid type: list, expected a map
    actors[0].runsOn.gpu: invalid type: list, expected work per window, or an object {work, requires, nodeRequires}
    messages[0]: is a list; give an object, with its fields by name: from, to, count
    annoyance[0]: is a list; give an object, with its fields by name: a, b, drag
    exchangeCost: is a list; give an object, with its fields by name: kinds, otherKind, otherNuma, otherNode, otherZone, pairs
    exchangeCost.pairs[0]: is a list; give an object, with its fields by name: a, b, cost
    constraints[2]: invalid type: list, expected a constraint, as in {type: pin, actor: a, unit: u}
    policy: is a list; give an object, with its fields by name: name, program
    policy: invalid type: integer `7`, expected an object
    .: is a list; give an object, with its fields by name: version, name, for, windowMicroseconds, nodes, units, actors, messages, groupMessages, annoyance, interference, exchangeCost, sharedLinks, constraints, leftToScheduler, policy, objectives
    ");
}

#[test]
fn what_is_refused_and_in_which_words() {
    let big = json!(LARGEST + 1);
    let rows = [
        ("/version", json!(2)),
        ("/version", Value::Null),
        ("/unitz", json!([])),
        ("/units/0/powerwats", json!(1)),
        ("/units/0/capacity", json!(0)),
        ("/units/0/capacity", json!(-1)),
        ("/units/0/capacity", json!(1.5)),
        ("/units/0/capacity", json!("7")),
        ("/units/1/id", json!("n/cpu-0")),
        ("/units/0/id", json!("")),
        ("/units/0/kind", json!("")),
        ("/units/0/zone", json!("y")),
        ("/actors/1/id", json!("v/s/a")),
        ("/nodes/-", json!({"id": "n"})),
        ("/actors/0/runsOn", Value::Null),
        ("/actors/0/runsOn/gpu/wrok", json!(1)),
        ("/actors/0/runsOn/cpu", json!(-3)),
        ("/actors/0/current", json!("n/cpu-9")),
        ("/actors/1/current", Value::Null),
        ("/actors/1/current", json!("n/gpu-0")),
        ("/messages/0/from", json!("v/s/x")),
        ("/messages/0/to", json!("v/s/x")),
        ("/annoyance/0/a", json!("v/s/x")),
        ("/interference/0/b", json!("v/s/x")),
        ("/exchangeCost/otherKind", Value::Null),
        ("/exchangeCost/kinds/gpu", json!({"cpu": 6})),
        ("/exchangeCost/pairs/0/a", json!("n/cpu-9")),
        ("/exchangeCost/pairs/0/b", json!("n/cpu-0")),
        ("/exchangeCost/pairs/-", json!({"a": "n/gpu-0", "b": "n/cpu-0", "cost": 2})),
        ("/sharedLinks/0/id", json!("")),
        ("/sharedLinks/-", json!({"id": "n/port", "units": [], "capacity": 1})),
        ("/sharedLinks/0/units/0", json!("n/cpu-9")),
        ("/sharedLinks/0/to/0", json!("n/cpu-0")),
        ("/sharedLinks/0/direct/0", json!(["n/gpu-0", "n/gpu-0"])),
        ("/sharedLinks/0/capacity", Value::Null),
        ("/sharedLinks/0/capacity", big.clone()),
        ("/constraints/0/type", json!("apartt")),
        ("/constraints/0/type", Value::Null),
        ("/constraints/0/on", json!("rack")),
        ("/constraints/0/on", Value::Null),
        ("/constraints/0/unit", json!("n/cpu-0")),
        ("/constraints/0/when", json!("always")),
        ("/constraints/0/actors", json!(["v/s/a", "v/s/x"])),
        ("/constraints/2/unit", json!("n/cpu-9")),
        ("/constraints/2/actor", Value::Null),
        ("/constraints/-", json!({"type": "pin", "actor": "v/s/a", "unit": "n/gpu-0"})),
        ("/constraints/3/nodes", json!(["m"])),
        ("/constraints/3/units", json!(["n/cpu-0"])),
        ("/constraints/3/nodes", Value::Null),
        ("/constraints/4/units", json!(["n/cpu-9"])),
        ("/constraints/5/zones", json!(["y"])),
        ("/constraints/6/weight", Value::Null),
        ("/constraints/7/unit", json!("n/cpu-9")),
        ("/constraints/0/on", json!("all")),
        ("/constraints/8/on", json!("numa")),
        ("/constraints/8/on", Value::Null),
        ("/constraints/8/max", Value::Null),
        ("/constraints/8/max", json!(-1)),
        ("/constraints/8/max", big.clone()),
        ("/constraints/8/unit", json!("n/cpu-0")),
        ("/policy/program", json!(["a."])),
        ("/objectives", json!(["overload", []])),
        ("/objectives", json!(["overload", ["annoyance", "overload"]])),
        ("/objectives", json!(["overlord"])),
        ("/objectives", json!("adaptable")),
        ("/objectives", json!(["adaptive"])),
        ("/objectives", json!({"adaptive": true})),
        ("/objectives", json!([7])),
        ("/windowMicroseconds", big.clone()),
        ("/nodes/0/provides/pods", big.clone()),
        ("/units/0/capacity", big.clone()),
        ("/units/0/slots", big.clone()),
        ("/units/0/powerWatts", big.clone()),
        ("/units/0/provides/memory", big.clone()),
        ("/actors/0/moveCost", big.clone()),
        ("/actors/0/requires/memory", big.clone()),
        ("/actors/0/runsOn/cpu", big.clone()),
        ("/actors/0/runsOn/gpu/nodeRequires/cpuMilli", big.clone()),
        ("/messages/0/count", big.clone()),
        ("/annoyance/0/drag", big.clone()),
        ("/interference/0/drag", big.clone()),
        ("/exchangeCost/kinds/cpu/gpu", big.clone()),
        ("/exchangeCost/otherZone", big.clone()),
        ("/exchangeCost/pairs/0/cost", big.clone()),
        ("/constraints/6/weight", big.clone()),
        ("/constraints/7/quantity", big),
        ("/messages/0/count", json!(LARGEST)),
        ("/annoyance/0/drag", json!(LARGEST)),
        ("/actors/0/runsOn/cpu", json!(LARGEST)),
        ("/actors/0/moveCost", json!(LARGEST)),
        ("/actors/0/requires/memory", json!(LARGEST)),
    ];
    let table: Vec<String> = rows
        .into_iter()
        .map(|(pointer, value)| format!("{pointer} {value}\n  {}", refused(pointer, value.clone())))
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

/// Values that are rejected only if an objective or a power cap needs them.
#[test]
fn what_a_criterion_cannot_be_worked_out_from_is_refused_where_it_is_named() {
    let half = LARGEST / 2;
    let world = |objectives: Value, with: Value| {
        let mut world = json!({"version": 1,
            "units": [{"id": "u", "kind": "cpu", "node": "n", "capacity": 1, "powerWatts": 1 << 30, "idleWatts": 1}],
            "actors": [{"id": "a", "runsOn": {"cpu": 1 << 24}}, {"id": "b", "runsOn": {}}, {"id": "c", "runsOn": {}}],
            "exchangeCost": {"otherKind": 1}, "objectives": objectives});
        world.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        Snapshot::read(&world.to_string()).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    };
    let send = |from: &str, to: &str, count: u64| json!({"from": from, "to": to, "count": count});
    let cycle =
        json!({"messages": [send("a", "b", 1), send("b", "c", 1), send("c", "b", 1), send("a", "a", 1)]});
    let many: Vec<Value> = (0..20).map(|i| json!({"id": format!("a{i}"), "runsOn": {}})).collect();
    let round: Vec<Value> =
        (0..20).map(|i| send(&format!("a{i}"), &format!("a{}", (i + 1) % 20), 1)).collect();
    let of_groups: Vec<Value> = [("g-0", "g"), ("g-1", "g"), ("h-0", "h")]
        .map(|(name, group)| json!({"id": format!("v/s/{name}"), "group": group, "runsOn": {}}))
        .to_vec();
    let heavy = json!({"actors": [{"id": "a", "runsOn": {"cpu": half}}]});
    let far = json!({"exchangeCost": {"otherKind": 1, "otherNode": half}});
    let rows = [
        (json!(["overload"]), cycle.clone()),
        (json!(["latency"]), cycle),
        (json!(["latency"]), json!({"actors": many, "messages": round})),
        (json!(["latency"]), json!({"messages": [send("a", "b", 1), send("b", "a", 0)]})),
        (json!(["latency"]), json!({"actors": of_groups, "groupMessages": [send("v/s/g", "v/s/g", 1)]})),
        (
            json!(["latency"]),
            json!({"actors": of_groups, "groupMessages": [send("v/s/g", "v/s/h", 1), send("v/s/h", "v/s/g", 1)],
                "messages": [send("v/s/g-0", "v/s/h-0", 1)]}),
        ),
        (
            json!(["latency"]),
            json!({"actors": of_groups, "groupMessages": [send("v/s/g", "v/s/h", 1), send("v/s/h", "v/s/g", 0)],
                "messages": [send("v/s/h-0", "v/s/g-0", 1)]}),
        ),
        (json!(["overload"]), heavy.clone()),
        (json!(["bottleneck"]), heavy),
        (json!(["overload"]), far.clone()),
        (json!(["latency"]), far),
        (json!(["overload"]), json!({})),
        (json!(["energy"]), json!({})),
        (json!(["overload"]), json!({"constraints": [{"type": "powerCap", "on": "all", "max": 1}]})),
    ];
    let table: Vec<String> =
        rows.into_iter().map(|(levels, with)| format!("{levels} {}", world(levels.clone(), with))).collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn adaptive_is_a_value_of_objectives() {
    let text = r#"{"version":1,"units":[],"actors":[],"exchangeCost":{"kinds":{}},"objectives":"adaptive"}"#;
    assert_eq!(Snapshot::read(text).unwrap().write(), text);
    assert_eq!("adaptive".parse::<Levels>(), Ok(Levels::Adaptive));
}

#[test]
fn invalid_json_is_rejected_with_its_line() {
    let says = |text: &str| Snapshot::read(text).unwrap_err().to_string();
    assert_eq!(says(""), ".: EOF while parsing a value at line 1 column 0");
    assert_eq!(says("{\"version\":1}\n}"), ".: trailing characters at line 2 column 1");
}

#[test]
fn too_large_snapshots_are_rejected() {
    let actors: Vec<Value> = (0..20_001).map(|i| json!({"id": i.to_string(), "runsOn": {}})).collect();
    let says = |world: Value| Snapshot::read(&world.to_string()).unwrap_err().to_string();
    assert_eq!(
        says(json!({"version": 1, "actors": actors})),
        "actors: 20001 actors; at most 20000 can be planned at once"
    );
    let message = json!({"from": "a", "to": "b", "count": 1});
    let pair = json!({"a": "a", "b": "b", "drag": 1});
    let world = json!({"version": 1, "messages": vec![message; 100_000], "annoyance": vec![pair; 100_001]});
    assert_eq!(says(world), "messages: 200001 edges; at most 200000 can be planned at once");
}

#[test]
fn fixed_actors_do_not_count_towards_the_size_limits() {
    let unit = json!({"id": "u", "kind": "cpu", "node": "n", "capacity": 1});
    let stays =
        |name: String| json!({"id": name, "group": "g", "runsOn": {"cpu": 1}, "fixed": true, "current": "u"});
    let mut actors: Vec<Value> = (0..20_001).map(|i| stays(format!("v/other/g-{i}"))).collect();
    actors.push(json!({"id": "v/own/g-0", "group": "g", "runsOn": {"cpu": 1}}));
    let message = json!({"from": "v/other/g-0", "to": "v/other/g-1", "count": 1});
    let channel = json!({"from": "v/other/g", "to": "v/other/g", "count": 0});
    let mut world = json!({"version": 1, "units": [unit], "actors": actors, "exchangeCost": {"otherKind": 1},
        "messages": vec![message; 200_000], "groupMessages": [channel]});
    assert_eq!(Snapshot::read(&world.to_string()).unwrap().actors(), 20_002);
    let own = json!({"from": "v/own/g-0", "to": "v/other/g-0", "count": 1});
    world["messages"] = json!(vec![own; 200_001]);
    let refused = Snapshot::read(&world.to_string()).unwrap_err().to_string();
    assert_eq!(refused, "messages: 200001 edges; at most 200000 can be planned at once");
}

#[test]
fn pairs_of_kinds_are_symmetric() {
    let world = |kinds: Value| {
        json!({"version": 1, "units": [{"id": "c", "kind": "cpu", "node": "n", "capacity": 1}, {"id": "g", "kind": "gpu", "node": "n", "capacity": 1}],
               "exchangeCost": {"kinds": kinds}}).to_string()
    };
    let cost = |kinds: Value| {
        Snapshot::read(&world(kinds)).map(|snapshot| snapshot.exchange_cost(UnitIx::new(1), UnitIx::new(0)))
    };
    assert_eq!(cost(json!({"cpu": {"cpu": 1, "gpu": 5}, "gpu": {"gpu": 1}})), Ok(5));
    assert_eq!(cost(json!({"cpu": {"cpu": 1}, "gpu": {"gpu": 1, "cpu": 5}})), Ok(5));
    let missing = cost(json!({"cpu": {"gpu": 5}, "gpu": {"gpu": 1}})).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "exchangeCost.kinds: no cost for cpu to cpu; list the pair or give `otherKind`"
    );
}

#[test]
fn the_largest_number_is_accepted() {
    let world = json!({"version": 1, "units": [{"id": "u", "kind": "cpu", "node": "n", "capacity": LARGEST}],
        "actors": [{"id": "a", "runsOn": {"cpu": LARGEST}}], "exchangeCost": {"otherKind": 1}, "objectives": ["overload"]});
    let snapshot = Snapshot::read(&world.to_string()).unwrap();
    assert_eq!(snapshot.cost(&line::places([Some(0)])).of(Criterion::Overload), 0);
}

/// Units with the largest capacity, which stands for no limit: their sum exceeds 64 bits.
#[test]
fn sums_of_capacities_may_exceed_64_bits() {
    let unit =
        |at: usize| json!({"id": at.to_string(), "kind": "cpu", "node": at.to_string(), "capacity": LARGEST});
    let units: Vec<Value> = (0..1_100).map(unit).collect();
    let world = json!({"version": 1, "units": units, "actors": [{"id": "a", "runsOn": {"cpu": 1}}],
        "exchangeCost": {"otherKind": 1}});
    let snapshot = Snapshot::read(&world.to_string()).unwrap();
    let rooms = Rooms::new(snapshot.problem());
    assert_eq!((rooms.most_overload(), rooms.least_overload()), (0, 0));
    assert!(Weighted::new(&snapshot).has_limit);
}

/// Weights of levels follow from attainable values, not from the product of the largest numbers in the file.
#[test]
fn weights_follow_from_attainable_values() {
    let actor = |id: &str| json!({"id": id, "runsOn": {"cpu": 1u64 << 51}});
    let world = |units: Value, kinds: Value, objectives: Value| {
        let half = 1u64 << 40;
        json!({"version": 1, "units": units, "actors": [actor("a"), actor("b")],
            "messages": [{"from": "a", "to": "b", "count": half}], "annoyance": [{"a": "a", "b": "b", "drag": half}],
            "exchangeCost": {"kinds": kinds, "otherKind": 1}, "objectives": objectives})
    };
    let cpu = |id: &str| json!({"id": id, "kind": "cpu", "node": id, "capacity": LARGEST});
    let gpu = json!({"id": "g", "kind": "gpu", "node": "g", "capacity": 1, "powerWatts": LARGEST});
    let worlds = [
        // No actor can run on the unit that draws power; in the second case messages are free.
        (Criterion::Energy, world(json!([cpu("u"), gpu]), json!({}), json!(["energy"]))),
        (
            Criterion::Communication,
            world(
                json!([cpu("u"), cpu("v")]),
                json!({"cpu": {"cpu": 0}}),
                json!(["communication", "annoyance"]),
            ),
        ),
    ];
    for (criterion, world) in worlds {
        let snapshot = Snapshot::read(&world.to_string()).unwrap();
        assert!(Weighted::new(&snapshot).weights.of(criterion) > 0, "{world}");
    }
}

proptest! {
    #[test]
    fn written_files_read_back_unchanged(file in any_file()) {
        let text = Snapshot::new(file.clone()).unwrap().write();
        let back = Snapshot::read(&text).unwrap();
        prop_assert_eq!(back.file(), &file);
        prop_assert_eq!(back.write(), text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(at in 0..WORLD.len(), with in "[0-9a-z\\[\\]{}\",:-]{0,3}") {
        let mut text = WORLD.to_owned();
        text.replace_range(at..(at + with.len()).min(WORLD.len()), &with);
        _ = Snapshot::read(&text);
        _ = serde_json::from_str::<SnapshotFile>(&text);
    }
}

#[test]
fn amounts_of_quotas_are_in_range() {
    let quota = |amount: u64| {
        refused(
            "/constraints/-",
            json!({"type": "quota", "actors": ["v/s/a"], "max": 1, "units": {"n/cpu-0": amount}}),
        )
    };
    assert_eq!(
        quota(LARGEST + 1),
        "constraints[10].units.n/cpu-0: 9007199254740993 is above 2^53; use a smaller number or a coarser unit"
    );
    assert!(quota(1 << 63).starts_with("constraints[10].units.n/cpu-0: 9223372036854775808 is above 2^53"));
    assert_eq!(quota(1), "accepted");
    let alone = json!({"version": 1, "exchangeCost": {"otherKind": 1}, "units": [{"id": "u", "kind": "cpu", "node": "n", "capacity": 1}], "constraints": [
        {"type": "quota", "actors": [], "max": 1, "units": {"u": 1_u64 << 63}}]});
    assert!(
        Snapshot::read(&alone.to_string()).unwrap_err().to_string().starts_with("constraints[0].units.u: ")
    );
}
