//! Held against every assignment there is.

use std::collections::BTreeMap;

use placement::file::{Constraint, SnapshotFile};
use placement::{Budget, Cost, Greedy, NoPolicy, Random, RoundRobin, Snapshot, Strategy, plan};
use proptest::prelude::*;

use crate::{asp, oracle, worlds};

/// Has the world solved, and holds the plan against every assignment; returns the optimum.
fn check(file: &SnapshotFile) -> (Vec<i64>, oracle::Assigned) {
    let snapshot = Snapshot::new(file.clone()).unwrap();
    let plan = plan(&snapshot, &asp(), &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let optimum = oracle::optimum(file);
    assert_eq!(plan.cost.vector(&snapshot), optimum.0, "in {}", snapshot.write());
    assert!(oracle::lawful(file, &plan.assignment), "in {}", snapshot.write());
    assert!(plan.optimal, "in {}", snapshot.write());
    optimum
}

/// Whether a constraint is of some type.
type Is = fn(&Constraint) -> bool;

/// What a kind of thing in a world is called, and the world without it.
fn without(file: &SnapshotFile) -> Vec<(&'static str, SnapshotFile)> {
    let mut parts: Vec<(&'static str, SnapshotFile)> = Vec::new();
    let mut part = |name, change: &dyn Fn(&mut SnapshotFile)| {
        let mut changed = file.clone();
        change(&mut changed);
        if changed != *file {
            parts.push((name, changed));
        }
    };
    let kinds: [(&'static str, Is); 8] = [
        ("apart", |c| matches!(c, Constraint::Apart { .. })),
        ("together", |c| matches!(c, Constraint::Together { .. })),
        ("pin", |c| matches!(c, Constraint::Pin { .. })),
        ("only", |c| matches!(c, Constraint::Only { .. })),
        ("never", |c| matches!(c, Constraint::Never { except_current: false, .. })),
        ("never, except current", |c| matches!(c, Constraint::Never { except_current: true, .. })),
        ("prefer", |c| matches!(c, Constraint::Prefer { weight: 1.., .. })),
        ("reserve", |c| matches!(c, Constraint::Reserve { .. })),
    ];
    for (name, is) in kinds {
        part(name, &|file| file.constraints.retain(|constraint| !is(constraint)));
    }
    part("slots", &|file| file.units.iter_mut().for_each(|unit| unit.slots = None));
    part("unit resources", &|file| {
        for unit in &mut file.units {
            unit.provides = BTreeMap::from([("memory".into(), 1000)]);
        }
    });
    part("node resources", &|file| {
        for node in &mut file.nodes {
            node.provides = BTreeMap::from([("cores".into(), 1000), ("pods".into(), 1000)]);
        }
    });
    part("fixed actors", &|file| file.actors.iter_mut().for_each(|actor| actor.fixed = false));
    part("pair prices", &|file| file.exchange_cost.pairs.clear());
    part("zones", &|file| file.units.iter_mut().for_each(|unit| unit.zone = Some("zone".into())));
    part("domains", &|file| file.units.iter_mut().for_each(|unit| unit.numa = Some("numa".into())));
    part("interference", &|file| file.interference.clear());
    part("annoyance", &|file| file.annoyance.clear());
    part("move costs", &|file| file.actors.iter_mut().for_each(|actor| actor.move_cost = 0));
    part("capacities", &|file| file.units.iter_mut().for_each(|unit| unit.capacity = 1000));
    parts
}

/// 300 worlds, and how many of them each part decides: without it the optimum would be another.
#[test]
fn three_hundred_worlds_are_solved_to_the_optimum_of_all_assignments() {
    let mut decided: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..300 {
        let file = worlds::world(seed);
        let (vector, places) = check(&file);
        let overloads = oracle::overloads(&file, &places);
        *decided.entry("an actor without a place").or_default() += usize::from(vector[0] > 0);
        *decided.entry("an overload").or_default() += usize::from(overloads.iter().any(|o| *o > 0));
        let everywhere = overloads.len() > 1 && overloads.iter().all(|o| *o > 0);
        *decided.entry("an overload everywhere").or_default() += usize::from(everywhere);
        if file.actors.len() > 4 {
            // Counting tries every assignment for every part: the small worlds will do.
            continue;
        }
        for (name, less) in without(&file) {
            let changed = Snapshot::new(less.clone()).is_ok_and(|_| oracle::optimum(&less).0 != vector);
            *decided.entry(name).or_default() += usize::from(changed);
        }
    }
    println!("worlds of 300 with, or decided by (of those with at most 4 actors): {decided:#?}");
    for (part, worlds) in decided {
        assert!(worlds > 0, "no world depends on {part}: the 300 say nothing about it");
    }
}

/// A world with a literal that counted on one level and whose complement counted on another: clasp 3.3.9 went from
/// model to model without end, none better than the one before.
#[test]
fn a_world_that_made_clingo_lose_its_track() {
    check(Snapshot::read(include_str!("complementary.json")).unwrap().file());
}

proptest! {
    #![proptest_config(crate::seeds(40))]
    #[test]
    fn any_world_is_solved_to_the_optimum_of_all_assignments(seed: u64) {
        check(&worlds::world(seed));
    }

    #[test]
    fn checker_and_cost_agree_with_the_definitions_everywhere(seed: u64) {
        let file = worlds::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let mut visits = 0;
        oracle::every(&file, &mut |places| {
            visits += 1;
            if visits % 7 == 0 || visits < 50 {
                let policy = snapshot.penalty(places);
                let cost = Cost { policy, ..snapshot.cost(places) };
                assert_eq!(cost.vector(&snapshot), oracle::vector(&file, places), "{places:?}");
                assert_eq!(snapshot.violations(places).is_empty(), oracle::lawful(&file, places), "{places:?}");
            }
        });
    }

    #[test]
    fn the_fast_strategies_are_lawful(seed: u64) {
        let file = worlds::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        for strategy in [&Greedy as &dyn Strategy, &RoundRobin, &Random] {
            let answer = strategy.solve(&snapshot, &Budget::effort(None, seed)).unwrap();
            assert!(oracle::lawful(&file, &answer.assignment), "{}", strategy.name());
        }
    }
}
