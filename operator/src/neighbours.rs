//! What is made of an application beside its actors: one Service and one ConfigMap, by which actors find each other and
//! which are kept as they should be, and a `ControllerRevision` for each state of its templates.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use control::Wait;
use crds::{ActorApplication, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use world::{ApplicationKey, controller};

use crate::context::Context;
use crate::error::Error;
use crate::feeds::Later;
use crate::identity;
use crate::report::Outcome;
use crate::revisions::Revisions;
use crate::slim;
use crate::watches::Watches;
use crate::writes::Created;

/// What is there, of those that say that they are an application's.
pub struct Neighbours {
    services: Of<Service>,
    peers: Of<ConfigMap>,
    revisions: Of<ControllerRevision>,
}

/// Objects of one kind.
pub struct Of<K: kube::Resource<DynamicType = ()> + 'static> {
    there: Store<K>,
    /// Those that were made and that the watch has not brought yet.
    made: Made,
}

/// Objects by name, in their namespaces.
type Made = Arc<Mutex<BTreeSet<(String, String)>>>;

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

    /// Keeps a state of the templates, and takes away the oldest of more than are kept.
    ///
    /// # Errors
    /// When something could not be written, or the lease is lost; it is tried again.
    pub async fn keep_revision(
        &self,
        wanted: ControllerRevision,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.revisions.there(wanted, application, key, ctx, outcome).await.map(drop)
    }

    /// Makes what is missing and puts right what changed; another's object under a name that is needed is left alone.
    ///
    /// # Errors
    /// When something could not be written, or the lease is lost; it is tried again.
    pub async fn keep(
        &self,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.services.there(identity::service(application), application, key, ctx, outcome).await?;
        let peers = identity::peers(application);
        let data = peers.data.clone().unwrap_or_default();
        let Some(there) = self.peers.there(peers, application, key, ctx, outcome).await? else {
            return Ok(());
        };
        let has = |(name, text): (&String, &String)| {
            there.data.as_ref().and_then(|data| data.get(name)) == Some(text)
        };
        if data.iter().all(has) { Ok(()) } else { ctx.writer.patch_data(&there, &data).await }
    }
}

/// Whether an application controls an object.
fn is_of(object: &impl ResourceExt, application: &ActorApplication) -> bool {
    let owner = controller(object, "ActorApplication").map(|owner| &owner.uid);
    owner.is_some() && owner == application.metadata.uid.as_ref()
}

impl<K> Of<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
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

    /// The application's own object of this name. Where there is none it is made, or, where somebody else has the name,
    /// that is said, and tried again after growing waits.
    pub async fn there(
        &self,
        wanted: K,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<Option<Arc<K>>, Error> {
        if let Some(found) = self.there.get(&ObjectRef::from_obj(&wanted))
            && controller(found.as_ref(), "ActorApplication").is_some()
        {
            // One that is left of an application of this name before goes, and rings.
            return Ok(is_of(found.as_ref(), application).then_some(found));
        }
        let name = (key.namespace.clone(), wanted.name_any());
        if self.made.lock().unwrap_or_else(PoisonError::into_inner).contains(&name) {
            return Ok(None);
        }
        let what = format!("{} {}", K::kind(&()), name.1);
        let tried = (key.clone(), what.clone());
        let until = match ctx.held_back(&tried) {
            Some((until, _)) => until,
            None if ctx.writer.create(&wanted).await? == Created::New => {
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                return Ok(None);
            }
            None => ctx.hold_back(tried, "its name is taken", false),
        };
        outcome.next = Some(outcome.next.map_or(until, |next| next.min(until)));
        outcome.waiting.insert("peers".to_owned(), Wait::Name(what));
        Ok(None)
    }
}
