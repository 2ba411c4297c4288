//! What the operator sees: one watch per kind, an index of it all, and who has to look again when something changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crds::{ActorApplication, Placement};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use world::{ApplicationKey, Index, Policy, Room, controller, is_decision_for};

use crate::error::Error;
use crate::queue::recheck::RecheckQueue;
use crate::queue::triggers::{NodeCapacity, ReplanTriggers, Waiting};
use crate::runtime::clock::moment;
use crate::watch::slim;
use crate::watch::versions::Versions;
use crate::watch::watches::{BoxReady, Names};

/// Asks for a reconcile of an application.
pub type Requests = UnboundedSender<ObjectRef<ActorApplication>>;

/// The caches, once they are made.
pub type CachesCell = Arc<std::sync::OnceLock<Arc<Caches>>>;

/// What there is, and who has to look again.
pub struct Caches {
    pub applications: Store<ActorApplication>,
    index: RwLock<Index>,
    versions: Mutex<Versions>,
    triggers: Mutex<ReplanTriggers>,
    recheck: Mutex<RecheckQueue>,
    /// The kinds and counts of units, which no policy changes.
    plain: Policy,
    requests: Requests,
    pub pools_changed: Arc<tokio::sync::Notify>,
    ready: Vec<BoxReady>,
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
            versions: Mutex::default(),
            triggers: Mutex::default(),
            recheck: Mutex::default(),
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

    pub fn triggers(&self) -> MutexGuard<'_, ReplanTriggers> {
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose decided places may be others' by now. Nothing else is taken while this is held.
    pub fn recheck(&self) -> MutexGuard<'_, RecheckQueue> {
        self.recheck.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub fn versions(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decisions that were written and that the watch has not brought yet.
    pub fn unobserved_placements(&self) -> Names {
        self.versions().unobserved(|key| self.applications.get(&object_ref(key)).is_some())
    }

    /// Remembers a decision that was just written: it counts as occupied from now on. An answer that comes after the watch has
    /// brought what is newer says nothing.
    pub fn record_written(&self, mut placement: Placement) {
        slim::placement(&mut placement);
        let placement = Arc::new(placement);
        let key = key_of(&placement);
        let news = self.change(|index| {
            // What is answered late may be gone, with its application, and perhaps another one has that name.
            index.application(&key).filter(|application| is_decision_for(&placement, application))?;
            let before = index.named_placement(&key).cloned();
            let is_newer = self.versions().record_written(&key, before.as_deref(), &placement);
            is_newer.then(|| {
                index.put_placement(placement.clone());
                before
            })
        });
        let Some(before) = news else { return };
        self.release_units(&key, before.as_deref(), Some(&placement));
        // What is refused, or is not any more, is another world; that it was written here rings nobody.
        let refusals = |it: &Placement| it.status.as_ref().map(|it| it.refusals.clone()).unwrap_or_default();
        if before.as_deref().map(refusals).unwrap_or_default() != refusals(&placement) {
            self.enqueue_replan([key]);
        }
    }

    /// Remembers what an application waits for; whether it is news that, or for what, actors have no place.
    pub fn set_waiting(&self, key: &ApplicationKey, waits: Waiting) -> bool {
        self.triggers().set_waiting(key, waits)
    }

    /// How often room came so far that an actor without a place may use.
    pub fn growth_counter(&self) -> u64 {
        self.triggers().growth_counter()
    }

    /// Remembers at which capacities an application would be pressed where it is.
    pub fn guard(&self, key: &ApplicationKey, policy: &Policy, needs: BTreeMap<String, u64>) {
        self.triggers().guard(key, policy, needs);
    }

    /// Whether something touched the application since this was last asked.
    pub fn take_dirty(&self, key: &ApplicationKey) -> bool {
        self.triggers().take_dirty(key)
    }

    /// Touches an application again that did not come to its end.
    pub fn mark_dirty(&self, key: &ApplicationKey) {
        self.triggers().mark_dirty(key);
    }

    /// How many units and slots of these kinds came free so far that the application did not give back itself.
    pub fn freed_counter<'a>(&self, key: &ApplicationKey, kinds: impl Iterator<Item = &'a str>) -> u64 {
        self.triggers().freed_counter(key, kinds)
    }

    /// Lets those look whether they could be better whose turn it is.
    pub fn grant_background_turns(
        &self,
        waiting: BTreeMap<ApplicationKey, BTreeSet<&str>>,
        now: control::Moment,
        most: usize,
    ) {
        let turns = self.triggers().grant_background_turns(waiting, now, most);
        for key in &turns {
            self.enqueue(key);
        }
    }

    /// Whether its turn to look has come since this was last asked.
    pub fn take_background_turn(&self, key: &ApplicationKey) -> bool {
        self.triggers().take_background_turn(key)
    }

    /// The application as it was last seen.
    pub fn application(&self, key: &ApplicationKey) -> Option<Arc<ActorApplication>> {
        self.index().application(key).cloned()
    }

    /// Asks for a look at an application.
    pub fn enqueue(&self, key: &ApplicationKey) {
        let _ = self.requests.unbounded_send(object_ref(key));
    }

