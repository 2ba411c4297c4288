//! Cache of the resources that an application owns besides its actors: a Service and a ConfigMap for discovery, and a
//! `ControllerRevision` per revision of its templates and per decision that moved actors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crds::{ActorApplication, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use world::{ApplicationKey, controller_ref};

use crate::apply::moves::history::{History, is_history};
use crate::apply::owned::revisions::Revisions;
use crate::watch::caches::CachesCell;
use crate::watch::slim;
use crate::watch::watches::{Names, Watches, name_of};

/// Page size of lists: an object may be a MiB before it is slimmed.
const PAGE: u32 = 50;

/// The cached objects that carry the application label.
pub struct OwnedResources {
    pub services: OwnedKind<Service>,
    pub peers: OwnedKind<ConfigMap>,
    pub revisions: OwnedKind<ControllerRevision>,
}

/// A kind of owned resources.
pub trait OwnedObject:
    kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + serde::Serialize
    + serde::de::DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl OwnedObject for Service {}
impl OwnedObject for ConfigMap {}
impl OwnedObject for ControllerRevision {}

/// Cached objects of one kind.
pub struct OwnedKind<K: OwnedObject> {
    pub store: Store<K>,
    /// Objects that were created and that the watch has not delivered yet.
    pub pending: PendingNames,
    owned: Owned,
}

/// Namespaces and names of objects.
pub type PendingNames = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Names of objects by the uid of the controlling application.
type Owned = Arc<Mutex<BTreeMap<String, Names>>>;

impl OwnedResources {
    /// Watches these kinds; a change enqueues the owner.
    pub fn watch(watches: &mut Watches, caches: &CachesCell) -> Self {
        Self {
            services: OwnedKind::watch(watches, slim::service, caches),
            peers: OwnedKind::watch(watches, slim::peers, caches),
            revisions: OwnedKind::watch(watches, slim::metadata, caches),
        }
    }

    /// The revisions of an application's templates, the oldest first.
    pub fn revisions(&self, application: &ActorApplication) -> Revisions {
        let mut kept = self.revisions.of(application);
        kept.retain(|revision| !is_history(revision));
        kept.sort_by_key(|revision| (revision.revision, revision.name_any()));
        Revisions(kept)
    }

    /// The decisions of an application that moved actors, the oldest first.
    pub fn history(&self, application: &ActorApplication) -> History {
        let mut kept = self.revisions.of(application);
        kept.retain(|revision| is_history(revision));
        History::new(kept)
    }
}

/// Whether an application controls an object.
pub fn is_controlled_by(object: &impl ResourceExt, application: &ActorApplication) -> bool {
    let owner = controller_ref(object, "ActorApplication").map(|owner| &owner.uid);
    owner.is_some() && owner == application.metadata.uid.as_ref()
}

impl<K: OwnedObject> OwnedKind<K> {
    fn watch(watches: &mut Watches, slim: fn(&mut K), caches: &CachesCell) -> Self {
        let (pending, owned) = (PendingNames::default(), Owned::default());
        let (seen, by, caches) = (pending.clone(), owned.clone(), caches.clone());
        let ours = watcher::Config::default().labels(labels::APPLICATION).page_size(PAGE);
        // Objects created before the list was requested are in it, or deleted.
        let mut before = BTreeSet::new();
        let store = watches.store(Api::all(watches.client()), ours, slim, move |event, store| {
            let mut pending = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut by = by.lock().unwrap_or_else(PoisonError::into_inner);
            let object = match event {
                watcher::Event::Apply(object) => {
                    keep(&mut by, &object);
                    object
                }
                watcher::Event::Delete(object) => {
                    forget(&mut by, &object);
                    object
                }
                // Objects missing from the list are deleted.
                watcher::Event::InitDone => {
                    by.clear();
                    store.state().iter().for_each(|object| keep(&mut by, object.as_ref()));
                    return pending.retain(|name| !before.contains(name) && by_name(store, name).is_none());
                }
                watcher::Event::Init => return before.clone_from(&pending),
                watcher::Event::InitApply(_) => return,
            };
            let namespace = object.namespace().unwrap_or_default();
            pending.remove(&(namespace.clone(), object.name_any()));
            if let (Some(caches), Some(owner)) = (caches.get(), controller_ref(&object, "ActorApplication")) {
                caches.enqueue(&ApplicationKey { namespace, name: owner.name.clone() });
            }
        });
        Self { store, pending, owned }
    }

    /// The objects that an application controls.
    fn of(&self, application: &ActorApplication) -> Vec<Arc<K>> {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let names = application.metadata.uid.as_ref().and_then(|uid| owned.get(uid)).into_iter().flatten();
        let store = names.filter_map(|name| by_name(&self.store, name));
        store.filter(|object| is_controlled_by(object.as_ref(), application)).collect()
    }
}

fn by_name<K: OwnedObject>(store: &Store<K>, (namespace, name): &(String, String)) -> Option<Arc<K>> {
    store.get(&ObjectRef::new(name).within(namespace))
}

/// The uid of the controlling application.
fn owner_of(object: &impl ResourceExt) -> Option<String> {
    controller_ref(object, "ActorApplication").map(|owner| owner.uid.clone())
}

fn keep(owned: &mut BTreeMap<String, Names>, object: &impl ResourceExt) {
    if let Some(owner) = owner_of(object) {
        owned.entry(owner).or_default().insert(name_of(object));
    }
}

fn forget(owned: &mut BTreeMap<String, Names>, object: &impl ResourceExt) {
    let Some(uid) = owner_of(object) else { return };
    if let Some(names) = owned.get_mut(&uid) {
        names.remove(&name_of(object));
        if names.is_empty() {
            owned.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owned_objects_are_indexed_by_the_uid_of_their_owner() {
        let object = |name: &str, owner: &str| -> ControllerRevision {
            let owner = json!([{"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "name": "app", "uid": owner,
                "controller": true}]);
            serde_json::from_value(json!({"revision": 1, "metadata": {"name": name, "namespace": "ns", "ownerReferences": owner}}))
                .unwrap()
        };
        let mut owned = BTreeMap::new();
        for (name, owner) in [("a", "1"), ("b", "1"), ("c", "2")] {
            keep(&mut owned, &object(name, owner));
        }
        keep(&mut owned, &ControllerRevision::default());
        let names = |owned: &BTreeMap<String, Names>, owner: &str| {
            owned.get(owner).map(|names| names.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>())
        };
        assert_eq!(names(&owned, "1").unwrap(), ["a", "b"]);
        forget(&mut owned, &object("a", "1"));
        forget(&mut owned, &object("c", "2"));
        assert_eq!((names(&owned, "1").unwrap(), names(&owned, "2")), (vec!["b".to_owned()], None));
    }
}
