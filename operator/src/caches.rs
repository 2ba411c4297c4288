//! What the operator sees: one watch per kind, an index of it all, and who has to look again when something changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crds::{ActorApplication, DevicePool, Instance, InstanceOrigin, NodeTopology, Placement};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use world::{ApplicationKey, Index, Policy, Room, controller, is_decision_for, is_over};

use crate::error::Error;
use crate::slim;
use crate::touched::{Offer, Touched};
use crate::watches::{BoxReady, Names, Seen};

/// Asks for a reconcile of an application.
pub type Requests = UnboundedSender<ObjectRef<ActorApplication>>;

/// The caches, once they are made.
pub type Later = Arc<std::sync::OnceLock<Arc<Caches>>>;

/// What there is, and who has to look again.
pub struct Caches {
    pub applications: Store<ActorApplication>,
    index: RwLock<Index>,
    /// Decisions that were written and that the watch may not have brought yet, with their generation.
    pub written: Mutex<BTreeMap<ApplicationKey, i64>>,
    touched: Mutex<Touched>,
    /// The kinds and counts of units, which no policy changes.
    plain: Policy,
    requests: Requests,
    pools_changed: Arc<tokio::sync::Notify>,
    ready: Vec<BoxReady>,
}

/// A kind of objects that the index holds.
pub trait Indexed:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
    /// It came, changed or went.
    fn happened(caches: &Caches, seen: &mut Seen, object: Arc<Self>, present: bool);
    /// After a gap in the watch: what is not among these is gone.
    fn keep(index: &mut Index, names: &Names);
}

impl Caches {
    /// Nothing yet; `ready` waits until every store has been filled once.
    pub fn new(
        applications: Store<ActorApplication>,
        requests: Requests,
        pools_changed: Arc<tokio::sync::Notify>,
        ready: Vec<BoxReady>,
    ) -> Self {
        Self {
            applications,
            index: RwLock::default(),
            written: Mutex::default(),
            touched: Mutex::default(),
            plain: Policy::builtin("units"),
            requests,
            pools_changed,
            ready,
        }
    }

    /// Waits until every store has been filled once.
    pub async fn warm(&self) {
        for ready in &self.ready {
            ready().await;
        }
    }

    /// Everything that a snapshot is made from, decisions just written included; not to be held across a wait.
    /// Whoever takes the marks of applications too takes them after it.
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn touched(&self) -> MutexGuard<'_, Touched> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The decision for one application.
    ///
    /// # Errors
    /// When another's Placement has its name.
    pub fn decision(&self, key: &ApplicationKey) -> Result<Option<Arc<Placement>>, Error> {
        let index = self.index();
        let Some(application) = index.application(key) else { return Ok(None) };
        match index.named_placement(key) {
            Some(other) if !is_decision_for(other, application) => {
                Err(Error::NameTaken(format!("Placement {} is not of this application", other.name_any())))
            }
            found => Ok(found.cloned()),
        }
    }

