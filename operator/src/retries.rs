//! How long it is waited until what failed is tried again: longer each time in a row.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use world::ApplicationKey;

use crate::error::Error;

/// How often in a row something failed for each application.
#[derive(Default)]
pub struct Retries(Mutex<HashMap<ApplicationKey, u32>>);

impl Retries {
    /// After how long to try again what failed so: twice as long as the last time.
    pub fn after(&self, key: &ApplicationKey, error: &Error) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = failures.entry(key.clone()).or_default();
        let wait = error.wait().saturating_mul(2_u32.saturating_pow(*failures)).min(error.longest_wait());
        *failures = failures.saturating_add(1);
        wait
    }

    /// It did not fail this time.
    pub fn went_well(&self, key: &ApplicationKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_in_a_row_is_tried_later_each_time_until_it_goes_well() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let retries = Retries::default();
        let waits = |name: &str, error: &Error| -> Vec<u128> {
            (0..8).map(|_| retries.after(&key(name), error).as_millis()).collect()
        };
        let failed = Error::Search("it broke down".to_owned());
        assert_eq!(waits("a", &failed), [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
        assert_eq!(waits("b", &Error::Overtaken), [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        // Who has lost the lease waits for nothing but the lease.
        assert_eq!(waits("c", &Error::NotLeading), [2_000; 8]);
        retries.went_well(&key("a"));
        assert_eq!(retries.after(&key("a"), &failed), Duration::from_secs(2));
        assert_eq!(retries.after(&key("b"), &Error::Overtaken), Duration::from_secs(2));
    }
}
