//! The watches, and how their events reach the caches.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota,
    ServiceAccount,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use prometheus::IntCounterVec;
use world::{Policy, SchedulingKind};

use crate::plan::policies::store::Policies;
use crate::watch::caches::{Caches, CachesCell, Requests};
use crate::watch::indexed::Indexed;
use crate::watch::owned_cache::OwnedResources;
use crate::watch::scheduling;
use crate::watch::slim;
use crate::watch::watches::{ChangeFilter, Feed, Names, Watches, name_of};

/// Creates one watch per kind; the returned feeds must be run.
pub fn watch(
    (client, errors): (&Client, &IntCounterVec),
    namespace: &str,
    requests: Requests,
    pools_changed: Arc<tokio::sync::Notify>,
    policies: Arc<Policies>,
    refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
) -> (Arc<Caches>, OwnedResources, Vec<Feed>) {
    let mut watches = Watches::new(client, errors);
    let later = Arc::new(OnceLock::new());
    add::<Node>(&mut watches, slim::node, &later);
    add::<NodeTopology>(&mut watches, slim::metadata, &later);
    add::<DevicePool>(&mut watches, slim::metadata, &later);
    add::<Instance>(&mut watches, slim::instance, &later);
    add::<Placement>(&mut watches, slim::placement, &later);
    add::<Pod>(&mut watches, slim::pod, &later);
    add::<ResourceQuota>(&mut watches, slim::quota, &later);
    add::<LimitRange>(&mut watches, slim::metadata, &later);
    add::<Namespace>(&mut watches, slim::namespace, &later);
    add_scheduling(&mut watches, &later);
    let applications = add_applications(&mut watches, &later);
    add_kept_policies(&mut watches, namespace, policies.clone(), &later);
    add_policies(&mut watches, namespace, policies, refused, &later);
    let owned_resources = OwnedResources::watch(&mut watches, &later);
    let (feeds, ready) = watches.finish();
    let caches = Arc::new(Caches::new(applications, requests, pools_changed, ready));
    let _ = later.set(caches.clone());
    (caches, owned_resources, feeds)
}

/// Watches the kinds that pod templates refer to.
fn add_scheduling(watches: &mut Watches, caches: &CachesCell) {
    add::<RuntimeClass>(watches, scheduling::identity, caches);
    add::<PriorityClass>(watches, scheduling::priority_class, caches);
    add::<ServiceAccount>(watches, scheduling::account, caches);
    add::<PersistentVolumeClaim>(watches, scheduling::unversioned, caches);
    add::<PersistentVolume>(watches, scheduling::unversioned, caches);
    add::<StorageClass>(watches, slim::metadata, caches);
    add::<CSINode>(watches, scheduling::identity, caches);
    add::<CSIDriver>(watches, scheduling::identity, caches);
    add::<CSIStorageCapacity>(watches, scheduling::identity, caches);
    add_if_served::<DeviceClass>(watches, scheduling::device_class, caches);
    add_if_served::<ResourceClaim>(watches, scheduling::resource_claim, caches);
    add_if_served::<ResourceClaimTemplate>(watches, scheduling::identity, caches);
    add_if_served::<ResourceSlice>(watches, scheduling::unversioned, caches);
}

/// Watches a kind that only the index holds.
fn add<K: Indexed>(watches: &mut Watches, slim: fn(&mut K), caches: &CachesCell) {
    let mut listener = Listener::new(caches);
    let api = Api::all(watches.client());
    watches.events(api, watcher::Config::default(), slim, move |event| listener.on_event(event, Arc::new));
}

/// Watches a kind that only the index holds and that older API servers lack.
fn add_if_served<K: Indexed + SchedulingKind>(watches: &mut Watches, slim: fn(&mut K), caches: &CachesCell) {
    let (mut listener, pools) = (Listener::new(caches), caches.clone());
    let on_discovery = move |is_served| {
        if let Some(caches) = pools.get() {
            caches.change(|index| index.set_served::<K>(is_served));
            caches.pools_changed.notify_one();
        }
    };
    watches.events_if_served(slim, move |event| listener.on_event(event, Arc::new), on_discovery);
}

