//! One watch per kind: each feeds a store and the index for as long as the process lives.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use crds::{Placement, labels};
use futures::channel::mpsc::UnboundedSender;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use world::ApplicationKey;

use crate::caches::{Caches, Indexed, Names, object_ref};
use crate::devices;
use crate::policies::Policies;
use crate::slim;

/// Waits until a store has been filled once.
pub type BoxReady = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A watch that feeds a store for as long as the process lives.
pub type Feed = BoxFuture<'static, ()>;

/// The caches, once they are made.
pub type Later = Arc<std::sync::OnceLock<Arc<Caches>>>;

/// Watches as they are added.
pub struct Watches<'a> {
    client: &'a Client,
    feeds: Vec<Feed>,
    ready: Vec<BoxReady>,
}

impl<'a> Watches<'a> {
    /// None yet.
    pub fn new(client: &'a Client) -> Self {
        Self { client, feeds: Vec::new(), ready: Vec::new() }
    }

    /// The feeds of all watches, which must be run, and what waits until each has been filled once.
    pub fn made(self) -> (Vec<Feed>, Vec<BoxReady>) {
        (self.feeds, self.ready)
    }

    fn store<K>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        slim: fn(&mut K),
        mut on: impl FnMut(watcher::Event<K>, &Store<K>) + Send + 'static,
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (reader, writer) = store();
        let stream = watcher(api, config).default_backoff().modify(slim).reflect(writer);
        let seen = reader.clone();
        let run = stream.for_each(move |event| {
            match event {
                Ok(event) => on(event, &seen),
                Err(e) => {
                    tracing::warn!(kind = %K::kind(&()), error = %e, "watch interrupted; it is taken up again");
                }
            }
            futures::future::ready(())
        });
        self.feeds.push(run.boxed());
        let filled = reader.clone();
        self.ready.push(Box::new(move || {
            let filled = filled.clone();
            // A store's writer lives in its feed, which ends with the process.
            async move { drop(filled.wait_until_ready().await) }.boxed()
        }));
        reader
    }

    /// Watches a kind that the index holds.
    pub fn add<K: Indexed>(&mut self, slim: fn(&mut K), caches: &Later) -> Store<K> {
        let (caches, mut seen) = (caches.clone(), Seen::default());
        let api = Api::all(self.client.clone());
        self.store(api, watcher::Config::default(), slim, move |event, store| {
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
                    names.extend(caches.written_names::<K>());
                    seen.keep(&names);
                    caches.change(|index| K::keep(index, &names));
                    caches.ring_everybody();
                }
                watcher::Event::Init => {}
            }
        })
    }

    /// Watches the policies.
    pub fn add_policies(
        &mut self,
        namespace: &str,
        policies: Arc<Policies>,
        refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
        caches: &Later,
    ) {
        let (caches, mut seen) = (caches.clone(), Seen::default());
        let of_policies = watcher::Config::default().labels(&format!("{}=true", labels::POLICY));
        let api = Api::namespaced(self.client.clone(), namespace);
        self.store(api, of_policies, slim::metadata, move |event, store| {
            let mut take = |config_map: &ConfigMap| {
                if !seen.changed(config_map, &config_map.data) {
                    return false;
                }
                if let Err(problem) = policies.learn(config_map) {
                    let _ = refused.unbounded_send((Arc::new(config_map.clone()), problem));
                }
                true
            };
            let changed = match event {
                watcher::Event::Apply(config_map) | watcher::Event::InitApply(config_map) => {
                    take(&config_map)
                }
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
}

impl Caches {
    /// Decisions that were written and that the watch has not brought yet are not gone.
    fn written_names<K: Resource<DynamicType = ()>>(&self) -> Names {
        if K::kind(&()) != Placement::kind(&()) {
            return Names::new();
        }
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let there = |key: &&ApplicationKey| self.applications.get(&object_ref(key)).is_some();
        written.keys().filter(there).map(|key| (key.namespace.clone(), key.name.clone())).collect()
    }
}

/// Remembers what objects looked like, to tell real changes from heartbeats.
#[derive(Default)]
pub struct Seen {
    facts: HashMap<(String, String), u64>,
    pub devices: devices::Seen,
}

impl Seen {
    /// Whether the facts of this object differ from what was seen last.
    pub fn changed(&mut self, object: &impl ResourceExt, facts: &impl Serialize) -> bool {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(facts).unwrap_or_default().hash(&mut hasher);
        let hash = hasher.finish();
        self.facts.insert(name_of(object), hash) != Some(hash)
    }

    pub fn forget(&mut self, object: &impl ResourceExt) {
        self.facts.remove(&name_of(object));
    }

    fn keep(&mut self, names: &Names) {
        self.facts.retain(|name, _| names.contains(name));
    }
}

fn name_of(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
