//! What every reconcile shares.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{About, BackOffs, LONGEST_WAIT, Moment, Refusal, Refusals, SecondLook};
use crds::{ActorApplication, Placement};
use kube::Resource;
use kube::runtime::events::Event;
use placement::{Assignment, Snapshot};
use tokio::sync::Semaphore;
use world::{ApplicationKey, Policy};

use crate::api::events::Events;
use crate::api::writes::Writer;
use crate::commit::locks::CommitLocks;
use crate::commit::slow::SlowCommits;
use crate::config::Planning;
use crate::plan::judged::Mismatches;
use crate::plan::plans::Plans;
use crate::plan::policies::Policies;
use crate::plan::searches::{LastPlanned, PlanLocks, Searches};
use crate::queue::retries::Retries;
use crate::queue::solver_slots::SolverSlots;
use crate::queue::throttle::{Expectations, RecentStarts, StatusThrottle};
use crate::queue::uid_tracker::UidTracker;
use crate::runtime::clock::moment;
use crate::runtime::metrics::Metrics;
use crate::watch::caches::Caches;
use crate::watch::owned_cache::OwnedResources;

/// What every reconcile shares.
pub struct Context {
    pub caches: Arc<Caches>,
    pub owned_resources: OwnedResources,
    pub policies: Arc<Policies>,
    pub writer: Writer,
    pub events: Events,
    pub metrics: Metrics,
    /// Plans on which clingo did not agree.
    pub mismatches: Mismatches,
    pub planning: Planning,
    /// Searches at the same time, and who waits for one.
    pub solver_slots: SolverSlots,
    /// Plans are made side by side and committed one at a time.
    pub commit_locks: CommitLocks,
    /// Worlds are put together by so many as there are cores: more would wait for each other, each with a world half done.
    pub snapshot_permits: Semaphore,
    /// The same for those who are looked after: they wait for nobody who is planned.
    pub reconcile_permits: Semaphore,
    /// Who plans an application.
    pub plan_locks: PlanLocks,
    /// Who waits to be planned, and what was said of each.
    pub plans: Plans,
    /// Who could not be planned, and who could not be looked after, and how often.
    pub plan_backoff: Retries,
    pub reconcile_backoff: Retries,
    /// Decisions that were on their way for long.
    pub slow_commits: SlowCommits,
    /// When people were told of each application.
    pub status_throttle: StatusThrottle,
    /// Which applications start actors.
    pub recent_starts: RecentStarts,
    /// Pods that the watch is to bring.
    pub expectations: Expectations,
    /// The searches, each in a task of its own.
    pub searches: Searches,
    /// What was considered for each application when it was last planned.
    pub last_planned: Mutex<HashMap<ApplicationKey, LastPlanned>>,
    /// What was refused of each application.
    pub refusals: Mutex<BTreeMap<ApplicationKey, Refusals>>,
    /// Whom all that is remembered is about.
    pub uids: UidTracker,
    /// Actors that are not started again at once.
    pub back_offs: Mutex<BackOffs<BackoffKey>>,
}

/// An actor of an application, or what else is made for it.
pub type BackoffKey = (ApplicationKey, String);

impl Context {
    /// Meets an application: what is remembered of another of its name that is gone is forgotten.
    pub fn forget_if_recreated(&self, key: &ApplicationKey, application: &ActorApplication) {
        if self.uids.is_recreated(key, application) {
            self.forget(key);
        }
    }

    /// Forgets an application that is gone.
    pub fn forget(&self, key: &ApplicationKey) {
        self.last_planned.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.back_offs.lock().unwrap_or_else(PoisonError::into_inner).forget(|(of, _)| of == key);
        self.plan_backoff.reset(key);
        self.reconcile_backoff.reset(key);
    }

