//! Whose decided places may be others' by now: they are looked at anew where somebody waits for one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

/// However much happens where they are, the places of one application are looked at anew no more often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Applications of whose places it is not known whether they may still be taken: something changed where they are, or others did
/// something while they were decided.
#[derive(Default)]
pub struct RecheckQueue {
    pending: BTreeSet<ApplicationKey>,
    /// When the places of each were last looked at anew.
    last_checked: BTreeMap<ApplicationKey, Moment>,
}

impl RecheckQueue {
    /// There is doubt of these.
    pub fn add(&mut self, keys: impl IntoIterator<Item = ApplicationKey>) {
        self.pending.extend(keys);
    }

    /// When the places of an application may be looked at anew, where there is doubt.
    pub fn next_check(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        let soonest = self.last_checked.get(key).map_or(now, |last| now.max(*last + MIN_INTERVAL));
        self.pending.contains(key).then_some(soonest)
    }

    /// Whether the places of an application are to be looked at anew now; then there is no doubt afterwards. `at_once`: however
    /// short ago that was last done.
    pub fn take(&mut self, key: &ApplicationKey, at_once: bool, now: Moment) -> bool {
        let is_due = self.next_check(key, now).is_some_and(|soonest| at_once || soonest <= now);
        if is_due {
            self.last_checked.retain(|_, last| now < *last + MIN_INTERVAL);
            self.last_checked.insert(key.clone(), now);
            self.pending.remove(key);
        }
        is_due
    }

    /// Forgets all that are not among these.
    pub fn retain(&mut self, there: &BTreeSet<ApplicationKey>) {
        self.pending.retain(|key| there.contains(key));
        self.last_checked.retain(|key, _| there.contains(key));
    }

    /// Forgets an application that is gone.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.pending.remove(key);
        self.last_checked.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether places are looked at anew, one letter after the other: `d` there is doubt, `?` they may be, `!` at once, `+` half a
    /// second passes.
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
    fn each_doubt_is_one_look_and_no_more_than_one_a_second() {
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
    fn it_is_known_when_the_next_look_may_be() {
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
