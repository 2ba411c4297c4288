//! How events of each watched kind change the caches, and which applications they enqueue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, DevicePool, Instance, InstanceOrigin, NodeTopology, Placement, labels};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use world::{ApplicationKey, Index, controller_ref, is_terminal, selects_pods};

use crate::runtime::clock::moment;
use crate::watch::caches::{Caches, key_of};
use crate::watch::slim;
use crate::watch::watches::{ChangeFilter, Names};

/// A kind that the index holds.
pub trait Indexed:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Handles an added, changed or deleted object.
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, object: Arc<Self>, present: bool);
    /// Removes all other objects, after a gap in the watch.
    fn keep(index: &mut Index, names: &Names);
}

impl Indexed for Node {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, node: Arc<Self>, present: bool) {
        let name = node.name_any();
        if !present {
            filter.forget(node.as_ref());
            caches.change_node(&name, true, |index| index.remove_node(&name));
        } else if filter.changed(node.as_ref(), &slim::node_facts(&node)) {
            caches.change_node(&name, true, |index| index.put_node(node));
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_nodes(names);
    }
}

impl Indexed for NodeTopology {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, topology: Arc<Self>, present: bool) {
        let name = topology.name_any();
        let held = filter.devices.changed(&topology, present);
        if !present {
            filter.forget(topology.as_ref());
            caches.change_node(&name, true, |index| index.remove_topology(&name));
        } else if filter.changed(topology.as_ref(), &topology.spec) {
            caches.change_node(&name, true, |index| index.put_topology(topology));
        } else {
            caches.change(|index| index.put_topology(topology));
        }
        // Instance statuses list devices, so the applications of those pods are enqueued.
        let index = caches.index();
        let pods = held.iter().filter_map(|(namespace, name)| index.pod(namespace, name));
        let owners =
            pods.filter_map(|pod| index.application_of(&controller_ref(pod.as_ref(), "Instance")?.uid));
        owners.collect::<BTreeSet<_>>().iter().for_each(|key| caches.enqueue(key));
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_topologies(names);
    }
}

impl Indexed for DevicePool {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, pool: Arc<Self>, present: bool) {
        if present {
            let changed = filter.changed(pool.as_ref(), &pool.spec);
            let kind = pool.spec.kind.clone();
            caches.change(|index| index.put_pool(pool));
            if !changed {
                return;
            }
            caches.triggers().capacity_freed(std::iter::once(kind.as_str()), None, moment());
        } else {
            filter.forget(pool.as_ref());
            caches.change(|index| index.remove_pool(&pool.name_any()));
        }
        caches.enqueue_all();
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_pools(names);
    }
}

impl Indexed for ActorApplication {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, application: Arc<Self>, present: bool) {
        let key = ApplicationKey::of(&application);
        if !present {
            filter.forget(application.as_ref());
            caches.change(|index| index.remove_application(&key));
            caches.versions().forget(&key);
            caches.recheck().forget(&key);
            let waiting = {
                let mut triggers = caches.triggers();
                triggers.forget(&key);
                triggers.capacity_grew()
            };
            caches.enqueue_replan(waiting);
            return;
        }
        let facts = (application.metadata.generation, &application.metadata.deletion_timestamp);
        let changed = filter.changed(application.as_ref(), &facts);
        caches.change(|index| index.put_application(application));
        if changed {
            caches.enqueue_replan([key]);
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_applications(names);
    }
}

impl Indexed for Placement {
    fn on_event(caches: &Caches, _: &mut ChangeFilter, placement: Arc<Self>, present: bool) {
        let key = key_of(&placement);
        if present {
            let facts = |it: &Self| {
                (
                    it.spec.assignments.clone(),
                    it.status.as_ref().map(|status| status.refusals.clone()).unwrap_or_default(),
                )
            };
            // A Placement just written may be newer than the event; the index lock excludes writes in between.
            let (known, is_newer) = caches.change(|index| {
                let known = index.named_placement(&key).cloned();
                let is_newer = caches.versions().record_observed(&key, known.as_deref(), &placement);
                if is_newer {
                    index.put_placement(placement.clone());
                }
                (known, is_newer)
            });
            if !is_newer {
                tracing::debug!(%key, known = ?known.map(|it| it.resource_version()), "ignoring a stale Placement event");
                return;
            }
            if known.as_deref().map(facts) == Some(facts(&placement)) {
                return;
            }
            caches.release_units(&key, known.as_deref(), Some(&placement));
        } else {
            let was_known = caches.change(|index| {
                let known = index.named_placement(&key);
                let is_same = known.is_none_or(|known| known.uid() == placement.uid());
                if is_same {
                    index.remove_placement(&key);
                    if index.application(&key).is_some() {
                        caches.versions().record_deleted(&key, &placement);
                    }
                }
                is_same
            });
            if was_known {
                caches.release_units(&key, Some(&placement), None);
                caches.recheck().forget(&key);
            }
        }
        caches.enqueue_replan([key]);
        caches.pools_changed.notify_one();
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_placements(names);
    }
}

