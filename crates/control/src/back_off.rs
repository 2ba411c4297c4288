//! What failed is tried again with growing waits.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::nouns::{HeldBack, Moment};

/// The wait after a failure, which doubles with each that follows.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait, where nobody asks for a shorter one.
pub const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Who goes so long without a failure after a wait begins anew.
const FORGIVEN: Duration = Duration::from_mins(10);

/// How often in a row something failed, by what it is.
#[derive(Clone, Debug)]
pub struct BackOffs<K> {
    of: BTreeMap<K, Tries>,
}

#[derive(Clone, Debug)]
struct Tries {
    count: u32,
    held: HeldBack,
    /// Whose end was counted last, by uid.
    ended: Option<String>,
}

impl<K> Default for BackOffs<K> {
    fn default() -> Self {
        Self { of: BTreeMap::new() }
    }
}

impl<K: Ord> BackOffs<K> {
    /// It failed: until when it is held back.
    ///
    /// `ended`: the pod that ended, by uid. It is one failure however often it is seen, and the first one costs no wait, as a pod
    /// that ended once may well run the next time.
    pub fn failed(
        &mut self,
        key: K,
        why: &str,
        ended: Option<&str>,
        longest: Duration,
        now: Moment,
    ) -> Moment {
        self.of.retain(|_, tries| now < tries.held.until + FORGIVEN);
        let held = HeldBack { until: now, why: why.to_owned() };
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
        tries.held = HeldBack { until: now + wait.min(longest), why: why.to_owned() };
        tries.held.until
    }

    /// Forgets what failed and is gone.
    pub fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.of.retain(|key, _| !is_gone(key));
    }

    /// Whether it is held back now, and why.
    pub fn held(&self, key: &K, now: Moment) -> Option<&HeldBack> {
        self.of.get(key).map(|tries| &tries.held).filter(|held| now < held.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits in seconds after failures at these seconds, each the end of a pod of its own or of none.
    fn waits(of_pods: bool, failures: &[u64]) -> Vec<u64> {
        let mut back_offs = BackOffs::default();
        let wait = |at: &u64| {
            let (now, pod) = (Duration::from_secs(*at), at.to_string());
            let ended = of_pods.then_some(pod.as_str());
            back_offs.failed("a", "it ended", ended, LONGEST_WAIT, now).as_secs() - at
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
        let mut back_offs = BackOffs::default();
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
            let held = back_offs.failed("a", "it ended", ended, LONGEST_WAIT, at(now));
            assert_eq!(held, at(until), "{ended:?} at {now}");
        }
        assert_eq!(back_offs.failed("b", "it ended", Some("one"), LONGEST_WAIT, at(200)), at(200));
    }

    #[test]
    fn what_failed_is_held_back_and_nothing_else() {
        let mut back_offs = BackOffs::default();
        let at = Duration::from_secs;
        let until = back_offs.failed("a", "quota", None, at(3), at(100));
        assert_eq!(until, at(103), "no longer than is asked for");
        assert_eq!(back_offs.held(&"a", at(102)).unwrap().why, "quota");
        assert_eq!(back_offs.held(&"a", at(103)), None);
        assert_eq!(back_offs.held(&"b", at(102)), None);
        back_offs.forget(|key| *key == "a");
        assert_eq!(back_offs.held(&"a", at(102)), None, "it is gone, and another of its name begins anew");
    }
}
