//! Which kinds are watched, and what their events do to the caches.

use std::sync::{Arc, OnceLock, PoisonError};

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use world::{ApplicationKey, Policy};

use crate::caches::{Caches, Indexed, Later, Requests, object_ref};
use crate::neighbours::Neighbours;
use crate::policies::Policies;
use crate::slim;
use crate::watches::{Feed, Names, Seen, Watches};

/// Starts one watch per kind; the feeds must be run.
pub fn watch(
    client: &Client,
    namespace: &str,
    requests: Requests,
    pools_changed: Arc<tokio::sync::Notify>,
    policies: Arc<Policies>,
    refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
) -> (Arc<Caches>, Neighbours, Vec<Feed>) {
    let mut watches = Watches::new(client);
    let later = Arc::new(OnceLock::new());
    add::<Node>(&mut watches, slim::node, &later);
    add::<NodeTopology>(&mut watches, slim::metadata, &later);
    add::<DevicePool>(&mut watches, slim::metadata, &later);
    add::<Instance>(&mut watches, slim::metadata, &later);
    add::<Placement>(&mut watches, slim::metadata, &later);
    add::<Pod>(&mut watches, slim::pod, &later);
    add::<ResourceQuota>(&mut watches, slim::quota, &later);
    add::<LimitRange>(&mut watches, slim::metadata, &later);
    add::<Namespace>(&mut watches, slim::namespace, &later);
    let applications = add::<ActorApplication>(&mut watches, slim::metadata, &later);
    add_policies(&mut watches, namespace, policies, refused, &later);
    let neighbours = Neighbours::watch(&mut watches, &later);
    let (feeds, ready) = watches.made();
    let caches = Arc::new(Caches::new(applications, requests, pools_changed, ready));
    let _ = later.set(caches.clone());
    (caches, neighbours, feeds)
}

/// Watches a kind that the index holds.
fn add<K: Indexed>(watches: &mut Watches, slim: fn(&mut K), caches: &Later) -> Store<K> {
    let (caches, mut seen) = (caches.clone(), Seen::default());
    let api = Api::all(watches.client());
    watches.store(api, watcher::Config::default(), slim, move |event, store| {
        let Some(caches) = caches.get() else { return };
        match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                // The store's own, where it has it already: nothing is kept twice.
                let kept = store.get(&ObjectRef::from_obj(&object));
                let kept = kept.filter(|kept| kept.resource_version() == object.resource_version());
                K::happened(caches, &mut seen, kept.unwrap_or_else(|| Arc::new(object)), true);
            }
            watcher::Event::Delete(object) => K::happened(caches, &mut seen, Arc::new(object), false),
            // After a gap objects may be gone that no event told of.
            watcher::Event::InitDone => {
                let name = |it: &Arc<K>| (it.namespace().unwrap_or_default(), it.name_any());
                let mut names: Names = store.state().iter().map(name).collect();
                names.extend(written::<K>(caches));
                seen.keep(&names);
                caches.change(|index| K::keep(index, &names));
                caches.ring_everybody();
            }
            watcher::Event::Init => {}
        }
    })
}

/// Watches the policies.
fn add_policies(
    watches: &mut Watches,
    namespace: &str,
    policies: Arc<Policies>,
    refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
    caches: &Later,
) {
    let (caches, mut seen) = (caches.clone(), Seen::default());
    let of_policies = watcher::Config::default().labels(&labels::of_policies());
    let api = Api::namespaced(watches.client(), namespace);
    watches.store(api, of_policies, slim::metadata, move |event, store| {
        let mut take = |config_map: &ConfigMap| {
            let limits = (config_map.annotations().get(labels::NAMESPACES), Policy::is_enforced(config_map));
            let facts = (&config_map.data, limits);
            if !seen.changed(config_map, &facts) {
                return false;
            }
            if let Err(problem) = policies.learn(config_map) {
                let _ = refused.unbounded_send((Arc::new(config_map.clone()), problem));
            }
            true
        };
        let changed = match event {
            watcher::Event::Apply(config_map) | watcher::Event::InitApply(config_map) => take(&config_map),
            watcher::Event::Delete(config_map) => {
                seen.forget(&config_map);
                policies.forget(&config_map.name_any());
                true
            }
            watcher::Event::InitDone => {
                let names = store.state().iter().map(|it| it.name_any()).collect();
                policies.keep(&names);
                true
            }
            watcher::Event::Init => false,
        };
        if let Some(caches) = caches.get().filter(|_| changed) {
            caches.ring_everybody();
        }
    });
}

/// Decisions that were written and that the watch has not brought yet: they are not gone.
fn written<K: Resource<DynamicType = ()>>(caches: &Caches) -> Names {
    if K::kind(&()) != Placement::kind(&()) {
        return Names::new();
    }
    let written = caches.written.lock().unwrap_or_else(PoisonError::into_inner);
    let there = |key: &&ApplicationKey| caches.applications.get(&object_ref(key)).is_some();
    written.keys().filter(there).map(|key| (key.namespace.clone(), key.name.clone())).collect()
}
