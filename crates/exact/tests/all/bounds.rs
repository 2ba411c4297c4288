//! Bounds compared with optima, and with known results for the published instances.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use exact::bound;
use placement::{Objectives, Snapshot};
use serde_json::json;
use testkit::line::places;
use testkit::oracle;
use testkit::published as instance;

fn lower(snapshot: &Snapshot, best: &[i64]) -> BTreeMap<String, i64> {
    bound::lower_bounds(snapshot, best, &|| false)
}

#[test]
fn no_bound_is_above_the_optimum_of_all_assignments() {
    let (mut above_zero, mut tight) = (0, 0);
    for seed in 0..2000 {
        let file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let (optimum, _) = oracle::optimum(&file);
        let bounds = lower(&snapshot, &optimum);
        for (level, &value) in snapshot.objectives().levels().iter().zip(&optimum[1..]) {
            let Some(&bound) = bounds.get(&Objectives::key(level)) else { break };
            assert!(bound <= value, "{bound} of {value} in {}", snapshot.write());
            above_zero += usize::from(bound > 0);
            tight += usize::from(bound > 0 && bound == value);
        }
    }
    // Bounds must be found for a fair share of the snapshots.
    assert!(above_zero > 100, "{above_zero}");
    assert!(tight > 30, "{tight}");
}

#[test]
fn small_instances_are_bounded_near_their_optimum() {
    let said = lower(&instance("P-16x5-s1"), &[0, 0, 6537, 82]);
    assert_eq!(said["overload"], 0);
    assert!((4900..=6537).contains(&said["communication"]), "{said:?}");
    assert!(!said.contains_key("annoyance"), "communication is open, so annoyance is: {said:?}");
}

/// A unit that is over-committed has no limit in the program, and nine of these exceed 64 bits.
#[test]
fn many_units_may_be_over_committed() {
    let unit = |id: String, memory: u32| json!({"id": id, "kind": "cpu", "node": id, "capacity": 100, "provides": {"memory": memory}});
    let small = (0..9).map(|at| unit(format!("small-{at}"), 1));
    let large = (0..2).map(|at| unit(format!("large-{at}"), 100));
    let actor = |at: usize| {
        json!({"id": format!("a{at}"), "runsOn": {"cpu": 1}, "requires": {"memory": 2},
            "current": format!("small-{at}")})
    };
    let world = json!({"version": 1, "units": small.chain(large).collect::<Vec<_>>(),
        "actors": (0..9).map(actor).collect::<Vec<_>>(), "messages": [{"from": "a0", "to": "a1", "count": 5}],
        "constraints": [{"type": "apart", "on": "unit", "actors": ["a0", "a1"]}],
        "exchangeCost": {"otherKind": 1}, "objectives": ["communication"]});
    let snapshot = Snapshot::read(&world.to_string()).unwrap();
    assert_eq!(snapshot.rules().map(|rules| rules.excusable().len()), Some(9));
    let best = places((0..9).map(|at| Some(if at == 0 { 9 } else { 10 })));
    assert_eq!(snapshot.violations(&best), []);
    let vector = snapshot.cost(&best).vector(&snapshot);
    assert_eq!(lower(&snapshot, &vector).get("communication"), Some(&5), "{vector:?}");
}

#[test]
fn levels_below_an_open_one_have_no_bound() {
    let snapshot = instance("P-16x5-s1");
    assert_eq!(lower(&snapshot, &[1, 0, 6537, 82]), BTreeMap::new(), "an actor is left over");
    assert_eq!(lower(&snapshot, &[0, 5, 6537, 82]), BTreeMap::new(), "the overload may be avoidable");
}

#[test]
fn an_interrupted_search_proves_less_and_is_deterministic() {
    let snapshot = instance("P-24x6-s1");
    let cut_after = |polls: usize| {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) >= polls;
        bound::lower_bounds(&snapshot, &[0, 0, 8014, 160], &stop).get("communication").copied().unwrap_or(0)
    };
    let whole = lower(&snapshot, &[0, 0, 8014, 160])["communication"];
    assert!((6300..=8014).contains(&whole), "{whole}");
    assert_eq!(cut_after(usize::MAX), whole);
    assert_eq!(cut_after(0), 0);
    let some = cut_after(500);
    assert!(some > 0 && some <= whole, "{some} of {whole}");
    assert_eq!(cut_after(500), some);
}

/// A node with units in two zones: sharing a zone is not transitive.
#[test]
fn a_node_in_two_zones_joins_them() {
    let pin = |actor: &str, unit: &str| json!({"type": "pin", "actor": actor, "unit": unit});
    let unit = |id: &str, node: &str, zone: Option<&str>| json!({"id": id, "kind": "cpu", "node": node, "zone": zone, "capacity": 99});
    let two = |id: &str| json!({"id": id, "kind": "cpu", "node": "m", "capacity": 99, "slots": 2});
    let actors = ["a", "b", "c", "x", "y", "w"].map(|id| json!({"id": id, "runsOn": {"cpu": 1}}));
    let message = |from: &str, to: &str, rate: u32| json!({"from": from, "to": to, "count": rate});
    let file = json!({
        "version": 1,
        "objectives": ["communication"],
        "units": [unit("u0", "n0", None), unit("u1", "n0", Some("z")), unit("u2", "n1", Some("z")), two("m0"), two("m1")],
        "exchangeCost": {"kinds": {"cpu": {"cpu": 10}}, "otherNode": 0, "otherZone": 1000},
        "actors": actors,
        "messages": [message("a", "b", 1), message("b", "c", 1), message("x", "y", 10), message("y", "w", 10), message("x", "w", 10)],
        "constraints": [pin("a", "u0"), pin("b", "u1"), pin("c", "u2"),
            json!({"type": "only", "actors": ["x", "y", "w"], "nodes": ["m"]})],
    });
    holds(&file);
}

/// Several preferences of one actor for one unit.
#[test]
fn repeated_preferences_use_capacity_once() {
    let prefer =
        |actor: &str, weight: u32| json!({"type": "prefer", "actor": actor, "unit": "u", "weight": weight});
    holds(&json!({
        "version": 1,
        "objectives": ["policy"],
        "units": [{"id": "u", "kind": "cpu", "node": "n", "capacity": 99, "slots": 1},
            {"id": "v", "kind": "cpu", "node": "n", "capacity": 99, "slots": 9}],
        "exchangeCost": {"otherKind": 1},
        "actors": [{"id": "a", "runsOn": {"cpu": 1}}, {"id": "b", "runsOn": {"cpu": 1}}],
        "constraints": [prefer("a", 5), prefer("a", 5), prefer("b", 1)],
    }));
}

/// No bound of the optimum's levels exceeds it.
fn holds(file: &serde_json::Value) {
    let snapshot = Snapshot::read(&file.to_string()).unwrap();
    let (optimum, _) = oracle::optimum(snapshot.file());
    assert_eq!(optimum[0], 0, "all actors are placed");
    for (level, bound) in lower(&snapshot, &optimum) {
        let levels = snapshot.objectives().levels();
        let at = levels.iter().position(|of| Objectives::key(of) == level).unwrap();
        assert!(bound <= optimum[at + 1], "{level}: {bound} of {optimum:?}");
    }
}