impl Indexed for Instance {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, instance: Arc<Self>, present: bool) {
        let namespace = instance.namespace().unwrap_or_default();
        let key =
            ApplicationKey { namespace: namespace.clone(), name: instance.spec.application_name.clone() };
        // A runtime-requested Instance counts from its adoption until its deletion.
        let is_requested = instance.spec.origin == InstanceOrigin::Runtime;
        let metadata = &instance.metadata;
        let facts = (&metadata.uid, &metadata.owner_references, &metadata.deletion_timestamp);
        let changed = is_requested && (!present || filter.changed(instance.as_ref(), &facts));
        if !present {
            filter.forget(instance.as_ref());
        }
        if present {
            caches.change(|index| index.put_instance(instance));
        } else {
            caches.change(|index| index.remove_instance(&namespace, &instance.name_any()));
            let waiting = caches.triggers().waiting_in_namespace(&namespace);
            for key in &waiting {
                caches.enqueue(key);
            }
        }
        if changed {
            caches.mark_dirty(&key);
        }
        caches.enqueue(&key);
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_instances(names);
    }
}

impl Indexed for Pod {
    /// Own pods concern their application; foreign ones take and free capacity.
    fn on_event(caches: &Caches, _: &mut ChangeFilter, pod: Arc<Self>, present: bool) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let own = caches.application_of(&pod);
        let frees_capacity = !present || is_terminal(&pod);
        let goes = frees_capacity || pod.metadata.deletion_timestamp.is_some();
        let pool = world::unit_of(&pod).and_then(|unit| caches.index().pool_of_unit(unit).map(str::to_owned));
        let labels = pod.labels().clone();
        let node_now = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let before = caches.index().node_of_pod(&namespace, &name).map(str::to_owned);
        // An actor that keeps its assignment gets a new pod on the same unit.
        let is_recreated = frees_capacity && own.as_ref().is_some_and(|key| has_place(caches, key, &pod));
        let change = |index: &mut Index| {
            if present {
                index.put_pod(pod);
            } else {
                index.remove_pod(&namespace, &name);
            }
        };
        let comes = present && !goes && before.is_none() && node_now.is_some();
        let node = before.or(node_now);
        match &node {
            Some(node) => caches.change_node(node, false, change),
            None => caches.change(change),
        }
        // Freed quota may be awaited by others in the namespace.
        if frees_capacity && !is_recreated {
            caches.quota_freed(&namespace);
        }
        if frees_capacity {
            let waiting = {
                // Lock order: index before triggers.
                let index = caches.index();
                let triggers = caches.triggers();
                let mut waiting = triggers.waiting_in_namespace(&namespace);
                waiting.extend(node.iter().flat_map(|node| triggers.waiting_on_node(&index, node)));
                // A pool's instance limit counts across nodes and applications.
                waiting.extend(pool.iter().flat_map(|pool| triggers.waiting_for_pool(pool)));
                waiting
            };
            for key in &waiting {
                caches.enqueue(key);
            }
        }
        if comes || frees_capacity {
            caches.enqueue_replan(peers_of(caches, &labels));
        }
        if let Some(key) = &own {
            // An actor that lost its pod on a cordoned node must be placed elsewhere.
            if goes && node.as_ref().is_some_and(|node| caches.index().rejects_pods(node)) {
                caches.mark_dirty(key);
            }
            caches.enqueue(key);
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_pods(names);
    }
}

/// Applications with unplaced actors whose rules between pods select pods with these labels.
fn peers_of(caches: &Caches, labels: &BTreeMap<String, String>) -> Vec<ApplicationKey> {
    let unplaced = caches.triggers().with_unplaced_actors();
    let selects = |key: &ApplicationKey| {
        caches.application(key).is_some_and(|application| selects_pods(&application, labels))
    };
    unplaced.into_iter().filter(selects).collect()
}

/// Whether the actor of a pod is assigned by its application's Placement.
fn has_place(caches: &Caches, key: &ApplicationKey, pod: &Pod) -> bool {
    let index = caches.index();
    let actor = pod.labels().get(labels::ACTOR);
    let places = index.named_placement(key).map(|decision| &decision.spec.assignments);
    actor.zip(places).is_some_and(|(actor, places)| places.iter().any(|place| place.actor == *actor))
}