    /// Remembers a decision that was just written: it counts as occupied from now on.
    pub fn wrote(&self, mut placement: Placement) {
        slim::metadata(&mut placement);
        let placement = Arc::new(placement);
        let key = key_of(&placement);
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone(), generation(&placement));
        let before = self.change(|index| {
            let before = index.named_placement(&key).cloned();
            index.put_placement(placement.clone());
            before
        });
        self.gave_back(&key, before.as_deref(), Some(&placement));
        // What is refused, or is not any more, is another world; that it was written here rings nobody.
        let refusals = |it: &Placement| it.status.as_ref().map(|it| it.refusals.clone()).unwrap_or_default();
        if before.as_deref().map(refusals).unwrap_or_default() != refusals(&placement) {
            self.ring_touched([key]);
        }
    }

    /// Remembers what an application waits for: whether for something that a pod or an Instance may give back, and what
    /// those of its actors ask for that have no place, by kind.
    pub fn waits(&self, key: &ApplicationKey, waits: bool, unplaced: Vec<(String, control::Amounts)>) {
        self.touched().waits(key, waits, unplaced);
    }

    /// Remembers at which capacities an application would be pressed where it is.
    pub fn guard(&self, key: &ApplicationKey, policy: &Policy, needs: BTreeMap<String, u64>) {
        self.touched().guard(key, policy, needs);
    }

    /// Whether something touched the application since this was last asked.
    pub fn take_touch(&self, key: &ApplicationKey) -> bool {
        self.touched().take(key)
    }

    /// Touches an application again that did not come to its end.
    pub fn touch(&self, key: &ApplicationKey) {
        self.touched().touch(key);
    }

    /// How many units and slots of these kinds came free so far that the application did not give back itself.
    pub fn chances<'a>(&self, key: &ApplicationKey, kinds: impl Iterator<Item = &'a str>) -> u64 {
        self.touched().chances(key, kinds)
    }

    /// Lets those look whether they could be better whose turn it is.
    pub fn give_turns(&self, waiting: Vec<ApplicationKey>, now: control::Moment, most: usize) {
        let turns = self.touched().give_turns(waiting, now, most);
        for key in &turns {
            self.ring(key);
        }
    }

    /// Whether its turn to look has come since this was last asked.
    pub fn take_turn(&self, key: &ApplicationKey) -> bool {
        self.touched().take_turn(key)
    }

    /// The application as it was last seen.
    pub fn application(&self, key: &ApplicationKey) -> Option<Arc<ActorApplication>> {
        self.index().application(key).cloned()
    }

    /// Asks for a look at an application.
    pub fn ring(&self, key: &ApplicationKey) {
        let _ = self.requests.unbounded_send(object_ref(key));
    }

    /// Asks for a new plan of these.
    pub fn ring_touched(&self, keys: impl IntoIterator<Item = ApplicationKey>) {
        for key in keys {
            self.touched().touch(&key);
            self.ring(&key);
        }
    }

    /// Something that any plan may depend on.
    pub fn ring_everybody(&self) {
        let all: Vec<ApplicationKey> =
            self.applications.state().iter().map(|application| ApplicationKey::of(application)).collect();
        self.ring_touched(all);
        self.pools_changed.notify_one();
    }

    fn offer(&self, node: &str) -> Offer {
        let index = self.index();
        Offer { room: index.room(node).cloned(), units: world::units_at(&index, node, &self.plain) }
    }

    /// Changes something at a node, and rings for whom it presses and for who waits for such room.
    ///
    /// `known`: what the node is has changed, not only what is left of it.
    fn at_node(&self, node: &str, known: bool, change: impl FnOnce(&mut Index)) {
        let before = self.offer(node);
        self.change(change);
        let after = self.offer(node);
        if before == after && !known {
            return;
        }
        let (pressed, is_told) = {
            let index = self.index();
            let mut touched = self.touched();
            let is_gone = before.units.keys().any(|unit| !after.units.contains_key(unit));
            let foreign = match (&before.room, &after.room) {
                (Some(before), Some(after)) => !after.is_as_free_as(before),
                (before, after) => before.is_some() != after.is_some(),
            };
            let is_overfull = foreign && after.room.as_ref().is_some_and(Room::is_overfull);
            let mut pressed = if known || is_gone || is_overfull {
                index.hosted(node).cloned().collect()
            } else if foreign {
                touched.pressed(&index, node)
            } else {
                BTreeSet::new()
            };
            let came = after.units.values().filter(|unit| !before.units.contains_key(&unit.id));
            touched.came(came.map(|unit| unit.kind.as_str()), None);
            pressed.extend(touched.could_use(&before, &after, known));
            (pressed, known || foreign || is_gone)
        };
        self.ring_touched(pressed);
        if is_told {
            self.pools_changed.notify_one();
        }
    }

    /// Lets time pass: units that were not offered for long are gone, and of silent agents not everything is believed.
    pub fn pass(&self, now: jiff::Timestamp, silent: &BTreeSet<String>) {
        for node in self.change(|index| index.pass(now)) {
            self.at_node(&node, true, |index| index.let_go(&node));
        }
        let before: BTreeSet<String> = self.index().silent_agents().cloned().collect();
        for node in before.symmetric_difference(silent) {
            let is_silent = silent.contains(node);
            tracing::info!(node, is_silent, "the agent of a node fell silent, or is heard again");
            self.at_node(node, true, |index| index.set_agent_silent(node, is_silent));
        }
    }

    /// What a decision gives back is room for others.
    fn gave_back(&self, key: &ApplicationKey, before: Option<&Placement>, now: Option<&Placement>) {
        let units = |placement: Option<&Placement>| -> BTreeMap<String, (usize, String)> {
            let mut units = BTreeMap::new();
            for assignment in placement.into_iter().flat_map(|placement| &placement.spec.assignments) {
                let unit = units.entry(assignment.unit.clone());
                unit.or_insert_with(|| (0, assignment.pool.clone())).0 += 1;
            }
            units
        };
        let (before, now) = (units(before), units(now));
        let freed =
            before.iter().filter(|(unit, (count, _))| now.get(*unit).map_or(0, |(now, _)| *now) < *count);
        let pools: BTreeSet<&String> = freed.map(|(_, (_, pool))| pool).collect();
        if pools.is_empty() {
            return;
        }
        let waits = {
            let index = self.index();
            let mut touched = self.touched();
            let pools = pools.into_iter().filter_map(|pool| index.pool(pool));
            let limited = pools.filter(|pool| pool.spec.max_instances_per_unit().is_some());
            touched.came(limited.map(|pool| pool.spec.kind.as_str()), Some(key));
            touched.without_place()
        };
        self.ring_touched(waits);
    }

    /// The application at the end of the chain of controllers that begins with this pod.
    fn application_of(&self, pod: &Pod) -> Option<ApplicationKey> {
        let owner = controller(pod, "Instance")?;
        self.index().application_of(&owner.uid)
    }
}

