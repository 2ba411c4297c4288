//! How often people are told of an application.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

/// What is told of an application is written no more often: ten pods that start are three changes each, and most of what the
/// API server does for a status is to merge it.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// When each application was last told of.
#[derive(Default)]
pub struct Pace(Mutex<HashMap<ApplicationKey, Moment>>);

impl Pace {
    /// When it is to be told of again; nothing where that is now.
    pub fn not_before(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(key).map(|at| *at + TOLD_EVERY).filter(|at| now < *at)
    }

    /// Everything is told of it.
    pub fn told(&self, key: &ApplicationKey, now: Moment) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who was told of longer ago counts no more, and may be gone.
        told.retain(|_, at| now < *at + TOLD_EVERY);
        told.insert(key.clone(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_told_of_at_once_and_then_a_second_later() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (pace, at) = (Pace::default(), Duration::from_millis);
        assert_eq!(pace.not_before(&key("a"), at(5000)), None);
        pace.told(&key("a"), at(5000));
        assert_eq!(pace.not_before(&key("a"), at(5400)), Some(at(6000)));
        assert_eq!(pace.not_before(&key("b"), at(5400)), None);
        assert_eq!(pace.not_before(&key("a"), at(6000)), None);
        pace.told(&key("b"), at(6000));
        assert_eq!(pace.0.lock().unwrap().len(), 1, "who was told of long ago is forgotten");
    }
}
