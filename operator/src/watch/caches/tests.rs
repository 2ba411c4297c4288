//! Who is rung for, and of whose places there is doubt, when pods come and go.

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

type Rings = UnboundedReceiver<ObjectRef<ActorApplication>>;

fn read<K: DeserializeOwned>(object: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(object).unwrap())
}

fn key(name: &str) -> ApplicationKey {
    ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() }
}

/// Two nodes of four cores and a pool of them; each application has one actor, which was decided to be on its node.
fn caches(applications: &[(&str, &str)]) -> (Caches, Rings) {
    let (store, _) = reflector::store();
    let (requests, rings) = mpsc::unbounded();
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
    (caches, rings)
}

/// A pod of another namespace that asks for most of a node; `unit` is the one that it says to be on.
fn foreign(node: &str, unit: &str) -> Arc<Pod> {
    let requests = json!({"requests": {"cpu": "3800m"}});
    read(
        json!({"metadata": {"name": "foreign", "namespace": "others", "uid": "foreign", "annotations": {"cairn.dev/unit": unit}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": requests}]}}),
    )
}

fn rung(rings: &mut Rings) -> BTreeSet<String> {
    std::iter::from_fn(|| rings.try_recv().ok()).map(|application| application.name).collect()
}

fn names<const COUNT: usize>(names: [&str; COUNT]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Who has no pod where it was decided to be presses nothing: that the place is another's is known by who waits for it.
#[test]
fn what_takes_of_a_node_rings_who_waits_there_and_is_remembered_of_everybody_there() {
    let (caches, mut rings) = caches(&[("waits", "n0"), ("runs", "n0"), ("elsewhere", "n1")]);
    for name in ["waits", "elsewhere"] {
        caches.set_waiting(&key(name), Waiting { any: true, ..Waiting::default() });
    }
    let in_doubt = |name: &str| caches.recheck().next_check(&key(name), Duration::ZERO).is_some();
    for present in [true, false] {
        Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", ""), present);
        assert_eq!(rung(&mut rings), names(["waits"]), "{present}");
        assert!(in_doubt("waits") && in_doubt("runs") && !in_doubt("elsewhere"));
        for name in ["waits", "runs"] {
            caches.recheck().forget(&key(name));
        }
    }
}

#[test]
fn a_pod_that_goes_rings_who_waits_for_its_pool_wherever_that_is() {
    let (caches, mut rings) = caches(&[]);
    for (name, pool) in [("waits", "gpus"), ("other", "gpus-2")] {
        caches.set_waiting(&key(name), Waiting { any: true, pools: names([pool]), ..Waiting::default() });
    }
    Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", "n0/gpus-0"), true);
    assert_eq!(rung(&mut rings), names([]));
    Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", "n0/gpus-0"), false);
    assert_eq!(rung(&mut rings), names(["waits"]));
}

#[test]
fn room_that_comes_before_somebody_is_known_to_have_no_place_is_counted() {
    let (caches, mut rings) = caches(&[]);
    let on_event = |present| Pod::on_event(&caches, &mut ChangeFilter::default(), foreign("n0", ""), present);
    on_event(true);
    let before = caches.growth_counter();
    on_event(false);
    assert_eq!(
        (rung(&mut rings), caches.growth_counter()),
        (names([]), before + 1),
        "nobody is known who could use it"
    );
    let half_a_core = || Waiting {
        unplaced: vec![("cpu".to_owned(), [("cpuMilli".to_owned(), 500)].into())],
        ..Waiting::default()
    };
    assert!(caches.set_waiting(&key("app"), half_a_core()), "it is news");
    assert!(!caches.set_waiting(&key("app"), half_a_core()), "it is known");
    on_event(true);
    assert_eq!((rung(&mut rings), caches.growth_counter()), (names([]), before + 1), "less is no room");
    on_event(false);
    assert_eq!(rung(&mut rings), names(["app"]));
    assert!(
        !caches.set_waiting(&key("app"), Waiting::default())
            && caches.set_waiting(&key("app"), half_a_core())
    );
}

/// An application that is gone leaves no decision behind for the next one of its name.
#[test]
fn an_answer_that_comes_when_the_application_is_gone_brings_no_decision() {
    let application = |uid: &str| -> Arc<ActorApplication> {
        let metadata = json!({"name": "app", "namespace": "shop", "uid": uid});
        read(
            json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": metadata, "spec": {"actors": []}}),
        )
    };
    for (there, owner, is_known) in [(Some("1"), "1", true), (None, "1", false), (Some("2"), "1", false)] {
        let (caches, _rings) = caches(&[]);
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

/// Who is made again has the same name and begins with the same generation.
#[test]
fn what_is_searched_for_who_is_gone_is_not_for_the_next_of_its_name() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::plan::searches::{Manifest, Search, Searches};
    let of = |uid: &str, generation: i64| -> Manifest {
        let mut application =
            ActorApplication::new("app", serde_json::from_value(json!({"actors": []})).unwrap());
        (application.metadata.uid, application.metadata.generation) =
            (Some(uid.to_owned()), Some(generation));
        Manifest::of(&application)
    };
    for (now, is_stopped) in [(of("1", 1), false), (of("1", 2), true), (of("2", 1), true)] {
        let (searches, _settles) = Searches::new();
        let stop = Arc::new(AtomicBool::new(false));
        searches.put(&key("app"), Search::Running { manifest: of("1", 1), stop: stop.clone() });
        assert!(matches!(searches.take(&key("app"), &now), Search::Running { .. }));
        assert_eq!(stop.load(Ordering::Acquire), is_stopped);
        searches.discard_result(&key("app"));
        assert!(searches.has(&key("app")), "one that is under way goes on");
    }
}