impl Indexed for Node {
    fn happened(caches: &Caches, seen: &mut Seen, node: Arc<Self>, present: bool) {
        let name = node.name_any();
        if !present {
            seen.forget(node.as_ref());
            caches.at_node(&name, true, |index| index.remove_node(&name));
        } else if seen.changed(node.as_ref(), &slim::node_facts(&node)) {
            caches.at_node(&name, true, |index| index.put_node(node));
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_nodes(names);
    }
}

impl Indexed for NodeTopology {
    fn happened(caches: &Caches, seen: &mut Seen, topology: Arc<Self>, present: bool) {
        let name = topology.name_any();
        let held = seen.devices.changed(&topology, present);
        if !present {
            seen.forget(topology.as_ref());
            caches.at_node(&name, true, |index| index.remove_topology(&name));
        } else if seen.changed(topology.as_ref(), &topology.spec) {
            caches.at_node(&name, true, |index| index.put_topology(topology));
        } else {
            caches.change(|index| index.put_topology(topology));
        }
        // Who holds what is told by the applications of those pods.
        let index = caches.index();
        let pods = held.iter().filter_map(|(namespace, name)| index.pod(namespace, name));
        let owners = pods.filter_map(|pod| index.application_of(&controller(pod.as_ref(), "Instance")?.uid));
        owners.collect::<BTreeSet<_>>().iter().for_each(|key| caches.ring(key));
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_topologies(names);
    }
}

impl Indexed for DevicePool {
    fn happened(caches: &Caches, seen: &mut Seen, pool: Arc<Self>, present: bool) {
        if present {
            let changed = seen.changed(pool.as_ref(), &pool.spec);
            let kind = pool.spec.kind.clone();
            caches.change(|index| index.put_pool(pool));
            if !changed {
                return;
            }
            caches.touched().came(std::iter::once(kind.as_str()), None);
        } else {
            seen.forget(pool.as_ref());
            caches.change(|index| index.remove_pool(&pool.name_any()));
        }
        caches.ring_everybody();
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_pools(names);
    }
}

impl Indexed for ActorApplication {
    fn happened(caches: &Caches, seen: &mut Seen, application: Arc<Self>, present: bool) {
        let key = ApplicationKey::of(&application);
        if !present {
            seen.forget(application.as_ref());
            caches.change(|index| index.remove_application(&key));
            let waits = {
                let mut touched = caches.touched();
                touched.forget(&key);
                touched.without_place()
            };
            caches.ring_touched(waits);
            return;
        }
        let facts = (application.metadata.generation, &application.metadata.deletion_timestamp);
        let changed = seen.changed(application.as_ref(), &facts);
        caches.change(|index| index.put_application(application));
        if changed {
            caches.ring_touched([key]);
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_applications(names);
    }
}

impl Indexed for Placement {
    fn happened(caches: &Caches, _: &mut Seen, placement: Arc<Self>, present: bool) {
        let key = key_of(&placement);
        let known = caches.index().named_placement(&key).cloned();
        let is_same = known.as_ref().is_none_or(|known| known.uid() == placement.uid());
        if present {
            // What was just written may be newer than what is seen.
            if let Some(known) =
                known.as_ref().filter(|known| is_same && generation(known) > generation(&placement))
            {
                tracing::debug!(%key, known = generation(known), "an older decision is passed over");
                return;
            }
            caches.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            let facts = |it: &Self| {
                (
                    it.spec.assignments.clone(),
                    it.status.as_ref().map(|status| status.refusals.clone()).unwrap_or_default(),
                )
            };
            caches.change(|index| index.put_placement(placement.clone()));
            if known.as_deref().map(facts) == Some(facts(&placement)) {
                return;
            }
            caches.gave_back(&key, known.as_deref(), Some(&placement));
        } else if is_same {
            caches.change(|index| index.remove_placement(&key));
            caches.gave_back(&key, Some(&placement), None);
        }
        caches.ring_touched([key]);
        caches.pools_changed.notify_one();
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_placements(names);
    }
}

impl Indexed for Instance {
    fn happened(caches: &Caches, seen: &mut Seen, instance: Arc<Self>, present: bool) {
        let namespace = instance.namespace().unwrap_or_default();
        let key =
            ApplicationKey { namespace: namespace.clone(), name: instance.spec.application_name.clone() };
        // One that a runtime asked for is wanted from when it is the application's until it goes.
        let is_asked = instance.spec.origin == InstanceOrigin::Runtime;
        let metadata = &instance.metadata;
        let facts = (&metadata.uid, &metadata.owner_references, &metadata.deletion_timestamp);
        let changed = is_asked && (!present || seen.changed(instance.as_ref(), &facts));
        if !present {
            seen.forget(instance.as_ref());
        }
        if present {
            caches.change(|index| index.put_instance(instance));
        } else {
            caches.change(|index| index.remove_instance(&namespace, &instance.name_any()));
            let waiting = caches.touched().waiting_in(&namespace);
            for key in &waiting {
                caches.ring(key);
            }
        }
        if changed {
            caches.touch(&key);
        }
        caches.ring(&key);
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_instances(names);
    }
}

impl Indexed for Pod {
    /// Own pods concern their application; foreign ones take room from whom they press, and give it back.
    fn happened(caches: &Caches, _: &mut Seen, pod: Arc<Self>, present: bool) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let own = caches.application_of(&pod);
        let gives_back = !present || is_over(&pod);
        let goes = gives_back || pod.metadata.deletion_timestamp.is_some();
        let node_now = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let before = caches.index().node_of_pod(&namespace, &name).map(str::to_owned);
        let change = |index: &mut Index| {
            if present {
                index.put_pod(pod);
            } else {
                index.remove_pod(&namespace, &name);
            }
        };
        let node = before.or(node_now);
        match &node {
            Some(node) => caches.at_node(node, false, change),
            None => caches.change(change),
        }
        if gives_back && own.is_none() {
            caches.gave_quota_back(&namespace);
        }
        if gives_back {
            let waiting = {
                // Whoever takes both takes the index first.
                let index = caches.index();
                let touched = caches.touched();
                let mut waiting = touched.waiting_in(&namespace);
                waiting.extend(node.iter().flat_map(|node| touched.waiting_at(&index, node)));
                waiting
            };
            for key in &waiting {
                caches.ring(key);
            }
        }
        if let Some(key) = &own {
            // Whoever loses its pod where no new one may come has to go elsewhere.
            if goes && node.as_ref().is_some_and(|node| caches.index().turns_away(node)) {
                caches.touch(key);
            }
            caches.ring(key);
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_pods(names);
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
