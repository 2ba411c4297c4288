//! Properties of the actions over random clusters.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use control::{Action, Actions, FreeCapacity, Pod, PodPhase};
use proptest::prelude::*;

use super::scenario::World;

prop_compose! {
    /// Any decision over two nodes, four units, at most six actors in any state.
    fn any_world()(
        places in prop::collection::vec(prop::option::of(0..4_usize), 6),
        pods in prop::collection::vec(prop::option::of((0..4_usize, 0..4_usize)), 6),
        left in (0..4_u64, 0..4_u64, 0..3_u64),
        bad in prop::collection::btree_set(0..6_usize, 0..3),
        taken in prop::collection::btree_set(0..6_usize, 0..3),
    ) -> World {
        let units = ["n0/gpus-0", "n0/gpus-1", "n1/gpus-0", "n1/cpus-0"];
        let states = ["running", "starting", "ended", "terminating"];
        let mut text = format!("actors=6 nodes=n0:{}:{},n1 pools=gpus:{}", left.0, left.1, left.2);
        text += " units=n0/gpus-0:1,n0/gpus-1:1,n1/gpus-0:0,n1/cpus-0";
        for index in 0..6 {
            text += &places[index].map_or(format!(" unplaced={index}"), |unit| format!(" decided={index}:{}", units[unit]));
            if taken.contains(&index) {
                write!(text, " taken={index}:by").unwrap();
            } else {
                write!(text, " instances={index}").unwrap();
                if let Some((unit, state)) = pods[index] {
                    write!(text, " pods={index}:{}:{}", units[unit], states[state]).unwrap();
                }
            }
        }
        for index in &bad {
            write!(text, " infeasible={index}").unwrap();
        }
        World::of(&text)
    }
}

proptest! {
    /// No actor gets two actions, none starts while a pod has its name, and no start exceeds the remaining capacity.
    #[test]
    fn actions_are_safe(world in any_world()) {
        let todo = world.todo();
        let mut left: FreeCapacity = world.seen.free.clone();
        let mut seen = BTreeSet::new();
        for step in &todo.actions {
            if let Action::StartPod { actor, unit, .. } = step {
                prop_assert!(seen.insert(actor.clone()));
                prop_assert!(world.seen.instances[actor].pod.is_none());
                prop_assert!(!world.seen.name_conflicts.contains_key(actor) && !world.infeasible.contains(actor));
                prop_assert_eq!(&world.decision.places[actor], unit);
                let unit = left.units.get_mut(unit).unwrap();
                if let Some(slots) = &mut unit.slots {
                    prop_assert!(*slots > 0);
                    *slots -= 1;
                }
                let node = left.nodes.get_mut(&unit.node).unwrap();
                let asked = [("cpuMilli", 1000), ("nvidia.com/gpu", u64::from(unit.resource.is_some()))];
                for (resource, amount) in asked {
                    prop_assert!(node[resource] >= amount);
                    *node.get_mut(resource).unwrap() -= amount;
                }
            }
            if let Action::StopPod { pod, .. } = step {
                prop_assert!(world.seen.instances.values().any(|i| i.pod.as_ref().is_some_and(|p| p.id == *pod)));
            }
        }
    }

    /// Once every actor runs on its decided unit, no action remains.
    #[test]
    fn an_applied_decision_needs_no_actions(mut world in any_world()) {
        world.seen.name_conflicts.clear();
        for actor in &world.wanted.actors {
            let instance = world.seen.instances.entry(actor.name.clone()).or_default();
            let unit = world.decision.places.get(&actor.name).cloned();
            let node = unit.as_deref().map(|unit| unit.split('/').next().unwrap().to_owned());
            instance.pod = unit.is_some().then(|| Pod { unit, node, phase: PodPhase::Running, ..Pod::default() });
        }
        prop_assert_eq!(world.todo(), Actions::default());
    }
}