    /// What was considered when the application was last planned.
    pub fn last_planned(&self, key: &ApplicationKey) -> Option<LastPlanned> {
        self.last_planned.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Whether the decision of this uid and generation is the last one.
    pub fn is_in_force(
        &self,
        key: &ApplicationKey,
        (uid, generation): &(Option<String>, Option<i64>),
    ) -> bool {
        let known = self.caches.decision(key).ok().flatten();
        known.is_some_and(|known| known.metadata.uid == *uid && known.metadata.generation == *generation)
    }

    /// The second look that is ahead of an application.
    pub fn second_look(&self, key: &ApplicationKey) -> Option<SecondLook> {
        let last_planned = self.last_planned.lock().unwrap_or_else(PoisonError::into_inner);
        last_planned.get(key).and_then(|last_planned| last_planned.facts.second_look)
    }

    /// The actors whose decided place may not be taken, as they were when the application of this generation was last looked at.
    pub fn infeasible(&self, key: &ApplicationKey, generation: Option<i64>) -> Option<BTreeSet<String>> {
        let last_planned = self.last_planned.lock().unwrap_or_else(PoisonError::into_inner);
        let last_planned = last_planned.get(key).filter(|last_planned| last_planned.generation == generation);
        last_planned.map(|last_planned| last_planned.infeasible.clone())
    }

    /// What was found of decided places since the application of this generation was last looked at.
    pub fn set_infeasible(
        &self,
        key: &ApplicationKey,
        generation: Option<i64>,
        infeasible: &BTreeSet<String>,
    ) {
        let mut last_planned = self.last_planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last_planned.get_mut(key).filter(|known| known.generation == generation) {
            known.infeasible.clone_from(infeasible);
        }
    }

    /// Whether room came somewhere since an application was last looked at.
    pub fn has_room_grown(&self, key: &ApplicationKey) -> bool {
        let growth_counter = self.caches.growth_counter();
        let last_planned = self.last_planned.lock().unwrap_or_else(PoisonError::into_inner);
        last_planned.get(key).is_some_and(|last_planned| last_planned.growth_counter != growth_counter)
    }

    /// Lets an application be planned as if something had touched it.
    pub fn enqueue_replan(&self, key: &ApplicationKey) {
        self.caches.mark_dirty(key);
        self.plans.enqueue(key);
    }

    pub fn set_last_planned(&self, key: &ApplicationKey, last_planned: LastPlanned) {
        self.last_planned.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), last_planned);
    }

    /// Until when what went wrong is held back, and why, where it still is.
    pub fn backoff(&self, backoff_key: &BackoffKey) -> Option<(Moment, String)> {
        let back_offs = self.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
        back_offs.held(backoff_key, moment()).map(|held| (held.until, held.why.clone()))
    }

    /// What went wrong with an actor, where that is that a pod of this uid `ended`, is tried again after a while; until when it is
    /// held back.
    pub fn back_off(&self, backoff_key: BackoffKey, why: &str, ended: Option<&str>) -> Moment {
        let mut back_offs = self.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
        back_offs.failed(backoff_key, why, ended, LONGEST_WAIT, moment())
    }

    /// What was refused of an application and counts still; what its decision tells of before this operator is recalled.
    pub fn active_refusals(&self, key: &ApplicationKey, decision: Option<&Placement>) -> Vec<Refusal> {
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = all.entry(key.clone()).or_default();
        refusals.recall(decision.map(world::refusals).unwrap_or_default());
        refusals.active(moment())
    }

    /// Something was refused just now; until when that counts.
    pub fn record_refusal(&self, key: &ApplicationKey, about: &About, actor: &str, reason: &str) -> Moment {
        let longest = Duration::from_secs(self.planning.refusal_seconds.into());
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key.clone()).or_default().refuse(about, actor.to_owned(), reason, longest, moment())
    }

    /// Remembers at which capacities an application would be pressed more than it is.
    pub fn guard(
        &self,
        key: &ApplicationKey,
        policy: &Policy,
        snapshot: &Snapshot,
        assignment: &Assignment,
        strain: &control::Strain,
    ) {
        let known = |unit: &String| strain.overload.get(unit).copied().unwrap_or(0);
        let need = |(unit, load): (String, u64)| {
            let need = load.saturating_sub(known(&unit));
            (unit, need)
        };
        let needs = control::loads(snapshot, assignment).into_iter().map(need).collect();
        self.caches.guard(key, policy, needs);
    }

    /// Tells people; an event that cannot be written is logged and nothing else.
    pub async fn emit_event<K: Resource<DynamicType = ()>>(&self, object: &K, event: &Event) {
        if self.writer.leadership.check().is_err() {
            return;
        }
        if let Err(e) = self.events.emit(object, event).await {
            tracing::warn!(error = e.chain(), reason = event.reason, "an event could not be written");
        }
    }
}