/// Watches the applications, which also have a store for the reconciles.
fn add_applications(watches: &mut Watches, caches: &CachesCell) -> Store<ActorApplication> {
    let (caches, mut listener) = (caches.clone(), Listener::new(caches));
    let api = Api::all(watches.client());
    watches.store(api, watcher::Config::default(), slim::metadata, move |event, store| {
        let is_done = matches!(event, watcher::Event::InitDone);
        // Shares the store's object instead of keeping a copy.
        listener.on_event(event, |object| {
            let kept = store.get(&ObjectRef::from_obj(&object));
            let kept = kept.filter(|kept| kept.resource_version() == object.resource_version());
            kept.unwrap_or_else(|| Arc::new(object))
        });
        // The store has listed objects only at the end of the list.
        if let Some(caches) = caches.get().filter(|_| is_done) {
            caches.change(|index| store.state().into_iter().for_each(|it| index.put_application(it)));
        }
    })
}

/// Passes the events of one watch to the caches.
struct Listener {
    caches: CachesCell,
    filter: ChangeFilter,
    /// Names seen in an unfinished list.
    listed: Names,
}

impl Listener {
    fn new(caches: &CachesCell) -> Self {
        Self { caches: caches.clone(), filter: ChangeFilter::default(), listed: Names::new() }
    }

    fn on_event<K: Indexed>(&mut self, event: watcher::Event<K>, kept: impl FnOnce(K) -> Arc<K>) {
        let Some(caches) = self.caches.get() else { return };
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(name_of(&object));
                K::on_event(caches, &mut self.filter, kept(object), true);
            }
            watcher::Event::Apply(object) => K::on_event(caches, &mut self.filter, kept(object), true),
            watcher::Event::Delete(object) => {
                K::on_event(caches, &mut self.filter, Arc::new(object), false);
            }
            // Objects may have been deleted during a gap in the watch.
            watcher::Event::InitDone => {
                let mut names = std::mem::take(&mut self.listed);
                names.extend(unobserved::<K>(caches));
                self.filter.keep(&names);
                caches.change(|index| K::keep(index, &names));
                caches.enqueue_all();
            }
        }
    }
}

/// Watches the policies.
fn add_policies(
    watches: &mut Watches,
    namespace: &str,
    policies: Arc<Policies>,
    refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
    caches: &CachesCell,
) {
    let (caches, mut filter) = (caches.clone(), ChangeFilter::default());
    let of_policies = watcher::Config::default().labels(&labels::policy_selector());
    let api = Api::namespaced(watches.client(), namespace);
    watches.store(api, of_policies, slim::metadata, move |event, store| {
        let mut take = |config_map: &ConfigMap| {
            let limits = (config_map.annotations().get(labels::NAMESPACES), Policy::is_enforced(config_map));
            let facts = (&config_map.data, limits);
            if !filter.changed(config_map, &facts) {
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
                filter.forget(&config_map);
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
            caches.enqueue_all();
        }
    });
}

/// Watches the versions of policies that the cluster keeps.
fn add_kept_policies(watches: &mut Watches, namespace: &str, policies: Arc<Policies>, caches: &CachesCell) {
    let (caches, mut listed) = (caches.clone(), BTreeSet::new());
    let kept = watcher::Config::default().labels(labels::POLICY_VERSION);
    let api: Api<ControllerRevision> = Api::namespaced(watches.client(), namespace);
    watches.events(api, kept, slim::metadata, move |event| {
        let is_in_force = match event {
            watcher::Event::Init => {
                listed.clear();
                false
            }
            watcher::Event::InitApply(revision) => {
                listed.insert(revision.name_any());
                policies.restore(&revision)
            }
            watcher::Event::Apply(revision) => policies.restore(&revision),
            watcher::Event::Delete(revision) => {
                policies.retain_kept(|name| name != revision.name_any());
                false
            }
            watcher::Event::InitDone => {
                policies.retain_kept(|name| listed.contains(name));
                false
            }
        };
        if let Some(caches) = caches.get().filter(|_| is_in_force) {
            caches.enqueue_all();
        }
    });
}

/// Placements that were written and that a list may not contain yet; they are not deleted.
fn unobserved<K: Resource<DynamicType = ()>>(caches: &Caches) -> Names {
    if K::kind(&()) != Placement::kind(&()) {
        return Names::new();
    }
    caches.unobserved_placements()
}
