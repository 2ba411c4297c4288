//! A day of small noise at a desk: the rooms that decide, a made-up clock, and nobody else. Nobody moves.
#![expect(clippy::unwrap_used, reason = "a failing read fails the test")]

use std::sync::Arc;
use std::time::Duration;

use control::{Step, infeasible, steps};
use crds::{ActorApplication, NodeTopology};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use placement::{Budget, NoPolicy, plan};
use serde_json::json;
use world::{ApplicationKey, Index, Policy, decision, seen, snapshot, units, wanted};

mod scene;

use scene::everything;

/// How often something happens: once a minute.
const MINUTES: u64 = 24 * 60;

/// An operator without a cluster: it looks at applications as reconciles do, and searches anew each time.
#[derive(Default)]
struct Desk {
    index: Index,
    moves: usize,
    stops: usize,
}

impl Desk {
    fn look(&mut self, application: &ActorApplication, minute: u64) {
        let policy = Policy::builtin("p");
        let key = ApplicationKey::of(application);
        let now = Duration::from_secs(minute * 60);
        let at = Timestamp::from_second(i64::try_from(minute * 60).unwrap()).unwrap();
        let world = snapshot(&self.index, &key, &policy, at).unwrap();
        let decided = decision(self.index.placement(&key).unwrap());
        let wanted = wanted(&self.index, application, &policy.name);
        let seen = control::Seen { now, ..seen(&self.index, application, &units(&self.index, &policy)) };
        let infeasible = infeasible(&world.snapshot, &decided, &seen);
        let plan = plan(&world.snapshot, &search::Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        self.moves += plan.moves.len();
        let todo = steps(&wanted, &decided, &seen, &infeasible);
        self.stops += todo.steps.iter().filter(|step| matches!(step, Step::Stop { .. })).count();
    }
}

fn foreign(name: &str, node: &str, cpu: u64) -> Pod {
    let requests = json!({"cpu": format!("{cpu}m")});
    let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "resources": {"requests": requests}}]}});
    serde_json::from_value(pod).unwrap()
}

/// Small foreign pods come and go, a kubelet starts anew and offers no GPU for a minute, an agent's object is gone for one, and
/// a node is silent for one.
#[test]
fn a_day_of_small_noise_moves_nobody() {
    let all = everything();
    let mut desk = Desk { index: Index::of(&all), ..Desk::default() };
    // Any generator will do: this is Knuth's.
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut happened = [0_usize; 6];
    for minute in 0..MINUTES {
        // what was strange a minute ago is as it was
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
                let taint =
                    json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]});
                node.spec = Some(serde_json::from_value(taint).unwrap());
                desk.index.put_node(Arc::new(node));
            }
        }
        for application in &all.applications {
            desk.look(application, minute);
        }
    }
    assert!(happened.iter().all(|times| *times > 100), "some of everything: {happened:?}");
    assert_eq!((desk.moves, desk.stops), (0, 0), "moves that were planned, pods that were stopped");
}
