//! Tests of the encoding of snapshots.

use ::search::Greedy;
use placement::{Budget, Strategy};
use proptest::prelude::*;

use super::*;
use crate::engine;

/// A small snapshot with some of everything, with a parameter for its names.
fn world(name: impl Fn(&str) -> String) -> Snapshot {
    let json = serde_json::json!({
        "version": 1,
        "nodes": [{"id": name("n"), "provides": {"cpu": 5}}],
        "units": [
            {"id": name("u"), "kind": "cpu", "node": name("n"), "zone": name("z"), "capacity": 3, "slots": 2},
            {"id": name("v"), "kind": "gpu", "node": name("n"), "numa": name("0"), "capacity": 9},
            {"id": name("w"), "kind": "gpu", "node": name("m"), "capacity": 9, "provides": {(name("mem")): 4}}
        ],
        "actors": [
            {"id": name("a"), "runsOn": {"cpu": 2, "gpu": 1}, "current": name("v"), "moveCost": 7},
            {"id": name("b"), "runsOn": {"cpu": {"work": 2, "nodeRequires": {"cpu": 3}}, "gpu": 1}},
            {"id": name("c"), "runsOn": {"cpu": 1}, "fixed": true, "current": name("u")},
            {"id": name("d"), "runsOn": {"cpu": 1}, "fixed": true, "current": name("u")}
        ],
        "messages": [
            {"from": name("a"), "to": name("b"), "count": 2}, {"from": name("b"), "to": name("a"), "count": 3},
            {"from": name("a"), "to": name("a"), "count": 9}, {"from": name("c"), "to": name("b"), "count": 1},
            {"from": name("c"), "to": name("d"), "count": 5}
        ],
        "annoyance": [{"a": name("b"), "b": name("a"), "drag": 4}],
        "exchangeCost": {"kinds": {"cpu": {"gpu": 5}}, "otherKind": 20, "otherNode": 30,
                         "pairs": [{"a": name("v"), "b": name("w"), "cost": 11}]},
        "constraints": [{"type": "apart", "on": "unit", "actors": [name("b"), name("c")]},
                        {"type": "prefer", "actor": name("a"), "unit": name("w"), "weight": 2}]
    });
    Snapshot::read(&json.to_string()).unwrap()
}

fn facts(snapshot: &Snapshot) -> String {
    Encoded::new(snapshot, &snapshot.incumbent()).facts
}

#[test]
fn facts_are_sorted_and_omit_irrelevant_ones() {
    let snapshot = world(str::to_owned);
    // Both directions are summed, self-messages are dropped; `d` has no pair with a movable actor.
    insta::assert_snapshot!(facts(&snapshot));
    assert_eq!(facts(&snapshot), facts(&snapshot.clone()));
}

#[test]
fn constant_parts_are_added_back() {
    let mut file = world(str::to_owned).file().clone();
    file.actors[3].current = Some("w".into());
    file.actors[3].runs_on = file.actors[0].runs_on.clone();
    let snapshot = Snapshot::new(file).unwrap();
    // c on u and d on w: 5 messages at 5 for the kinds and 30 for the nodes.
    assert_eq!(Encoded::new(&snapshot, &snapshot.incumbent()).vector(&[1, 1, 1, 1, 1]), [0, 0, 175, 0, 0]);
}

proptest! {
    /// Whatever a name contains, each fact stays one fact, and the optimum equals that with plain names.
    #[test]
    fn names_are_never_program_text(odd in r#"[a"\\\n\r().,%:\-|&{} ]{0,9}"#) {
        let plain = world(str::to_owned);
        let hostile = world(|name| format!("{odd}{name}{odd}"));
        let text = facts(&hostile);
        for fact in text.lines() {
            let term = fact.strip_suffix('.').unwrap();
            prop_assert!(clingo::parse_term(term).is_ok(), "{fact}");
        }
        prop_assert_eq!(text.lines().count(), facts(&plain).lines().count());
        let best = |facts: &str| engine::optimum(facts).unwrap().unwrap().vector;
        prop_assert_eq!(best(&text), best(&facts(&plain)));
    }

    /// From an assignment to the model that represents it, and back.
    #[test]
    fn models_decode_to_assignments(seed: u64) {
        let snapshot = world(str::to_owned);
        let answer = Greedy.solve(&snapshot, &Budget::effort(None, seed)).unwrap().assignment;
        let encoded = Encoded::new(&snapshot, &answer);
        let movable = snapshot.problem().movable.iter();
        let places: Vec<Option<usize>> = movable.map(|actor| answer[*actor].map(UnitIx::at)).collect();
        prop_assert_eq!(encoded.assignment(&places), Some(answer));
        prop_assert_eq!(encoded.assignment(&[Some(9), None]), None);
        prop_assert_eq!(encoded.assignment(&[None]), None);
    }
}
