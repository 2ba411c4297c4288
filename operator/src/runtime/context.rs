//! State shared by all reconciles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{Backoffs, INITIAL_BACKOFF, MAX_BACKOFF, Moment, Refusal, RefusalKey, RefusalTracker};
use crds::{ActorApplication, Placement};
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use placement::{Assignment, Snapshot};
use tokio::sync::Semaphore;
use world::{ApplicationKey, Policy};

use crate::api::events::Events;
use crate::api::writes::Writer;
use crate::apply::moves::limits::MoveTracker;
use crate::commit::locks::CommitLocks;
use crate::commit::slow::SlowCommits;
use crate::config::Planning;
use crate::error::{Error, failed_work};
use crate::plan::judged::Mismatches;
use crate::plan::load::report::LoadReports;
use crate::plan::planner::Planner;
use crate::plan::policies::store::Policies;
use crate::plan::searches::PlanLocks;
use crate::queue::retries::Retries;
use crate::queue::solver_slots::SolverSlots;
use crate::queue::throttle::{Expectations, RecentStarts, StatusThrottle};
use crate::queue::uid_tracker::UidTracker;
use crate::runtime::clock::{from_wall_clock, moment};
use crate::runtime::metrics::Metrics;
use crate::status::report::event;
use crate::watch::caches::Caches;
use crate::watch::owned_cache::OwnedResources;

/// State shared by all reconciles.
pub struct Context {
    pub caches: Arc<Caches>,
    pub owned_resources: OwnedResources,
    pub policies: Arc<Policies>,
    pub writer: Writer,
    pub events: Events,
    pub metrics: Metrics,
    /// Snapshots of plans that clingo disagreed with.
    pub mismatches: Mismatches,
    pub planning: Planning,
    /// Admits searches.
    pub solver_slots: SolverSlots,
    /// Serializes commits; plans are made concurrently.
    pub commit_locks: CommitLocks,
    /// Bounds concurrent snapshots to the number of cores, as each takes memory and CPU.
    pub snapshot_permits: Semaphore,
    /// The same for reconciles, which must not wait for planning.
    pub reconcile_permits: Semaphore,
    /// One planning run per application at a time.
    pub plan_locks: PlanLocks,
    /// The planning queue, and the state of planning per application.
    pub planner: Planner,
    /// Backoff of applications whose planning or reconcile failed.
    pub plan_backoff: Retries,
    pub reconcile_backoff: Retries,
    /// Commits that take long.
    pub slow_commits: SlowCommits,
    /// When the status of each application was last written.
    pub status_throttle: StatusThrottle,
    /// Applications that started actors recently.
    pub recent_starts: RecentStarts,
    /// Objects that were created and that the watch has not delivered yet.
    pub expectations: Expectations,
    /// What is reported of measured load.
    pub load_reports: LoadReports,
    /// Actors that are stopped for a gain.
    pub moves: MoveTracker,
    /// Refusals per application.
    pub refusals: Mutex<BTreeMap<ApplicationKey, RefusalTracker>>,
    /// Detects applications that were deleted and recreated under the same name.
    pub uids: UidTracker,
    /// Backoff of actors and other objects.
    pub backoffs: Mutex<Backoffs<BackoffKey>>,
}

/// The application, and the actor or operation that is retried.
pub type BackoffKey = (ApplicationKey, String);

impl Context {
    /// Drops the state of a deleted application of the same name.
    pub fn forget_if_recreated(&self, key: &ApplicationKey, application: &ActorApplication) {
        if self.uids.is_recreated(key, application) {
            self.forget(key);
        }
    }

