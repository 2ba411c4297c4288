//! Whose decided places may be others' by now: they are looked at anew where somebody waits for one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::Moment;
use world::ApplicationKey;

/// However much happens where they are, the places of one application are looked at anew no more often.
const EVERY: Duration = Duration::from_secs(1);

/// Applications of whose places it is not known whether they may still be taken: something changed where they are, or others did
/// something while they were decided.
#[derive(Default)]
pub struct Doubts {
    of: BTreeSet<ApplicationKey>,
    /// When the places of each were last looked at anew.
    looked: BTreeMap<ApplicationKey, Moment>,
}

impl Doubts {
    /// There is doubt of these.
    pub fn add(&mut self, keys: impl IntoIterator<Item = ApplicationKey>) {
        self.of.extend(keys);
    }

    /// When the places of an application may be looked at anew, where there is doubt.
    pub fn next(&self, key: &ApplicationKey, now: Moment) -> Option<Moment> {
        let soonest = self.looked.get(key).map_or(now, |last| now.max(*last + EVERY));
        self.of.contains(key).then_some(soonest)
    }

    /// Whether the places of an application are to be looked at anew now; then there is no doubt afterwards. `at_once`: however
    /// short ago that was last done.
    pub fn take(&mut self, key: &ApplicationKey, at_once: bool, now: Moment) -> bool {
        let is_due = self.next(key, now).is_some_and(|soonest| at_once || soonest <= now);
        if is_due {
            self.looked.retain(|_, last| now < *last + EVERY);
            self.looked.insert(key.clone(), now);
            self.of.remove(key);
        }
        is_due
    }

    /// Forgets all that are not among these.
    pub fn keep(&mut self, there: &BTreeSet<ApplicationKey>) {
        self.of.retain(|key| there.contains(key));
        self.looked.retain(|key, _| there.contains(key));
    }

    /// Forgets an application that is gone.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.of.remove(key);
        self.looked.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether places are looked at anew, one letter after the other: `d` there is doubt, `?` they may be, `!` at once, `+` half a
    /// second passes.
    fn looks(text: &str) -> String {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let (mut doubts, mut now) = (Doubts::default(), Duration::from_secs(1000));
        let mut looks = String::new();
        for letter in text.chars() {
            match letter {
                'd' => doubts.add([key.clone()]),
                '+' => now += EVERY / 2,
                _ => looks.push(if doubts.take(&key, letter == '!', now) { 'y' } else { 'n' }),
            }
        }
        looks
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
            assert_eq!(looks(text), expected, "{text}");
        }
    }

    #[test]
    fn it_is_known_when_the_next_look_may_be() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let (mut doubts, now) = (Doubts::default(), Duration::from_secs(1000));
        doubts.add([key("a"), key("b")]);
        assert!(doubts.take(&key("a"), false, now));
        assert_eq!((doubts.next(&key("a"), now), doubts.next(&key("b"), now)), (None, Some(now)));
        doubts.add([key("a")]);
        assert_eq!(doubts.next(&key("a"), now), Some(now + EVERY));
        assert_eq!(doubts.next(&key("a"), now + EVERY * 2), Some(now + EVERY * 2));
        doubts.keep(&[key("b")].into());
        assert!(doubts.of.len() == 1 && doubts.looked.is_empty());
        doubts.forget(&key("b"));
        assert!(doubts.of.is_empty());
    }
}
