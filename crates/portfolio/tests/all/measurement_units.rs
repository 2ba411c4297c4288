//! Measurement units: the same snapshot in other units has the same plan and the same proof.

use std::collections::BTreeMap;

use placement::file::{Constraint, SnapshotFile};
use placement::{Budget, Criterion, NoPolicy, Objectives, Plan, ProvenBy, Snapshot, plan};
use proptest::prelude::*;

use crate::asp;

/// Factors of the numbers.
#[derive(Clone, Copy, Debug)]
struct Units {
    work: u64,
    messages: u64,
    drag: u64,
    memory: u64,
}

/// The snapshot with its numbers multiplied. Criteria of one level are multiplied by the same factor.
fn written_in(units: Units, mut file: SnapshotFile) -> SnapshotFile {
    for unit in &mut file.units {
        unit.capacity *= units.work;
        unit.provides.values_mut().for_each(|there| *there *= units.memory);
    }
    file.nodes
        .iter_mut()
        .flat_map(|node| node.provides.values_mut())
        .for_each(|there| *there *= units.memory);
    for actor in &mut file.actors {
        actor.move_cost *= units.messages;
        actor.requires.values_mut().for_each(|need| *need *= units.memory);
        for way in actor.runs_on.values_mut() {
            way.work *= units.work;
            way.requires
                .values_mut()
                .chain(way.node_requires.values_mut())
                .for_each(|need| *need *= units.memory);
        }
    }
    file.messages.iter_mut().for_each(|message| message.count *= units.messages);
    let drags = file.annoyance.iter_mut().chain(&mut file.interference);
    drags.for_each(|pair| pair.drag *= units.drag);
    for constraint in &mut file.constraints {
        match constraint {
            Constraint::Reserve { quantity: number, .. }
            | Constraint::Quota { resource: Some(_), max: number, .. } => *number *= units.memory,
            _ => {}
        }
    }
    file
}

fn planned(file: &SnapshotFile) -> (Snapshot, Plan) {
    let snapshot = Snapshot::new(file.clone()).unwrap();
    let plan = plan(&snapshot, &asp(), &NoPolicy, &Budget::effort(None, 1)).unwrap();
    (snapshot, plan)
}

/// What must be equal in all units: the assignment, and what is proven.
fn invariants(snapshot: &Snapshot, plan: &Plan) -> impl PartialEq + std::fmt::Debug {
    let bounded: BTreeMap<String, bool> = snapshot
        .objectives()
        .levels()
        .iter()
        .map(|level| {
            let value: i64 = level.iter().map(|criterion| plan.cost.of(*criterion)).sum();
            let key = Objectives::key(level);
            let reached = plan.bound.get(&key) == Some(&value);
            (key, reached)
        })
        .collect();
    (plan.assignment.clone(), plan.optimal, plan.stage, plan.effort, bounded)
}

proptest! {
    #![proptest_config(crate::seeds(40))]
    #[test]
    fn plans_and_proofs_do_not_depend_on_measurement_units(
        seed: u64, work in 1..2_000_000u64, messages in 1..1_000_000u64, drag in 1..1_000_000u64, memory in 1..1_000_000_000u64,
    ) {
        let mut file = testkit::world(seed);
        // Penalties share a level with messages, and counts with drags; these have a level each.
        file.objectives = "overload,communication+migration,annoyance,interference".parse().unwrap();
        file.constraints.retain(|constraint| !matches!(constraint, Constraint::Prefer { .. }));
        let multiplied = written_in(Units { work, messages, drag, memory }, file.clone());
        let ((small, plan), (large, same)) = (planned(&file), planned(&multiplied));
        prop_assert_eq!(invariants(&small, &plan), invariants(&large, &same), "{}", small.write());
        let factors = [
            (Criterion::Overload, work),
            (Criterion::Communication, messages),
            (Criterion::Migration, messages),
            (Criterion::Annoyance, drag),
        ];
        for (criterion, factor) in factors {
            prop_assert_eq!(same.cost.of(criterion), plan.cost.of(criterion) * factor.cast_signed());
        }
    }
}

/// Output of `generate.py P 28 7 SEED` of `examples/instances` for seeds 1 to 8.
fn twenty_eight_on_seven() -> impl Iterator<Item = SnapshotFile> {
    let worlds = include_str!("../P-28x7.jsonl").lines();
    worlds.map(|world| Snapshot::read(world).unwrap().file().clone())
}

/// Asserts that a snapshot is proven, and also with multiplied messages and drags: the same optimum by the same effort.
fn proves_alike(file: &SnapshotFile, factors: &[(u64, u64)]) {
    let (small, plan) = planned(file);
    assert_eq!(plan.proven_by, Some(ProvenBy::BranchAndBound), "{}", small.write());
    for (messages, drag) in factors.iter().copied() {
        let units = Units { work: 1_000_000, messages, drag, memory: 1 };
        let (large, same) = planned(&written_in(units, file.clone()));
        assert_eq!(format!("{:?}", invariants(&small, &plan)), format!("{:?}", invariants(&large, &same)));
        let found = same.cost.of(Criterion::Communication);
        assert_eq!(found, plan.cost.of(Criterion::Communication) * messages.cast_signed());
    }
}

/// Message counts in thousands and drags in hundreds, as measured in practice, and much larger ones.
#[test]
fn published_instances_are_proven_in_larger_numbers_with_the_same_effort() {
    let factors = [(1000, 100), (1_000_000, 1_000_000), (7_000_000_000, 900_000_000_000)];
    proves_alike(testkit::published("P-24x6-s1").file(), &factors);
    for file in twenty_eight_on_seven() {
        proves_alike(&file, &factors[..1]);
    }
}

/// One more message and drag, so that there is no common divisor.
#[test]
fn numbers_without_a_common_divisor_are_proven_too() {
    for (messages, drag) in [(1000, 100), (1_000_000, 1_000_000), (1_000_000_000, 1_000_000_000_000)] {
        for (name, communication) in [("P-16x5-s1", 6537), ("P-24x6-s1", 8014)] {
            let units = Units { work: 1, messages, drag, memory: 1 };
            let mut file = written_in(units, testkit::published(name).file().clone());
            file.messages[0].count += 1;
            file.annoyance[0].drag += 1;
            let (_, plan) = planned(&file);
            let found = plan.cost.of(Criterion::Communication) / messages.cast_signed();
            assert_eq!(
                (plan.proven_by, found),
                (Some(ProvenBy::BranchAndBound), communication),
                "{name} × {messages}"
            );
        }
    }
}

/// One more message and drag, so that there is no common divisor: proven within the same effort as in small numbers.
#[test]
fn eight_instances_of_28_actors_are_proven_without_a_common_divisor() {
    let levels = |snapshot: &Snapshot, plan: &Plan| {
        let vector = snapshot.cost(&plan.assignment).vector(snapshot);
        // Unplaced, overload, communication: the additional message prefers some of equal placements.
        vector[..3].to_vec()
    };
    for file in twenty_eight_on_seven() {
        let (small, plan) = planned(&file);
        let mut odd = written_in(Units { work: 1, messages: 1000, drag: 999, memory: 1 }, file);
        odd.messages[0].count += 1;
        odd.annoyance[0].drag += 1;
        let (_, same) = planned(&odd);
        assert_eq!(same.proven_by, plan.proven_by, "{}", small.write());
        assert_eq!(levels(&small, &same), levels(&small, &plan), "{}", small.write());
    }
}
