//! The caches: an index of all watched objects, and which applications a change enqueues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crds::{ActorApplication, Placement};
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use world::{ApplicationKey, Index, NodeRoom, Policy, controller_ref, is_decision_for};

use crate::error::Error;
use crate::queue::recheck::RecheckQueue;
use crate::queue::triggers::{NodeCapacity, ReplanTriggers, Waiting};
use crate::runtime::clock::moment;
use crate::watch::slim;
use crate::watch::versions::Versions;
use crate::watch::watches::{BoxReady, Names};

/// Sends reconcile requests.
pub type Requests = UnboundedSender<ObjectRef<ActorApplication>>;

/// The caches, set once they are created.
pub type CachesCell = Arc<std::sync::OnceLock<Arc<Caches>>>;

/// The watched state, with the queues that its changes feed.
pub struct Caches {
    pub applications: Store<ActorApplication>,
    index: RwLock<Index>,
    versions: Mutex<Versions>,
    triggers: Mutex<ReplanTriggers>,
    recheck: Mutex<RecheckQueue>,
    /// Policy for kinds and counts of units, which no policy changes.
    plain: Policy,
    requests: Requests,
    pub pools_changed: Arc<tokio::sync::Notify>,
    ready: Vec<BoxReady>,
}

impl Caches {
    /// Empty caches; `ready` waits until every store is synced.
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

    /// Waits until every store is synced.
    pub async fn warm(&self) {
        for ready in &self.ready {
            ready().await;
        }
    }

    /// Everything a snapshot is made from, including Placements just written. Never hold it across an await.
    /// Lock order: index before triggers.
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn triggers(&self) -> MutexGuard<'_, ReplanTriggers> {
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assignments to be checked again. No other lock is taken while this one is held.
    pub fn recheck(&self) -> MutexGuard<'_, RecheckQueue> {
        self.recheck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Placement of an application.
    ///
    /// # Errors
    /// When a foreign Placement has its name.
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

    /// Placements that were written and that the watch has not delivered yet.
    pub fn unobserved_placements(&self) -> Names {
        self.versions().unobserved(|key| self.applications.get(&object_ref(key)).is_some())
    }

