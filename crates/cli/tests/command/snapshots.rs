//! `plan --snapshot`.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::{File, cairn, cairn_fed};

const P_8X4: &str = "examples/instances/P-8x4-s1.json";

/// A snapshot with running, moving and unplaced actors.
const WORLD: &str = r#"{"version": 1, "for": "vision/surveillance",
  "units": [{"id": "n0/cpu", "kind": "cpu", "node": "n0", "pool": "cpus", "capacity": 10},
            {"id": "n1/cpu", "kind": "cpu", "node": "n1", "pool": "cpus", "capacity": 10},
            {"id": "n1/gpu", "kind": "gpu", "node": "n1", "pool": "gpus", "capacity": 5, "slots": 1}],
  "actors": [{"id": "vision/surveillance/crop-0", "runsOn": {"cpu": 4}, "moveCost": 5, "current": "n0/cpu"},
             {"id": "vision/surveillance/crop-1", "runsOn": {"cpu": 4}, "moveCost": 5, "current": "n1/cpu"},
             {"id": "vision/surveillance/classify-0", "runsOn": {"gpu": 5}},
             {"id": "vision/surveillance/classify-1", "runsOn": {"gpu": 5, "fpga": 1}},
             {"id": "other/one/a-0", "runsOn": {"cpu": 1}, "fixed": true, "current": "n0/cpu"}],
  "messages": [{"from": "vision/surveillance/crop-0", "to": "vision/surveillance/classify-0", "count": 1000},
               {"from": "vision/surveillance/crop-1", "to": "vision/surveillance/classify-0", "count": 20}],
  "exchangeCost": {"kinds": {"cpu": {"cpu": 1, "gpu": 5}, "gpu": {"gpu": 1}}, "otherNode": 30}}"#;

