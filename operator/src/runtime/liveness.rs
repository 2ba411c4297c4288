//! Liveness: detects a stuck election, main loop or reconcile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reconciles are stuck if none ended and no write began for this long. A single write times out long before.
const WORK_LIMIT: Duration = Duration::from_mins(3);
/// A single reconcile is stuck after this time, whatever others do. Searches do not count; they have their own limits.
const RECONCILE_LIMIT: Duration = Duration::from_mins(15);
/// The main loop is stuck without a heartbeat for this long.
const LOOP_LIMIT: Duration = Duration::from_mins(1);
/// Interval of the main loop's heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Heartbeats of the process; clones share them.
#[derive(Clone)]
pub struct Liveness {
    beats: Arc<Mutex<Heartbeats>>,
    election_limit: Duration,
}

struct Heartbeats {
    /// Last heartbeat of the election, on leader and standby.
    election: Instant,
    /// Last heartbeat of the main loop, idle or not.
    looped: Instant,
    /// Last progress of any reconcile.
    work: Instant,
    /// Start of each reconcile in flight, by number.
    in_flight: BTreeMap<u64, Instant>,
    /// Number of the last reconcile.
    begun: u64,
}

/// A reconcile in flight, until dropped.
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
    /// Starts with fresh heartbeats; the election has one at least every `election_limit`.
    pub fn new(election_limit: Duration) -> Self {
        let now = Instant::now();
        let beats =
            Heartbeats { election: now, looped: now, work: now, in_flight: BTreeMap::new(), begun: 0 };
        Self { beats: Arc::new(Mutex::new(beats)), election_limit }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Heartbeats) -> T) -> T {
        change(&mut self.beats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a heartbeat of the election.
    pub fn election_heartbeat(&self) {
        self.change(|beats| beats.election = Instant::now());
    }

    /// Records heartbeats of the task that awaits this; never returns.
    pub async fn heartbeat(&self) {
        loop {
            self.change(|beats| beats.looped = Instant::now());
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    /// Records progress.
    pub fn progress(&self) {
        self.change(|beats| beats.work = Instant::now());
    }

    /// Starts a reconcile.
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

    /// What is stuck at this moment, for the probe's answer.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |last: Instant, limit: Duration| {
            let since = now.saturating_duration_since(last);
            (since > limit).then_some(since.as_secs())
        };
        if let Some(seconds) = since(beats.election, self.election_limit) {
            return Some(format!("leader election: no heartbeat for {seconds} s"));
        }
        if let Some(seconds) = since(beats.looped, LOOP_LIMIT) {
            return Some(format!("main loop: no heartbeat for {seconds} s"));
        }
        // The lowest number is the oldest.
        let (_, oldest) = beats.in_flight.first_key_value()?;
        if let Some(seconds) = since(beats.work, WORK_LIMIT) {
            let count = beats.in_flight.len();
            return Some(format!("{count} reconciles are in flight, and none made progress for {seconds} s"));
        }
        since(*oldest, RECONCILE_LIMIT)
            .map(|seconds| format!("a reconcile has been in flight for {seconds} s"))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const ELECTION: Duration = Duration::from_mins(1);
    const AFTER: Duration = Duration::from_secs(2);

    #[test]
    fn an_election_without_heartbeat_is_stuck() {
        let liveness = Liveness::new(ELECTION);
        assert_eq!(liveness.stuck(Instant::now()), None);
        let later = Instant::now() + ELECTION + AFTER;
        assert_eq!(liveness.stuck(later).unwrap(), "leader election: no heartbeat for 62 s");
    }

    #[tokio::test]
    async fn a_loop_without_heartbeat_is_stuck_idle_or_not() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let later = Instant::now() + LOOP_LIMIT + AFTER;
        let message = "main loop: no heartbeat for 62 s";
        assert_eq!(liveness.stuck(later).unwrap(), message);
        let working = liveness.begin();
        assert_eq!(liveness.stuck(later).unwrap(), message);
        drop(working);
        // Heartbeats are recorded while the future is polled.
        assert!(liveness.heartbeat().now_or_never().is_none());
        assert_eq!(liveness.stuck(Instant::now() + LOOP_LIMIT / 2), None);
    }

    #[test]
    fn reconciles_without_progress_are_stuck_and_idleness_is_not() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let later = || {
            liveness.change(|beats| beats.looped = Instant::now() + WORK_LIMIT);
            Instant::now() + WORK_LIMIT + AFTER
        };
        assert_eq!(liveness.stuck(later()), None, "nothing is to be done");
        let (first, second) = (liveness.begin(), liveness.begin());
        let message = "2 reconciles are in flight, and none made progress for 182 s";
        assert_eq!(liveness.stuck(later()).unwrap(), message);
        assert_eq!(liveness.stuck(Instant::now() + WORK_LIMIT / 2), None);
        drop((first, second));
        assert_eq!(liveness.stuck(later()), None, "it is done");
    }

    #[test]
    fn a_single_reconcile_that_does_not_end_is_stuck() {
        let liveness = Liveness::new(Duration::from_hours(9));
        let began = Instant::now();
        let (first, _second) = (liveness.begin(), liveness.begin());
        let later = began + RECONCILE_LIMIT + AFTER;
        // Others made progress a moment ago.
        liveness.change(|beats| {
            beats.in_flight.entry(1).and_modify(|at| *at = began);
            beats.in_flight.insert(3, later);
            (beats.work, beats.looped) = (later, later);
        });
        assert_eq!(liveness.stuck(later).unwrap(), "a reconcile has been in flight for 902 s");
        drop(first);
        liveness.change(|beats| {
            beats.in_flight.remove(&2);
            (beats.work, beats.looped) = (later, later);
        });
        assert_eq!(liveness.stuck(later), None);
    }
}
