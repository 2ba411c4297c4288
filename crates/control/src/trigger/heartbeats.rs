//! Heartbeats and their expiry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::Moment;

/// The latest heartbeat of each sender.
///
/// Only timestamps of the same sender are compared: a changed timestamp counts as a heartbeat at the time it is
/// observed, which tolerates clock skew. The first one of a sender counts at its written time, so that a restarted
/// observer knows at once which senders have expired.
#[derive(Clone, Debug)]
pub struct Heartbeats<K> {
    of: BTreeMap<K, Heartbeat>,
}

#[derive(Clone, Debug)]
struct Heartbeat {
    /// As the sender wrote it.
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
    /// Records a heartbeat observed at `now`, valid for `lasts`.
    pub fn record(&mut self, key: K, written: Moment, lasts: Duration, now: Moment) {
        let at = match self.of.get(&key) {
            Some(before) if before.written == written => before.at,
            Some(_) => now,
            None => written.min(now),
        };
        self.of.insert(key, Heartbeat { written, at, lasts });
    }

    /// Forgets a sender.
    pub fn forget(&mut self, key: &K) {
        self.of.remove(key);
    }

    /// Forgets all other senders.
    pub fn retain(&mut self, known: &BTreeSet<K>) {
        self.of.retain(|key, _| known.contains(key));
    }

    /// Senders whose last heartbeat has expired; unknown senders are not included.
    pub fn expired(&self, now: Moment) -> BTreeSet<K> {
        let is_over = |heard: &Heartbeat| heard.at.saturating_add(heard.lasts) < now;
        self.of.iter().filter(|(_, heard)| is_over(heard)).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heartbeats as `written@observed` in seconds, each valid for a minute; whether the sender is expired at `now`.
    fn is_silent(signs: &str, now: u64) -> bool {
        let mut heartbeats = Heartbeats::default();
        let at = |text: &str| Duration::from_secs(text.parse().unwrap());
        for (written, noticed) in signs.split_whitespace().filter_map(|sign| sign.split_once('@')) {
            heartbeats.record("a", at(written), Duration::from_mins(1), at(noticed));
        }
        heartbeats.expired(Duration::from_secs(now)).contains("a")
    }

    #[test]
    fn heartbeats_expire() {
        let table = [
            ("", 1000, false),
            ("100@100", 160, false),
            ("100@100", 161, true),
            ("100@100 120@121", 181, false),
            ("100@100 120@121", 182, true),
            // observed again, not renewed
            ("100@100 100@150", 161, true),
            // a new observer knows at once
            ("100@1000", 1000, true),
            // a slow clock counts once it advances
            ("100@1000 120@1020", 1080, false),
            ("100@1000 120@1020", 1081, true),
            // a fast clock extends nothing
            ("9000@1000", 1060, false),
            ("9000@1000", 1061, true),
        ];
        for (signs, now, expected) in table {
            assert_eq!(is_silent(signs, now), expected, "{signs} at {now}");
        }
    }

    #[test]
    fn unknown_senders_never_expire() {
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
