//! A day of noise without a cluster, on a simulated clock: no actor moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::{
    Action, KeepRunning, Moment, PlanInputs, PlanReason, Verdict, background_slots, next_actions,
    plan_reason, require_gain, revalidate_plan,
};
use crds::{ActorApplication, Assignment, NodeTopology, Placement};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use placement::ix::ActorIx;
use placement::{Budget, NoPolicy, Plan, Strategy, plan};
use serde_json::json;
use world::{
    ApplicationKey, AssembledSnapshot, Index, Policy, assemble, decision, desired_state, observe,
    observed_state, units,
};

use crate::scene::everything;

/// Number of events: one per minute of a day.
const MINUTES: u64 = 24 * 60;

/// A plan that is found in one minute and committed in the next.
struct Found {
    world: AssembledSnapshot,
    plan: Plan,
    facts: PlanInputs,
}

/// An operator without a cluster: it observes, checks for a plan reason, searches, and commits what is still valid a
/// minute later.
#[derive(Default)]
struct Desk {
    index: Index,
    considered: BTreeMap<ApplicationKey, PlanInputs>,
    found: BTreeMap<ApplicationKey, Found>,
    last_turn: BTreeMap<ApplicationKey, Moment>,
    /// Number of plans by reason.
    due: BTreeMap<String, usize>,
    /// Numbers of committed plans, and of moves in them.
    commits: usize,
    moves: usize,
    stops: usize,
}

impl Desk {
    fn look(&mut self, application: &ActorApplication, minute: u64) {
        let policy = Policy::builtin("p");
        let key = ApplicationKey::of(application);
        let now = Duration::from_secs(minute * 60);
        let at = Timestamp::from_second(i64::try_from(minute * 60).unwrap()).unwrap();
        if let Some(found) = self.found.remove(&key) {
            self.settle(application, &policy, found, at);
        }
        let decided = decision(self.index.placement(&key).unwrap());
        let wanted = desired_state(&self.index, application, &policy.name);
        let looked = observe(&self.index, application, &policy, Some(&decided), at).unwrap();
        let mut facts = looked.inputs;
        // Capacity is freed every minute, and every application gets a background slot.
        facts.freed_counter = minute;
        facts.background_slot =
            !background_slots([(&key, self.last_turn.get(&key).copied())], now, 1).is_empty();
        let before = self.considered.get(&key).cloned();
        let why = plan_reason(before.as_ref(), &facts, &wanted, Some(&decided), &looked.infeasible, now);
        if let Some(why) = why {
            if why == PlanReason::CapacityFreed {
                self.last_turn.insert(key.clone(), now);
            }
            *self.due.entry(why.to_string()).or_default() += 1;
            let plan = self.search(&looked.assembled, &policy);
            self.found.insert(key, Found { world: looked.assembled, plan, facts });
        } else {
            let facts = before.map_or(facts.clone(), |before| facts.merge_pressure(&before));
            self.considered.insert(key, facts);
        }
        let seen = control::ObservedState {
            now,
            ..observed_state(&self.index, application, &units(&self.index, &policy))
        };
        let todo = next_actions(&wanted, &decided, &seen, &looked.infeasible);
        self.stops += todo.actions.iter().filter(|step| matches!(step, Action::StopPod { .. })).count();
    }

    fn search(&self, world: &AssembledSnapshot, policy: &Policy) -> Plan {
        let greedy: Box<dyn Strategy> = Box::new(search::Greedy);
        let strategy: Box<dyn Strategy> =
            if self.index.is_mass_outage() { Box::new(KeepRunning(greedy)) } else { greedy };
        let found = plan(&world.snapshot, strategy.as_ref(), &NoPolicy, &Budget::effort(None, 1)).unwrap();
        require_gain(&world.snapshot, &[], found, policy.min_gain())
    }