#[test]
fn small_instance_is_proven_optimal() {
    let ran = cairn(&["plan", "--snapshot", P_8X4, "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let plan = ran.json();
    let keys: Vec<&str> = plan.as_object().unwrap().keys().map(String::as_str).collect();
    let mut documented = [
        "assignments",
        "unplaced",
        "objective",
        "bound",
        "optimal",
        "levels",
        "gapPercent",
        "strategy",
        "stage",
        "foundBy",
        "provenBy",
        "judged",
        "seed",
        "effort",
        "stoppedBy",
        "seconds",
        "moves",
    ];
    documented.sort_unstable();
    assert_eq!(keys, documented);
    assert_eq!(plan["objective"]["overload"], 0);
    assert_eq!(plan["objective"]["communication"], 3884);
    assert_eq!(plan["objective"]["annoyance"], 77);
    assert_eq!(plan["objective"].as_object().unwrap().len(), 5);
    let bound = serde_json::json!({"overload": 0, "communication": 3884, "annoyance": 77});
    assert_eq!(plan["bound"], bound);
    assert_eq!(plan["optimal"], true);
    assert_eq!(plan["levels"], json!(["overload", "communication", "annoyance"]));
    assert_eq!(plan["stoppedBy"], "proof");
    // Branch and bound proves small snapshots without clingo.
    assert_eq!((&plan["provenBy"], &plan["judged"]), (&"branch-and-bound".into(), &"all".into()));
    assert_eq!(plan["strategy"], "asp");
    assert_eq!(plan["gapPercent"], 0);
    assert_eq!(plan["assignments"].as_object().unwrap().len(), 8);
}

#[test]
fn equal_effort_gives_equal_output() {
    let run = |strategy: &str| {
        cairn(&[
            "plan",
            "--snapshot",
            P_8X4,
            "--strategy",
            strategy,
            "--effort",
            "50",
            "--seed",
            "7",
            "-o",
            "json",
        ])
    };
    for strategy in ["asp", "clingo", "greedy", "round-robin", "random"] {
        let (one, two) = (run(strategy), run(strategy));
        assert_eq!(one, two);
        assert_eq!(one.json()["strategy"], strategy);
        assert_eq!(one.json()["seed"], 7);
        assert!(one.json().get("seconds").is_none(), "{}", one.out);
    }
}

#[test]
fn time_limit_adds_the_duration() {
    let plan =
        cairn(&["plan", "--snapshot", P_8X4, "--effort", "50", "--budget", "10s", "-o", "json"]).json();
    assert!(plan["seconds"].as_f64().unwrap() < 10.0);
}

#[test]
fn plan_as_a_table() {
    let file = File::new("world.json", WORLD);
    let ran = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 2
    vision/surveillance  strategy greedy · seed 1 · (time)

    ACTOR       UNIT    NODE  KIND  POOL  CHANGE
    crop-0      n1/cpu  n1    cpu   cpus  moves from n0/cpu
    crop-1      n1/cpu  n1    cpu   cpus  stays
    classify-0  n1/gpu  n1    gpu   gpus  starts
    classify-1  -                         unplaced

    Moves
      crop-0: staying would raise communication+migration by 29995

    Unplaced
      classify-1: runs on fpga and gpu only; n1/gpu: 1 of 1 slots taken

    3/4 actors placed, 1 of other applications · overload 0 · communication 5,100 + migration 5 · annoyance 0
    Not proven optimal, the search ended without a proof: communication+migration has no lower bound. (found by construction, judged by clingo)
    ");
}

#[test]
fn explanation_has_alternatives_and_remedies() {
    let file = File::new("world.json", WORLD);
    let ran = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "--explain"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 2
    vision/surveillance  strategy greedy · seed 1 · (time)

    ACTOR       UNIT    NODE  KIND  POOL  CHANGE
    crop-0      n1/cpu  n1    cpu   cpus  moves from n0/cpu
    crop-1      n1/cpu  n1    cpu   cpus  stays
    classify-0  n1/gpu  n1    gpu   gpus  starts
    classify-1  -                         unplaced

    Moves
      crop-0: staying would raise communication+migration by 29995

    ACTOR       UNIT    ALTERNATIVE           EFFECT
    crop-0      n1/cpu  n0/cpu                communication+migration +29,995
                        n1/gpu                forbidden: runs on cpu only
    crop-1      n1/cpu  n0/cpu                communication+migration +605
                        n1/gpu                forbidden: runs on cpu only
    classify-0  n1/gpu  2 units of pool cpus  forbidden: runs on gpu only

    Full units
      n1/gpu: 1 of 1 slots taken

    Changes that allow placing unplaced actors
      classify-1: 1 more slot on n1/gpu; or an implementation of classify-1 for cpu; or one more node like n1

    Unplaced
      classify-1: runs on fpga and gpu only; n1/gpu: 1 of 1 slots taken

    3/4 actors placed, 1 of other applications · overload 0 · communication 5,100 + migration 5 · annoyance 0
    Not proven optimal, the search ended without a proof: communication+migration has no lower bound. (found by construction, judged by clingo)
    ");
    let ran = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "--explain", "-o", "json"]);
    insta::assert_snapshot!(serde_json::to_string(&ran.json()["explanation"]).unwrap(), @r#"
    {"actors":[{"actor":"vision/surveillance/crop-0","alternatives":[{"change":{"annoyance":0,"communication+migration":29995,"overload":0},"names":["n0/cpu"],"units":1},{"forbidden":"runs on cpu only","names":["n1/gpu"],"units":1}],"unit":"n1/cpu"},{"actor":"vision/surveillance/crop-1","alternatives":[{"change":{"annoyance":0,"communication+migration":605,"overload":0},"names":["n0/cpu"],"units":1},{"forbidden":"runs on cpu only","names":["n1/gpu"],"units":1}],"unit":"n1/cpu"},{"actor":"vision/surveillance/classify-0","alternatives":[{"forbidden":"runs on gpu only","names":["n0/cpu","n1/cpu"],"units":2}],"unit":"n1/gpu"}],"full":["n1/gpu: 1 of 1 slots taken"],"inTheWay":[],"wouldMakeRoom":[{"actor":"vision/surveillance/classify-1","anyOf":["1 more slot on n1/gpu","an implementation of classify-1 for cpu","one more node like n1"]}]}
    "#);
    let plain = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "-o", "json"]);
    assert!(plain.json().get("explanation").is_none());
}

