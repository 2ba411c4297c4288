//! The planning queue and the state of planning, per application. The queue is separate from the workqueue, so reconciles wait
//! neither for searches nor for planning.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{Moment, PlanReason, ResumeSearch};
use crds::ActorApplication;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::runtime::reflector::ObjectRef;
use world::ApplicationKey;

use crate::plan::searches::{FinishedSearch, LastPlanned, Manifest, PostSearchTime, SearchState, TimeShare};
use crate::status::report::Outcome;
use crate::watch::caches::{Requests, object_ref};

/// An application retried within this time may still take capacity before others.
const SOON: Duration = Duration::from_secs(2);

/// The state of planning one application.
#[derive(Default)]
struct PlannerState {
    /// The outcome without the Placement; nothing before the first run.
    outcome: Option<Outcome>,
    /// When it is planned again without a trigger.
    retry_at: Option<Moment>,
    /// Whether it is queued.
    is_queued: bool,
    /// Whether it is being planned.
    in_progress: bool,
    /// Its search, or the result that is not committed yet.
    search: SearchState,
    /// What it was last planned from.
    last_planned: Option<LastPlanned>,
}

/// The planning queue, and the state of each application.
pub struct Planner {
    states: Mutex<HashMap<ApplicationKey, PlannerState>>,
    /// Foreground searches that run or wait.
    foreground: Arc<AtomicUsize>,
    /// How long a plan takes after its search.
    pub post_search: Arc<PostSearchTime>,
    queue: UnboundedSender<ApplicationKey>,
    finished: UnboundedSender<ApplicationKey>,
    requeues: Requests,
}

/// What the planner requests.
pub struct Receivers {
    /// Applications to plan.
    pub to_plan: UnboundedReceiver<ApplicationKey>,
    /// Applications whose search ended.
    pub finished_searches: UnboundedReceiver<ApplicationKey>,
    /// Applications to reconcile.
    pub planned: UnboundedReceiver<ObjectRef<ActorApplication>>,
}

impl Planner {
    /// An empty queue.
    pub fn new() -> (Self, Receivers) {
        let (queue, to_plan) = mpsc::unbounded();
        let (finished, finished_searches) = mpsc::unbounded();
        let (requeues, planned) = mpsc::unbounded();
        let (foreground, post_search) = (Arc::default(), Arc::default());
        let new = Self { states: Mutex::default(), foreground, post_search, queue, finished, requeues };
        (new, Receivers { to_plan, finished_searches, planned })
    }

    fn states(&self) -> MutexGuard<'_, HashMap<ApplicationKey, PlannerState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an application, once.
    pub fn enqueue(&self, key: &ApplicationKey) {
        let was_queued =
            std::mem::replace(&mut self.states().entry(key.clone()).or_default().is_queued, true);
        if !was_queued {
            // Without a receiver the process ends.
            let _ = self.queue.unbounded_send(key.clone());
        }
    }

    /// Starts a run; returns whether a retry was due.
    pub fn begin(&self, key: &ApplicationKey) -> bool {
        let mut states = self.states();
        let state = states.entry(key.clone()).or_default();
        (state.is_queued, state.in_progress) = (false, true);
        state.retry_at.take().is_some()
    }

    /// Records the outcome of a run, or that a search started.
    pub fn record(&self, key: &ApplicationKey, mut outcome: Outcome) {
        let mut states = self.states();
        let state = states.entry(key.clone()).or_default();
        outcome.moved |= state.outcome.as_ref().is_some_and(|last| last.moved);
        outcome.decision = None;
        (state.retry_at, state.in_progress) = (outcome.requeue_at.take(), false);
        state.outcome = Some(outcome);
    }

    /// Records an error that is not the application's fault.
    pub fn record_failure(&self, key: &ApplicationKey, retry_at: Option<Moment>) {
        let mut states = self.states();
        let state = states.entry(key.clone()).or_default();
        (state.retry_at, state.in_progress) = (retry_at, false);
    }

    /// The last outcome, if any, and when it is retried.
    pub fn last(&self, key: &ApplicationKey) -> (Option<Outcome>, Option<Moment>) {
        self.states().get(key).map_or((None, None), |state| (state.outcome.clone(), state.retry_at))
    }

