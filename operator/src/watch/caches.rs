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
use crate::queue::recheck::Doubts;
use crate::queue::triggers::{Offer, Touched, Waits};
use crate::runtime::clock::moment;
use crate::watch::slim;
use crate::watch::versions::Versions;
use crate::watch::watches::{BoxReady, Names};

/// Asks for a reconcile of an application.
pub type Requests = UnboundedSender<ObjectRef<ActorApplication>>;

/// The caches, once they are made.
pub type Later = Arc<std::sync::OnceLock<Arc<Caches>>>;

/// What there is, and who has to look again.
pub struct Caches {
    pub applications: Store<ActorApplication>,
    index: RwLock<Index>,
    versions: Mutex<Versions>,
    touched: Mutex<Touched>,
    doubts: Mutex<Doubts>,
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
            touched: Mutex::default(),
            doubts: Mutex::default(),
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

    /// Whose decided places may be others' by now. Nothing else is taken while this is held.
    pub fn doubts(&self) -> MutexGuard<'_, Doubts> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn unseen_decisions(&self) -> Names {
        self.versions().unseen(|key| self.applications.get(&object_ref(key)).is_some())
    }

    /// Remembers a decision that was just written: it counts as occupied from now on. An answer that comes after the watch has
    /// brought what is newer says nothing.
    pub fn wrote(&self, mut placement: Placement) {
        slim::placement(&mut placement);
        let placement = Arc::new(placement);
        let key = key_of(&placement);
        let news = self.change(|index| {
            // What is answered late may be gone, with its application, and perhaps another one has that name.
            index.application(&key).filter(|application| is_decision_for(&placement, application))?;
            let before = index.named_placement(&key).cloned();
            let is_news = self.versions().wrote(&key, before.as_deref(), &placement);
            is_news.then(|| {
                index.put_placement(placement.clone());
                before
            })
        });
        let Some(before) = news else { return };
        self.gave_back(&key, before.as_deref(), Some(&placement));
        // What is refused, or is not any more, is another world; that it was written here rings nobody.
        let refusals = |it: &Placement| it.status.as_ref().map(|it| it.refusals.clone()).unwrap_or_default();
        if before.as_deref().map(refusals).unwrap_or_default() != refusals(&placement) {
            self.ring_touched([key]);
        }
    }

    /// Remembers what an application waits for; whether it is news that, or for what, actors have no place.
    pub fn waits(&self, key: &ApplicationKey, waits: Waits) -> bool {
        self.touched().waits(key, waits)
    }

    /// How often room came so far that an actor without a place may use.
    pub fn grown(&self) -> u64 {
        self.touched().grown()
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
    pub fn give_turns(
        &self,
        waiting: BTreeMap<ApplicationKey, BTreeSet<&str>>,
        now: control::Moment,
        most: usize,
    ) {
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

    /// Forgets what is remembered of applications that are gone, and says which are there: of some that came and went nobody heard, and
    /// what is left of others touches them when they are gone.
    pub fn forget_gone(&self) -> BTreeSet<ApplicationKey> {
        // Who comes is known before it is touched, and comes when this is over.
        let index = self.index();
        let there = index.applications().cloned().collect();
        self.touched().keep(&there);
        self.doubts().keep(&there);
        there
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

    /// Changes something at a node, and rings for whom it presses and for who waits for such room. Whoever was decided to be there
    /// may find the place taken: who is not there yet presses nothing.
    ///
    /// `known`: what the node is has changed, not only what is left of it.
    pub fn at_node(&self, node: &str, known: bool, change: impl FnOnce(&mut Index)) {
        let before = self.offer(node);
        self.change(change);
        let after = self.offer(node);
        if before == after && !known {
            return;
        }
        let (pressed, waiting, is_told) = {
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
            // Who was decided to be elsewhere takes room until it is gone, and who starts anew in its place goes nowhere.
            let held = |offer: &Offer, unit: &str| offer.room.as_ref().map_or(0, |room| room.held(unit));
            let is_left = |unit: &str| {
                let before = held(&before, unit);
                held(&after, unit) < before && index.decided_on(unit) < before
            };
            let came = after.units.values().filter(|unit| {
                !before.units.contains_key(&unit.id) || unit.slots.is_some() && is_left(&unit.id)
            });
            touched.came(came.map(|unit| unit.kind.as_str()), None, moment());
            pressed.extend(touched.could_use(&before, &after, known));
            let waiting = if known || foreign || before.units != after.units {
                self.doubts().add(index.hosted(node).cloned());
                touched.waiting_at(&index, node)
            } else {
                Vec::new()
            };
            (pressed, waiting, known || foreign || is_gone)
        };
        self.ring_touched(pressed);
        for key in &waiting {
            self.ring(key);
        }
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
    pub fn gave_back(&self, key: &ApplicationKey, before: Option<&Placement>, now: Option<&Placement>) {
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
            touched.came(limited.map(|pool| pool.spec.kind.as_str()), Some(key), moment());
            touched.room_came()
        };
        self.ring_touched(waits);
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