#[test]
fn limiting_rules_of_the_policy_have_their_line() {
    let program = "% at most one of a group on a node\n\
        :- group(_,G), cu_node(_,N), #count { A : group(A,G), run_on(A,U), cu_node(U,N) } > 1.\n\
        % nothing on n9\n\
        :- run_on(A,U), cu_node(U,\"n9\").";
    let unit = |node: u8| json!({"id": format!("n{node}/cpu"), "kind": "cpu", "node": format!("n{node}"), "capacity": 9});
    let actor =
        |name: &str| json!({"id": format!("vision/app/{name}"), "group": "crop", "runsOn": {"cpu": 1}});
    let world = json!({"version": 1, "for": "vision/app", "units": [unit(0), unit(1), unit(2)],
        "actors": [actor("crop-0"), actor("crop-1"), actor("crop-2")], "exchangeCost": {"otherKind": 1},
        "constraints": [{"type": "never", "actors": ["vision/app/crop-0", "vision/app/crop-1", "vision/app/crop-2"],
                         "nodes": ["n2"], "reason": "n2 is cordoned"}],
        "policy": {"name": "spread", "program": program}});
    let file = File::new("world.json", &world.to_string());
    let ran = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "--explain"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 2
    vision/app  strategy greedy · policy spread · seed 1 · (time)

    ACTOR   UNIT    NODE  KIND  CHANGE
    crop-0  n0/cpu  n0    cpu   starts
    crop-1  n1/cpu  n1    cpu   starts
    crop-2  -                   unplaced

    ACTOR   UNIT    ALTERNATIVE  EFFECT
    crop-0  n0/cpu  n2/cpu       forbidden: n2 is cordoned
                    n1/cpu       forbidden: policy spread line 2: G = crop, N = n1
    crop-1  n1/cpu  n2/cpu       forbidden: n2 is cordoned
                    n0/cpu       forbidden: policy spread line 2: G = crop, N = n0

    Changes that allow placing unplaced actors
      crop-2: exempt crop-0 from: n2 is cordoned; or exempt crop-1 from: n2 is cordoned; or exempt crop-2 from: n2 is cordoned; or one more node like n0

    Unplaced
      crop-2: n2 is cordoned; policy spread line 2: G = crop, N = n0, and 1 more like it

    2/3 actors placed · overload 0 · communication 0 · annoyance 0 · policy 0
    Not proven optimal, the search ended without a proof. (found by search, judged by clingo)
    ");
}

#[test]
fn table_of_many_actors_lists_those_that_cost_least_to_move() {
    let unit = |node: u8| json!({"id": format!("n{node}/cpu"), "kind": "cpu", "node": format!("n{node}"), "capacity": 90});
    let actor = |number: u16| json!({"id": format!("a/b/c-{number}"), "runsOn": {"cpu": 1}});
    // Each actor sends to its predecessor, with increasing message counts.
    let message = |number: u16| json!({"from": format!("a/b/c-{}", number - 1), "to": format!("a/b/c-{number}"), "count": number});
    let world = json!({"version": 1, "for": "a/b", "units": [unit(0), unit(1)],
        "actors": (0..70).map(actor).collect::<Vec<_>>(), "messages": (1..70).map(message).collect::<Vec<_>>(),
        "exchangeCost": {"otherKind": 1, "otherNode": 1}});
    let file = File::new("world.json", &world.to_string());
    let text = cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "--explain"]).out;
    let table: Vec<&str> = text.lines().skip_while(|line| !line.contains("EFFECT")).skip(1).collect();
    assert!(table[0].starts_with("c-0 ") && table[0].ends_with("communication+migration +2"), "{text}");
    assert!(table[1].starts_with("c-1 ") && table[39].starts_with("c-38 "), "{text}");
    assert_eq!(table[40], "30 more actors with higher cost; `-o json` prints all");
    let json =
        cairn(&["plan", "--snapshot", file.path(), "--strategy", "greedy", "--explain", "-o", "json"]).json();
    assert_eq!(json["explanation"]["actors"].as_array().unwrap().len(), 70);
}

