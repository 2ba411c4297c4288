//! Which kinds are watched, and what their events do to the caches.

use std::sync::{Arc, OnceLock};

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use world::Policy;

use crate::plan::policies::Policies;
use crate::watch::caches::{Caches, Later, Requests};
use crate::watch::indexed::Indexed;
use crate::watch::owned_cache::Neighbours;
use crate::watch::slim;
use crate::watch::watches::{Feed, Names, Seen, Watches, name_of};

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
    add::<Instance>(&mut watches, slim::instance, &later);
    add::<Placement>(&mut watches, slim::placement, &later);
    add::<Pod>(&mut watches, slim::pod, &later);
    add::<ResourceQuota>(&mut watches, slim::quota, &later);
    add::<LimitRange>(&mut watches, slim::metadata, &later);
    add::<Namespace>(&mut watches, slim::namespace, &later);
    let applications = add_applications(&mut watches, &later);
    add_policies(&mut watches, namespace, policies, refused, &later);
    let neighbours = Neighbours::watch(&mut watches, &later);
    let (feeds, ready) = watches.made();
    let caches = Arc::new(Caches::new(applications, requests, pools_changed, ready));
    let _ = later.set(caches.clone());
    (caches, neighbours, feeds)
}

/// Watches a kind that the index holds, and nobody else.
fn add<K: Indexed>(watches: &mut Watches, slim: fn(&mut K), caches: &Later) {
    let mut listener = Listener::new(caches);
    let api = Api::all(watches.client());
    watches.events(api, watcher::Config::default(), slim, move |event| listener.hear(event, Arc::new));
}

/// Watches the applications, which those who are looked after are taken from as well.
fn add_applications(watches: &mut Watches, caches: &Later) -> Store<ActorApplication> {
    let (caches, mut listener) = (caches.clone(), Listener::new(caches));
    let api = Api::all(watches.client());
    watches.store(api, watcher::Config::default(), slim::metadata, move |event, store| {
        let is_done = matches!(event, watcher::Event::InitDone);
        // The store's own, where it has it already: nothing is kept twice.
        listener.hear(event, |object| {
            let kept = store.get(&ObjectRef::from_obj(&object));
            let kept = kept.filter(|kept| kept.resource_version() == object.resource_version());
            kept.unwrap_or_else(|| Arc::new(object))
        });
        // Those of a list are the store's only when it is at its end.
        if let Some(caches) = caches.get().filter(|_| is_done) {
            caches.change(|index| store.state().into_iter().for_each(|it| index.put_application(it)));
        }
    })
}

/// Tells the caches what a watch says.
struct Listener {
    caches: Later,
    seen: Seen,
    /// What a list that is not at its end has so far.
    listed: Names,
}

impl Listener {
    fn new(caches: &Later) -> Self {
        Self { caches: caches.clone(), seen: Seen::default(), listed: Names::new() }
    }

    fn hear<K: Indexed>(&mut self, event: watcher::Event<K>, kept: impl FnOnce(K) -> Arc<K>) {
        let Some(caches) = self.caches.get() else { return };
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(name_of(&object));
                K::happened(caches, &mut self.seen, kept(object), true);
            }
            watcher::Event::Apply(object) => K::happened(caches, &mut self.seen, kept(object), true),
            watcher::Event::Delete(object) => {
                K::happened(caches, &mut self.seen, Arc::new(object), false);
            }
            // After a gap objects may be gone that no event told of.
            watcher::Event::InitDone => {
                let mut names = std::mem::take(&mut self.listed);
                names.extend(written::<K>(caches));
                self.seen.keep(&names);
                caches.change(|index| K::keep(index, &names));
                caches.ring_everybody();
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
    caches: &Later,
) {
    let (caches, mut seen) = (caches.clone(), Seen::default());
    let of_policies = watcher::Config::default().labels(&labels::policy_selector());
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
    caches.unseen_decisions()
}
