//! Throttles status writes, and tracks objects that were created but not yet observed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::{Action, Moment, ObservedState};
use world::ApplicationKey;

/// Minimum interval of status writes per application: ten starting pods are thirty changes, and merging a status is expensive
/// for the API server.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval if only counts and messages changed: the application is the largest object, and its counts change with
/// every starting actor.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// The last status write of each application.
#[derive(Default)]
pub struct StatusThrottle(Mutex<HashMap<ApplicationKey, LastReport>>);

/// When a status was last computed, and when one was last written.
#[derive(Clone, Copy)]
struct LastReport {
    at: Moment,
    written: Option<Moment>,
}

impl StatusThrottle {
    fn last(&self, key: &ApplicationKey) -> Option<LastReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// When the next status is due; nothing if now.
    pub fn next_report(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key).map(|reports| reports.at + REPORT_INTERVAL).filter(|at| now < *at)
    }

    /// When a status that changes only counts and messages is due; nothing if now.
    pub fn next_count_report(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key)
            .and_then(|reports| reports.written)
            .map(|at| at + COUNT_INTERVAL)
            .filter(|at| now < *at)
    }

    /// Records that the status was computed, and whether anything was `written`.
    pub fn reported(&self, key: &ApplicationKey, now: Moment, written: bool) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Old entries have no effect any more.
        reports
            .retain(|_, reports| now < reports.written.unwrap_or_default().max(reports.at) + COUNT_INTERVAL);
        let before = reports.get(key).and_then(|reports| reports.written);
        reports
            .insert(key.clone(), LastReport { at: now, written: if written { Some(now) } else { before } });
    }
}

/// An application counts as starting actors for this long after the last start.
const STARTING: Duration = Duration::from_secs(1);

/// Applications that recently started actors.
#[derive(Default)]
pub struct RecentStarts(Mutex<HashMap<ApplicationKey, Moment>>);

impl RecentStarts {
    /// Records a start.
    pub fn record(&self, key: &ApplicationKey, now: Moment) {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.retain(|_, at| now < *at + STARTING);
        starts.insert(key.clone(), now);
    }

    /// Whether any other application is starting actors.
    pub fn others_starting(&self, key: &ApplicationKey, now: Moment) -> bool {
        let starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.iter().any(|(other, at)| other != key && now < *at + STARTING)
    }
}

/// How long the watch may take to deliver a created object.
const EXPECTATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Created objects that the watch has not delivered yet, so that they are not created twice: pods by the uid of their Instance,
/// Instances by application uid and actor.
#[derive(Default)]
pub struct Expectations(Mutex<HashMap<String, Moment>>);

impl Expectations {
    /// Records an object that was created, or existed already.
    pub fn expect(&self, what: &str, now: Moment) {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        expected.retain(|_, at| now < *at + EXPECTATION_TIMEOUT);
        expected.insert(what.to_owned(), now);
    }

    /// Key of an actor's Instance, by application uid.
    pub fn instance(application: &str, actor: &str) -> String {
        format!("{application}/{actor}")
    }

    /// Whether the watch has yet to deliver the object.
    pub fn is_expected(&self, what: &str, now: Moment) -> bool {
        let expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        expected.get(what).is_some_and(|at| now < *at + EXPECTATION_TIMEOUT)
    }

    /// Records Instances that the watch delivered.
    pub fn observe_instances<'a>(&self, application: &str, actors: impl Iterator<Item = &'a String>) {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if expected.is_empty() {
            return;
        }
        for actor in actors {
            expected.remove(&Self::instance(application, actor));
        }
    }

    /// Removes starts of pods that were just created; returns when the first expectation expires.
    pub fn drop_expected(
        &self,
        actions: &mut Vec<Action>,
        observed: &ObservedState,
        now: Moment,
    ) -> Option<Moment> {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for instance in observed.instances.values().filter(|instance| instance.pod.is_some()) {
            expected.remove(&instance.id.uid);
        }
        let awaited = |action: &Action| match action {
            Action::StartPod { instance, .. } => {
                expected.get(&instance.uid).map(|at| *at + EXPECTATION_TIMEOUT).filter(|until| now < *until)
            }
            _ => None,
        };
        let first = actions.iter().filter_map(awaited).min();
        actions.retain(|action| awaited(action).is_none());
        first
    }
}