#[test]
fn json_and_yaml_are_equal() {
    let print = |format: &str| {
        cairn_fed(&["plan", "--snapshot", "-", "--strategy", "greedy", "--effort", "99", "-o", format], WORLD)
    };
    let (json, yaml) = (print("json"), print("yaml"));
    assert_eq!((json.code, yaml.code), (Some(2), Some(2)));
    let read: serde_json::Value = serde_yaml::from_str(&yaml.out).unwrap();
    assert_eq!(read, json.json());
    insta::assert_snapshot!(json.out, @r#"
    {
      "assignments": {
        "other/one/a-0": "n0/cpu",
        "vision/surveillance/classify-0": "n1/gpu",
        "vision/surveillance/crop-0": "n1/cpu",
        "vision/surveillance/crop-1": "n1/cpu"
      },
      "unplaced": [
        {
          "actor": "vision/surveillance/classify-1",
          "reasons": [
            "runs on fpga and gpu only",
            "n1/gpu: 1 of 1 slots taken"
          ],
          "holds": "always"
        }
      ],
      "objective": {
        "overload": 0,
        "communication": 5100,
        "annoyance": 0,
        "interference": 0,
        "migration": 5
      },
      "bound": {
        "overload": 0,
        "annoyance": 0
      },
      "optimal": false,
      "levels": [
        "overload",
        "communication+migration",
        "annoyance"
      ],
      "strategy": "greedy",
      "stage": "construction",
      "foundBy": "construction",
      "judged": "all",
      "seed": 1,
      "effort": 10,
      "stoppedBy": "effort",
      "moves": [
        {
          "actor": "vision/surveillance/crop-0",
          "from": "n0/cpu",
          "to": "n1/cpu",
          "reason": "staying would raise communication+migration by 29995"
        }
      ]
    }
    "#);
}

#[test]
fn snapshot_output_round_trips() {
    let ran = cairn_fed(
        &["plan", "--snapshot", "-", "-o", "snapshot", "--objectives", "annoyance,overload"],
        WORLD,
    );
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.json()["objectives"], serde_json::json!(["annoyance", "overload"]));
    assert_eq!(cairn_fed(&["plan", "--snapshot", "-", "-o", "snapshot"], &ran.out).out, ran.out);
}

#[test]
fn objectives_of_flags_override_policy_and_snapshot() {
    let policy = File::new("fast.yaml", "objectives: [annoyance]\nstrategy: greedy\nbudget: {wall: 9s}\n");
    let summary = |more: &[&str]| {
        let plan = cairn(&[&["plan", "--snapshot", P_8X4, "-o", "json"], more].concat()).json();
        let bounds: Vec<String> = plan["bound"].as_object().unwrap().keys().cloned().collect();
        format!("{} {}", plan["strategy"].as_str().unwrap(), bounds.join(" "))
    };
    assert_eq!(summary(&[]), "asp annoyance communication overload");
    let with_policy = ["--policy", policy.path(), "--strategy", "asp"];
    assert_eq!(summary(&with_policy), "asp annoyance");
    assert_eq!(summary(&[&with_policy[..], &["--objectives", "overload"]].concat()), "asp overload");
    let plan = cairn(&["plan", "--snapshot", P_8X4, "-o", "json", "--policy", policy.path()]).json();
    assert_eq!(plan["strategy"], "greedy");
}

#[test]
fn plans_below_the_minimum_gain_are_not_applied() {
    // Two actors on one of two units: bottleneck 0.9, at best 0.5, a gain of 40 % of the capacity.
    let actor = |id: &str, work: u64| json!({"id": id, "runsOn": {"cpu": work}, "current": "u"});
    let unit = |id: &str| json!({"id": id, "kind": "cpu", "node": "n", "capacity": 100});
    let world = json!({"version": 1, "nodes": [{"id": "n"}], "units": [unit("u"), unit("v")], "objectives": ["bottleneck"],
        "exchangeCost": {"kinds": {"cpu": {"cpu": 1}}}, "actors": [actor("a", 50), actor("b", 40)]});
    let moves = |least: u64| {
        let policy = File::new("steady.yaml", &format!("leastGainPercent: {least}"));
        let arguments = ["plan", "--snapshot", "-", "--policy", policy.path(), "-o", "json"];
        let plan = cairn_fed(&arguments, &world.to_string()).json();
        (plan["moves"].as_array().unwrap().len(), plan["optimal"].clone())
    };
    assert_eq!([0, 40, 41].map(moves), [(1, json!(true)), (1, json!(true)), (0, json!(false))]);
}

