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
use crate::commit::locks::Turns;
use crate::commit::slow::Late;
use crate::config::Planning;
use crate::plan::judged::Mismatches;
use crate::plan::plans::Plans;
use crate::plan::policies::Policies;
use crate::plan::searches::{Considered, OneAtATime, Searches};
use crate::queue::retries::Retries;
use crate::queue::solver_slots::Line;
use crate::queue::throttle::{Made, Pace, Starts};
use crate::queue::uid_tracker::Met;
use crate::runtime::clock::moment;
use crate::runtime::metrics::Metrics;
use crate::watch::caches::Caches;
use crate::watch::owned_cache::Neighbours;

/// What every reconcile shares.
pub struct Context {
    pub caches: Arc<Caches>,
    pub neighbours: Neighbours,
    pub policies: Arc<Policies>,
    pub writer: Writer,
    pub events: Events,
    pub metrics: Metrics,
    /// Plans on which clingo did not agree.
    pub mismatches: Mismatches,
    pub planning: Planning,
    /// Searches at the same time, and who waits for one.
    pub solver_slots: Line,
    /// Plans are made side by side and committed one at a time.
    pub turns: Turns,
    /// Worlds are put together by so many as there are cores: more would wait for each other, each with a world half done.
    pub looks: Semaphore,
    /// The same for those who are looked after: they wait for nobody who is planned.
    pub heals: Semaphore,
    /// Who plans an application.
    pub one_at_a_time: OneAtATime,
    /// Who waits to be planned, and what was said of each.
    pub plans: Plans,
    /// Who could not be planned, and who could not be looked after, and how often.
    pub plan_retries: Retries,
    pub heal_retries: Retries,
    /// Decisions that were on their way for long.
    pub late: Late,
    /// When people were told of each application.
    pub pace: Pace,
    /// Which applications start actors.
    pub starts: Starts,
    /// Pods that the watch is to bring.
    pub made: Made,
    /// The searches, each in a task of its own.
    pub searches: Searches,
    /// What was considered for each application when it was last planned.
    pub considered: Mutex<HashMap<ApplicationKey, Considered>>,
    /// What was refused of each application.
    pub refusals: Mutex<BTreeMap<ApplicationKey, Refusals>>,
    /// Whom all that is remembered is about.
    pub met: Met,
    /// Actors that are not started again at once.
    pub back_offs: Mutex<BackOffs<Tried>>,
}

/// An actor of an application, or what else is made for it.
pub type Tried = (ApplicationKey, String);

impl Context {
    /// Meets an application: what is remembered of another of its name that is gone is forgotten.
    pub fn meet(&self, key: &ApplicationKey, application: &ActorApplication) {
        if self.met.is_another(key, application) {
            self.forget(key);
        }
    }

    /// Forgets an application that is gone.
    pub fn forget(&self, key: &ApplicationKey) {
        self.considered.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.back_offs.lock().unwrap_or_else(PoisonError::into_inner).forget(|(of, _)| of == key);
        self.plan_retries.went_well(key);
        self.heal_retries.went_well(key);
    }

    /// What was considered when the application was last planned.
    pub fn considered(&self, key: &ApplicationKey) -> Option<Considered> {
        self.considered.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
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
        let considered = self.considered.lock().unwrap_or_else(PoisonError::into_inner);
        considered.get(key).and_then(|considered| considered.facts.second_look)
    }

    /// The actors whose decided place may not be taken, as they were when the application of this generation was last looked at.
    pub fn infeasible(&self, key: &ApplicationKey, generation: Option<i64>) -> Option<BTreeSet<String>> {
        let considered = self.considered.lock().unwrap_or_else(PoisonError::into_inner);
        let considered = considered.get(key).filter(|considered| considered.generation == generation);
        considered.map(|considered| considered.infeasible.clone())
    }

    /// What was found of decided places since the application of this generation was last looked at.
    pub fn found_infeasible(
        &self,
        key: &ApplicationKey,
        generation: Option<i64>,
        infeasible: &BTreeSet<String>,
    ) {
        let mut considered = self.considered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = considered.get_mut(key).filter(|known| known.generation == generation) {
            known.infeasible.clone_from(infeasible);
        }
    }

    /// Whether room came somewhere since an application was last looked at.
    pub fn has_room_come(&self, key: &ApplicationKey) -> bool {
        let grown = self.caches.grown();
        let considered = self.considered.lock().unwrap_or_else(PoisonError::into_inner);
        considered.get(key).is_some_and(|considered| considered.grown != grown)
    }

    /// Lets an application be planned as if something had touched it.
    pub fn ask_for_a_plan(&self, key: &ApplicationKey) {
        self.caches.touch(key);
        self.plans.ask(key);
    }

    pub fn consider(&self, key: &ApplicationKey, considered: Considered) {
        self.considered.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), considered);
    }

    /// Until when what went wrong is held back, and why, where it still is.
    pub fn held_back(&self, tried: &Tried) -> Option<(Moment, String)> {
        let back_offs = self.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
        back_offs.held(tried, moment()).map(|held| (held.until, held.why.clone()))
    }

    /// What went wrong with an actor, where that is that a pod of this uid `ended`, is tried again after a while; until when it is
    /// held back.
    pub fn hold_back(&self, tried: Tried, why: &str, ended: Option<&str>) -> Moment {
        let mut back_offs = self.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
        back_offs.failed(tried, why, ended, LONGEST_WAIT, moment())
    }

    /// What was refused of an application and counts still; what its decision tells of before this operator is recalled.
    pub fn refused(&self, key: &ApplicationKey, decision: Option<&Placement>) -> Vec<Refusal> {
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = all.entry(key.clone()).or_default();
        refusals.recall(decision.map(world::refusals).unwrap_or_default());
        refusals.active(moment())
    }

    /// Something was refused just now; until when that counts.
    pub fn refuse(&self, key: &ApplicationKey, about: &About, actor: &str, reason: &str) -> Moment {
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
    pub async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, event: &Event) {
        if self.writer.leadership.check().is_err() {
            return;
        }
        if let Err(e) = self.events.tell(object, event).await {
            tracing::warn!(error = e.chain(), reason = event.reason, "an event could not be written");
        }
    }
}
