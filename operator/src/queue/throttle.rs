//! How often people are told of an application.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::{Moment, Seen, Step};
use world::ApplicationKey;

/// What is told of an application is written no more often: ten pods that start are three changes each, and most of what the
/// API server does for a status is to merge it.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Where no more than counts and messages changed, what is told of an application is written no more often: it is the largest
/// object of all, and of every ten actors that start the same would be said ten times.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// When each application was last told of.
#[derive(Default)]
pub struct StatusThrottle(Mutex<HashMap<ApplicationKey, LastReport>>);

/// When somebody last looked what is to be told, and when something of it was written.
#[derive(Clone, Copy)]
struct LastReport {
    at: Moment,
    written: Option<Moment>,
}

impl StatusThrottle {
    fn last(&self, key: &ApplicationKey) -> Option<LastReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// When it is to be told of again; nothing where that is now.
    pub fn next_report(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key).map(|reports| reports.at + REPORT_INTERVAL).filter(|at| now < *at)
    }

    /// When counts and messages alone are to be written again; nothing where that is now.
    pub fn next_count_report(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key)
            .and_then(|reports| reports.written)
            .map(|at| at + COUNT_INTERVAL)
            .filter(|at| now < *at)
    }

    /// Everything is told of it, and for that something had to be `written`, or not.
    pub fn reported(&self, key: &ApplicationKey, now: Moment, written: bool) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who was told of longer ago counts no more, and may be gone.
        reports
            .retain(|_, reports| now < reports.written.unwrap_or_default().max(reports.at) + COUNT_INTERVAL);
        let before = reports.get(key).and_then(|reports| reports.written);
        reports
            .insert(key.clone(), LastReport { at: now, written: if written { Some(now) } else { before } });
    }
}

/// For so long after an actor of theirs was started, applications are taken to be starting more.
const STARTING: Duration = Duration::from_secs(1);

/// Which applications start actors.
#[derive(Default)]
pub struct RecentStarts(Mutex<HashMap<ApplicationKey, Moment>>);

impl RecentStarts {
    /// An application starts actors now.
    pub fn record(&self, key: &ApplicationKey, now: Moment) {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.retain(|_, at| now < *at + STARTING);
        starts.insert(key.clone(), now);
    }

    /// Whether any other application does.
    pub fn others_starting(&self, key: &ApplicationKey, now: Moment) -> bool {
        let starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.iter().any(|(other, at)| other != key && now < *at + STARTING)
    }
}

/// For so long the watch is waited for to bring what was made.
const EXPECTATION_TIMEOUT: Duration = Duration::from_secs(5);

/// What was made and the watch has not brought yet is not made again meanwhile: pods by the uid of their Instance, Instances by
/// actor and the uid of its application.
#[derive(Default)]
pub struct Expectations(Mutex<HashMap<String, Moment>>);

impl Expectations {
    /// It was made, or was there already.
    pub fn expect(&self, what: &str, now: Moment) {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        expected.retain(|_, at| now < *at + EXPECTATION_TIMEOUT);
        expected.insert(what.to_owned(), now);
    }

    /// The Instance of an actor, of the application with this uid.
    pub fn instance(application: &str, actor: &str) -> String {
        format!("{application}/{actor}")
    }

    /// Whether the watch is still to bring it.
    pub fn is_expected(&self, what: &str, now: Moment) -> bool {
        let expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        expected.get(what).is_some_and(|at| now < *at + EXPECTATION_TIMEOUT)
    }

    /// The watch has brought the Instances of these actors, of the application with this uid.
    pub fn observe_instances<'a>(&self, application: &str, actors: impl Iterator<Item = &'a String>) {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if expected.is_empty() {
            return;
        }
        for actor in actors {
            expected.remove(&Self::instance(application, actor));
        }
    }

    /// Takes out of what is to be done who was started a moment ago; until when the first of them is waited for.
    pub fn drop_expected(&self, steps: &mut Vec<Step>, seen: &Seen, now: Moment) -> Option<Moment> {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for instance in seen.instances.values().filter(|instance| instance.pod.is_some()) {
            expected.remove(&instance.id.uid);
        }
        let awaited = |step: &Step| match step {
            Step::Start { instance, .. } => {
                expected.get(&instance.uid).map(|at| *at + EXPECTATION_TIMEOUT).filter(|until| now < *until)
            }
            _ => None,
        };
        let first = steps.iter().filter_map(awaited).min();
        steps.retain(|step| awaited(step).is_none());
        first
    }
}

