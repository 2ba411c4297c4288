//! Whether what must always go on goes on: asked by the liveness probe.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work that is under way and of which nothing ended, and no write began, for so long is stuck: a single write is given up
/// long before.
const WORK_LIMIT: Duration = Duration::from_mins(3);

/// The signs of life of the process; clones share them.
#[derive(Clone)]
pub struct Pulse {
    signs: Arc<Mutex<Signs>>,
    election_limit: Duration,
}

struct Signs {
    /// The last turn of the election, which turns whether it leads or not.
    election: Instant,
    /// The last time that work went on.
    work: Instant,
    /// How much work is under way.
    under_way: usize,
}

/// Work that is under way; dropped when it has ended.
pub struct Working(Pulse);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.change(|signs| {
            signs.under_way -= 1;
            signs.work = Instant::now();
        });
    }
}

impl Pulse {
    /// Everything goes on as of now; the election turns at least once in `election_limit`.
    pub fn new(election_limit: Duration) -> Self {
        let now = Instant::now();
        let signs = Signs { election: now, work: now, under_way: 0 };
        Self { signs: Arc::new(Mutex::new(signs)), election_limit }
    }

    fn change(&self, change: impl FnOnce(&mut Signs)) {
        change(&mut self.signs.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The election turned.
    pub fn election_turned(&self) {
        self.change(|signs| signs.election = Instant::now());
    }

    /// Work goes on.
    pub fn went_on(&self) {
        self.change(|signs| signs.work = Instant::now());
    }

    /// Work begins.
    pub fn begin(&self) -> Working {
        self.change(|signs| {
            if signs.under_way == 0 {
                signs.work = Instant::now();
            }
            signs.under_way += 1;
        });
        Working(self.clone())
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
        let seconds = since(signs.work, WORK_LIMIT).filter(|_| signs.under_way > 0)?;
        Some(format!("{} reconciles are under way, and none went on for {seconds} s", signs.under_way))
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn work_is_stuck_when_none_of_it_goes_on_and_rest_is_not() {
        let hours = Duration::from_hours(9);
        let pulse = Pulse::new(hours);
        let later = || Instant::now() + WORK_LIMIT + AFTER;
        assert_eq!(pulse.stuck(later()), None, "nothing is to be done");
        let (first, second) = (pulse.begin(), pulse.begin());
        let said = "2 reconciles are under way, and none went on for 182 s";
        assert_eq!(pulse.stuck(later()).unwrap(), said);
        assert_eq!(pulse.stuck(Instant::now() + WORK_LIMIT / 2), None);
        drop((first, second));
        assert_eq!(pulse.stuck(later()), None, "it is done");
    }
}
