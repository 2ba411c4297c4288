//! `plan --windows`.

use std::collections::{BTreeMap, BTreeSet};

use control::{GateRule, LoadTerms};
use counters::{GroupProfile, KindProfile, Windows, WindowsFile};
use placement::{Budget, NoPolicy, Snapshot, plan};
use portfolio::{Limits, Purpose};
use serde_json::json;
use world::{LoadFacts, LoadRecord};

use crate::{File, cairn};

/// The manifest declares messages from `a-0` to `c-0` on the same unit.
const WORLD: &str = r#"{"version": 1, "for": "shop/web", "nodes": [{"id": "n0"}, {"id": "n1"}],
  "units": [{"id": "n0/cpu", "kind": "cpu", "node": "n0", "capacity": 10000000, "slots": 2},
            {"id": "n1/cpu", "kind": "cpu", "node": "n1", "capacity": 10000000, "slots": 2}],
  "actors": [{"id": "shop/web/a-0", "group": "a", "runsOn": {"cpu": 4}, "current": "n0/cpu"},
             {"id": "shop/web/b-0", "group": "b", "runsOn": {"cpu": 4}, "current": "n1/cpu"},
             {"id": "shop/web/c-0", "group": "c", "runsOn": {"cpu": 4}, "current": "n0/cpu"}],
  "messages": [{"from": "shop/web/a-0", "to": "shop/web/c-0", "count": 500}],
  "exchangeCost": {"kinds": {"cpu": {"cpu": 1}}}}"#;

/// Nine windows in which `a-0` sends mostly to `b-0`, the newest first.
fn windows() -> WindowsFile {
    let window = |at: u32| {
        json!({"endedAt": 1000 - 10 * at, "settled": true, "hasData": true, "minScrapes": 6,
        "groups": {"a": [1, 1, 1, 0], "b": [1, 1, 1, 0], "c": [1, 1, 1, 0]}})
    };
    let actor = |group: &str| {
        json!({"group": group, "kinds": vec!["cpu"; 9], "work": [2e6, 2.1e6, 1.9e6, 2e6, 2e6, 2e6, 2.2e6, 2e6, 1.7e6],
            "service": vec![333.25; 9], "other": vec![0.0; 9], "saturated": vec![false; 9]})
    };
    let file = json!({"windowSeconds": 10.0, "messageQuantum": 1000.0,
        "windows": (0..9).map(window).collect::<Vec<_>>(),
        "messages": [{"actor": "a-0", "peer": "b-0", "values": [900.3, 800.0, 950.7, 900.0, 901.0, 890.0, 870.0, 999.0, 930.1]},
                     {"actor": "a-0", "peer": "c-0", "values": [300.0, 310.5, 280.0, 300.0, 300.0, 300.0, 290.0, 333.3, 301.0]}],
        "actors": {"a-0": actor("a"), "b-0": actor("b"), "c-0": actor("c")}});
    serde_json::from_value(file).unwrap()
}

/// The operator's search by this rule, and the snapshot of its facts.
fn searched(rule: GateRule) -> (LoadRecord, Snapshot) {
    let base = Snapshot::read(WORLD).unwrap();
    let kind = KindProfile { work_microseconds: 4.0, service_microseconds: 100.0, ..KindProfile::default() };
    let group = |name: &str| {
        let kinds = [("cpu".to_owned(), kind)].into();
        (name.to_owned(), GroupProfile { actors: vec![format!("{name}-0")], receivers: Vec::new(), kinds })
    };
    let groups = ["a", "b", "c"].map(group).into();
    let terms = LoadTerms {
        least: 0.1,
        max_moves: 8,
        pause_seconds: 10.0,
        pauses: BTreeMap::new(),
        horizon_seconds: 100.0,
    };
    let windows = Windows::of_file(&windows());
    let facts = LoadFacts::new(rule, &base, &windows, groups, BTreeSet::from(["c".to_owned()]), terms);
    let planned = facts.planned(&base).unwrap();
    let strategy = portfolio::strategy("asp", Purpose::Production).unwrap().make(Limits::default());
    let plan = plan(&planned, &*strategy, &NoPolicy, &Budget::effort(None, 7)).unwrap();
    let judgement = facts.judge(&base, &planned, &plan.assignment).unwrap();
    (facts.record(&planned, &plan, &judgement), planned)
}

