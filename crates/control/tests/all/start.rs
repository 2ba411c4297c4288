//! Applications that start all at once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use control::{
    Decision, DesiredActor, DesiredState, FreeCapacity, FreeUnit, Instance, NameConflict, ObjectId,
    ObservedState, Pod, all_or_nothing, hold_start, next_actions,
};

use crate::worlds::{planned, snapshot};

/// Placed actors, and the reasons of the others.
fn summary(world: &str) -> String {
    let snapshot = snapshot(world);
    let plan = all_or_nothing(&snapshot, planned(&snapshot));
    let actors = plan.assignment.enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor));
    let summary = actors.map(|(actor, unit)| {
        let name = snapshot.actor_id(actor).rsplit('/').next().unwrap();
        let without = plan.unplaced.iter().find(|unplaced| unplaced.actor == actor);
        assert_eq!(unit.is_none(), without.is_some());
        let reason = || without.unwrap().reasons.first().map_or("full", String::as_str);
        unit.map_or_else(
            || format!("{name}: {}", reason()),
            |unit| format!("{name} on {}", snapshot.unit_id(unit)),
        )
    });
    let summary = summary.collect::<Vec<_>>().join("; ");
    assert_eq!(usize::try_from(plan.cost.unplaced).unwrap(), plan.unplaced.len());
    summary
}

#[test]
fn all_or_nothing_unplaces_all_if_one_is_unplaced() {
    for (world, expected) in [
        ("units=n/cpu0:2 own=a,b", "a on n/cpu0; b on n/cpu0"),
        (
            "units=n/cpu0:1 own=a,b",
            "a: spec.start is AllOrNothing, and 1 other actor cannot be placed; b: full",
        ),
        (
            "units=n/cpu0:1 own=a,b,c",
            "a: spec.start is AllOrNothing, and 2 other actors cannot be placed; b: full; c: full",
        ),
        ("units=n/cpu0:1 own=a,b others=x@n/cpu0", "a: full; b: full"),
    ] {
        assert_eq!(summary(world), expected, "{world}");
    }
}

/// Starts of `a` and `b`; the arguments list those with a pod, an infeasible place, no Instance, or a name conflict.
fn started(pods: &str, infeasible: &str, [unmade, taken]: [&str; 2]) -> String {
    let actors = ["a", "b"];
    let by_another = || NameConflict::Foreign("Pod b, which is not of this application".to_owned());
    let named =
        |name: &str| ObjectId { name: name.to_owned(), uid: format!("{name}-uid"), resource_version: None };
    let wanted = DesiredState {
        actors: actors.map(|name| DesiredActor { name: name.to_owned(), group: 0 }).into(),
        requests: vec![BTreeMap::from([("cpu".to_owned(), BTreeMap::new())])],
        max_unavailable: 1,
        ..DesiredState::default()
    };
    let decision = Decision {
        places: actors.map(|name| (name.to_owned(), "n/cpu-0".to_owned())).into(),
        ..Decision::default()
    };
    let instance = |name: &str| Instance {
        id: named(name),
        pod: pods.contains(name).then(|| Pod {
            id: named(name),
            unit: Some("n/cpu-0".to_owned()),
            node: Some("n".to_owned()),
            phase: control::PodPhase::Running,
            ..Pod::default()
        }),
        ..Instance::default()
    };
    let unit = FreeUnit {
        kind: "cpu".to_owned(),
        node: "n".to_owned(),
        pool: "cpu".to_owned(),
        ..FreeUnit::default()
    };
    let seen = ObservedState {
        instances: actors
            .into_iter()
            .filter(|name| !unmade.contains(name))
            .map(|name| (name.to_owned(), instance(name)))
            .collect(),
        name_conflicts: taken.split_whitespace().map(|name| (name.to_owned(), by_another())).collect(),
        free: FreeCapacity {
            units: [("n/cpu-0".to_owned(), unit)].into(),
            nodes: [("n".to_owned(), BTreeMap::from([("pods".to_owned(), 9)]))].into(),
            ..FreeCapacity::default()
        },
        ..ObservedState::default()
    };
    let infeasible: BTreeSet<String> = infeasible.split_whitespace().map(str::to_owned).collect();
    let mut todo = next_actions(&wanted, &decision, &seen, &infeasible);
    hold_start(&mut todo, &seen, &infeasible);
    let starts = todo.actions.iter().filter_map(|step| match step {
        control::Action::StartPod { actor, .. } => Some(format!("start {actor}")),
        _ => None,
    });
    let waits = todo.blocked.keys().map(|actor| format!("{actor} waits"));
    starts.chain(waits).collect::<Vec<_>>().join(", ")
}

#[test]
fn all_or_nothing_holds_all_starts_while_one_is_blocked() {
    for (pods, infeasible, others, expected) in [
        ("", "", ["", ""], "start a, start b"),
        ("", "b", ["", ""], "a waits, b waits"),
        // Nor while one waits for its Instance, or for its name.
        ("", "", ["b", ""], "a waits"),
        ("", "", ["", "b"], "a waits, b waits"),
        // A started application continues: lost actors restart whatever the state of the others.
        ("a", "", ["", ""], "start b"),
        ("b", "b", ["", ""], "start a"),
    ] {
        assert_eq!(started(pods, infeasible, others), expected, "{pods} {infeasible} {others:?}");
    }
}
