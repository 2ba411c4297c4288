//! Searches and their results.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use control::{PlanReason, ResumeSearch};
use crds::ActorApplication;
use kube::ResourceExt;
use placement::Plan;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use world::{ApplicationKey, AssembledSnapshot, Policy, SnapshotWarning};

use crate::error::{Error, catch_panic};
use crate::queue::solver_slots::SolverSlot;

/// What an application was last planned from.
#[derive(Clone, Debug, Default)]
pub struct LastPlanned {
    pub generation: Option<i64>,
    pub facts: control::PlanInputs,
    /// Actors whose assigned unit is infeasible.
    pub infeasible: BTreeSet<String>,
    /// The growth counter before the snapshot.
    pub growth_counter: u64,
    pub notes: Vec<SnapshotWarning>,
    pub proposed: Option<String>,
}

impl LastPlanned {
    /// What is known of an application whose snapshot is taken when its search gets a slot.
    pub fn before_search(
        self,
        generation: Option<i64>,
        (freed_counter, background_slot): (u64, bool),
    ) -> Self {
        let facts = control::PlanInputs {
            generation: generation.unwrap_or(0),
            freed_counter,
            background_slot,
            resume_search: self.facts.resume_search,
            ..control::PlanInputs::default()
        };
        Self { generation, facts, ..self }
    }
}

/// Uid and generation of an application, as it may be recreated under the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Manifest {
    /// Those of the cached application.
    pub fn of(application: &ActorApplication) -> Self {
        Self { uid: application.uid(), generation: application.metadata.generation }
    }
}

/// The result of a search.
pub struct FinishedSearch {
    pub manifest: Manifest,
    pub why: PlanReason,
    pub policy: Policy,
    pub basis: LastPlanned,
    pub resume: Option<ResumeSearch>,
    pub attempt: u32,
    /// Whether it stopped for a foreground search.
    pub yielded: bool,
    /// The plan and its snapshot.
    pub plan: Result<(Arc<AssembledSnapshot>, Plan), Error>,
    /// The slot, held until the commit: no more snapshots are held than searches may run.
    pub slot: Option<SolverSlot>,
}

impl FinishedSearch {
    /// Whether it belongs to the application's present manifest.
    pub fn is_for(&self, application: &ActorApplication) -> bool {
        self.manifest == Manifest::of(application)
    }

    /// A copy without the slot, if a plan was found.
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

/// The result of a search; a panic is an error, or the application would count as being searched for ever.
pub async fn catch_search_panic<T>(search: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    catch_panic(search, Error::Search("it panicked; see the log".to_owned())).await
}

/// The search of one application.
#[derive(Default)]
pub enum SearchState {
    /// There is none.
    #[default]
    None,
    /// Running, for this manifest; the flag stops it.
    Running { manifest: Manifest, stop: Arc<AtomicBool> },
    /// Finished.
    Done(Box<FinishedSearch>),
}

impl SearchState {
    /// Whether it runs, or has a result that is not taken.
    pub fn exists(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// How long judging and explaining took after the last search that ran into its deadline.
#[derive(Default)]
pub struct PostSearchTime(AtomicU64);

impl PostSearchTime {
    /// Records the time.
    pub fn took(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// The last time.
    pub fn last(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Acquire))
    }
}

/// The share of a search that runs or waits.
pub struct TimeShare {
    all: Arc<AtomicUsize>,
    /// Number of searches when it joined, itself included.
    at_first: usize,
}

impl TimeShare {
    /// Joins the searches.
    pub fn join(all: &Arc<AtomicUsize>) -> Self {
        let at_first = all.fetch_add(1, Ordering::AcqRel) + 1;
        Self { all: all.clone(), at_first }
    }

    /// The number of searches that it shares the time with, before and after it.
    pub fn count(&self) -> usize {
        self.all.load(Ordering::Acquire).max(self.at_first)
    }
}

impl Drop for TimeShare {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Ensures one planning run per application at a time.
#[derive(Default)]
pub struct PlanLocks(Mutex<HashMap<ApplicationKey, Weak<AsyncMutex<()>>>>);

impl PlanLocks {
    /// Waits for the application's lock.
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

    #[tokio::test]
    async fn a_search_that_panics_has_failed() {
        let panics = futures::future::lazy(|_| -> Result<(), Error> { panic!("a bug") });
        let failed = catch_search_panic(panics).await;
        assert!(
            matches!(&failed, Err(Error::Search(why)) if why == "it panicked; see the log"),
            "{failed:?}"
        );
        assert!(matches!(catch_search_panic(async { Ok(1) }).await, Ok(1)));
    }

    #[test]
    fn searches_that_join_together_get_equal_time() {
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