    /// An actor was moved outside of a run, or such a move was reported.
    pub fn set_moved(&self, key: &ApplicationKey, moved: bool) {
        if let Some(outcome) = self.states().get_mut(key).and_then(|state| state.outcome.as_mut()) {
            outcome.moved = moved;
        }
    }

    /// Whether a new outcome is to be expected.
    pub fn is_pending(&self, key: &ApplicationKey) -> bool {
        self.states().get(key).is_some_and(|state| {
            let has_failed = state.outcome.as_ref().is_some_and(|outcome| outcome.failure.is_some());
            let is_to_be_tried = state.retry_at.is_some() && !has_failed;
            state.is_queued || state.in_progress || is_to_be_tried || state.search.exists()
        })
    }

    /// Whether a retry or the resumption of a search is due.
    pub fn is_due(&self, key: &ApplicationKey, now: Moment) -> bool {
        self.states().get(key).is_some_and(|state| {
            state.retry_at.is_some_and(|at| at <= now)
                || state
                    .last_planned
                    .as_ref()
                    .and_then(|last| last.facts.resume_search)
                    .is_some_and(|it| it.is_due(now))
        })
    }

    /// Whether it is planned now or soon.
    pub fn is_imminent(&self, key: &ApplicationKey, now: Moment) -> bool {
        let is_soon = |at: Moment| at <= now + SOON;
        self.states().get(key).is_some_and(|state| {
            state.is_queued
                || state.in_progress
                || state.retry_at.is_some_and(is_soon)
                || state.search.exists()
        })
    }

    /// Requeues the reconcile of an application at once.
    pub fn requeue(&self, key: &ApplicationKey) {
        let _ = self.requeues.unbounded_send(object_ref(key));
    }

    /// Drops deleted applications.
    pub fn retain(&self, exists: impl Fn(&ApplicationKey) -> bool) {
        self.states().retain(|key, _| exists(key));
    }

    /// The share of a new search in the common time. Background searches share with none; they stop when the time is needed.
    pub fn time_share(&self, why: PlanReason) -> TimeShare {
        if why.is_background() { TimeShare::join(&Arc::default()) } else { TimeShare::join(&self.foreground) }
    }

    /// Whether a search runs, or has a result that is not taken.
    pub fn has_search(&self, key: &ApplicationKey) -> bool {
        self.states().get(key).is_some_and(|state| state.search.exists())
    }

    /// Records a search that starts, or a result that is kept.
    pub fn set_search(&self, key: &ApplicationKey, search: SearchState) {
        self.states().entry(key.clone()).or_default().search = search;
    }

    /// Ends a search; its result is to be committed.
    pub fn finish_search(&self, key: ApplicationKey, found: FinishedSearch) {
        self.set_search(&key, SearchState::Done(Box::new(found)));
        // Without a receiver the process ends.
        drop(self.finished.unbounded_send(key));
    }

    /// Takes the result; a running search continues unless the manifest changed.
    pub fn take_search(&self, key: &ApplicationKey, manifest: &Manifest) -> SearchState {
        let mut states = self.states();
        let Some(state) = states.get_mut(key) else { return SearchState::None };
        match &state.search {
            SearchState::Running { manifest: begun, stop } => {
                stop.fetch_or(begun != manifest, Ordering::AcqRel);
                SearchState::Running { manifest: begun.clone(), stop: stop.clone() }
            }
            SearchState::Done(_) | SearchState::None => std::mem::take(&mut state.search),
        }
    }

    /// Releases the slot of a result that could not be committed.
    pub fn release_slot(&self, key: &ApplicationKey) {
        if let Some(SearchState::Done(found)) = self.states().get_mut(key).map(|state| &mut state.search) {
            found.slot = None;
        }
    }

    /// Drops the result of an application that cannot be planned now; a running search continues.
    pub fn discard_result(&self, key: &ApplicationKey) {
        if let Some(search @ SearchState::Done(_)) = self.states().get_mut(key).map(|state| &mut state.search)
        {
            *search = SearchState::None;
        }
    }

    /// What an application was last planned from.
    pub fn last_planned(&self, key: &ApplicationKey) -> Option<LastPlanned> {
        self.with_last_planned(key, |last| last.clone())
    }

    /// Records what an application was planned from; `None` if it was recreated under the same name.
    pub fn set_last_planned(&self, key: &ApplicationKey, last_planned: Option<LastPlanned>) {
        self.states().entry(key.clone()).or_default().last_planned = last_planned;
    }

