//! What the operator sees: one watch per kind, and who has to look again when something changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use futures::channel::mpsc::UnboundedSender;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use world::{ApplicationKey, Objects, controller, is_decision_for, is_over};

use crate::devices;
use crate::error::Error;
use crate::policies::Policies;
use crate::slim;

/// Asks for a reconcile of an application.
pub type Requests = UnboundedSender<ObjectRef<ActorApplication>>;

/// The stores, and a counter that says whether anything changed that a plan depends on.
pub struct Caches {
    pub nodes: Store<Node>,
    pub pods: Store<Pod>,
    pub topologies: Store<NodeTopology>,
    pub pools: Store<DevicePool>,
    pub applications: Store<ActorApplication>,
    pub placements: Store<Placement>,
    pub instances: Store<Instance>,
    pub config_maps: Store<ConfigMap>,
    /// Decisions that were written and that the watch may not have brought yet.
    written: Mutex<BTreeMap<ApplicationKey, Arc<Placement>>>,
    changes: AtomicU64,
    releases: AtomicU64,
    /// Applications of which actors wait for room, or for their name.
    waiting: Mutex<BTreeSet<ApplicationKey>>,
    /// Of those releases, how many came from an application's own decision.
    own_releases: Mutex<HashMap<ApplicationKey, u64>>,
}

/// A watch that feeds a store for as long as the process lives.
pub type Feed = BoxFuture<'static, ()>;

/// Tells everybody who has to look again.
#[derive(Clone)]
struct Bell {
    requests: Requests,
    pools: Arc<tokio::sync::Notify>,
    caches: Arc<std::sync::OnceLock<Arc<Caches>>>,
}

/// What a change of an object means for others.
enum Touches {
    /// Nothing that a plan depends on; these applications look after their own.
    Own(Option<ApplicationKey>),
    /// Nothing that a plan depends on either, but what the applications of these pods tell.
    Pods(Vec<devices::PodName>),
    /// A pod: whose Instance controls it, as far as it says so, what it means for plans, and whether it gives a name or
    /// room back.
    Pod { namespace: String, owner: Option<OwnerReference>, plans: Option<bool>, frees: bool },
    /// An application looks after its own, and what waits for room or for a name looks again.
    Frees(Option<ApplicationKey>),
    /// A plan of any application may depend on it; `releases` when it may have become room.
    Plans { own: Option<ApplicationKey>, releases: bool },
}

impl Caches {
    /// Starts one watch per kind; the feeds must be run.
    pub fn new(
        client: &Client,
        namespace: &str,
        requests: Requests,
        pools_changed: Arc<tokio::sync::Notify>,
        policies: Arc<Policies>,
        refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
    ) -> (Arc<Self>, Vec<Feed>) {
        let bell = Bell { requests, pools: pools_changed, caches: Arc::default() };
        let mut feeds = Vec::new();
        let everything = watcher::Config::default;
        let nodes = feed(
            Api::all(client.clone()),
            everything(),
            slim::node,
            by_content(slim::node_facts),
            &bell,
            &mut feeds,
        );
        let pods = feed(Api::all(client.clone()), everything(), slim::pod, pod_touches(), &bell, &mut feeds);
        let topologies = feed(
            Api::all(client.clone()),
            everything(),
            slim::metadata,
            topology_touches(),
            &bell,
            &mut feeds,
        );
        let pools = feed(
            Api::all(client.clone()),
            everything(),
            slim::metadata,
            by_content(|p: &DevicePool| p.spec.clone()),
            &bell,
            &mut feeds,
        );
        let applications = feed(
            Api::all(client.clone()),
            everything(),
            slim::metadata,
            application_touches(),
            &bell,
            &mut feeds,
        );
        let placements = feed(
            Api::all(client.clone()),
            everything(),
            slim::metadata,
            placement_touches(),
            &bell,
            &mut feeds,
        );
        let instances =
            feed(Api::all(client.clone()), everything(), slim::metadata, instance_touches, &bell, &mut feeds);
        let of_policies = everything().labels(&format!("{}=true", labels::POLICY));
        let config_maps = feed(
            Api::namespaced(client.clone(), namespace),
            of_policies,
            slim::metadata,
            policy_touches(policies, refused),
            &bell,
            &mut feeds,
        );
        let caches = Arc::new(Self {
            nodes,
            pods,
            topologies,
            pools,
            applications,
            placements,
            instances,
            config_maps,
            written: Mutex::default(),
            changes: AtomicU64::new(1),
            releases: AtomicU64::new(1),
            waiting: Mutex::default(),
            own_releases: Mutex::default(),
        });
        let _ = bell.caches.set(caches.clone());
        (caches, feeds)
    }