#[cfg(test)]
mod tests {
    use control::ObjectId;

    use super::*;

    #[test]
    fn a_created_pod_is_expected_until_observed_or_timed_out() {
        let (expected, at) = (Expectations::default(), Duration::from_millis);
        let id =
            |uid: &str| ObjectId { name: format!("app-{uid}"), uid: uid.to_owned(), resource_version: None };
        let start = |uid: &str| Action::StartPod {
            actor: uid.to_owned(),
            instance: id(uid),
            unit: "n/u-0".to_owned(),
            newest_template: true,
        };
        // Actors still to be started at this millisecond while the pods of `there` are observed, and when to reconcile again.
        let left = |now: u64, there: &[&str]| {
            let pod = Some(control::Pod::default());
            let instance = |uid: &&str| {
                let one =
                    control::Instance { id: id(uid), terminating: false, requested: false, pod: pod.clone() };
                ((*uid).to_owned(), one)
            };
            let observed =
                ObservedState { instances: there.iter().map(instance).collect(), ..ObservedState::default() };
            let mut actions = ["a", "b", "c"].map(start).to_vec();
            let next = expected.drop_expected(&mut actions, &observed, at(now));
            let actors = actions.iter().map(|action| match action {
                Action::StartPod { actor, .. } => actor.as_str(),
                _ => "",
            });
            (actors.collect::<String>(), next)
        };
        expected.expect("a", at(1000));
        expected.expect("b", at(1500));
        assert_eq!(left(1600, &[]), ("c".to_owned(), Some(at(6000))));
        assert_eq!(left(6000, &[]), ("ac".to_owned(), Some(at(6500))));
        assert_eq!(left(6100, &["b"]), ("abc".to_owned(), None));
        expected.expect("c", at(9000));
        assert_eq!(expected.0.lock().unwrap().len(), 1, "an expired expectation is dropped");
    }

    #[test]
    fn a_created_instance_is_expected_until_observed_or_timed_out() {
        let (expected, at) = (Expectations::default(), Duration::from_millis);
        let one = Expectations::instance("uid", "a-0");
        let other = Expectations::instance("of one made anew", "a-0");
        expected.expect(&one, at(1000));
        assert!(expected.is_expected(&one, at(5999)) && !expected.is_expected(&one, at(6000)));
        assert!(!expected.is_expected(&other, at(1000)));
        expected.observe_instances("uid", [&"a-1".to_owned()].into_iter());
        assert!(expected.is_expected(&one, at(2000)));
        expected.observe_instances("uid", [&"a-0".to_owned()].into_iter());
        assert!(!expected.is_expected(&one, at(2000)));
    }

    #[test]
    fn other_applications_count_as_starting_for_a_second() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (starts, at) = (RecentStarts::default(), Duration::from_millis);
        starts.record(&key("a"), at(5000));
        let others_starting = |name: &str, now: u64| starts.others_starting(&key(name), at(now));
        assert!(!others_starting("a", 5100) && others_starting("b", 5100) && !others_starting("b", 6000));
        starts.record(&key("a"), at(5900));
        assert!(others_starting("b", 6800) && !others_starting("b", 6900));
    }

    #[test]
    fn status_writes_are_throttled_and_counts_more_so() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (throttle, at) = (StatusThrottle::default(), Duration::from_millis);
        assert_eq!(throttle.next_report(&key("a"), at(5000)), None);
        throttle.reported(&key("a"), at(5000), true);
        assert_eq!(throttle.next_report(&key("a"), at(5400)), Some(at(6000)));
        assert_eq!(throttle.next_report(&key("b"), at(5400)), None);
        assert_eq!(throttle.next_report(&key("a"), at(6000)), None);
        assert_eq!(throttle.next_count_report(&key("a"), at(6000)), Some(at(10_000)));
        // A status that did not change does not delay the next count.
        throttle.reported(&key("a"), at(6000), false);
        assert_eq!(throttle.next_count_report(&key("a"), at(9999)), Some(at(10_000)));
        assert_eq!(throttle.next_count_report(&key("a"), at(10_000)), None);
        throttle.reported(&key("b"), at(11_000), false);
        assert_eq!(throttle.0.lock().unwrap().len(), 1, "old reports are dropped");
    }
}
