//! Estimates from the budget's clock how long things take, so that what cannot be interrupted starts in time. A search
//! without a deadline does not depend on it.

use std::time::Duration;

use placement::Budget;

/// Rounds that are remembered. Their median is the duration of a batch, so one disturbed round does not matter.
const REMEMBERED_ROUNDS: usize = 9;

/// Rounds before which the estimate is not used.
const MIN_ROUNDS: usize = 3;

/// Durations measured during a search whose budget has a clock.
#[derive(Debug, Default)]
pub(crate) struct DeadlineEstimator {
    /// Duration of a batch, in each of the last rounds.
    batches: Vec<Duration>,
    /// Number of rounds recorded.
    rounds: usize,
    /// Duration of one offer to the incumbent.
    offer: Duration,
    /// Duration of the last probe.
    probe: Option<Duration>,
}

impl DeadlineEstimator {
    /// Runs `act` and measures how long it took.
    pub fn timed<T>(budget: &Budget, act: impl FnOnce() -> T) -> (T, Option<Duration>) {
        let before = budget.left.map(|left| left());
        let done = act();
        let took = before.zip(budget.left).map(|(before, left)| before.saturating_sub(left()));
        (done, took)
    }

    /// Records a round of `batches` batches.
    pub fn record_round(&mut self, batches: u64, took: Option<Duration>) {
        let Some(took) = took else { return };
        if self.batches.len() < REMEMBERED_ROUNDS {
            self.batches.push(Duration::ZERO);
        }
        self.batches[self.rounds % REMEMBERED_ROUNDS] = took / count(batches).max(1);
        self.rounds += 1;
    }

    /// Records `offers` offers.
    pub fn record_offers(&mut self, offers: u64, took: Option<Duration>) {
        self.offer = took.map_or(self.offer, |took| took / count(offers).max(1));
    }

    /// Records a probe.
    pub fn record_probe(&mut self, took: Option<Duration>) {
        self.probe = took.or(self.probe);
    }

    /// Whether the duration of a batch is known.
    pub fn is_calibrated(&self) -> bool {
        self.batches.len() >= MIN_ROUNDS
    }

    /// Duration of `batches` batches and a probe after them, which quenches for `quenched` batches and offers what it
    /// finds.
    pub fn estimate(&self, batches: u64, quenched: u64, offers: u64) -> Duration {
        let mut rounds = self.batches.clone();
        rounds.sort_unstable();
        let batch = rounds.get(rounds.len() / 2).copied().unwrap_or_default();
        let guess = batch * count(quenched) + self.offer * count(offers);
        // The last probe may have had nothing to quench, or a busy processor.
        let probe = self.probe.map_or(guess, |probe| probe.clamp(guess, guess * 2));
        probe + batch * count(batches)
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_round_does_not_change_the_estimate() {
        let milliseconds = |number| Some(Duration::from_millis(number));
        let mut estimator = DeadlineEstimator::default();
        estimator.record_offers(2, milliseconds(4));
        for took in [500, 20, 20] {
            assert!(!estimator.is_calibrated());
            estimator.record_round(10, milliseconds(took));
        }
        assert_eq!(Some(estimator.estimate(5, 100, 4)), milliseconds(10 + 200 + 8));
        for (probe, counts) in [(100, 208), (300, 300), (900, 416)] {
            estimator.record_probe(milliseconds(probe));
            assert_eq!(Some(estimator.estimate(0, 100, 4)), milliseconds(counts));
        }
        for _ in 0..9 {
            estimator.record_round(10, milliseconds(40));
        }
        assert_eq!(Some(estimator.estimate(5, 0, 0)), milliseconds(20));
        estimator.record_round(10, None);
        assert_eq!(Some(estimator.estimate(5, 0, 0)), milliseconds(20));
    }
}
