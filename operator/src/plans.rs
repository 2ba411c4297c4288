//! The queue of planning, beside that of healing: who looks after what runs waits neither for a search nor for who is planned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{LOOK_AGAIN, Moment};
use crds::ActorApplication;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::ResourceExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use world::ApplicationKey;

use crate::caches::{Requests, object_ref};
use crate::context::{Context, moment};
use crate::error::Error;
use crate::look::kinds;
use crate::plan::decide;
use crate::report::{Outcome, event};

/// Who is to be planned again so soon may take room before others that wait for it.
const SOON: Duration = Duration::from_secs(2);
/// How often it is asked whose turn it is to look whether it could be better: what comes with a node comes together.
const TURNS: Duration = Duration::from_secs(10);

/// What planning said of one application.
#[derive(Default)]
struct Planned {
    /// What it found out, without the decision; nothing before it was planned once.
    said: Option<Outcome>,
    /// When it is to be planned again though nothing touches it.
    again: Option<Moment>,
    /// Whether it is in the queue.
    is_asked: bool,
    /// Whether it is being planned now.
    is_under_way: bool,
}

/// Who waits to be planned, and what was said of each application that was.
pub struct Plans {
    of: Mutex<HashMap<ApplicationKey, Planned>>,
    asked: UnboundedSender<ApplicationKey>,
    through: Requests,
}

/// The ends of the queues: who is to be planned, and who is to be looked after because it was.
pub type Ends = (UnboundedReceiver<ApplicationKey>, UnboundedReceiver<ObjectRef<ActorApplication>>);

impl Plans {
    /// Nothing is planned yet.
    pub fn new() -> (Self, Ends) {
        let (asked, to_plan) = mpsc::unbounded();
        let (through, planned) = mpsc::unbounded();
        (Self { of: Mutex::default(), asked, through }, (to_plan, planned))
    }

    fn of(&self) -> MutexGuard<'_, HashMap<ApplicationKey, Planned>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an application into the queue, once.
    pub fn ask(&self, key: &ApplicationKey) {
        let is_in_it = std::mem::replace(&mut self.of().entry(key.clone()).or_default().is_asked, true);
        if !is_in_it {
            // Where nobody plans any more, the process ends.
            let _ = self.asked.unbounded_send(key.clone());
        }
    }

    /// Its turn has come; whether it is planned again because that was to be.
    fn begin(&self, key: &ApplicationKey) -> bool {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        (planned.is_asked, planned.is_under_way) = (false, true);
        planned.again.take().is_some()
    }

    /// It was planned, or a search for it is begun.
    fn said(&self, key: &ApplicationKey, mut outcome: Outcome) {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        outcome.moved |= planned.said.as_ref().is_some_and(|said| said.moved);
        outcome.decision = None;
        (planned.again, planned.is_under_way) = (outcome.next.take(), false);
        planned.said = Some(outcome);
    }

    /// It could not be planned for a reason that is none of its own.
    fn failed(&self, key: &ApplicationKey, again: Option<Moment>) {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        (planned.again, planned.is_under_way) = (again, false);
    }

    /// What was said last, if anything was, and when it is planned again.
    pub fn last(&self, key: &ApplicationKey) -> (Option<Outcome>, Option<Moment>) {
        let of = self.of();
        of.get(key).map_or((None, None), |planned| (planned.said.clone(), planned.again))
    }

    /// People were told who moved.
    pub fn told(&self, key: &ApplicationKey) {
        if let Some(said) = self.of().get_mut(key).and_then(|planned| planned.said.as_mut()) {
            said.moved = false;
        }
    }

    /// Whether something is still to be said of it, and will be.
    pub fn is_pending(&self, key: &ApplicationKey) -> bool {
        let of = self.of();
        of.get(key).is_some_and(|planned| {
            let has_failed = planned.said.as_ref().is_some_and(|said| said.failure.is_some());
            let is_to_be_tried = planned.again.is_some() && !has_failed;
            planned.is_asked || planned.is_under_way || is_to_be_tried
        })
    }

