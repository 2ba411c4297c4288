//! Time-dependent state: stale agents and withdrawn units.

use std::sync::Arc;
use std::time::Duration;

use crds::{DevicePool, Health, NodeTopology};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use placement::{Budget, NoPolicy, plan};
use world::{ApplicationKey, CordonReason, Index, Objects, Policy, assemble, units};

use crate::scene::everything;

/// A cluster with a grace period of thirty seconds.
struct Scene {
    all: Objects,
    index: Index,
}

/// The kinds that the operator watches.
const KINDS: [&str; 7] = ["nodes", "topologies", "pools", "applications", "instances", "placements", "pods"];

impl Scene {
    fn set() -> Self {
        let all = everything();
        let mut index = Index::of(&all);
        index.set_grace_period(Duration::from_secs(30));
        let mut scene = Self { all, index };
        scene.at(0);
        scene
    }

    /// The scene of an operator that starts while the first GPU of the first node is lost, and receives the kinds in
    /// this order.
    fn heard(kinds: &[&str]) -> Self {
        let mut all = everything();
        all.topologies[0] = with_first_gpu(&all, Health::Lost);
        let mut index = Index::default();
        index.set_grace_period(Duration::from_secs(30));
        let mut scene = Self { all, index };
        scene.at(0);
        scene.hear(kinds);
        scene
    }

    /// Delivers all objects of these kinds, as first or repeated events.
    fn hear(&mut self, kinds: &[&str]) {
        let (all, index) = (&self.all, &mut self.index);
        for kind in kinds {
            match *kind {
                "nodes" => all.nodes.iter().for_each(|it| index.put_node(it.clone())),
                "topologies" => all.topologies.iter().for_each(|it| index.put_topology(it.clone())),
                "pools" => all.pools.iter().for_each(|it| index.put_pool(it.clone())),
                "applications" => all.applications.iter().for_each(|it| index.put_application(it.clone())),
                "instances" => all.instances.iter().for_each(|it| index.put_instance(it.clone())),
                "placements" => all.placements.iter().for_each(|it| index.put_placement(it.clone())),
                "pods" => all.pods.iter().for_each(|it| index.put_pod(it.clone())),
                other => panic!("{other}"),
            }
        }
    }

    /// Sets the clock to this second.
    fn at(&mut self, second: i64) {
        let now = Timestamp::from_second(1_000_000 + second).unwrap();
        for node in self.index.advance(now) {
            self.index.expire_units(&node);
        }
    }

    /// GPU units by name; cordoned ones are marked.
    fn gpus(&self) -> String {
        let units = units(&self.index, &Policy::builtin("p"));
        let summary = units.values().filter(|unit| unit.kind == "gpu").map(|unit| {
            let mark = match unit.cordoned {
                None => "",
                Some(CordonReason::Overcommitted) => "!",
                Some(CordonReason::StaleAgent) => "?",
                Some(CordonReason::Withdrawn) => "~",
                Some(
                    CordonReason::DeviceTainted
                    | CordonReason::DeviceWithheld
                    | CordonReason::NotPinnable
                    | CordonReason::UnknownPool,
                ) => "#",
            };
            format!("{}{mark}", unit.id)
        });
        summary.collect::<Vec<_>>().join(" ")
    }