#[test]
fn snapshot_errors_have_file_path_and_remedy() {
    let error = |text: &str| {
        let file = File::new("world.json", text);
        let ran = cairn(&["plan", "--snapshot", file.path()]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        file.without_path(&ran.err)
    };
    let rows = [
        error(""),
        error(r#"{"version": 2}"#),
        error(r#"{"version": 1, "unitz": []}"#),
        error(r#"{"version": 1, "units": [{"id": "u", "kind": "cpu", "node": "n", "capacity": 0}]}"#),
        error(&WORLD.replace("\"otherNode\"", "\"otherNod\"")),
        error(&WORLD.replace("\"current\": \"n1/cpu\"", "\"current\": \"n9/cpu\"")),
        error(r#"{"version": 1, "messages": [["a", "b", 1]]}"#),
        error(r#"{"version": 1, "exchangeCost": {"kinds": {"cpu": {}, "cpu": {}}}}"#),
    ];
    insta::assert_snapshot!(rows.concat(), @r"
    error: world.json: is empty; a snapshot is what `kubectl cairn plan -o snapshot` or the operator's /debug/snapshot prints
    error: world.json: version: version 2 is not known; this program reads version 1
    error: world.json: unitz: unknown field `unitz`, expected one of `version`, `name`, `for`, `windowMicroseconds`, `nodes`, `units`, `actors`, `messages`, `groupMessages`, `annoyance`, `interference`, `exchangeCost`, `sharedLinks`, `constraints`, `leftToScheduler`, `policy`, `objectives` at line 1 column 22
    error: world.json: units[0].capacity: is 0; a unit can do at least 1 in a window, leave out units that can do nothing
    error: world.json: exchangeCost.otherNod: unknown field `otherNod`, expected one of `kinds`, `otherKind`, `otherNuma`, `otherNode`, `otherZone`, `pairs` at line 12 column 88
    error: world.json: actors[1].current: there is no unit `n9/cpu`; add it or correct the name
    error: world.json: messages[0]: is a list; give an object, with its fields by name: from, to, count at line 1 column 29
    error: world.json: exchangeCost.kinds.cpu: `cpu` is given twice; keep one at line 1 column 58
    ");
    assert_eq!(
        cairn_fed(&["plan", "--snapshot", "-"], "{}").err,
        "error: standard input: .: missing field `version` at line 1 column 2\n"
    );
    let absent = cairn(&["plan", "--snapshot", "/does/not/exist.json"]);
    assert_eq!(
        (absent.code, absent.err.as_str()),
        (Some(1), "error: cannot read /does/not/exist.json: No such file or directory (os error 2)\n")
    );
}

#[test]
fn compressed_snapshots_are_detected_by_content() {
    let plan = |path: &str| {
        let ran = cairn(&["plan", "--snapshot", path, "--strategy", "greedy", "--effort", "1", "-o", "json"]);
        assert_eq!(ran.err, "", "{path}");
        ran.json()
    };
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(WORLD.as_bytes()).unwrap();
    let bytes = packed.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let expected = plan(&at("world.json", WORLD.as_bytes()));
    assert_eq!(plan(&at("world.json.gz", &bytes)), expected);
    assert_eq!(plan(&at("world", &bytes)), expected);
    let published = plan("examples/instances/P-32x8-s1.json.gz");
    assert_eq!(published["assignments"].as_object().unwrap().len(), 32);

    let cut = at("cut.json.gz", &bytes[..bytes.len() / 2]);
    let ran = cairn(&["plan", "--snapshot", &cut]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let message = ran.err.replace(&cut, "cut.json.gz");
    assert!(message.starts_with("error: cut.json.gz: corrupt gzip archive ("), "{message}");
    assert!(message.ends_with("): copy it again, or pass the uncompressed file\n"), "{message}");
    let other = at("other.json", b"{\xff}");
    assert_eq!(
        cairn(&["plan", "--snapshot", &other]).err.replace(&other, "other.json"),
        "error: other.json: neither UTF-8 text nor a gzip archive of it (invalid byte at 1)\n"
    );
}

#[test]
fn parameters_applied_in_the_snapshot_are_rejected() {
    let error = |name: &str, text: &str| {
        let file = File::new(name, text);
        let ran = cairn(&["plan", "--snapshot", P_8X4, "--policy", file.path()]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
        file.without_path(&ran.err)
    };
    let rows = [
        error("fast.yaml", "window: 10s"),
        error("fast.yaml", "moveCost: {fixed: 1}"),
        error("fast.yaml", "strategyy: asp"),
        error("fast.yaml", "strategy: magic"),
        error("fast.yaml", "strategy: random"),
        error("fast.yaml", "objectives: [overload"),
        error("fast.yaml", "objectives: [overload, overload]"),
        error("fast.yaml", "strategy: asp\n---\nstrategy: greedy\n"),
        error(
            "map.yaml",
            "kind: ConfigMap\nmetadata: {name: fast}\ndata: {policy.yaml: 'exchangeCost: {otherNode: 3}'}",
        ),
        error("map.yaml", "kind: ConfigMap\nmetadata: {name: fast}\ndata: {program.lp: '#show.'}"),
        error("map.yaml", "kind: ConfigMap\ndata: 7"),
        error("map.yaml", "kind: ConfigMap\ndata: {program.lp: a., program.lp: b.}"),
    ];
    insta::assert_snapshot!(rows.concat(), @r"
    error: fast.yaml: window: already applied in the snapshot; remove it, or plan from manifests with -f
    error: fast.yaml: moveCost: already applied in the snapshot; remove it, or plan from manifests with -f
    error: fast.yaml: line 1 column 1, strategyy: unknown field `strategyy`, expected one of `window`, `strategy`, `budget`, `objectives`, `exchangeCost`, `messageQuantum`, `annoyance`, `moveCost`, `leastGainPercent`, `rebalance`, `judge`
    error: fast.yaml: strategy: there is no strategy `magic`; use one of asp, greedy, local, clingo
    error: fast.yaml: strategy: strategy `random` is a baseline for comparison, not for production; use one of asp, greedy, local, clingo
    error: fast.yaml: invalid YAML: did not find expected ',' or ']' at line 2 column 1, while parsing a flow sequence at line 1 column 13
    error: fast.yaml: objectives: `overload` is named twice; name it once
    error: fast.yaml: contains several documents; a policy is a single document
    error: map.yaml: exchangeCost: already applied in the snapshot; remove it, or plan from manifests with -f
    error: map.yaml: program.lp line 1 column 1: `#show` changes what the solver reports; remove it
    error: map.yaml: invalid ConfigMap: invalid type: integer `7`, expected a map; pass a ConfigMap or a policy.yaml
    error: map.yaml: invalid YAML: data: `program.lp` is given twice; keep one at line 2 column 7
    ");
    let map = "kind: ConfigMap\nmetadata: {name: fast}\ndata: {policy.yaml: 'strategy: greedy'}";
    let file = File::new("map.yaml", map);
    let plan = cairn(&["plan", "--snapshot", P_8X4, "--policy", file.path(), "-o", "json"]).json();
    assert_eq!(plan["strategy"], "greedy");
}

#[test]
fn tolerated_violations_are_reported() {
    let actor = |name: &str, fixed: bool| serde_json::json!({"id": format!("shop/app/{name}"), "runsOn": {"cpu": 1}, "fixed": fixed, "current": "n0/cpu"});
    let world = serde_json::json!({"version": 1, "for": "shop/app", "exchangeCost": {"otherKind": 1},
        "units": [{"id": "n0/cpu", "kind": "cpu", "node": "n0", "capacity": 9}],
        "actors": [actor("other", true), actor("another", true), actor("ours", false)],
        "policy": {"name": "lonely", "program": ":- cu(U), #count { A : run_on(A,U) } > 1."}});
    let file = File::new("world.json", &world.to_string());
    let plan = cairn(&["plan", "--snapshot", file.path(), "-o", "json"]).json();
    let excused =
        serde_json::json!([{"actor": "shop/app/ours", "reasons": ["policy lonely line 1: U = n0/cpu"]}]);
    assert_eq!((&plan["excused"], &plan["unplaced"]), (&excused, &serde_json::json!([])));
    assert_eq!((&plan["objective"]["excused"], &plan["judged"]), (&serde_json::Value::Null, &"all".into()));
    let text = cairn(&["plan", "--snapshot", file.path()]).out;
    let section = "Tolerated violations\n  ours: policy lonely line 1: U = n0/cpu\n";
    assert!(text.contains(section), "{text}");
}
