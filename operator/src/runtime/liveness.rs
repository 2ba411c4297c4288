//! Whether what must always go on goes on: asked by the liveness probe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work that is under way and of which nothing ended, and no write began, for so long is stuck: a single write is given up
/// long before.
const WORK_LIMIT: Duration = Duration::from_mins(3);
/// One piece of work that is under way for so long is stuck, whatever others do. Searches are no such work: they have their
/// own bounds.
const PIECE_LIMIT: Duration = Duration::from_mins(15);
/// The loop that does the work turns more often than this, or it is stuck.
const LOOP_LIMIT: Duration = Duration::from_mins(1);
/// How often it says that it turns.
const TURN: Duration = Duration::from_secs(1);

/// The signs of life of the process; clones share them.
#[derive(Clone)]
pub struct Pulse {
    signs: Arc<Mutex<Signs>>,
    election_limit: Duration,
}

struct Signs {
    /// The last turn of the election, which turns whether it leads or not.
    election: Instant,
    /// The last turn of the loop that does the work, which turns whether there is any or not.
    turned: Instant,
    /// The last time that work went on.
    work: Instant,
    /// When each piece of work that is under way began, by a number of its own.
    under_way: BTreeMap<u64, Instant>,
    /// How many began so far.
    begun: u64,
}

/// Work that is under way; dropped when it has ended.
pub struct Working {
    pulse: Pulse,
    number: u64,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.pulse.change(|signs| {
            signs.under_way.remove(&self.number);
            signs.work = Instant::now();
        });
    }
}

impl Pulse {
    /// Everything goes on as of now; the election turns at least once in `election_limit`.
    pub fn new(election_limit: Duration) -> Self {
        let now = Instant::now();
        let signs = Signs { election: now, turned: now, work: now, under_way: BTreeMap::new(), begun: 0 };
        Self { signs: Arc::new(Mutex::new(signs)), election_limit }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Signs) -> T) -> T {
        change(&mut self.signs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The election turned.
    pub fn election_turned(&self) {
        self.change(|signs| signs.election = Instant::now());
    }

    /// Says for ever that the loop turns in which this is waited for.
    pub async fn turn(&self) {
        loop {
            self.change(|signs| signs.turned = Instant::now());
            tokio::time::sleep(TURN).await;
        }
    }

    /// Work goes on.
    pub fn went_on(&self) {
        self.change(|signs| signs.work = Instant::now());
    }

    /// Work begins.
    pub fn begin(&self) -> Working {
        let number = self.change(|signs| {
            let now = Instant::now();
            if signs.under_way.is_empty() {
                signs.work = now;
            }
            signs.begun += 1;
            signs.under_way.insert(signs.begun, now);
            signs.begun
        });
        Working { pulse: self.clone(), number }
    }

    /// What is stuck at this moment, in words.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |last: Instant, limit: Duration| {
            let since = now.saturating_duration_since(last);
            (since > limit).then_some(since.as_secs())
        };
        if let Some(seconds) = since(signs.election, self.election_limit) {
            return Some(format!("the election has not turned for {seconds} s"));
        }
        if let Some(seconds) = since(signs.turned, LOOP_LIMIT) {
            return Some(format!("the loop of the reconciles has not turned for {seconds} s"));
        }
        // What began first has the lowest number.
        let (_, oldest) = signs.under_way.first_key_value()?;
        if let Some(seconds) = since(signs.work, WORK_LIMIT) {
            let count = signs.under_way.len();
            return Some(format!("{count} reconciles are under way, and none went on for {seconds} s"));
        }
        since(*oldest, PIECE_LIMIT).map(|seconds| format!("a reconcile is under way for {seconds} s"))
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
        let pulse = Pulse::new(ELECTION);
        assert_eq!(pulse.stuck(Instant::now()), None);
        let later = Instant::now() + ELECTION + AFTER;
        assert_eq!(pulse.stuck(later).unwrap(), "the election has not turned for 62 s");
    }

    #[tokio::test]
    async fn a_loop_that_does_not_turn_is_stuck_whether_there_is_work_or_not() {
        let pulse = Pulse::new(Duration::from_hours(9));
        let later = Instant::now() + LOOP_LIMIT + AFTER;
        let said = "the loop of the reconciles has not turned for 62 s";
        assert_eq!(pulse.stuck(later).unwrap(), said);
        let working = pulse.begin();
        assert_eq!(pulse.stuck(later).unwrap(), said);
        drop(working);
        // It turns as long as it is waited for.
        assert!(pulse.turn().now_or_never().is_none());
        assert_eq!(pulse.stuck(Instant::now() + LOOP_LIMIT / 2), None);
    }

    #[test]
    fn work_is_stuck_when_none_of_it_goes_on_and_rest_is_not() {
        let pulse = Pulse::new(Duration::from_hours(9));
        let later = || {
            pulse.change(|signs| signs.turned = Instant::now() + WORK_LIMIT);
            Instant::now() + WORK_LIMIT + AFTER
        };
        assert_eq!(pulse.stuck(later()), None, "nothing is to be done");
        let (first, second) = (pulse.begin(), pulse.begin());
        let said = "2 reconciles are under way, and none went on for 182 s";
        assert_eq!(pulse.stuck(later()).unwrap(), said);
        assert_eq!(pulse.stuck(Instant::now() + WORK_LIMIT / 2), None);
        drop((first, second));
        assert_eq!(pulse.stuck(later()), None, "it is done");
    }

    #[test]
    fn one_piece_of_work_that_does_not_end_is_stuck_whatever_others_do() {
        let pulse = Pulse::new(Duration::from_hours(9));
        let began = Instant::now();
        let (first, _second) = (pulse.begin(), pulse.begin());
        let later = began + PIECE_LIMIT + AFTER;
        // Others went on until a moment ago.
        pulse.change(|signs| {
            signs.under_way.entry(1).and_modify(|at| *at = began);
            signs.under_way.insert(3, later);
            (signs.work, signs.turned) = (later, later);
        });
        assert_eq!(pulse.stuck(later).unwrap(), "a reconcile is under way for 902 s");
        drop(first);
        pulse.change(|signs| {
            signs.under_way.remove(&2);
            (signs.work, signs.turned) = (later, later);
        });
        assert_eq!(pulse.stuck(later), None);
    }
}