    /// The planned units of the actors of `web`.
    fn planned(&self) -> String {
        let key = ApplicationKey { namespace: "ns".to_owned(), name: "web".to_owned() };
        let world =
            assemble(&self.index, &key, &Policy::builtin("p"), Timestamp::from_second(0).unwrap()).unwrap();
        let plan = plan(&world.snapshot, &search::Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        let places = plan.assignment.enumerate().filter(|(actor, _)| !world.snapshot.is_fixed(*actor));
        let unit = |unit: Option<_>| unit.map_or("nowhere", |unit| world.snapshot.unit_id(unit)).to_owned();
        places.map(|(_, place)| unit(*place)).collect::<Vec<_>>().join(" ")
    }

    /// The first GPU of the first node has this health, and the pod of `web-s-0` holds it.
    fn first_gpu(&mut self, health: Health) {
        self.index.put_topology(with_first_gpu(&self.all, health));
    }

    fn gpu_pool(&self, change: impl FnOnce(&mut DevicePool)) -> Arc<DevicePool> {
        let mut pool = self.all.pools.iter().find(|pool| pool.name_any() == "gpus").unwrap().as_ref().clone();
        change(&mut pool);
        Arc::new(pool)
    }
}

/// The first node's topology with this health of its first GPU, which the pod of `web-s-0` holds.
fn with_first_gpu(all: &Objects, health: Health) -> Arc<NodeTopology> {
    let mut topology: NodeTopology = all.topologies[0].as_ref().clone();
    topology.spec.devices[0].health = health;
    let status = serde_json::json!({"allocations": [{"namespace": "ns", "pod": "web-s-0", "podUid": "web-s-0-pod",
        "container": "c", "resource": "nvidia.com/gpu", "deviceIds": ["gpu-0"]}]});
    topology.status = Some(serde_json::from_value(status).unwrap());
    Arc::new(topology)
}

#[test]
fn units_of_a_stale_agent_keep_their_actors_and_get_no_new_ones() {
    let mut scene = Scene::set();
    let before = scene.planned();
    assert_eq!(before, "n0/gpus-0 n0/cpus-0");
    assert_eq!(scene.gpus(), "n0/gpus-0 n1/gpus-0");
    scene.index.set_agent_stale("n0", true);
    assert_eq!(scene.gpus(), "n0/gpus-0? n1/gpus-0");
    assert_eq!(scene.planned(), before, "no move");
    let reports = world::pools(&scene.index, &Policy::builtin("p"));
    let (gpus, cpus) = (&reports["gpus"].0, &reports["cpus"].0);
    assert_eq!((gpus.healthy, cpus.healthy), (1, 2), "whole nodes need no agent");
    insta::assert_snapshot!(gpus.problems["Stale"], @"n0: the lease of its agent expired; running actors stay, and new ones are placed once it is renewed");
    // even long after the grace period
    scene.at(1000);
    assert_eq!(scene.planned(), before);
    // Its holder is gone: no new actor is placed.
    scene.index.remove_pod("ns", "web-s-0");
    let mut placement = scene.all.placements[0].as_ref().clone();
    placement.spec.assignments.clear();
    scene.index.put_placement(Arc::new(placement));
    assert!(!scene.planned().contains("n0/gpus"), "{}", scene.planned());
    scene.index.set_agent_stale("n0", false);
    assert!(scene.planned().contains("n0/gpus-0"), "{}", scene.planned());
}

#[test]
fn withdrawn_units_expire_after_the_grace_period() {
    let mut scene = Scene::set();
    let before = scene.planned();
    scene.first_gpu(Health::Lost);
    assert_eq!((scene.gpus(), scene.planned()), ("n0/gpus-0~ n1/gpus-0".to_owned(), before.clone()));
    scene.at(20);
    // repeated: the period does not restart
    scene.first_gpu(Health::Lost);
    scene.at(29);
    assert_eq!(scene.planned(), before);
    scene.at(30);
    assert_eq!(scene.gpus(), "n0/gpus-1 n1/gpus-0", "there is room for one on the other device");
    assert!(!scene.planned().contains("n0/gpus-0"), "{}", scene.planned());
}

/// Watches of different kinds fill in any order: each kind is the first one here, and the last.
#[test]
fn a_restarted_operator_restarts_the_grace_period_once() {
    let mut kinds = KINDS;
    for _ in 0..2 {
        for _ in 0..kinds.len() {
            let mut scene = Scene::heard(&kinds);
            assert_eq!(scene.gpus(), "n0/gpus-0~ n1/gpus-0", "{kinds:?}");
            scene.at(29);
            scene.hear(&kinds);
            assert_eq!(scene.gpus(), "n0/gpus-0~ n1/gpus-0", "{kinds:?}");
            assert!(scene.planned().contains("n0/gpus-0"), "{kinds:?}: {}", scene.planned());
            scene.at(30);
            assert_eq!(scene.gpus(), "n0/gpus-1 n1/gpus-0", "{kinds:?}");
            // Later events do not restart it.
            scene.hear(&kinds);
            scene.at(31);
            assert_eq!(scene.gpus(), "n0/gpus-1 n1/gpus-0", "{kinds:?}");
            // A device that was healthy in between does.
            scene.first_gpu(Health::Ok);
            assert_eq!(scene.gpus(), "n0/gpus-0 n1/gpus-0", "{kinds:?}");
            scene.first_gpu(Health::Lost);
            assert_eq!(scene.gpus(), "n0/gpus-0~ n1/gpus-0", "{kinds:?}");
            kinds.rotate_left(1);
        }
        kinds.reverse();
    }
}

#[test]
fn units_offered_again_in_time_never_expire() {
    let mut scene = Scene::set();
    let before = scene.planned();
    for round in 0..5 {
        scene.first_gpu(Health::Lost);
        scene.at(40 * round + 20);
        assert_eq!(scene.planned(), before);
        scene.first_gpu(Health::Ok);
        assert_eq!(scene.gpus(), "n0/gpus-0 n1/gpus-0");
        scene.at(40 * round + 40);
    }
    scene.first_gpu(Health::Lost);
    assert_eq!(scene.planned(), before, "the time is counted from the last loss");
}

#[test]
fn deleted_or_narrowed_pools_get_a_grace_period() {
    type Change = fn(&mut Scene);
    let table: [(&str, Change); 3] = [
        ("deleted", |scene| scene.index.remove_pool("gpus")),
        ("narrowed", |scene| {
            let pool = scene.gpu_pool(|pool| {
                let selector = serde_json::json!({"matchLabels": {"none": "such"}});
                pool.spec.node_selector = Some(serde_json::from_value(selector).unwrap());
            });
            scene.index.put_pool(pool);
        }),
        ("other devices", |scene| {
            let pool = scene.gpu_pool(|pool| {
                pool.spec.devices =
                    Some(serde_json::from_value(serde_json::json!({"model": "none"})).unwrap());
                pool.spec.resource.as_mut().unwrap().device_plugin = Some("none.example/gpu".to_owned());
            });
            scene.index.put_pool(pool);
        }),
    ];
    for (what, change) in table {
        let mut scene = Scene::set();
        let before = scene.planned();
        change(&mut scene);
        assert_eq!(scene.planned(), before, "{what}");
        scene.at(29);
        assert_eq!(scene.planned(), before, "{what}");
        // A pool that is recreated in time counts as never deleted.
        let pool = scene.gpu_pool(|_| ());
        scene.index.put_pool(pool);
        assert_eq!(scene.gpus(), "n0/gpus-0 n1/gpus-0", "{what}");
        change(&mut scene);
        scene.at(59);
        if what != "other devices" {
            assert!(!scene.planned().contains("gpus"), "{what}: {}", scene.planned());
        }
    }
}

#[test]
fn units_of_deleted_nodes_expire_at_once() {
    let mut scene = Scene::set();
    scene.first_gpu(Health::Lost);
    scene.index.remove_node("n0");
    assert_eq!(scene.gpus(), "n1/gpus-0");
    let node: &Arc<Node> = &scene.all.nodes[0];
    scene.index.put_node(node.clone());
    assert_eq!(scene.gpus(), "n0/gpus-1 n1/gpus-0", "its GPU is lost, and no earlier time is remembered");
}
