//! The searches of all applications, and what each was begun with.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use control::{Due, SecondLook};
use crds::ActorApplication;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::ResourceExt;
use placement::Plan;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use world::{ApplicationKey, Note, Policy, World};

use crate::error::Error;
use crate::queue::solver_slots::Slot;

/// The state of the world that an application was last planned for.
#[derive(Clone, Debug, Default)]
pub struct LastPlanned {
    pub generation: Option<i64>,
    pub facts: control::Considered,
    /// Actors whose decided place may not be taken.
    pub infeasible: BTreeSet<String>,
    /// How often room had come before it was looked at.
    pub growth_counter: u64,
    pub notes: Vec<Note>,
    pub proposed: Option<String>,
}

impl LastPlanned {
    /// What is known of an application that is looked at when its turn to search has come.
    pub fn before_search(self, generation: Option<i64>, (chances, turn): (u64, bool)) -> Self {
        let facts = control::Considered {
            generation: generation.unwrap_or(0),
            chances,
            turn,
            second_look: self.facts.second_look,
            ..control::Considered::default()
        };
        Self { generation, facts, ..self }
    }
}

/// Which application, and which of its manifests: one of the same name may have begun anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Manifest {
    /// That of an application as it is known.
    pub fn of(application: &ActorApplication) -> Self {
        Self { uid: application.uid(), generation: application.metadata.generation }
    }
}

/// What a search found.
pub struct SearchResult {
    pub manifest: Manifest,
    pub why: Due,
    pub policy: Policy,
    pub basis: LastPlanned,
    pub resume: Option<SecondLook>,
    pub attempt: u32,
    /// Whether it ended for somebody who needed the time.
    pub yielded: bool,
    /// The plan, and the world that it was made for.
    pub plan: Result<(Arc<World>, Plan), Error>,
    /// The slot that it was searched with, until it is settled: no more worlds are held than searches may run.
    pub slot: Option<Slot>,
}

impl SearchResult {
    /// Whether it is for this application, as its manifest is now.
    pub fn is_for(&self, application: &ActorApplication) -> bool {
        self.manifest == Manifest::of(application)
    }

    /// The same once more without its slot, where a plan was found.
    pub fn kept(&self) -> Option<Self> {
        let plan = Ok(self.plan.as_ref().ok()?.clone());
        let (manifest, policy, basis) = (self.manifest.clone(), self.policy.clone(), self.basis.clone());
        Some(Self {
            manifest,
            why: self.why,
            policy,
            basis,
            resume: self.resume,
            attempt: self.attempt,
            yielded: self.yielded,
            plan,
            slot: None,
        })
    }
}

/// A search for one application.
#[derive(Default)]
pub enum Search {
    /// There is none.
    #[default]
    None,
    /// It is under way, for this manifest; raised, the flag ends it.
    Running { manifest: Manifest, stop: Arc<AtomicBool> },
    /// It is through.
    Done(Box<SearchResult>),
}

/// The searches of all applications, each beside everything else that its application needs.
pub struct Searches {
    of: Mutex<HashMap<ApplicationKey, Search>>,
    /// How many wait for their turn or search and could not wait for later.
    foreground: Arc<AtomicUsize>,
    /// What a plan takes beside its search.
    pub post_search: Arc<PostSearchTime>,
    finished: UnboundedSender<ApplicationKey>,
}

impl Searches {
    /// No searches yet; with the names of those for whom one will be through.
    pub fn new() -> (Self, UnboundedReceiver<ApplicationKey>) {
        let (finished, settles) = mpsc::unbounded();
        (
            Self { of: Mutex::default(), foreground: Arc::default(), post_search: Arc::default(), finished },
            settles,
        )
    }

    /// Whoever begins for this cause, among those who share the time of a search: who could wait shares with nobody, and ends when
    /// somebody needs the time.
    pub fn time_share(&self, why: Due) -> TimeShare {
        if why.can_wait() { TimeShare::join(&Arc::default()) } else { TimeShare::join(&self.foreground) }
    }

    /// A search is through: what it found is to be settled.
    pub fn finish(&self, key: ApplicationKey, found: SearchResult) {
        self.put(&key, Search::Done(Box::new(found)));
        // Where nobody settles any more, the process ends.
        drop(self.finished.unbounded_send(key));
    }

    /// Leaves the slot to the next of what was found and could not be settled.
    pub fn release_slot(&self, key: &ApplicationKey) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Search::Done(found)) = of.get_mut(key) {
            found.slot = None;
        }
    }

    /// Forgets what was found for an application that cannot be planned now; one that is under way goes on.
    pub fn discard_result(&self, key: &ApplicationKey) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Search::Done(_)) = of.get(key) {
            of.remove(key);
        }
    }

    /// Forgets what was found for an application that is gone.
    pub fn forget(&self, key: &ApplicationKey) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Takes what a search found; one that is under way goes on, unless the manifest is another one by now.
    pub fn take(&self, key: &ApplicationKey, manifest: &Manifest) -> Search {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        match of.remove(key) {
            Some(Search::Running { manifest: begun, stop }) => {
                stop.fetch_or(begun != *manifest, Ordering::AcqRel);
                of.insert(key.clone(), Search::Running { manifest: begun.clone(), stop: stop.clone() });
                Search::Running { manifest: begun, stop }
            }
            found => found.unwrap_or_default(),
        }
    }

    /// Whether one is under way, or through and not looked at.
    pub fn has(&self, key: &ApplicationKey) -> bool {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(of.get(key), Some(Search::Running { .. } | Search::Done(_)))
    }

    pub fn put(&self, key: &ApplicationKey, search: Search) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), search);
    }
}

/// How long the last plan whose search the clock ended took beside it: to be judged and explained.
#[derive(Default)]
pub struct PostSearchTime(AtomicU64);

impl PostSearchTime {
    /// As long as this took it.
    pub fn took(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// How long it took.
    pub fn last(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Acquire))
    }
}

/// One of those who wait for a search or are searched for.
pub struct TimeShare {
    all: Arc<AtomicUsize>,
    /// How many there were when it came, with it.
    at_first: usize,
}

impl TimeShare {
    /// One more.
    pub fn join(all: &Arc<AtomicUsize>) -> Self {
        let at_first = all.fetch_add(1, Ordering::AcqRel) + 1;
        Self { all: all.clone(), at_first }
    }

    /// With how many it shares the time of a search: who came before it and who has come after it by now.
    pub fn count(&self) -> usize {
        self.all.load(Ordering::Acquire).max(self.at_first)
    }
}

impl Drop for TimeShare {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whoever looks after an application does so alone.
#[derive(Default)]
pub struct PlanLocks(Mutex<HashMap<ApplicationKey, Weak<AsyncMutex<()>>>>);

impl PlanLocks {
    /// Waits until nobody else looks after it.
    pub async fn lock(&self, key: &ApplicationKey) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
                lock
            } else {
                locks.retain(|_, lock| lock.strong_count() > 0);
                let lock = Arc::default();
                locks.insert(key.clone(), Arc::downgrade(&lock));
                lock
            }
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_with_many_has_no_more_time_than_who_is_searched_first_among_them() {
        let all = Arc::default();
        let mut line: Vec<TimeShare> = (0..4).map(|_| TimeShare::join(&all)).collect();
        let last = line.pop().unwrap();
        let counts: Vec<usize> = line.iter().map(TimeShare::count).collect();
        assert_eq!(counts, [4, 4, 4]);
        drop(line);
        assert_eq!((all.load(Ordering::Acquire), last.count()), (1, 4));
        drop(last);
        assert_eq!(TimeShare::join(&all).count(), 1);
    }
}
