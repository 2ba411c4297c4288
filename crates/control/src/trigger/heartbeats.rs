//! Who was heard of lately, and who is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::Moment;

/// Signs of life by who gives them.
///
/// Times that others write are compared with each other alone: a new one is a sign of life at the moment when it was
/// noticed, whatever the sender's clock says. Only the first that is noticed of a sender is believed as it was written, so
/// that who starts anew knows at once who has been silent for long; a sender whose clock is behind is heard with its next.
#[derive(Clone, Debug)]
pub struct Heartbeats<K> {
    of: BTreeMap<K, Heartbeat>,
}

#[derive(Clone, Debug)]
struct Heartbeat {
    /// As its sender wrote it.
    written: Moment,
    /// When it counts from.
    at: Moment,
    lasts: Duration,
}

impl<K> Default for Heartbeats<K> {
    fn default() -> Self {
        Self { of: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Heartbeats<K> {
    /// It was noticed `now` what somebody wrote, which lasts so long.
    pub fn record(&mut self, key: K, written: Moment, lasts: Duration, now: Moment) {
        let at = match self.of.get(&key) {
            Some(before) if before.written == written => before.at,
            Some(_) => now,
            None => written.min(now),
        };
        self.of.insert(key, Heartbeat { written, at, lasts });
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self, key: &K) {
        self.of.remove(key);
    }

    /// Of all others nothing is known any more.
    pub fn retain(&mut self, known: &BTreeSet<K>) {
        self.of.retain(|key, _| known.contains(key));
    }

    /// Whose last sign of life does not last any more; of whom nothing is known nothing is said.
    pub fn expired(&self, now: Moment) -> BTreeSet<K> {
        let is_over = |heard: &Heartbeat| heard.at.saturating_add(heard.lasts) < now;
        self.of.iter().filter(|(_, heard)| is_over(heard)).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `written@noticed` in seconds, each lasting a minute, and who is silent at a moment.
    fn is_silent(signs: &str, now: u64) -> bool {
        let mut heartbeats = Heartbeats::default();
        let at = |text: &str| Duration::from_secs(text.parse().unwrap());
        for (written, noticed) in signs.split_whitespace().filter_map(|sign| sign.split_once('@')) {
            heartbeats.record("a", at(written), Duration::from_mins(1), at(noticed));
        }
        heartbeats.expired(Duration::from_secs(now)).contains("a")
    }

    #[test]
    fn who_was_not_heard_of_for_longer_than_it_lasts_is_silent() {
        let table = [
            ("", 1000, false),
            ("100@100", 160, false),
            ("100@100", 161, true),
            ("100@100 120@121", 181, false),
            ("100@100 120@121", 182, true),
            // noticed once more, and not renewed
            ("100@100 100@150", 161, true),
            // who begins to look knows at once who has been silent for long
            ("100@1000", 1000, true),
            // a clock that is behind counts as soon as it goes on
            ("100@1000 120@1020", 1080, false),
            ("100@1000 120@1020", 1081, true),
            // and one that is ahead makes nobody live longer
            ("9000@1000", 1060, false),
            ("9000@1000", 1061, true),
        ];
        for (signs, now, expected) in table {
            assert_eq!(is_silent(signs, now), expected, "{signs} at {now}");
        }
    }

    #[test]
    fn of_whom_nothing_is_known_nothing_is_said() {
        let mut heartbeats = Heartbeats::default();
        for name in ["a", "b", "c"] {
            heartbeats.record(name, Duration::ZERO, Duration::ZERO, Duration::ZERO);
        }
        let later = Duration::from_secs(1);
        assert_eq!(heartbeats.expired(later), ["a", "b", "c"].into());
        heartbeats.forget(&"a");
        assert_eq!(heartbeats.expired(later), ["b", "c"].into());
        heartbeats.retain(&["c"].into());
        assert_eq!(heartbeats.expired(later), ["c"].into());
    }
}