    /// When the application's search is to be resumed.
    pub fn resume_search(&self, key: &ApplicationKey) -> Option<ResumeSearch> {
        self.with_last_planned(key, |last| last.facts.resume_search).flatten()
    }

    /// Actors whose assigned unit is infeasible, as of the last plan for this generation.
    pub fn infeasible(&self, key: &ApplicationKey, generation: Option<i64>) -> Option<BTreeSet<String>> {
        self.with_last_planned(key, |last| (last.generation == generation).then(|| last.infeasible.clone()))
            .flatten()
    }

    /// Records infeasible assignments found after the last plan for this generation.
    pub fn set_infeasible(
        &self,
        key: &ApplicationKey,
        generation: Option<i64>,
        infeasible: &BTreeSet<String>,
    ) {
        self.with_last_planned(key, |last| {
            if last.generation == generation {
                last.infeasible.clone_from(infeasible);
            }
        });
    }

    /// The growth counter before the last snapshot.
    pub fn growth_counter(&self, key: &ApplicationKey) -> Option<u64> {
        self.with_last_planned(key, |last| last.growth_counter)
    }

    /// The counters of freed capacity that applications were last planned with.
    pub fn freed_counters(&self) -> Vec<(ApplicationKey, u64)> {
        let states = self.states();
        let planned = |(key, state): (&ApplicationKey, &PlannerState)| {
            Some((key.clone(), state.last_planned.as_ref()?.facts.freed_counter))
        };
        states.iter().filter_map(planned).collect()
    }

    fn with_last_planned<T>(
        &self,
        key: &ApplicationKey,
        read: impl FnOnce(&mut LastPlanned) -> T,
    ) -> Option<T> {
        self.states().get_mut(key)?.last_planned.as_mut().map(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ApplicationKey {
        ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    #[test]
    fn an_application_is_queued_once_until_its_run_begins() {
        let (planner, Receivers { mut to_plan, .. }) = Planner::new();
        planner.enqueue(&key());
        planner.enqueue(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        assert!(to_plan.try_recv().is_err());
        assert!(planner.is_pending(&key()));
        assert!(!planner.begin(&key()));
        assert!(planner.is_pending(&key()), "it is under way");
        // Events from now on need another run.
        planner.enqueue(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        planner.begin(&key());
        planner.record(&key(), Outcome::default());
        assert!(!planner.is_pending(&key()));
    }

    #[test]
    fn a_failed_run_is_retried_later_and_keeps_its_outcome() {
        let (planner, _receivers) = Planner::new();
        planner.begin(&key());
        let failure = Some(("Policy", "no such policy".to_owned()));
        planner.record(
            &key(),
            Outcome { failure: failure.clone(), requeue_at: Some(at(300)), ..Outcome::default() },
        );
        let (last, retry_at) = planner.last(&key());
        assert_eq!((last.unwrap().failure, retry_at), (failure.clone(), Some(at(300))));
        // The failure was reported, and nothing else happens before the retry.
        assert!(
            !planner.is_pending(&key())
                && !planner.is_due(&key(), at(299))
                && planner.is_due(&key(), at(300))
        );
        assert!(!planner.is_imminent(&key(), at(0)));
        assert!(planner.begin(&key()));
        // The API server was unavailable: the earlier outcome still holds.
        planner.record_failure(&key(), Some(at(302)));
        assert_eq!(planner.last(&key()).0.unwrap().failure, failure);
        assert!(planner.is_imminent(&key(), at(300)));
        planner.retain(|_| false);
        assert!(!planner.is_due(&key(), at(999)));
    }

    #[test]
    fn a_move_is_kept_until_it_is_reported() {
        let (planner, _receivers) = Planner::new();
        assert!(planner.last(&key()).0.is_none());
        planner.record(&key(), Outcome { moved: true, ..Outcome::default() });
        planner.record(&key(), Outcome::default());
        assert!(planner.last(&key()).0.unwrap().moved);
        planner.set_moved(&key(), false);
        assert!(!planner.last(&key()).0.unwrap().moved);
        planner.set_moved(&key(), true);
        assert!(planner.last(&key()).0.unwrap().moved, "for measured load");
    }
}
