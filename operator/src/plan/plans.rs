//! The planning queue. It is separate from the workqueue, so reconciles wait neither for searches nor for planning.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::Moment;
use crds::ActorApplication;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::runtime::reflector::ObjectRef;
use world::ApplicationKey;

use crate::status::report::Outcome;
use crate::watch::caches::{Requests, object_ref};

/// An application retried within this time may still take capacity before others.
const SOON: Duration = Duration::from_secs(2);

/// The last planning result of an application.
#[derive(Default)]
struct Planned {
    /// The outcome without the Placement; nothing before the first run.
    outcome: Option<Outcome>,
    /// When it is planned again without a trigger.
    retry_at: Option<Moment>,
    /// Whether it is queued.
    is_queued: bool,
    /// Whether it is being planned.
    in_progress: bool,
}

/// The planning queue and the last result per application.
pub struct Plans {
    of: Mutex<HashMap<ApplicationKey, Planned>>,
    queue: UnboundedSender<ApplicationKey>,
    requeues: Requests,
}

/// The receivers: applications to plan, and applications to reconcile afterwards.
pub type Receivers = (UnboundedReceiver<ApplicationKey>, UnboundedReceiver<ObjectRef<ActorApplication>>);

impl Plans {
    /// An empty queue.
    pub fn new() -> (Self, Receivers) {
        let (queue, to_plan) = mpsc::unbounded();
        let (requeues, planned) = mpsc::unbounded();
        (Self { of: Mutex::default(), queue, requeues }, (to_plan, planned))
    }

    fn of(&self) -> MutexGuard<'_, HashMap<ApplicationKey, Planned>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an application, once.
    pub fn enqueue(&self, key: &ApplicationKey) {
        let is_in_it = std::mem::replace(&mut self.of().entry(key.clone()).or_default().is_queued, true);
        if !is_in_it {
            // Without a receiver the process ends.
            let _ = self.queue.unbounded_send(key.clone());
        }
    }

    /// Starts a run; returns whether a retry was due.
    pub fn begin(&self, key: &ApplicationKey) -> bool {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        (planned.is_queued, planned.in_progress) = (false, true);
        planned.retry_at.take().is_some()
    }

    /// Records the outcome of a run, or that a search started.
    pub fn record(&self, key: &ApplicationKey, mut outcome: Outcome) {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        outcome.moved |= planned.outcome.as_ref().is_some_and(|said| said.moved);
        outcome.decision = None;
        (planned.retry_at, planned.in_progress) = (outcome.requeue_at.take(), false);
        planned.outcome = Some(outcome);
    }

    /// Records an error that is not the application's fault.
    pub fn record_failure(&self, key: &ApplicationKey, retry_at: Option<Moment>) {
        let mut of = self.of();
        let planned = of.entry(key.clone()).or_default();
        (planned.retry_at, planned.in_progress) = (retry_at, false);
    }

    /// The last outcome, if any, and when it is retried.
    pub fn last(&self, key: &ApplicationKey) -> (Option<Outcome>, Option<Moment>) {
        let of = self.of();
        of.get(key).map_or((None, None), |planned| (planned.outcome.clone(), planned.retry_at))
    }

    /// An actor was moved outside of a run.
    pub fn set_moved(&self, key: &ApplicationKey) {
        if let Some(said) = self.of().get_mut(key).and_then(|planned| planned.outcome.as_mut()) {
            said.moved = true;
        }
    }

    /// The move was reported.
    pub fn clear_moved(&self, key: &ApplicationKey) {
        if let Some(said) = self.of().get_mut(key).and_then(|planned| planned.outcome.as_mut()) {
            said.moved = false;
        }
    }

    /// Whether a new outcome is to be expected.
    pub fn is_pending(&self, key: &ApplicationKey) -> bool {
        let of = self.of();
        of.get(key).is_some_and(|planned| {
            let has_failed = planned.outcome.as_ref().is_some_and(|said| said.failure.is_some());
            let is_to_be_tried = planned.retry_at.is_some() && !has_failed;
            planned.is_queued || planned.in_progress || is_to_be_tried
        })
    }

    /// Whether a retry is due.
    pub fn is_due(&self, key: &ApplicationKey, now: Moment) -> bool {
        self.of().get(key).and_then(|planned| planned.retry_at).is_some_and(|at| at <= now)
    }

    /// Whether it is planned now or soon.
    pub fn is_imminent(&self, key: &ApplicationKey, now: Moment) -> bool {
        let of = self.of();
        let is_soon = |at: Moment| at <= now + SOON;
        of.get(key).is_some_and(|it| it.is_queued || it.in_progress || it.retry_at.is_some_and(is_soon))
    }

    /// Requeues the reconcile of an application at once.
    pub fn requeue(&self, key: &ApplicationKey) {
        let _ = self.requeues.unbounded_send(object_ref(key));
    }

    /// Drops deleted applications.
    pub fn retain(&self, exists: impl Fn(&ApplicationKey) -> bool) {
        self.of().retain(|key, _| exists(key));
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
        let (plans, (mut to_plan, _)) = Plans::new();
        plans.enqueue(&key());
        plans.enqueue(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        assert!(to_plan.try_recv().is_err());
        assert!(plans.is_pending(&key()));
        assert!(!plans.begin(&key()));
        assert!(plans.is_pending(&key()), "it is under way");
        // Events from now on need another run.
        plans.enqueue(&key());
        assert_eq!(to_plan.try_recv().unwrap(), key());
        plans.begin(&key());
        plans.record(&key(), Outcome::default());
        assert!(!plans.is_pending(&key()));
    }

    #[test]
    fn a_failed_run_is_retried_later_and_keeps_its_outcome() {
        let (plans, _receivers) = Plans::new();
        plans.begin(&key());
        let failure = Some(("Policy", "no such policy".to_owned()));
        plans.record(
            &key(),
            Outcome { failure: failure.clone(), requeue_at: Some(at(300)), ..Outcome::default() },
        );
        let (last, retry_at) = plans.last(&key());
        assert_eq!((last.unwrap().failure, retry_at), (failure.clone(), Some(at(300))));
        // The failure was reported, and nothing else happens before the retry.
        assert!(!plans.is_pending(&key()) && !plans.is_due(&key(), at(299)) && plans.is_due(&key(), at(300)));
        assert!(!plans.is_imminent(&key(), at(0)));
        assert!(plans.begin(&key()));
        // The API server was unavailable: the earlier outcome still holds.
        plans.record_failure(&key(), Some(at(302)));
        assert_eq!(plans.last(&key()).0.unwrap().failure, failure);
        assert!(plans.is_imminent(&key(), at(300)));
        plans.retain(|_| false);
        assert!(!plans.is_due(&key(), at(999)));
    }

    #[test]
    fn a_move_is_kept_until_it_is_reported() {
        let (plans, _receivers) = Plans::new();
        assert!(plans.last(&key()).0.is_none());
        plans.record(&key(), Outcome { moved: true, ..Outcome::default() });
        plans.record(&key(), Outcome::default());
        assert!(plans.last(&key()).0.unwrap().moved);
        plans.clear_moved(&key());
        assert!(!plans.last(&key()).0.unwrap().moved);
        plans.set_moved(&key());
        assert!(plans.last(&key()).0.unwrap().moved, "for measured load");
    }
}