    /// Waits until every store has been filled once.
    pub async fn warm(&self) {
        let ready = tokio::join!(
            self.nodes.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.topologies.wait_until_ready(),
            self.pools.wait_until_ready(),
            self.applications.wait_until_ready(),
            self.placements.wait_until_ready(),
            self.instances.wait_until_ready(),
            self.config_maps.wait_until_ready(),
        );
        // A store's writer lives in its feed, which ends with the process.
        let _ = ready;
    }

    /// Everything that a snapshot is made from, decisions just written included.
    pub fn objects(&self) -> Objects {
        Objects {
            nodes: self.nodes.state(),
            pods: self.pods.state(),
            topologies: self.topologies.state(),
            pools: self.pools.state(),
            applications: self.applications.state(),
            placements: self.decisions(),
            instances: self.instances.state(),
            policies: self.config_maps.state(),
        }
    }

    /// The decisions: the newer of what was watched and what was written.
    fn decisions(&self) -> Vec<Arc<Placement>> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut decisions: BTreeMap<ApplicationKey, Arc<Placement>> =
            self.placements.state().into_iter().map(|placement| (key_of(&placement), placement)).collect();
        written.retain(|key, ours| match decisions.get(key) {
            Some(seen) => generation(seen) < generation(ours) && seen.uid() == ours.uid(),
            // Not seen yet, unless the application is gone too, and its decision with it.
            None => self.applications.get(&object_ref(key)).is_some(),
        });
        decisions.extend(written.iter().map(|(key, ours)| (key.clone(), ours.clone())));
        decisions.into_values().collect()
    }

    /// The decision for one application.
    ///
    /// # Errors
    /// When another's Placement has its name.
    pub fn decision(&self, key: &ApplicationKey) -> Result<Option<Arc<Placement>>, Error> {
        let Some(application) = self.applications.get(&object_ref(key)) else { return Ok(None) };
        match self.decisions().into_iter().find(|placement| key_of(placement) == *key) {
            Some(other) if !is_decision_for(&other, &application) => {
                Err(Error::NameTaken(format!("Placement {} is not of this application", other.name_any())))
            }
            found => Ok(found),
        }
    }

    /// Remembers whether actors of the application wait for something that a pod or an Instance may give back.
    pub fn waits(&self, key: &ApplicationKey, waits: bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waits {
            waiting.insert(key.clone());
        } else {
            waiting.remove(key);
        }
    }

    /// The application at the end of the chain of controllers that begins with an Instance of this name and uid.
    fn application_of(&self, namespace: &str, owner: &OwnerReference) -> Option<ApplicationKey> {
        let instance = self.instances.get(&ObjectRef::new(&owner.name).within(namespace))?;
        let application = controller(instance.as_ref(), "ActorApplication")?;
        (instance.uid().as_ref() == Some(&owner.uid))
            .then(|| ApplicationKey { namespace: namespace.to_owned(), name: application.name.clone() })
    }

    /// Remembers a decision that was just written: it counts as occupied from now on.
    pub fn wrote(&self, placement: Placement) {
        let placement = Arc::new(placement);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(key_of(&placement), placement);
    }

    /// Grows with every change that a plan may depend on.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Grows with every change that may have made room for this application, its own decisions aside.
    pub fn releases(&self, key: &ApplicationKey) -> u64 {
        let own = self.own_releases.lock().unwrap_or_else(PoisonError::into_inner);
        self.releases.load(Ordering::Acquire) - own.get(key).copied().unwrap_or(0)
    }
}

fn generation(placement: &Placement) -> i64 {
    placement.metadata.generation.unwrap_or(0)
}

fn key_of(placement: &Placement) -> ApplicationKey {
    ApplicationKey { namespace: placement.namespace().unwrap_or_default(), name: placement.name_any() }
}

