//! What is made of an application beside its actors: one Service and one ConfigMap, by which actors find each other and
//! which are kept as they should be, and a `ControllerRevision` for each state of its templates.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crds::{ActorApplication, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use world::{ApplicationKey, controller};

use crate::caches::Later;
use crate::revisions::Revisions;
use crate::slim;
use crate::watches::Watches;

/// What is there, of those that say that they are an application's.
pub struct Neighbours {
    pub services: Of<Service>,
    pub peers: Of<ConfigMap>,
    pub revisions: Of<ControllerRevision>,
}

/// A kind of what an application has beside its actors.
pub trait Beside:
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

impl Beside for Service {}
impl Beside for ConfigMap {}
impl Beside for ControllerRevision {}

/// Objects of one kind.
pub struct Of<K: Beside> {
    pub there: Store<K>,
    /// Those that were made and that the watch has not brought yet.
    pub made: Made,
}

/// Objects by name, in their namespaces.
pub type Made = Arc<Mutex<BTreeSet<(String, String)>>>;

impl Neighbours {
    /// Watches these kinds; whose they are rings when they change.
    pub fn watch(watches: &mut Watches, caches: &Later) -> Self {
        Self {
            services: Of::watch(watches, slim::service, caches),
            peers: Of::watch(watches, slim::metadata, caches),
            revisions: Of::watch(watches, slim::metadata, caches),
        }
    }

    /// The states of an application's templates that are kept, the oldest first.
    pub fn revisions(&self, application: &ActorApplication) -> Revisions {
        let of_it = |revision: &Arc<ControllerRevision>| is_of(revision.as_ref(), application);
        let mut kept: Vec<_> = self.revisions.there.state().into_iter().filter(of_it).collect();
        kept.sort_by_key(|revision| (revision.revision, revision.name_any()));
        Revisions(kept)
    }
}

/// Whether an application controls an object.
pub fn is_of(object: &impl ResourceExt, application: &ActorApplication) -> bool {
    let owner = controller(object, "ActorApplication").map(|owner| &owner.uid);
    owner.is_some() && owner == application.metadata.uid.as_ref()
}

impl<K: Beside> Of<K> {
    fn watch(watches: &mut Watches, slim: fn(&mut K), caches: &Later) -> Self {
        let made = Made::default();
        let (seen, caches) = (made.clone(), caches.clone());
        let ours = watcher::Config::default().labels(labels::APPLICATION);
        let there = watches.store(Api::all(watches.client()), ours, slim, move |event, _| {
            let mut made = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let object = match event {
                watcher::Event::Apply(object) | watcher::Event::Delete(object) => object,
                // What is not in the list is gone.
                watcher::Event::InitDone => return made.clear(),
                watcher::Event::Init | watcher::Event::InitApply(_) => return,
            };
            let namespace = object.namespace().unwrap_or_default();
            made.remove(&(namespace.clone(), object.name_any()));
            if let (Some(caches), Some(owner)) = (caches.get(), controller(&object, "ActorApplication")) {
                caches.ring(&ApplicationKey { namespace, name: owner.name.clone() });
            }
        });
        Self { there, made }
    }
}
