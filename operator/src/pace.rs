//! How often people are told of an application.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

/// What is told of an application is written no more often: ten pods that start are three changes each, and most of what the
/// API server does for a status is to merge it.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Where no more than counts and messages changed, what is told of an application is written no more often: it is the largest
/// object of all, and of every ten actors that start the same would be said ten times.
const COUNTED_EVERY: Duration = Duration::from_secs(5);

/// When each application was last told of.
#[derive(Default)]
pub struct Pace(Mutex<HashMap<ApplicationKey, Told>>);

/// When somebody last looked what is to be told, and when something of it was written.
#[derive(Clone, Copy)]
struct Told {
    at: Moment,
    written: Option<Moment>,
}

impl Pace {
    fn last(&self, key: &ApplicationKey) -> Option<Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// When it is to be told of again; nothing where that is now.
    pub fn not_before(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key).map(|told| told.at + TOLD_EVERY).filter(|at| now < *at)
    }

    /// When counts and messages alone are to be written again; nothing where that is now.
    pub fn not_counted_before(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        self.last(key).and_then(|told| told.written).map(|at| at + COUNTED_EVERY).filter(|at| now < *at)
    }

    /// Everything is told of it, and for that something had to be `written`, or not.
    pub fn told(&self, key: &ApplicationKey, now: Moment, written: bool) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who was told of longer ago counts no more, and may be gone.
        told.retain(|_, told| now < told.written.unwrap_or_default().max(told.at) + COUNTED_EVERY);
        let before = told.get(key).and_then(|told| told.written);
        told.insert(key.clone(), Told { at: now, written: if written { Some(now) } else { before } });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_told_of_at_once_then_a_second_later_and_counted_now_and_then() {
        let key = |name: &str| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (pace, at) = (Pace::default(), Duration::from_millis);
        assert_eq!(pace.not_before(&key("a"), at(5000)), None);
        pace.told(&key("a"), at(5000), true);
        assert_eq!(pace.not_before(&key("a"), at(5400)), Some(at(6000)));
        assert_eq!(pace.not_before(&key("b"), at(5400)), None);
        assert_eq!(pace.not_before(&key("a"), at(6000)), None);
        assert_eq!(pace.not_counted_before(&key("a"), at(6000)), Some(at(10_000)));
        // A look for which nothing was written puts no count off.
        pace.told(&key("a"), at(6000), false);
        assert_eq!(pace.not_counted_before(&key("a"), at(9999)), Some(at(10_000)));
        assert_eq!(pace.not_counted_before(&key("a"), at(10_000)), None);
        pace.told(&key("b"), at(11_000), false);
        assert_eq!(pace.0.lock().unwrap().len(), 1, "who was told of long ago is forgotten");
    }
}