/// The reference by which an application is reconciled.
pub fn object_ref(key: &ApplicationKey) -> ObjectRef<ActorApplication> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

impl Bell {
    fn ring(&self, touches: Touches) {
        match touches {
            Touches::Own(own) => self.one(own),
            Touches::Pod { namespace, owner, plans, frees } => {
                let caches = self.caches.get();
                let own = owner.and_then(|owner| caches?.application_of(&namespace, &owner));
                match (own, plans) {
                    (None, Some(releases)) => self.ring(Touches::Plans { own: None, releases }),
                    (own, _) if frees => self.ring(Touches::Frees(own)),
                    (own, _) => self.one(own),
                }
            }
            Touches::Frees(own) => {
                let waiting = self
                    .caches
                    .get()
                    .map(|caches| caches.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone());
                for key in waiting.into_iter().flatten().chain(own) {
                    self.one(Some(key));
                }
            }
            Touches::Pods(pods) => {
                let caches = self.caches.get();
                let owner = |(namespace, name): &devices::PodName| {
                    let pod = caches?.pods.get(&ObjectRef::new(name).within(namespace))?;
                    caches?.application_of(namespace, controller(pod.as_ref(), "Instance")?)
                };
                let owners = pods.iter().filter_map(owner);
                for owner in owners.collect::<BTreeSet<_>>() {
                    self.one(Some(owner));
                }
            }
            Touches::Plans { own, releases } => {
                // Before the caches are complete nothing has been planned that could be out of date.
                if let Some(caches) = self.caches.get() {
                    caches.changes.fetch_add(1, Ordering::AcqRel);
                    if releases {
                        let mut of_owners =
                            caches.own_releases.lock().unwrap_or_else(PoisonError::into_inner);
                        caches.releases.fetch_add(1, Ordering::AcqRel);
                        if let Some(key) = &own {
                            *of_owners.entry(key.clone()).or_default() += 1;
                        }
                    }
                    for application in caches.applications.state() {
                        let _ = self.requests.unbounded_send(ObjectRef::from_obj(application.as_ref()));
                    }
                }
                self.pools.notify_one();
                self.one(own);
            }
        }
    }

    fn one(&self, key: Option<ApplicationKey>) {
        if let Some(key) = key {
            let _ = self.requests.unbounded_send(object_ref(&key));
        }
    }
}

/// Fills a store from a watch, slimmed, and rings for what each event touches.
fn feed<K>(
    api: Api<K>,
    config: watcher::Config,
    slim: fn(&mut K),
    mut touches: impl FnMut(&K, bool) -> Option<Touches> + Send + 'static,
    bell: &Bell,
    feeds: &mut Vec<Feed>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (reader, writer) = store();
    let bell = bell.clone();
    let stream = watcher(api, config).default_backoff().modify(slim).reflect(writer);
    let run = stream.for_each(move |event| {
        let change = match &event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => touches(object, true),
            Ok(watcher::Event::Delete(object)) => touches(object, false),
            // After a gap objects may be gone that no event told of.
            Ok(watcher::Event::InitDone) => Some(Touches::Plans { own: None, releases: true }),
            Ok(watcher::Event::Init) => None,
            Err(e) => {
                tracing::warn!(kind = %K::kind(&()), error = %e, "watch interrupted; it is taken up again");
                None
            }
        };
        if let Some(change) = change {
            bell.ring(change);
        }
        futures::future::ready(())
    });
    feeds.push(run.boxed());
    reader
}

/// Remembers what objects looked like, to tell real changes from heartbeats.
#[derive(Default)]
struct Seen(HashMap<String, u64>);

impl Seen {
    /// Whether the facts of this object differ from what was seen last.
    fn changed(&mut self, object: &impl ResourceExt, facts: &impl Serialize) -> bool {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(facts).unwrap_or_default().hash(&mut hasher);
        let hash = hasher.finish();
        self.0.insert(name_of(object), hash) != Some(hash)
    }

    fn forget(&mut self, object: &impl ResourceExt) {
        self.0.remove(&name_of(object));
    }
}