    /// Whether the time has come to plan it again.
    fn is_due(&self, key: &ApplicationKey, now: Moment) -> bool {
        self.of().get(key).and_then(|planned| planned.again).is_some_and(|at| at <= now)
    }

    /// Whether it is planned now or soon.
    pub fn is_to_come(&self, key: &ApplicationKey, now: Moment) -> bool {
        let of = self.of();
        let is_soon = |at: Moment| at <= now + SOON;
        of.get(key).is_some_and(|it| it.is_asked || it.is_under_way || it.again.is_some_and(is_soon))
    }

    /// Lets an application be looked after, at once.
    fn through(&self, key: &ApplicationKey) {
        let _ = self.through.unbounded_send(object_ref(key));
    }

    /// Forgets those that are gone.
    fn keep(&self, is_there: impl Fn(&ApplicationKey) -> bool) {
        self.of().retain(|key, _| is_there(key));
    }
}

/// Puts an application into the queue of planning where it is due to be looked at there.
pub fn ask_if_due(key: &ApplicationKey, ctx: &Context) {
    let now = moment();
    // What could merely be better waits until nobody waits for a search.
    let may_look = || ctx.caches.touched().may_look(key) && !ctx.solver_slots.is_full();
    let is_second_look = || ctx.second_look(key).is_some_and(|look| look.is_due(now));
    if ctx.caches.touched().is_touched(key) || ctx.plans.is_due(key, now) || may_look() || is_second_look() {
        ctx.plans.ask(key);
    }
}

/// Plans an application where that is due, or settles what was searched for it, and lets it be looked after.
#[tracing::instrument(skip_all, fields(application = %key))]
pub async fn plan(key: ApplicationKey, ctx: Arc<Context>) {
    let _alone = ctx.one_at_a_time.alone(&key).await;
    let Some(application) = ctx.caches.application(&key) else {
        ctx.searches.forget(&key);
        ctx.plans.keep(|other| *other != key);
        return;
    };
    if ctx.plans.begin(&key) {
        // Whatever it could not be planned for before is looked at again.
        ctx.caches.touch(&key);
    }
    if application.metadata.deletion_timestamp.is_some() || ctx.writer.leadership.check().is_err() {
        ctx.plans.failed(&key, None);
        return;
    }
    let working = ctx.writer.pulse.begin();
    // What touches it after this is looked at the next time, also where it cannot be planned now.
    let touched = ctx.caches.take_touch(&key);
    let mut outcome = Outcome::default();
    let version = |outcome: &Outcome| outcome.decision.as_ref().and_then(ResourceExt::resource_version);
    let (before, decided) = match ctx.caches.decision(&key) {
        Ok(decision) => {
            outcome.decision = decision.map(|decision| decision.as_ref().clone());
            (version(&outcome), Box::pin(decide(&application, &key, &ctx, touched, &mut outcome)).await)
        }
        Err(e) => (None, Err(e)),
    };
    drop(working);
    ctx.caches.touched().looked(&key);
    let is_searched = outcome.searching && version(&outcome) == before;
    match decided {
        Ok(()) => ctx.plans.said(&key, outcome),
        Err(
            e
            @ (Error::World(_) | Error::Policy(_) | Error::Plan(_) | Error::Search(_) | Error::NameTaken(_)),
        ) => {
            tell_failure(&application, &ctx, &e).await;
            outcome.failure = Some((e.reason(), e.chain()));
            outcome.next = Some(moment() + LOOK_AGAIN);
            ctx.plans.said(&key, outcome);
        }
        Err(e) => {
            ctx.metrics.reconciles.with_label_values(&[e.reason()]).inc();
            tracing::warn!(error = e.chain(), "planning failed");
            ctx.plans.failed(&key, Some(moment() + e.wait()));
        }
    }
    // Until a search is through there is nothing to carry out or to tell that was not there before.
    if !is_searched {
        ctx.plans.through(&key);
    }
}

