//! What failed is tried again with growing waits.

pub(crate) mod refusals;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Backoff, Moment};

/// The wait after a failure, which doubles with each that follows.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait, where nobody asks for a shorter one.
pub const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// Who goes so long without a failure after a wait begins anew.
const FORGIVEN: Duration = Duration::from_mins(10);

/// How often in a row something failed, by what it is.
#[derive(Clone, Debug)]
pub struct Backoffs<K> {
    of: BTreeMap<K, Tries>,
}

#[derive(Clone, Debug)]
struct Tries {
    count: u32,
    held: Backoff,
    /// Whose end was counted last, by uid.
    ended: Option<String>,
}

impl<K> Default for Backoffs<K> {
    fn default() -> Self {
        Self { of: BTreeMap::new() }
    }
}

impl<K: Ord> Backoffs<K> {
    /// It failed: until when it is held back.
    ///
    /// `ended`: the pod that ended, by uid. It is one failure however often it is seen, and the first one costs no wait, as a pod
    /// that ended once may well run the next time.
    pub fn record_failure(
        &mut self,
        key: K,
        why: &str,
        ended: Option<&str>,
        longest: Duration,
        now: Moment,
    ) -> Moment {
        self.of.retain(|_, tries| now < tries.held.until + FORGIVEN);
        let held = Backoff { until: now, reason: why.to_owned() };
        let tries = self.of.entry(key).or_insert(Tries { count: 0, held, ended: None });
        if let Some(pod) = ended {
            if tries.ended.as_deref() == Some(pod) {
                return tries.held.until;
            }
            tries.ended = Some(pod.to_owned());
        }
        let doubled = if ended.is_some() { tries.count.checked_sub(1) } else { Some(tries.count) };
        let wait = doubled.map_or(Duration::ZERO, |doubled| FIRST.saturating_mul(1 << doubled.min(10)));
        tries.count = tries.count.saturating_add(1);
        tries.held = Backoff { until: now + wait.min(longest), reason: why.to_owned() };
        tries.held.until
    }

    /// Forgets what failed and is gone.
    pub fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.of.retain(|key, _| !is_gone(key));
    }

    /// Whether it is held back now, and why.
    pub fn active(&self, key: &K, now: Moment) -> Option<&Backoff> {
        self.of.get(key).map(|tries| &tries.held).filter(|held| now < held.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits in seconds after failures at these seconds, each the end of a pod of its own or of none.
    fn waits(of_pods: bool, failures: &[u64]) -> Vec<u64> {
        let mut back_offs = Backoffs::default();
        let wait = |at: &u64| {
            let (now, pod) = (Duration::from_secs(*at), at.to_string());
            let ended = of_pods.then_some(pod.as_str());
            back_offs.record_failure("a", "it ended", ended, MAX_BACKOFF, now).as_secs() - at
        };
        failures.iter().map(wait).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_are_forgiven() {
        let in_a_row = [1000, 1010, 1030, 1070, 1150, 1310, 1700];
        assert_eq!(waits(false, &in_a_row), [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(waits(true, &in_a_row), [0, 10, 20, 40, 80, 160, 300]);
        assert_eq!(
            waits(false, &[1000, 1609, 1609 + 20 + 600]),
            [10, 20, 10],
            "ten minutes without a failure"
        );
    }

    /// A pod that ended is seen as long as it cannot be taken away.
    #[test]
    fn a_pod_that_ended_is_one_failure_however_often_it_is_seen() {
        let mut back_offs = Backoffs::default();
        let at = Duration::from_secs;
        // The pod, or a start that was refused; when it is seen, and until when the actor is held back then.
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
            let held = back_offs.record_failure("a", "it ended", ended, MAX_BACKOFF, at(now));
            assert_eq!(held, at(until), "{ended:?} at {now}");
        }
        assert_eq!(back_offs.record_failure("b", "it ended", Some("one"), MAX_BACKOFF, at(200)), at(200));
    }

    #[test]
    fn what_failed_is_held_back_and_nothing_else() {
        let mut back_offs = Backoffs::default();
        let at = Duration::from_secs;
        let until = back_offs.record_failure("a", "quota", None, at(3), at(100));
        assert_eq!(until, at(103), "no longer than is asked for");
        assert_eq!(back_offs.active(&"a", at(102)).unwrap().reason, "quota");
        assert_eq!(back_offs.active(&"a", at(103)), None);
        assert_eq!(back_offs.active(&"b", at(102)), None);
        back_offs.forget(|key| *key == "a");
        assert_eq!(back_offs.active(&"a", at(102)), None, "it is gone, and another of its name begins anew");
    }
}