fn name_of(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// Touches every plan when the facts change.
fn by_content<K: ResourceExt, F: Serialize>(facts: fn(&K) -> F) -> impl FnMut(&K, bool) -> Option<Touches> {
    let mut seen = Seen::default();
    move |object, present| {
        if !present {
            seen.forget(object);
        } else if !seen.changed(object, &facts(object)) {
            return None;
        }
        Some(Touches::Plans { own: None, releases: true })
    }
}

/// Devices concern every plan; who holds them is told by the applications of those pods.
fn topology_touches() -> impl FnMut(&NodeTopology, bool) -> Option<Touches> {
    let mut devices = by_content(|topology: &NodeTopology| topology.spec.clone());
    let mut held = devices::Seen::default();
    move |topology, present| {
        let pods = held.changed(topology, present);
        devices(topology, present).or_else(|| (!pods.is_empty()).then_some(Touches::Pods(pods)))
    }
}

/// Own pods concern their application; foreign ones take room from everybody, and give it back.
///
/// Which of the two a pod is, the chain of its controllers says when the bell rings.
fn pod_touches() -> impl FnMut(&Pod, bool) -> Option<Touches> {
    let mut seen = Seen::default();
    move |pod, present| {
        let takes_room =
            present && !is_over(pod) && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let changed = seen.changed(pod, &(takes_room, node));
        let was_there = changed && !takes_room;
        if !present {
            seen.forget(pod);
        }
        Some(Touches::Pod {
            namespace: pod.namespace().unwrap_or_default(),
            owner: controller(pod, "Instance").cloned(),
            plans: changed.then_some(was_there),
            frees: !present || is_over(pod),
        })
    }
}

fn application_touches() -> impl FnMut(&ActorApplication, bool) -> Option<Touches> {
    let mut seen = Seen::default();
    move |application, present| {
        let own = Some(ApplicationKey::of(application));
        if !present {
            seen.forget(application);
            return Some(Touches::Plans { own: None, releases: true });
        }
        let facts = (application.metadata.generation, &application.metadata.deletion_timestamp);
        let changed = seen.changed(application, &facts);
        changed.then_some(Touches::Own(own))
    }
}

/// A decision takes room from others and may give some back.
fn placement_touches() -> impl FnMut(&Placement, bool) -> Option<Touches> {
    let mut seen = Seen::default();
    let mut units: HashMap<String, Vec<String>> = HashMap::new();
    move |placement, present| {
        let own = Some(key_of(placement));
        if !present {
            seen.forget(placement);
            units.remove(&name_of(placement));
            return Some(Touches::Plans { own, releases: true });
        }
        let refusals = placement.status.as_ref().map(|status| &status.refusals);
        if !seen.changed(placement, &(&placement.spec.assignments, refusals)) {
            return None;
        }
        let mut now: Vec<String> = placement.spec.assignments.iter().map(|a| a.unit.clone()).collect();
        now.sort_unstable();
        let before = units.insert(name_of(placement), now.clone()).unwrap_or_default();
        let releases = before.iter().any(|unit| count(&before, unit) > count(&now, unit));
        Some(Touches::Plans { own, releases })
    }
}

/// How often a name occurs in a sorted list.
fn count(sorted: &[String], name: &String) -> usize {
    sorted.partition_point(|other| other <= name) - sorted.partition_point(|other| other < name)
}

/// Rings for the application that it names, which is no more than a look.
#[expect(clippy::unnecessary_wraps, reason = "the shape that every kind has")]
fn instance_touches(instance: &Instance, present: bool) -> Option<Touches> {
    let namespace = instance.namespace().unwrap_or_default();
    let own = Some(ApplicationKey { namespace, name: instance.spec.application_name.clone() });
    Some(if present { Touches::Own(own) } else { Touches::Frees(own) })
}

fn policy_touches(
    policies: Arc<Policies>,
    refused: UnboundedSender<(Arc<ConfigMap>, world::PolicyError)>,
) -> impl FnMut(&ConfigMap, bool) -> Option<Touches> {
    let mut seen = Seen::default();
    move |config_map, present| {
        if !present {
            seen.forget(config_map);
            policies.forget(&config_map.name_any());
        } else if !seen.changed(config_map, &config_map.data) {
            return None;
        } else if let Err(problem) = policies.learn(config_map) {
            let _ = refused.unbounded_send((Arc::new(config_map.clone()), problem));
        }
        Some(Touches::Plans { own: None, releases: true })
    }
}