#[cfg(test)]
mod tests {
    use control::Id;

    use super::*;

    #[test]
    fn a_pod_that_was_made_is_awaited_until_it_is_seen_and_not_for_long() {
        let (expected, at) = (Expectations::default(), Duration::from_millis);
        let id = |uid: &str| Id { name: format!("app-{uid}"), uid: uid.to_owned(), version: None };
        let start = |uid: &str| Step::Start {
            actor: uid.to_owned(),
            instance: id(uid),
            unit: "n/u-0".to_owned(),
            newest: true,
        };
        // Who is started at this millisecond of those who are to be, while the pods of `there` are seen, and when to look again.
        let left = |now: u64, there: &[&str]| {
            let pod = Some(control::Pod::default());
            let instance = |uid: &&str| {
                let one = control::Instance { id: id(uid), going: false, requested: false, pod: pod.clone() };
                ((*uid).to_owned(), one)
            };
            let seen = Seen { instances: there.iter().map(instance).collect(), ..Seen::default() };
            let mut steps = ["a", "b", "c"].map(start).to_vec();
            let next = expected.drop_expected(&mut steps, &seen, at(now));
            let who = steps.iter().map(|step| match step {
                Step::Start { actor, .. } => actor.as_str(),
                _ => "",
            });
            (who.collect::<String>(), next)
        };
        expected.expect("a", at(1000));
        expected.expect("b", at(1500));
        assert_eq!(left(1600, &[]), ("c".to_owned(), Some(at(6000))));
        assert_eq!(left(6000, &[]), ("ac".to_owned(), Some(at(6500))));
        assert_eq!(left(6100, &["b"]), ("abc".to_owned(), None));
        expected.expect("c", at(9000));
        assert_eq!(expected.0.lock().unwrap().len(), 1, "who was waited for in vain is forgotten");
    }

    #[test]
    fn an_instance_that_was_made_is_awaited_until_it_is_seen_and_not_for_long() {
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
    fn others_start_actors_until_a_second_after_the_last() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (starts, at) = (RecentStarts::default(), Duration::from_millis);
        starts.record(&key("a"), at(5000));
        let others_starting = |name: &str, now: u64| starts.others_starting(&key(name), at(now));
        assert!(!others_starting("a", 5100) && others_starting("b", 5100) && !others_starting("b", 6000));
        starts.record(&key("a"), at(5900));
        assert!(others_starting("b", 6800) && !others_starting("b", 6900));
    }

    #[test]
    fn an_application_is_told_of_at_once_then_a_second_later_and_counted_now_and_then() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (throttle, at) = (StatusThrottle::default(), Duration::from_millis);
        assert_eq!(throttle.next_report(&key("a"), at(5000)), None);
        throttle.reported(&key("a"), at(5000), true);
        assert_eq!(throttle.next_report(&key("a"), at(5400)), Some(at(6000)));
        assert_eq!(throttle.next_report(&key("b"), at(5400)), None);
        assert_eq!(throttle.next_report(&key("a"), at(6000)), None);
        assert_eq!(throttle.next_count_report(&key("a"), at(6000)), Some(at(10_000)));
        // A look for which nothing was written puts no count off.
        throttle.reported(&key("a"), at(6000), false);
        assert_eq!(throttle.next_count_report(&key("a"), at(9999)), Some(at(10_000)));
        assert_eq!(throttle.next_count_report(&key("a"), at(10_000)), None);
        throttle.reported(&key("b"), at(11_000), false);
        assert_eq!(throttle.0.lock().unwrap().len(), 1, "who was told of long ago is forgotten");
    }
}