    /// Commits what is still valid of a plan, as after repeated conflicts.
    fn settle(&mut self, application: &ActorApplication, policy: &Policy, found: Found, at: Timestamp) {
        let key = ApplicationKey::of(application);
        let newest = assemble(&self.index, &key, policy, at).unwrap();
        let (Verdict::Valid(plan) | Verdict::Repaired(plan) | Verdict::Partial(plan)) =
            revalidate_plan(&found.world.snapshot, &found.plan, &newest.snapshot, true)
        else {
            return;
        };
        let own = |actor: &ActorIx| !newest.snapshot.is_fixed(*actor);
        let assignments = ActorIx::first(newest.snapshot.actors()).filter(own).filter_map(|actor| {
            let unit = &newest.units[newest.snapshot.unit_id(plan.assignment[actor]?)];
            let actor = newest.snapshot.short_name(actor).to_owned();
            Some(Assignment {
                actor,
                unit: unit.id.clone(),
                node: unit.node.clone(),
                pool: unit.pool.clone(),
            })
        });
        let mut written: Placement = self.index.placement(&key).unwrap().as_ref().clone();
        let before = std::mem::replace(&mut written.spec.assignments, assignments.collect());
        self.moves += before.iter().filter(|place| !written.spec.assignments.contains(place)).count();
        self.commits += 1;
        written.spec.application_generation = application.metadata.generation.unwrap_or(0);
        written.spec.demand_digest = Some(newest.demand());
        self.index.put_placement(Arc::new(written));
        let strain = control::pressure(&newest.snapshot, &plan.assignment);
        self.considered.insert(key, PlanInputs { pressure: strain, ..found.facts });
    }
}

fn foreign(name: &str, node: &str, cpu: u64) -> Pod {
    let requests = json!({"cpu": format!("{cpu}m")});
    let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "resources": {"requests": requests}}]}});
    serde_json::from_value(pod).unwrap()
}

/// Small foreign pods start and end; for a minute each, a restarting kubelet offers no GPU, an agent's object is
/// missing, and a node is unreachable.
#[test]
fn a_day_of_noise_moves_no_actor() {
    let all = everything();
    let mut desk = Desk { index: Index::of(&all), ..Desk::default() };
    // Knuth's linear congruential generator; any other would do.
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut happened = [0_usize; 6];
    for minute in 0..MINUTES {
        // restore the state before the previous event
        for node in &all.nodes {
            desk.index.put_node(node.clone());
        }
        for topology in &all.topologies {
            desk.index.put_topology(topology.clone());
        }
        let at = usize::try_from(next(2)).unwrap();
        let (node, topology): (&Arc<Node>, &Arc<NodeTopology>) = (&all.nodes[at], &all.topologies[at]);
        let (name, what) = (node.name_any(), usize::try_from(next(6)).unwrap());
        happened[what] += 1;
        let small = format!("small-{}", next(4));
        match what {
            0 | 1 => desk.index.put_pod(Arc::new(foreign(&small, &name, 100 + 50 * next(5)))),
            2 => desk.index.remove_pod("ns", &small),
            3 => {
                let mut node = node.as_ref().clone();
                let offered = node.status.as_mut().and_then(|status| status.allocatable.as_mut()).unwrap();
                offered.get_mut("nvidia.com/gpu").unwrap().0 = "0".to_owned();
                desk.index.put_node(Arc::new(node));
            }
            4 => desk.index.remove_topology(&topology.name_any()),
            _ => {
                let mut node = node.as_ref().clone();
                let taints = ["NoSchedule", "NoExecute"]
                    .map(|effect| json!({"key": "node.kubernetes.io/unreachable", "effect": effect}));
                node.spec = Some(serde_json::from_value(json!({"taints": taints})).unwrap());
                desk.index.put_node(Arc::new(node));
            }
        }
        for application in &all.applications {
            desk.look(application, minute);
        }
    }
    assert!(happened.iter().all(|times| *times > 100), "some of everything: {happened:?}");
    assert!(desk.commits > 100 && desk.due.len() > 1, "{} commits, {:?}", desk.commits, desk.due);
    assert_eq!((desk.moves, desk.stops), (0, 0), "actors that were put elsewhere, pods that were stopped");
}
