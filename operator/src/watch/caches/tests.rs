//! Which applications are enqueued and rechecked when pods are added and deleted.

use std::time::Duration;

use crds::DevicePool;
use futures::channel::mpsc::{self, UnboundedReceiver};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::watch::indexed::Indexed as _;
use crate::watch::watches::ChangeFilter;

type Enqueued = UnboundedReceiver<ObjectRef<ActorApplication>>;

fn read<K: DeserializeOwned>(object: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(object).unwrap())
}

fn key(name: &str) -> ApplicationKey {
    ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() }
}

/// Two nodes of four cores and a pool over them; each application has one actor, assigned to its node.
fn caches(applications: &[(&str, &str)]) -> (Caches, Enqueued) {
    let (store, _) = reflector::store();
    let (requests, enqueued) = mpsc::unbounded();
    let caches = Caches::new(store, requests, Arc::default(), Vec::new());
    let node = |name: &str| -> Arc<Node> {
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
        read(json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
    };
    let pool: Arc<DevicePool> = read(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool",
        "metadata": {"name": "cpus"}, "spec": {"kind": "cpu"}}));
    let placement = |name: &str, node: &str| -> Arc<Placement> {
        let places =
            json!([{"actor": "a-0", "unit": format!("{node}/cpus-0"), "node": node, "pool": "cpus"}]);
        read(
            json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Placement", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"application": name, "applicationGeneration": 1, "policy": "p", "snapshotDigest": "d", "strategy": "s",
                "seed": 1, "effort": 1, "assignments": places}}),
        )
    };
    caches.change(|index| {
        index.put_node(node("n0"));
        index.put_node(node("n1"));
        index.put_pool(pool);
        for (name, node) in applications {
            index.put_placement(placement(name, node));
        }
    });
    (caches, enqueued)
}

/// A foreign pod that requests most of a node, annotated with `unit`.
fn foreign(node: &str, unit: &str) -> Arc<Pod> {
    let requests = json!({"requests": {"cpu": "3800m"}});
    read(
        json!({"metadata": {"name": "foreign", "namespace": "others", "uid": "foreign", "annotations": {"cairn.dev/unit": unit}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": requests}]}}),
    )
}

fn drain(enqueued: &mut Enqueued) -> BTreeSet<String> {
    std::iter::from_fn(|| enqueued.try_recv().ok()).map(|application| application.name).collect()
}

fn names<const COUNT: usize>(names: [&str; COUNT]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// An actor without a pod cannot be overloaded; it waits, and its assignment is checked again.
#[test]
fn pods_of_others_enqueue_waiting_applications_and_mark_assignments_for_recheck() {
    let (caches, mut enqueued) = caches(&[("waits", "n0"), ("runs", "n0"), ("elsewhere", "n1")]);
    for name in ["waits", "elsewhere"] {
        caches.set_waiting(&key(name), Waiting { any: true, ..Waiting::default() });
    }
    let needs_recheck = |name: &str| caches.recheck().next_check(&key(name), Duration::ZERO).is_some();
    for present in [true, false] {
        Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", ""), present);
        assert_eq!(drain(&mut enqueued), names(["waits"]), "{present}");
        assert!(needs_recheck("waits") && needs_recheck("runs") && !needs_recheck("elsewhere"));
        for name in ["waits", "runs"] {
            caches.recheck().forget(&key(name));
        }
    }
}

#[test]
fn a_deleted_pod_enqueues_applications_waiting_for_its_pool() {
    let (caches, mut enqueued) = caches(&[]);
    for (name, pool) in [("waits", "gpus"), ("other", "gpus-2")] {
        caches.set_waiting(&key(name), Waiting { any: true, pools: names([pool]), ..Waiting::default() });
    }
    Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", "n0/gpus-0"), true);
    assert_eq!(drain(&mut enqueued), names([]));
    Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", "n0/gpus-0"), false);
    assert_eq!(drain(&mut enqueued), names(["waits"]));
}

#[test]
fn capacity_freed_before_an_actor_is_known_as_unplaced_is_counted() {
    let (caches, mut enqueued) = caches(&[]);
    let on_event = |present| Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", ""), present);
    on_event(true);
    let before = caches.growth_counter();
    on_event(false);
    assert_eq!(
        (drain(&mut enqueued), caches.growth_counter()),
        (names([]), before + 1),
        "no unplaced actor is known"
    );
    let half_a_core = || Waiting {
        unplaced: vec![("cpu".to_owned(), [("cpuMilli".to_owned(), 500)].into())],
        ..Waiting::default()
    };
    assert!(caches.set_waiting(&key("app"), half_a_core()), "it is news");
    assert!(!caches.set_waiting(&key("app"), half_a_core()), "it is known");
    on_event(true);
    assert_eq!((drain(&mut enqueued), caches.growth_counter()), (names([]), before + 1), "less capacity");
    on_event(false);
    assert_eq!(drain(&mut enqueued), names(["app"]));
    assert!(
        !caches.set_waiting(&key("app"), Waiting::default())
            && caches.set_waiting(&key("app"), half_a_core())
    );
}

/// A deleted application leaves no Placement behind for a successor of its name.
#[test]
fn a_late_answer_for_a_deleted_application_is_ignored() {
    let application = |uid: &str| -> Arc<ActorApplication> {
        let metadata = json!({"name": "app", "namespace": "shop", "uid": uid});
        read(
            json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": metadata, "spec": {"actors": []}}),
        )
    };
    for (there, owner, is_known) in [(Some("1"), "1", true), (None, "1", false), (Some("2"), "1", false)] {
        let (caches, _enqueued) = caches(&[]);
        if let Some(uid) = there {
            caches.change(|index| index.put_application(application(uid)));
        }
        let owners = json!([{"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "name": "app", "uid": owner,
            "controller": true}]);
        let written: Arc<Placement> = read(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Placement",
            "metadata": {"name": "app", "namespace": "shop", "uid": "p", "resourceVersion": "7", "ownerReferences": owners},
            "spec": {"application": "app", "applicationGeneration": 1, "policy": "p", "snapshotDigest": "d", "strategy": "s",
                "seed": 1, "effort": 1, "assignments": []}}));
        caches.record_written(Placement::clone(&written));
        let known = caches.index().named_placement(&key("app")).is_some();
        assert_eq!(known, is_known, "{there:?} is there, the decision is of {owner}");
    }
}

/// A recreated application has the same name and starts at the same generation.
#[test]
fn a_search_for_a_deleted_application_is_not_used_for_its_successor() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::plan::planner::Planner;
    use crate::plan::searches::{Manifest, SearchState};
    let of = |uid: &str, generation: i64| -> Manifest {
        let mut application =
            ActorApplication::new("app", serde_json::from_value(json!({"actors": []})).unwrap());
        (application.metadata.uid, application.metadata.generation) =
            (Some(uid.to_owned()), Some(generation));
        Manifest::of(&application)
    };
    for (now, is_stopped) in [(of("1", 1), false), (of("1", 2), true), (of("2", 1), true)] {
        let (planner, _receivers) = Planner::new();
        let stop = Arc::new(AtomicBool::new(false));
        planner.set_search(&key("app"), SearchState::Running { manifest: of("1", 1), stop: stop.clone() });
        assert!(matches!(planner.take_search(&key("app"), &now), SearchState::Running { .. }));
        assert_eq!(stop.load(Ordering::Acquire), is_stopped);
        planner.discard_result(&key("app"));
        assert!(planner.has_search(&key("app")), "one that is under way goes on");
    }
}