    /// Asks for a new plan of these.
    pub fn enqueue_replan(&self, keys: impl IntoIterator<Item = ApplicationKey>) {
        for key in keys {
            self.triggers().mark_dirty(&key);
            self.enqueue(&key);
        }
    }

    /// Forgets what is remembered of applications that are gone, and says which are there: of some that came and went nobody heard, and
    /// what is left of others touches them when they are gone.
    pub fn forget_deleted(&self) -> BTreeSet<ApplicationKey> {
        // Who comes is known before it is touched, and comes when this is over.
        let index = self.index();
        let there = index.applications().cloned().collect();
        self.triggers().keep(&there);
        self.recheck().retain(&there);
        there
    }

    /// Something that any plan may depend on.
    pub fn enqueue_all(&self) {
        let all: Vec<ApplicationKey> =
            self.applications.state().iter().map(|application| ApplicationKey::of(application)).collect();
        self.enqueue_replan(all);
        self.pools_changed.notify_one();
    }

    fn node_capacity(&self, node: &str) -> NodeCapacity {
        let index = self.index();
        NodeCapacity { room: index.room(node).cloned(), units: world::units_at(&index, node, &self.plain) }
    }

    /// Changes something at a node, and rings for whom it presses and for who waits for such room. Whoever was decided to be there
    /// may find the place taken: who is not there yet presses nothing.
    ///
    /// `known`: what the node is has changed, not only what is left of it.
    pub fn change_node(&self, node: &str, known: bool, change: impl FnOnce(&mut Index)) {
        let before = self.node_capacity(node);
        self.change(change);
        let after = self.node_capacity(node);
        if before == after && !known {
            return;
        }
        let (overloaded, waiting, is_reported) = {
            let index = self.index();
            let mut triggers = self.triggers();
            let is_gone = before.units.keys().any(|unit| !after.units.contains_key(unit));
            let foreign = match (&before.room, &after.room) {
                (Some(before), Some(after)) => !after.is_as_free_as(before),
                (before, after) => before.is_some() != after.is_some(),
            };
            let is_overfull = foreign && after.room.as_ref().is_some_and(Room::is_overfull);
            let mut overloaded = if known || is_gone || is_overfull {
                index.hosted(node).cloned().collect()
            } else if foreign {
                triggers.overloaded(&index, node)
            } else {
                BTreeSet::new()
            };
            // Who was decided to be elsewhere takes room until it is gone, and who starts anew in its place goes nowhere.
            let held = |node_capacity: &NodeCapacity, unit: &str| {
                node_capacity.room.as_ref().map_or(0, |room| room.held(unit))
            };
            let is_left = |unit: &str| {
                let before = held(&before, unit);
                held(&after, unit) < before && index.decided_on(unit) < before
            };
            let came = after.units.values().filter(|unit| {
                !before.units.contains_key(&unit.id) || unit.slots.is_some() && is_left(&unit.id)
            });
            triggers.capacity_freed(came.map(|unit| unit.kind.as_str()), None, moment());
            overloaded.extend(triggers.unplaced_that_fit(&before, &after, known));
            let waiting = if known || foreign || before.units != after.units {
                self.recheck().add(index.hosted(node).cloned());
                triggers.waiting_on_node(&index, node)
            } else {
                Vec::new()
            };
            (overloaded, waiting, known || foreign || is_gone)
        };
        self.enqueue_replan(overloaded);
        for key in &waiting {
            self.enqueue(key);
        }
        if is_reported {
            self.pools_changed.notify_one();
        }
    }

    /// Lets time pass: units that were not offered for long are gone, and of silent agents not everything is believed.
    pub fn advance_time(&self, now: jiff::Timestamp, silent: &BTreeSet<String>) {
        for node in self.change(|index| index.pass(now)) {
            self.change_node(&node, true, |index| index.let_go(&node));
        }
        let before: BTreeSet<String> = self.index().silent_agents().cloned().collect();
        for node in before.symmetric_difference(silent) {
            let is_silent = silent.contains(node);
            tracing::info!(node, is_silent, "the agent of a node fell silent, or is heard again");
            self.change_node(node, true, |index| index.set_agent_silent(node, is_silent));
        }
    }

    /// What a decision gives back is room for others.
    pub fn release_units(&self, key: &ApplicationKey, before: Option<&Placement>, now: Option<&Placement>) {
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
            let mut triggers = self.triggers();
            let pools = pools.into_iter().filter_map(|pool| index.pool(pool));
            let limited = pools.filter(|pool| pool.spec.max_instances_per_unit().is_some());
            triggers.capacity_freed(limited.map(|pool| pool.spec.kind.as_str()), Some(key), moment());
            triggers.capacity_grew()
        };
        self.enqueue_replan(waits);
    }

    /// The application at the end of the chain of controllers that begins with this pod.
    pub fn application_of(&self, pod: &Pod) -> Option<ApplicationKey> {
        let owner = controller(pod, "Instance")?;
        self.index().application_of(&owner.uid)
    }
}

/// The application that a decision is for, by its name.
pub fn key_of(placement: &Placement) -> ApplicationKey {
    ApplicationKey { namespace: placement.namespace().unwrap_or_default(), name: placement.name_any() }
}

/// The reference by which an application is reconciled.
pub fn object_ref(key: &ApplicationKey) -> ObjectRef<ActorApplication> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

#[cfg(test)]
mod tests;
