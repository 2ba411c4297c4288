//! The sequence of annealing runs. It reads no clock; whenever the search is stopped, a good part of it has gone into one
//! long run.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use crate::ablation::Ablation;
use crate::model::ROUND;

/// Steps per item of the first run: from hot, and from an existing placement.
const COLD_FIRST_RUN: u64 = 400;
const WARM_FIRST_RUN: u64 = 1_500;

/// Steps up to which the first run ends soon, in about a second. Where it takes longer, the last chain makes shorter runs
/// in its place, as quenching a hot chain gives no better placements than construction.
const SHORT_FIRST_RUN_STEPS: u64 = 1_000_000;

/// Steps per item of the first short run. Each is twice as long as the one before.
const FIRST_SHORT_RUN: u64 = COLD_FIRST_RUN / 8;

/// Steps per item of a trial; shorter runs are too noisy to compare.
const TRIAL: u64 = 6_400;

/// Steps per item of the longest run: this many for each item, and at most. In small snapshots longer runs end where
/// shorter ones do, and a new run may not.
const LONGEST_PER_ITEM: u64 = 200;
pub(crate) const LONGEST: u64 = 100_000;

/// The final temperature, in median losses of a random move.
const FINAL_TEMPERATURE: f64 = 0.03;

/// The initial temperature of cold starts, in mean losses.
const COLD_START_TEMPERATURE: f64 = 1.2;

/// The initial penalty of a mean work of excess, in mean losses.
const INITIAL_PENALTY: f64 = 1.8;

/// The initial temperature of warm starts, which should move as little as possible.
const WARM_START_TEMPERATURE: f64 = 0.02;

/// The highest initial temperature of warm starts.
const MAX_WARM_START_TEMPERATURE: f64 = 1.5;

/// The final penalty of a mean work of excess, in mean losses.
const FINAL_PENALTY: f64 = 400.0;

/// The least penalty of a unit of violation, in mean losses. Unlike overload, violations seldom lead to something better.
const MIN_VIOLATION_PENALTY: f64 = 30.0;

/// The fraction of a run in which excess stays cheap.
const CHEAP_FRACTION: f64 = 0.4;

/// A run has so many parts; a reheated run skips the first of them, initially so many.
const PARTS: u64 = 10;
const INITIALLY_SKIPPED: u64 = 5;

/// How many times shorter a reheated run is than the next cold one.
const REHEAT_DIVISOR: u64 = 4;

/// One annealing run: temperatures and penalties over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunSchedule {
    /// Length in batches.
    pub length: u64,
    /// Batches skipped at the beginning.
    pub skipped: u64,
    /// The initial temperature, in mean losses.
    pub from: f64,
    /// Whether it starts from the best known placement, or from one on trial, instead of where the chain is.
    pub from_best: bool,
    /// Whether temperatures follow the median loss from the first.
    pub uses_median: bool,
    /// Whether it is a trial.
    pub is_trial: bool,
    /// The least penalty of a unit of violation, in mean losses.
    min_violation_penalty: f64,
    /// The fraction of the run in which excess stays cheap.
    cheap_fraction: f64,
}

impl RunSchedule {
    /// The temperature at a fraction of the run, given the mean and the median loss. Cold starts begin at the scale of
    /// the mean; all runs end at that of the median.
    pub fn temperature(&self, fraction: f64, (mean, median): (f64, f64)) -> f64 {
        let from = self.from * if self.uses_median { median } else { mean };
        let to = FINAL_TEMPERATURE * median;
        from * libm::pow(to / from, fraction)
    }

    /// The penalty of a mean work of excess at a fraction of the run, in mean losses.
    pub fn excess_penalty(&self, fraction: f64) -> f64 {
        let costly = ((fraction - self.cheap_fraction) / (1.0 - self.cheap_fraction)).max(0.0);
        INITIAL_PENALTY * libm::pow(FINAL_PENALTY / INITIAL_PENALTY, costly)
    }

    /// The penalty of a unit of violation at a fraction of the run, in mean losses.
    pub fn violation_penalty(&self, fraction: f64) -> f64 {
        self.excess_penalty(fraction).max(self.min_violation_penalty)
    }

    /// The same run without its first `parts` parts.
    fn skip_parts(self, parts: u64) -> Self {
        Self { skipped: self.length * parts / PARTS / ROUND * ROUND, ..self }
    }

    /// The fraction of the run after so many batches.
    pub fn fraction(&self, done: u64) -> f64 {
        done as f64 / self.length as f64
    }
}

/// The endless sequence of runs of one chain.
#[derive(Clone, Debug)]
pub(crate) struct RunSequence {
    items: u64,
    /// Steps of a batch.
    steps: u64,
    /// The fraction of a run in which excess stays cheap.
    cheap_fraction: f64,
    /// By how many doublings its runs are longer than those of the first chain.
    doublings: u32,
    /// Steps per item of the next run.
    next_length: u64,
    /// The initial temperature of the next run.
    from: f64,
    is_warm: bool,
    /// Number of runs started.
    runs: u32,
    /// Parts that the next reheated run skips.
    skipped_parts: u64,
}

impl RunSequence {
    /// For so many items, in batches of so many steps, and the chain with this number; `is_warm` for a start that is
    /// worth keeping.
    pub fn new((items, steps): (usize, u64), chain: u32, is_warm: bool, without: Option<Ablation>) -> Self {
        let cheap_fraction = if without == Some(Ablation::PenaltySchedule) { 0.0 } else { CHEAP_FRACTION };
        let items = (items as u64).max(1);
        let (next_length, from) = if is_warm {
            (WARM_FIRST_RUN << chain, WARM_START_TEMPERATURE * f64::from(1 << chain))
        } else {
            let is_brief = chain > 0 && COLD_FIRST_RUN * items > SHORT_FIRST_RUN_STEPS;
            (if is_brief { FIRST_SHORT_RUN } else { COLD_FIRST_RUN }, COLD_START_TEMPERATURE)
        };
        Self {
            items,
            steps,
            cheap_fraction,
            doublings: chain,
            next_length,
            from,
            is_warm,
            runs: 0,
            skipped_parts: INITIALLY_SKIPPED,
        }
    }

