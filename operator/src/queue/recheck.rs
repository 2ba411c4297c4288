//! Assignments whose feasibility must be checked again when an actor waits for its unit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

/// Minimum interval between two checks of an application.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Applications whose assignments may have become infeasible: a node of theirs changed, or another Placement was committed
/// concurrently.
#[derive(Default)]
pub struct RecheckQueue {
    pending: BTreeSet<ApplicationKey>,
    /// The last check of each application.
    last_checked: BTreeMap<ApplicationKey, Moment>,
}

impl RecheckQueue {
    /// Adds applications.
    pub fn add(&mut self, keys: impl IntoIterator<Item = ApplicationKey>) {
        self.pending.extend(keys);
    }

    /// When a pending application may be checked.
    pub fn next_check(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        let soonest = self.last_checked.get(key).map_or(now, |last| now.max(*last + MIN_INTERVAL));
        self.pending.contains(key).then_some(soonest)
    }

    /// Whether the application is to be checked now; it is then no longer pending. `at_once` ignores the minimum interval.
    pub fn take(&mut self, key: &ApplicationKey, at_once: bool, now: Moment) -> bool {
        let is_due = self.next_check(key, now).is_some_and(|soonest| at_once || soonest <= now);
        if is_due {
            self.last_checked.retain(|_, last| now < *last + MIN_INTERVAL);
            self.last_checked.insert(key.clone(), now);
            self.pending.remove(key);
        }
        is_due
    }

    /// Drops all other applications.
    pub fn retain(&mut self, there: &BTreeSet<ApplicationKey>) {
        self.pending.retain(|key| there.contains(key));
        self.last_checked.retain(|key, _| there.contains(key));
    }

    /// Drops a deleted application.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.pending.remove(key);
        self.last_checked.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a check is due, letter by letter: `d` added, `?` queried, `!` queried at once, `+` half a second later.
    fn checks(text: &str) -> String {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let (mut recheck, mut now) = (RecheckQueue::default(), Duration::from_secs(1000));
        let mut checks = String::new();
        for letter in text.chars() {
            match letter {
                'd' => recheck.add([key.clone()]),
                '+' => now += MIN_INTERVAL / 2,
                _ => checks.push(if recheck.take(&key, letter == '!', now) { 'y' } else { 'n' }),
            }
        }
        checks
    }

    #[test]
    fn each_application_is_checked_once_and_at_most_once_a_second() {
        for (text, expected) in [
            ("?", "n"),
            ("d??", "yn"),
            ("dd?", "y"),
            ("d?d??+?+?", "ynnny"),
            ("d?d!+d?+?", "yyny"),
            ("d?++?d?", "yny"),
        ] {
            assert_eq!(checks(text), expected, "{text}");
        }
    }

    #[test]
    fn the_next_check_is_known() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let (mut recheck, now) = (RecheckQueue::default(), Duration::from_secs(1000));
        recheck.add([key("a"), key("b")]);
        assert!(recheck.take(&key("a"), false, now));
        assert_eq!(
            (recheck.next_check(&key("a"), now), recheck.next_check(&key("b"), now)),
            (None, Some(now))
        );
        recheck.add([key("a")]);
        assert_eq!(recheck.next_check(&key("a"), now), Some(now + MIN_INTERVAL));
        assert_eq!(recheck.next_check(&key("a"), now + MIN_INTERVAL * 2), Some(now + MIN_INTERVAL * 2));
        recheck.retain(&[key("b")].into());
        assert!(recheck.pending.len() == 1 && recheck.last_checked.is_empty());
        recheck.forget(&key("b"));
        assert!(recheck.pending.is_empty());
    }
}