    /// Records a Placement that was just written: its units count as occupied from now on. Ignored if the watch already
    /// delivered a newer version.
    pub fn record_written(&self, mut placement: Placement) {
        slim::placement(&mut placement);
        let placement = Arc::new(placement);
        let key = key_of(&placement);
        let news = self.change(|index| {
            // A late answer may belong to a deleted application, or to one recreated under the same name.
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
        // Changed refusals change the snapshot and trigger a replan; the operator's own writes do not.
        let refusals = |it: &Placement| it.status.as_ref().map(|it| it.refusals.clone()).unwrap_or_default();
        if before.as_deref().map(refusals).unwrap_or_default() != refusals(&placement) {
            self.enqueue_replan([key]);
        }
    }

    /// Records what an application waits for; returns whether its unplaced demand is new.
    pub fn set_waiting(&self, key: &ApplicationKey, waits: Waiting) -> bool {
        self.triggers().set_waiting(key, waits)
    }

    /// Counts growth of capacity that unplaced actors may use.
    pub fn growth_counter(&self) -> u64 {
        self.triggers().growth_counter()
    }

    /// Records below which unit capacities an application would be overloaded.
    pub fn guard(&self, key: &ApplicationKey, policy: &Policy, needs: BTreeMap<String, u64>) {
        self.triggers().guard(key, policy, needs);
    }

    /// Takes the dirty mark of an application.
    pub fn take_dirty(&self, key: &ApplicationKey) -> bool {
        self.triggers().take_dirty(key)
    }

    /// Marks an application for another planning run.
    pub fn mark_dirty(&self, key: &ApplicationKey) {
        self.triggers().mark_dirty(key);
    }

    /// Units and slots of these kinds freed so far by others.
    pub fn freed_counter<'a>(&self, key: &ApplicationKey, kinds: impl Iterator<Item = &'a str>) -> u64 {
        self.triggers().freed_counter(key, kinds)
    }

    /// Grants background slots, and enqueues their applications.
    pub fn grant_background_slots(
        &self,
        waiting: BTreeMap<ApplicationKey, BTreeSet<&str>>,
        now: control::Moment,
        most: usize,
    ) {
        let granted = self.triggers().grant_background_slots(waiting, now, most);
        for key in &granted {
            self.enqueue(key);
        }
    }

    /// Takes the background slot of an application.
    pub fn take_background_slot(&self, key: &ApplicationKey) -> bool {
        self.triggers().take_background_slot(key)
    }

    /// The cached application.
    pub fn application(&self, key: &ApplicationKey) -> Option<Arc<ActorApplication>> {
        self.index().application(key).cloned()
    }

    /// Enqueues an application for a reconcile.
    pub fn enqueue(&self, key: &ApplicationKey) {
        let _ = self.requests.unbounded_send(object_ref(key));
    }

    /// Enqueues applications for planning.
    pub fn enqueue_replan(&self, keys: impl IntoIterator<Item = ApplicationKey>) {
        for key in keys {
            self.triggers().mark_dirty(&key);
            self.enqueue(&key);
        }
    }

    /// Drops the state of deleted applications; returns those that exist. Covers deletions that happened during a gap in the
    /// watch.
    pub fn forget_deleted(&self) -> BTreeSet<ApplicationKey> {
        // Holding the index keeps new applications out until this is done.
        let index = self.index();
        let there = index.applications().cloned().collect();
        self.triggers().keep(&there);
        self.recheck().retain(&there);
        there
    }

    /// Enqueues all applications, for changes that any plan may depend on.
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

    /// Changes a node; enqueues applications that become overloaded and those that wait for its capacity. Assignments without a
    /// pod are checked again.
    ///
    /// `known`: the node itself changed, not only its free capacity.
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
                (Some(before), Some(after)) => !after.has_same_free_resources(before),
                (before, after) => before.is_some() != after.is_some(),
            };
            let is_overfull = foreign && after.room.as_ref().is_some_and(NodeRoom::is_overfull);
            let mut overloaded = if known || is_gone || is_overfull {
                index.applications_on(node).cloned().collect()
            } else if foreign {
                triggers.overloaded(&index, node)
            } else {
                BTreeSet::new()
            };
            // A unit left by a moving actor is freed only if no other actor is assigned to it.
            let held = |node_capacity: &NodeCapacity, unit: &str| {
                node_capacity.room.as_ref().map_or(0, |room| room.pods_on(unit))
            };
            let is_left = |unit: &str| {
                let before = held(&before, unit);
                held(&after, unit) < before && index.decided_on(unit) < before
            };
            let added = after.units.values().filter(|unit| {
                !before.units.contains_key(&unit.id) || unit.slots.is_some() && is_left(&unit.id)
            });
            triggers.capacity_freed(added.map(|unit| unit.kind.as_str()), None, moment());
            overloaded.extend(triggers.unplaced_that_fit(&before, &after, known));
            let waiting = if known || foreign || before.units != after.units {
                self.recheck().add(index.applications_on(node).cloned());
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

    /// Advances time: units past their grace period are removed, and nodes with expired agent leases are marked silent.
    pub fn advance_time(&self, now: jiff::Timestamp, silent: &BTreeSet<String>) {
        for node in self.change(|index| index.advance(now)) {
            self.change_node(&node, true, |index| index.expire_units(&node));
        }
        let before: BTreeSet<String> = self.index().stale_agents().cloned().collect();
        for node in before.symmetric_difference(silent) {
            let is_silent = silent.contains(node);
            if is_silent {
                tracing::warn!(node, "agent lease expired");
            } else {
                tracing::info!(node, "agent lease renewed");
            }
            self.change_node(node, true, |index| index.set_agent_stale(node, is_silent));
        }
    }

    /// Units that a Placement gives up are capacity for others.
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

    /// The application at the end of the chain of controllers that begins at this pod.
    pub fn application_of(&self, pod: &Pod) -> Option<ApplicationKey> {
        let owner = controller_ref(pod, "Instance")?;
        self.index().application_of(&owner.uid)
    }
}

/// The application of a Placement, by name.
pub fn key_of(placement: &Placement) -> ApplicationKey {
    ApplicationKey { namespace: placement.namespace().unwrap_or_default(), name: placement.name_any() }
}

/// The key of an application in the workqueue.
pub fn object_ref(key: &ApplicationKey) -> ObjectRef<ActorApplication> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

#[cfg(test)]
mod tests;