    /// The next run.
    pub fn next(&mut self) -> RunSchedule {
        self.runs = self.runs.saturating_add(1);
        let from_best = self.is_warm && self.runs > 1;
        let (length, from) = (self.batches(self.next_length), self.from);
        let (uses_median, min_violation_penalty, cheap_fraction) =
            (self.is_warm, MIN_VIOLATION_PENALTY, self.cheap_fraction);
        let run = RunSchedule {
            length,
            skipped: 0,
            from,
            from_best,
            uses_median,
            is_trial: false,
            min_violation_penalty,
            cheap_fraction,
        };
        if self.is_warm {
            self.next_length = (self.next_length * 2).min(self.longest());
            self.from = (self.from * 2.0).min(MAX_WARM_START_TEMPERATURE);
        } else {
            // Chains are out of step, so that one of them has always finished a run lately.
            let next = match self.next_length {
                brief if brief * 2 < COLD_FIRST_RUN => brief * 2,
                first if first <= COLD_FIRST_RUN => COLD_FIRST_RUN * (4 << self.doublings),
                next_length => next_length * 4,
            };
            self.next_length = next.min(self.longest());
        }
        run
    }

    /// The next run, reheated from the best placement, so that decisions of high temperatures stay. After a run without
    /// improvement the next one starts earlier, and after one that skipped nothing late again.
    pub fn next_reheated(&mut self, was_better: Option<bool>) -> RunSchedule {
        if was_better == Some(false) {
            self.skipped_parts = self.skipped_parts.checked_sub(1).unwrap_or(INITIALLY_SKIPPED);
        }
        let next = self.next();
        let length = (next.length / REHEAT_DIVISOR).next_multiple_of(ROUND);
        RunSchedule { length, from_best: true, ..next }.skip_parts(self.skipped_parts)
    }

    /// Whether a cold run is long enough to be compared with others.
    pub fn is_comparable(&self, run: &RunSchedule) -> bool {
        !self.is_warm && run.length >= self.batches(TRIAL)
    }

    /// A trial from a given placement. It skips as much as the first reheated run.
    pub fn trial_from_placement(&self) -> RunSchedule {
        RunSchedule { from_best: true, ..self.trial() }.skip_parts(INITIALLY_SKIPPED)
    }

    /// A cold trial.
    pub fn trial(&self) -> RunSchedule {
        RunSchedule {
            length: self.batches(TRIAL),
            skipped: 0,
            from: COLD_START_TEMPERATURE,
            from_best: false,
            uses_median: false,
            is_trial: true,
            min_violation_penalty: MIN_VIOLATION_PENALTY,
            cheap_fraction: self.cheap_fraction,
        }
    }

    /// Steps per item of the longest run.
    fn longest(&self) -> u64 {
        (LONGEST_PER_ITEM * self.items).clamp(WARM_FIRST_RUN, LONGEST)
    }

    fn batches(&self, steps_per_item: u64) -> u64 {
        (steps_per_item * self.items).div_ceil(self.steps).next_multiple_of(ROUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::STEPS;

    #[test]
    fn the_last_chain_replaces_a_long_first_run_by_short_ones() {
        let lengths = |items, chain, is_warm| {
            let mut schedule = RunSequence::new((items, STEPS), chain, is_warm, None);
            [(); 5].map(|()| schedule.next().length)
        };
        assert_eq!(lengths(2_500, 0, false), [1_000, 4_000, 16_000, 64_000, 250_000]);
        assert_eq!(lengths(2_500, 1, false), [1_000, 8_000, 32_000, 128_000, 250_000]);
        assert_eq!(lengths(20_000, 0, false), [8_000, 32_000, 128_000, 512_000, 2_000_000]);
        assert_eq!(lengths(20_000, 1, false), [1_000, 2_000, 4_000, 64_000, 256_000]);
        assert_eq!(lengths(20_000, 1, true), [60_000, 120_000, 240_000, 480_000, 960_000]);
    }

    #[test]
    fn reheated_runs_start_earlier_until_one_improves() {
        let mut schedule = RunSequence::new((400, STEPS), 1, false, None);
        let hot: Vec<u64> = (0..3).map(|_| schedule.next().length).collect();
        assert_eq!(hot, [160, 1_280, 5_120]);
        let mut reheated = |was_better| {
            let run = schedule.next_reheated(was_better);
            assert!(run.from_best && !run.is_trial);
            (run.length, run.skipped)
        };
        assert_eq!(reheated(None), (5_120, 2_560));
        assert_eq!(reheated(Some(true)), (8_000, 4_000));
        let skipped: Vec<u64> = (0..7).map(|_| reheated(Some(false)).1).collect();
        assert_eq!(skipped, [3_200, 2_400, 1_600, 800, 0, 4_000, 3_200]);
    }

    #[test]
    fn a_reheated_run_starts_at_a_low_temperature() {
        let schedule = RunSequence::new((400, STEPS), 1, false, None);
        let (whole, reheated) = (schedule.trial(), schedule.trial_from_placement());
        assert_eq!(
            (whole.length, whole.skipped, reheated.skipped * 2),
            (reheated.length, 0, reheated.length)
        );
        let scales = (3.0, 2.0);
        assert!(
            reheated.temperature(reheated.fraction(reheated.skipped), scales)
                < whole.temperature(0.0, scales)
        );
    }
}