    /// Drops the state of a deleted application.
    pub fn forget(&self, key: &ApplicationKey) {
        self.planner.set_last_planned(key, None);
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).forget(|(of, _)| of == key);
        self.moves.forget(key);
        self.load_reports.remove(key);
        for kind in ["expected", "realised"] {
            let _ = self.metrics.gain_ratio.remove_label_values(&[&key.namespace, &key.name, kind]);
        }
        self.plan_backoff.reset(key);
        self.reconcile_backoff.reset(key);
    }

    /// Whether the Placement of this uid and generation is still the current one.
    pub fn is_in_force(
        &self,
        key: &ApplicationKey,
        (uid, generation): &(Option<String>, Option<i64>),
    ) -> bool {
        let known = self.caches.decision(key).ok().flatten();
        known.is_some_and(|known| known.metadata.uid == *uid && known.metadata.generation == *generation)
    }

    /// Whether capacity grew anywhere since the application was last planned.
    pub fn has_room_grown(&self, key: &ApplicationKey) -> bool {
        let growth_counter = self.caches.growth_counter();
        self.planner.growth_counter(key).is_some_and(|at_last| at_last != growth_counter)
    }

    /// Enqueues an application for planning as if an event had triggered it.
    pub fn enqueue_replan(&self, key: &ApplicationKey) {
        self.caches.mark_dirty(key);
        self.planner.enqueue(key);
    }

    /// Until when, and why, an operation is backed off.
    pub fn backoff(&self, backoff_key: &BackoffKey) -> Option<(Moment, String)> {
        let backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.active(backoff_key, moment()).map(|held| (held.until, held.reason.clone()))
    }

    /// Backs off an operation that failed, or an actor whose pod of this uid `ended`. Returns until when.
    pub fn back_off(&self, backoff_key: BackoffKey, why: &str, ended: Option<&str>) -> Moment {
        let mut backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.record_failure(backoff_key, why, ended, (INITIAL_BACKOFF, MAX_BACKOFF), moment())
    }

    /// Active refusals of an application; those in its Placement's status, from before a restart of the operator, are restored.
    pub fn active_refusals(&self, key: &ApplicationKey, decision: Option<&Placement>) -> Vec<Refusal> {
        let index = self.caches.index();
        let application = index.application(key);
        let is_unchanged = |it: &Refusal| {
            application.is_some_and(|of| world::refusal_cause(&index, of, &it.key, &it.reason) == it.cause)
        };
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = all.entry(key.clone()).or_default();
        let mut written = decision.map(world::refusals).unwrap_or_default();
        for refusal in &mut written {
            refusal.until = from_wall_clock(refusal.until);
        }
        refusals.restore(written, self.longest_refusal(), moment());
        refusals.active(moment(), is_unchanged)
    }

    /// Records a refusal, whose `cause` is unknown if it merely expires.
    pub fn record_refusal(
        &self,
        key: &ApplicationKey,
        about: &RefusalKey,
        (actor, reason, cause): (&str, &str, Option<String>),
    ) {
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = (actor.to_owned(), reason, cause);
        all.entry(key.clone()).or_default().record(about, of_it, self.longest_refusal(), moment());
    }

    /// The longest time until a refusal expires.
    fn longest_refusal(&self) -> Duration {
        Duration::from_secs(self.planning.refusal_seconds.into())
    }

    /// Remembers below which unit capacities an application would be more overloaded than it is.
    pub fn guard(
        &self,
        key: &ApplicationKey,
        policy: &Policy,
        snapshot: &Snapshot,
        assignment: &Assignment,
        strain: &control::Pressure,
    ) {
        let known = |unit: &String| strain.overload.get(unit).copied().unwrap_or(0);
        let need = |(unit, load): (String, u64)| {
            let need = load.saturating_sub(known(&unit));
            (unit, need)
        };
        let needs = control::loads(snapshot, assignment).into_iter().map(need).collect();
        self.caches.guard(key, policy, needs);
    }

    /// Emits an event if requests to the API server fail again and again, as by a webhook that does not answer, or work panics.
    pub async fn report_failed_work<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        action: &str,
        errors: &[Error],
    ) {
        if let Some((reason, note)) = failed_work(errors) {
            self.emit_event(object, &event(EventType::Warning, reason, action, note)).await;
        }
    }

    /// Emits an event; a failure is only logged.
    pub async fn emit_event<K: Resource<DynamicType = ()>>(&self, object: &K, event: &Event) {
        if self.writer.leadership.check().is_err() {
            return;
        }
        if let Err(e) = self.events.emit(object, event).await {
            tracing::warn!(error = e.chain(), reason = event.reason, "failed to record an event");
        }
    }
}
