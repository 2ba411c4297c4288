//! Backoff of failed searches for measured load.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

use crate::error::Error;

/// The first delay; it doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_mins(1);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_mins(10);

/// Consecutive failures, and until when the next search waits.
struct BackoffState {
    count: u32,
    until: Moment,
}

/// Backoff of failed searches, by application.
#[derive(Default)]
pub struct LoadSearchBackoff(Mutex<BTreeMap<ApplicationKey, BackoffState>>);

impl LoadSearchBackoff {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, BackoffState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure that the next window would repeat. Returns false for transient errors.
    pub fn back_off(&self, key: &ApplicationKey, error: &Error, now: Moment) -> bool {
        if !error.is_reported() {
            return false;
        }
        let mut all = self.all();
        let count = all.get(key).map_or(0, |known| known.count);
        let delay = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(count)).min(LONGEST_DELAY);
        all.insert(key.clone(), BackoffState { count: count.saturating_add(1), until: now + delay });
        true
    }

    /// Whether the next search waits.
    pub fn is_waiting(&self, key: &ApplicationKey, now: Moment) -> bool {
        self.all().get(key).is_some_and(|known| now < known.until)
    }

    /// A search succeeded, or the application is gone.
    pub fn forget(&self, key: &ApplicationKey) {
        self.all().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use placement::{JudgeError, PlanError};

    use super::*;

    fn key(name: &str) -> ApplicationKey {
        ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn failed_searches_are_retried_with_backoff() {
        let backoff = LoadSearchBackoff::default();
        let mut now = Duration::from_secs(1000);
        let mut waits = |error: &Error| -> u64 {
            assert!(backoff.back_off(&key("a"), error, now));
            let begun = now;
            while backoff.is_waiting(&key("a"), now) {
                now += Duration::from_mins(1);
            }
            now.saturating_sub(begun).as_secs() / 60
        };
        let search = Error::Search("it panicked".to_owned());
        let mismatch = Error::Mismatch("1 is not 2".to_owned());
        let policy = Error::Plan(PlanError::Judge(JudgeError::Policy("no such predicate".to_owned())));
        assert_eq!(
            [&search, &mismatch, &policy, &search, &search, &search].map(&mut waits),
            [1, 2, 4, 8, 10, 10]
        );
        backoff.forget(&key("a"));
        assert_eq!(waits(&search), 1, "a search succeeded meanwhile");
        assert!(!backoff.is_waiting(&key("b"), Duration::from_secs(1000)));
    }

    #[test]
    fn transient_errors_cause_no_backoff() {
        let backoff = LoadSearchBackoff::default();
        for error in [Error::Overtaken, Error::NotLeading] {
            assert!(!backoff.back_off(&key("a"), &error, Duration::from_secs(1)));
            assert!(!backoff.is_waiting(&key("a"), Duration::from_secs(1)));
        }
    }
}
