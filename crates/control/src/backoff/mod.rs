//! Exponential backoff after failures.

pub(crate) mod refusals;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Backoff, Moment};

/// Default delay after the first failure; it doubles with each further one.
pub const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
/// Default maximum of the delay.
pub const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// Time without a failure after which the delay resets.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// Consecutive failures by key.
#[derive(Clone, Debug)]
pub struct Backoffs<K> {
    by_key: BTreeMap<K, Failures>,
}

#[derive(Clone, Debug)]
struct Failures {
    count: u32,
    backoff: Backoff,
    /// Uid of the last pod that was counted.
    last_pod: Option<String>,
}

impl<K> Default for Backoffs<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new() }
    }
}

impl<K: Ord> Backoffs<K> {
    /// Records a failure and returns the end of the backoff.
    ///
    /// `ended` is the uid of the pod that ended. It counts once, however often it is observed. The first ended pod
    /// causes no delay, as the next one may well run. The delay is `first` at first, and `longest` at most.
    pub fn record_failure(
        &mut self,
        key: K,
        why: &str,
        ended: Option<&str>,
        (first, longest): (Duration, Duration),
        now: Moment,
    ) -> Moment {
        self.by_key.retain(|_, tries| now < tries.backoff.until + RESET_AFTER);
        let held = Backoff { until: now, reason: why.to_owned() };
        let tries = self.by_key.entry(key).or_insert(Failures { count: 0, backoff: held, last_pod: None });
        if let Some(pod) = ended {
            if tries.last_pod.as_deref() == Some(pod) {
                return tries.backoff.until;
            }
            tries.last_pod = Some(pod.to_owned());
        }
        let doubled = if ended.is_some() { tries.count.checked_sub(1) } else { Some(tries.count) };
        let wait = doubled.map_or(Duration::ZERO, |doubled| first.saturating_mul(1 << doubled.min(10)));
        tries.count = tries.count.saturating_add(1);
        tries.backoff = Backoff { until: now + wait.min(longest), reason: why.to_owned() };
        tries.backoff.until
    }

    /// Forgets the keys of deleted objects.
    pub fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.by_key.retain(|key, _| !is_gone(key));
    }

    /// The backoff of a key, if it is active.
    pub fn active(&self, key: &K, now: Moment) -> Option<&Backoff> {
        self.by_key.get(key).map(|tries| &tries.backoff).filter(|held| now < held.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: (Duration, Duration) = (INITIAL_BACKOFF, MAX_BACKOFF);

    /// Delays in seconds after failures at these seconds; each is the end of a separate pod if `of_pods`.
    fn waits(of_pods: bool, failures: &[u64]) -> Vec<u64> {
        let mut backoffs = Backoffs::default();
        let wait = |at: &u64| {
            let (now, pod) = (Duration::from_secs(*at), at.to_string());
            let ended = of_pods.then_some(pod.as_str());
            backoffs.record_failure("a", "it ended", ended, DEFAULT, now).as_secs() - at
        };
        failures.iter().map(wait).collect()
    }

    #[test]
    fn delays_double_up_to_the_maximum_and_reset() {
        let in_a_row = [1000, 1010, 1030, 1070, 1150, 1310, 1700];
        assert_eq!(waits(false, &in_a_row), [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(waits(true, &in_a_row), [0, 10, 20, 40, 80, 160, 300]);
        assert_eq!(
            waits(false, &[1000, 1609, 1609 + 20 + 600]),
            [10, 20, 10],
            "ten minutes without a failure"
        );
    }

    /// Minutes until the next attempt, after failures that each follow the delay of the one before.
    #[test]
    fn delays_begin_and_end_as_the_caller_asks() {
        let (mut backoffs, mut now) = (Backoffs::default(), Duration::from_secs(1000));
        let range = (Duration::from_mins(1), Duration::from_mins(10));
        let mut wait = || {
            let begun = now;
            now = backoffs.record_failure("a", "it panicked", None, range, now);
            now.saturating_sub(begun).as_secs() / 60
        };
        assert_eq!([(); 6].map(|()| wait()), [1, 2, 4, 8, 10, 10]);
    }

    /// An ended pod is observed until it can be deleted.
    #[test]
    fn an_ended_pod_counts_once() {
        let mut backoffs = Backoffs::default();
        let at = Duration::from_secs;
        // (ended pod, or a refused start; time of the observation; end of the backoff)
        for (ended, now, until) in [
            (Some("one"), 100, 100),
            (Some("one"), 102, 100),
            (Some("one"), 108, 100),
            (Some("two"), 110, 120),
            (Some("two"), 112, 120),
            (None, 121, 161),
            (Some("two"), 122, 161),
            (Some("three"), 150, 190),
            (Some("three"), 191, 190),
        ] {
            let held = backoffs.record_failure("a", "it ended", ended, DEFAULT, at(now));
            assert_eq!(held, at(until), "{ended:?} at {now}");
        }
        assert_eq!(backoffs.record_failure("b", "it ended", Some("one"), DEFAULT, at(200)), at(200));
    }

    #[test]
    fn backoff_applies_to_the_failed_key_only() {
        let mut backoffs = Backoffs::default();
        let at = Duration::from_secs;
        let until = backoffs.record_failure("a", "quota", None, (INITIAL_BACKOFF, at(3)), at(100));
        assert_eq!(until, at(103), "no longer than is asked for");
        assert_eq!(backoffs.active(&"a", at(102)).unwrap().reason, "quota");
        assert_eq!(backoffs.active(&"a", at(103)), None);
        assert_eq!(backoffs.active(&"b", at(102)), None);
        backoffs.forget(|key| *key == "a");
        assert_eq!(backoffs.active(&"a", at(102)), None, "it is gone, and another of its name begins anew");
    }
}
