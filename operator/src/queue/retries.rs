//! Exponential backoff per application after failed reconciles and plans.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

use crate::error::{Error, failed_work};

/// Consecutive failures per application.
#[derive(Default)]
pub struct Retries(Mutex<HashMap<ApplicationKey, Failure>>);

/// Reason and number of the last consecutive failures, and until when a retry waits.
struct Failure {
    reason: &'static str,
    count: u32,
    until: Moment,
    /// Whether attempts before failed, too, for whatever reason.
    is_lasting: bool,
    /// Reason and note of what failed, for people.
    note: Option<(&'static str, String)>,
}

impl Retries {
    /// The delay before the next retry; it doubles each time. A failure during the delay, after another event, does not extend
    /// it.
    pub fn next_delay(&self, key: &ApplicationKey, error: &Error, now: Moment) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lasting = failures.contains_key(key);
        let known = failures.get(key).filter(|known| known.reason == error.reason());
        if let Some(known) = known.filter(|known| now < known.until) {
            // A clock that was set back does not extend the delay.
            return known.until.saturating_sub(now).min(error.max_backoff());
        }
        let count = known.map_or(0, |known| known.count);
        let wait =
            error.initial_backoff().saturating_mul(2_u32.saturating_pow(count)).min(error.max_backoff());
        let (reason, count, until) = (error.reason(), count.saturating_add(1), now + wait);
        let note = failures.remove(key).and_then(|known| known.note);
        failures.insert(key.clone(), Failure { reason, count, until, is_lasting, note });
        wait
    }

    /// Whether the last attempts failed, too: more than a hiccup, which is worth an event.
    pub fn is_lasting(&self, key: &ApplicationKey) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(key).is_some_and(|known| known.is_lasting)
    }

    /// Remembers what failed.
    pub fn describe(&self, key: &ApplicationKey, errors: &[Error]) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = failures.get_mut(key) {
            known.note = failed_work(errors);
        }
    }

    /// Reason and note of what failed the last times: of requests to the API server, and of work that panicked.
    pub fn lasting_failure(&self, key: &ApplicationKey) -> Option<(&'static str, String)> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(key).filter(|known| known.is_lasting)?.note.clone()
    }

    /// Resets the backoff.
    pub fn reset(&self, key: &ApplicationKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_failures_back_off_until_a_success() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let (retries, start) = (Retries::default(), Duration::from_secs(1000));
        let waits = |name: &str, error: &Error| -> Vec<u128> {
            let mut now = start;
            let wait = |_| {
                let wait = retries.next_delay(&key(name), error, now);
                now += wait;
                wait.as_millis()
            };
            (0..8).map(wait).collect()
        };
        let refused = Error::Refused("exceeded quota".to_owned());
        let broken = Error::Search("it broke down".to_owned());
        assert_eq!(waits("a", &broken), [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000]);
        assert_eq!(waits("b", &Error::Overtaken), [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(waits("d", &refused), [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        // Without the lease the delay stays constant.
        assert_eq!(waits("c", &Error::NotLeading), [2_000; 8]);
        let later = start + Duration::from_mins(10);
        let after =
            |name: &str, error: &Error, now: Moment| retries.next_delay(&key(name), error, now).as_millis();
        // Another error starts anew.
        assert_eq!(after("b", &broken, later), 2_000);
        retries.reset(&key("a"));
        assert_eq!(after("a", &broken, later), 2_000);
        // Five events during the delay are not five retries.
        for passed in [0, 100, 500, 1_900, 1_999] {
            assert_eq!(
                after("a", &broken, later + Duration::from_millis(passed)),
                2_000 - u128::from(passed)
            );
        }
        assert!(!retries.is_lasting(&key("a")), "it failed once");
        assert_eq!(after("a", &broken, later + Duration::from_secs(2)), 4_000);
        assert!(retries.is_lasting(&key("a")) && !retries.is_lasting(&key("e")));
        // Reasons that alternate are no success.
        assert_eq!(after("f", &broken, later), 2_000);
        assert!(!retries.is_lasting(&key("f")));
        assert_eq!(after("f", &refused, later), 2_000);
        assert!(retries.is_lasting(&key("f")));
        // What failed is known until a success.
        let panicked = Error::Panicked("planning");
        for (error, expected) in
            [(&panicked, Some("Panicked")), (&refused, None), (&panicked, Some("Panicked"))]
        {
            after("f", error, later + Duration::from_mins(10));
            retries.describe(&key("f"), std::slice::from_ref(error));
            assert_eq!(retries.lasting_failure(&key("f")).map(|(reason, _)| reason), expected);
        }
        retries.reset(&key("f"));
        assert_eq!(retries.lasting_failure(&key("f")), None);
    }
}
