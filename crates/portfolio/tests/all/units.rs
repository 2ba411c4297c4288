//! The units that numbers are written in: the same world in others has the same plan and the same proof.

use std::collections::BTreeMap;

use placement::file::{Constraint, SnapshotFile};
use placement::{Budget, Criterion, NoPolicy, Objectives, Plan, Snapshot, plan};
use proptest::prelude::*;

use crate::asp;

/// By what numbers are multiplied.
#[derive(Clone, Copy, Debug)]
struct Units {
    work: u64,
    messages: u64,
    drag: u64,
    memory: u64,
}

/// The world with its numbers multiplied. What is added to messages in one level is multiplied by the same.
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

/// What must be equal in all units: who goes where, and what is proven of it.
fn told(snapshot: &Snapshot, plan: &Plan) -> impl PartialEq + std::fmt::Debug {
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
    fn plans_and_proofs_do_not_depend_on_units(
        seed: u64, work in 1..2_000_000u64, messages in 1..1_000_000u64, drag in 1..1_000_000u64, memory in 1..1_000_000_000u64,
    ) {
        let mut file = worlds::world(seed);
        // Penalties are added to messages in some levels, and counts to drags in others; these are for a level each.
        file.objectives = "overload,communication+migration,annoyance,interference".parse().unwrap();
        file.constraints.retain(|constraint| !matches!(constraint, Constraint::Prefer { .. }));
        let multiplied = written_in(Units { work, messages, drag, memory }, file.clone());
        let ((small, plan), (large, same)) = (planned(&file), planned(&multiplied));
        prop_assert_eq!(told(&small, &plan), told(&large, &same), "{}", small.write());
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

/// Counts of messages in thousands and drags in hundreds, as they are when somebody measures them.
#[test]
fn a_published_world_is_proven_in_larger_numbers() {
    for (messages, drag) in [(1000, 100), (1_000_000, 1_000_000)] {
        let file = worlds::published("P-24x6-s1").file().clone();
        let (_, plan) = planned(&written_in(Units { work: 1_000_000, messages, drag, memory: 1 }, file));
        let [m, d] = [messages, drag].map(u64::cast_signed);
        let [communication, annoyance] =
            [Criterion::Communication, Criterion::Annoyance].map(|criterion| plan.cost.of(criterion));
        assert_eq!((plan.optimal, communication, annoyance), (true, 8014 * m, 160 * d));
    }
}