/// Settles what was searched for an application: it is committed before its slot is another's, however many wait to be
/// planned.
pub async fn settle(key: ApplicationKey, ctx: Arc<Context>) {
    plan(key.clone(), ctx.clone()).await;
    ctx.searches.give_back(&key);
}

/// Says once per message why nothing can be decided.
async fn tell_failure(application: &ActorApplication, ctx: &Context, error: &Error) {
    let message = error.chain();
    let conditions = application.status.iter().flat_map(|status| &status.conditions);
    let told =
        conditions.into_iter().any(|c| c.type_ == "Accepted" && c.status == "False" && c.message == message);
    if !told {
        tracing::info!(reason = error.reason(), message, "not accepted");
        ctx.tell(application, &event(EventType::Warning, error.reason(), "Plan", message)).await;
    }
}

/// Looks in the background whether applications could be better; ends only with the process.
pub async fn background(ctx: Arc<Context>) {
    loop {
        tokio::time::sleep(TURNS).await;
        ctx.plans.keep(|key| ctx.caches.application(key).is_some());
        if ctx.solver_slots.is_full() {
            // Others need the time.
            continue;
        }
        let known: Vec<(ApplicationKey, u64)> = {
            let considered = ctx.considered.lock().unwrap_or_else(PoisonError::into_inner);
            considered.iter().map(|(key, considered)| (key.clone(), considered.facts.chances)).collect()
        };
        let mut waiting = Vec::new();
        for (key, chances) in known {
            let Some(application) = ctx.caches.application(&key) else {
                ctx.considered.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                ctx.refusals.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                ctx.searches.forget(&key);
                continue;
            };
            if ctx.caches.chances(&key, kinds(&application).into_iter()) != chances {
                waiting.push(key);
            }
        }
        ctx.caches.give_turns(waiting, moment(), ctx.planning.slots());
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
    fn who_is_asked_for_twice_is_in_the_queue_once_until_its_turn_comes() {
        let (plans, (mut to_plan, _)) = Plans::new();
        plans.ask(&key());
        plans.ask(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        assert!(to_plan.try_recv().is_err());
        assert!(plans.is_pending(&key()));
        assert!(!plans.begin(&key()));
        assert!(plans.is_pending(&key()), "it is under way");
        // What touches it from now on is another turn.
        plans.ask(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        plans.begin(&key());
        plans.said(&key(), Outcome::default());
        assert!(!plans.is_pending(&key()));
    }

    #[test]
    fn what_failed_is_planned_again_when_its_time_comes_and_what_it_said_stays() {
        let (plans, _ends) = Plans::new();
        plans.begin(&key());
        let failure = Some(("Policy", "no such policy".to_owned()));
        plans.said(&key(), Outcome { failure: failure.clone(), next: Some(at(300)), ..Outcome::default() });
        let (last, again) = plans.last(&key());
        assert_eq!((last.unwrap().failure, again), (failure.clone(), Some(at(300))));
        // It is told, and nothing else comes before its time.
        assert!(!plans.is_pending(&key()) && !plans.is_due(&key(), at(299)) && plans.is_due(&key(), at(300)));
        assert!(!plans.is_to_come(&key(), at(0)));
        assert!(plans.begin(&key()));
        // The API server did not answer: what was said before is still so.
        plans.failed(&key(), Some(at(302)));
        assert_eq!(plans.last(&key()).0.unwrap().failure, failure);
        assert!(plans.is_to_come(&key(), at(300)));
        plans.keep(|_| false);
        assert!(!plans.is_due(&key(), at(999)));
    }

    #[test]
    fn who_moved_is_known_until_it_is_told() {
        let (plans, _ends) = Plans::new();
        assert!(plans.last(&key()).0.is_none());
        plans.said(&key(), Outcome { moved: true, ..Outcome::default() });
        plans.said(&key(), Outcome::default());
        assert!(plans.last(&key()).0.unwrap().moved);
        plans.told(&key());
        assert!(!plans.last(&key()).0.unwrap().moved);
    }
}
