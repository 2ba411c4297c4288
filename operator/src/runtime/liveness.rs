//! Whether what must always go on goes on: asked by the liveness probe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work that is under way and of which nothing ended, and no write began, for so long is stuck: a single write is given up
/// long before.
const WORK_LIMIT: Duration = Duration::from_mins(3);
/// One piece of work that is under way for so long is stuck, whatever others do. Searches are no such work: they have their
/// own bounds.
const RECONCILE_LIMIT: Duration = Duration::from_mins(15);
/// The loop that does the work turns more often than this, or it is stuck.
const LOOP_LIMIT: Duration = Duration::from_mins(1);
/// How often it says that it turns.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The signs of life of the process; clones share them.
#[derive(Clone)]
pub struct Liveness {
    beats: Arc<Mutex<Heartbeats>>,
    election_limit: Duration,
}

struct Heartbeats {
    /// The last turn of the election, which turns whether it leads or not.
    election: Instant,
    /// The last turn of the loop that does the work, which turns whether there is any or not.
    looped: Instant,
    /// The last time that work went on.
    work: Instant,
    /// When each piece of work that is under way began, by a number of its own.
    in_flight: BTreeMap<u64, Instant>,
    /// How many began so far.
    begun: u64,
}

/// Work that is under way; dropped when it has ended.
pub struct InFlight {
    liveness: Liveness,
    number: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.liveness.change(|beats| {
            beats.in_flight.remove(&self.number);
            beats.work = Instant::now();
        });
    }
}

impl Liveness {
    /// Everything goes on as of now; the election turns at least once in `election_limit`.
    pub fn new(election_limit: Duration) -> Self {
        let now = Instant::now();
        let beats =
            Heartbeats { election: now, looped: now, work: now, in_flight: BTreeMap::new(), begun: 0 };
        Self { beats: Arc::new(Mutex::new(beats)), election_limit }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Heartbeats) -> T) -> T {
        change(&mut self.beats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The election turned.
    pub fn election_heartbeat(&self) {
        self.change(|beats| beats.election = Instant::now());
    }

    /// Says for ever that the loop turns in which this is waited for.
    pub async fn heartbeat(&self) {
        loop {
            self.change(|beats| beats.looped = Instant::now());
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    /// Work goes on.
    pub fn progress(&self) {
        self.change(|beats| beats.work = Instant::now());
    }

    /// Work begins.
    pub fn begin(&self) -> InFlight {
        let number = self.change(|beats| {
            let now = Instant::now();
            if beats.in_flight.is_empty() {
                beats.work = now;
            }
            beats.begun += 1;
            beats.in_flight.insert(beats.begun, now);
            beats.begun
        });
        InFlight { liveness: self.clone(), number }
    }

    /// What is stuck at this moment, in words.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |last: Instant, limit: Duration| {
            let since = now.saturating_duration_since(last);
            (since > limit).then_some(since.as_secs())
        };
        if let Some(seconds) = since(beats.election, self.election_limit) {
            return Some(format!("the election has not turned for {seconds} s"));
        }
        if let Some(seconds) = since(beats.looped, LOOP_LIMIT) {
            return Some(format!("the loop of the reconciles has not turned for {seconds} s"));
        }
        // What began first has the lowest number.
        let (_, oldest) = beats.in_flight.first_key_value()?;
        if let Some(seconds) = since(beats.work, WORK_LIMIT) {
            let count = beats.in_flight.len();
            return Some(format!("{count} reconciles are under way, and none went on for {seconds} s"));
        }
        since(*oldest, RECONCILE_LIMIT).map(|seconds| format!("a reconcile is under way for {seconds} s"))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const ELECTION: Duration = Duration::from_mins(1);
    const AFTER: Duration = Duration::from_secs(2);

    #[test]
    fn an_election_that_does_not_turn_is_stuck() {
        let liveness = Liveness::new(ELECTION);
        assert_eq!(liveness.stuck(Instant::now()), None);
        let later = Instant::now() + ELECTION + AFTER;
        assert_eq!(liveness.stuck(later).unwrap(), "the election has not turned for 62 s");
    }

    #[tokio::test]
    async fn a_loop_that_does_not_turn_is_stuck_whether_there_is_work_or_not() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let later = Instant::now() + LOOP_LIMIT + AFTER;
        let said = "the loop of the reconciles has not turned for 62 s";
        assert_eq!(liveness.stuck(later).unwrap(), said);
        let working = liveness.begin();
        assert_eq!(liveness.stuck(later).unwrap(), said);
        drop(working);
        // It turns as long as it is waited for.
        assert!(liveness.heartbeat().now_or_never().is_none());
        assert_eq!(liveness.stuck(Instant::now() + LOOP_LIMIT / 2), None);
    }

    #[test]
    fn work_is_stuck_when_none_of_it_goes_on_and_rest_is_not() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let later = || {
            liveness.change(|beats| beats.looped = Instant::now() + WORK_LIMIT);
            Instant::now() + WORK_LIMIT + AFTER
        };
        assert_eq!(liveness.stuck(later()), None, "nothing is to be done");
        let (first, second) = (liveness.begin(), liveness.begin());
        let said = "2 reconciles are under way, and none went on for 182 s";
        assert_eq!(liveness.stuck(later()).unwrap(), said);
        assert_eq!(liveness.stuck(Instant::now() + WORK_LIMIT / 2), None);
        drop((first, second));
        assert_eq!(liveness.stuck(later()), None, "it is done");
    }

    #[test]
    fn one_piece_of_work_that_does_not_end_is_stuck_whatever_others_do() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let began = Instant::now();
        let (first, _second) = (liveness.begin(), liveness.begin());
        let later = began + RECONCILE_LIMIT + AFTER;
        // Others went on until a moment ago.
        liveness.change(|beats| {
            beats.in_flight.entry(1).and_modify(|at| *at = began);
            beats.in_flight.insert(3, later);
            (beats.work, beats.looped) = (later, later);
        });
        assert_eq!(liveness.stuck(later).unwrap(), "a reconcile is under way for 902 s");
        drop(first);
        liveness.change(|beats| {
            beats.in_flight.remove(&2);
            (beats.work, beats.looped) = (later, later);
        });
        assert_eq!(liveness.stuck(later), None);
    }
}