fn export(record: Option<&LoadRecord>) -> File {
    File::new("load.json", &json!({"windows": windows(), "measured": null, "search": record}).to_string())
}

#[test]
fn facts_plan_and_verdict_are_those_of_the_operator_byte_for_byte() {
    let snapshot = File::new("world.json", WORLD);
    for (rule, verdict) in [(GateRule::Steady, "pays"), (GateRule::Change, "uncertain")] {
        let (record, planned) = searched(rule);
        assert_eq!(record.outcome.verdict, verdict);
        let file = export(Some(&record));
        let run = |output: &str| {
            cairn(&["plan", "--snapshot", snapshot.path(), "--windows", file.path(), "-o", output])
        };
        assert_eq!(run("snapshot").out, planned.write());
        let report = run("json").json();
        assert_eq!((&report["seed"], &report["effort"]), (&json!(7), &json!(record.effort)));
        assert_eq!(report["load"]["repeats"], true);
        let outcome = serde_json::to_string(&report["load"]["outcome"]).unwrap();
        let expected = serde_json::to_value(&record.outcome).unwrap();
        assert_eq!(outcome, serde_json::to_string(&expected).unwrap());
        let moved = &record.outcome.moves[0];
        assert_eq!(
            (moved.actor.as_str(), moved.from.as_str(), moved.to.as_str()),
            ("a-0", "n0/cpu", "n1/cpu")
        );
    }
    let (record, _) = searched(GateRule::Steady);
    let page = cairn(&["plan", "--snapshot", snapshot.path(), "--windows", export(Some(&record)).path()]).out;
    assert!(page.contains("measured load, by all windows: these moves pay: "), "{page}");
    assert!(page.contains("(same verdict as the operator)"), "{page}");
}

#[test]
fn another_snapshot_and_another_verdict_are_noted() {
    let (mut record, _) = searched(GateRule::Steady);
    record.outcome.verdict = "small".to_owned();
    let (other, file) =
        (File::new("other.json", &WORLD.replace("10000000", "9000000")), export(Some(&record)));
    let report = cairn(&["plan", "--snapshot", other.path(), "--windows", file.path(), "-o", "json"]).json();
    assert_eq!(report["load"]["repeats"], false);
    let notes = report["notes"].to_string();
    assert!(notes.contains("the snapshot is not the one of the operator's search"), "{notes}");
    assert!(notes.contains("differs from the operator's verdict"), "{notes}");
}

#[test]
fn invalid_windows_are_explained() {
    let snapshot = File::new("world.json", WORLD);
    let refused = |file: &File| {
        let ran = cairn(&["plan", "--snapshot", snapshot.path(), "--windows", file.path()]);
        assert_eq!(ran.code, Some(1));
        ran.err
    };
    let err = refused(&export(None));
    assert!(err.contains("has not searched for moves for measured load yet"), "{err}");
    let err = refused(&File::new("load.json", r#"{"search": {"facts": 3}}"#));
    assert!(
        err.contains("write the response of the operator's /debug/load/NAMESPACE/NAME to a file"),
        "{err}"
    );
    let (mut record, _) = searched(GateRule::Steady);
    record.strategy = "unknown".to_owned();
    let err = refused(&export(Some(&record)));
    assert!(err.contains("--windows: search.strategy: there is no strategy `unknown`"), "{err}");
    let ran = cairn(&["plan", "--windows", "x"]);
    assert!(ran.err.contains("--snapshot <FILE>"), "{}", ran.err);
    let ran = cairn(&["plan", "--snapshot", snapshot.path(), "--windows", "x", "--effort", "3"]);
    assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
}
