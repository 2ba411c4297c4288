//! Which runs follow one another: no clock is read, so that whenever the search is stopped a good part of it has
//! gone into one long run.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use crate::ablation::Ablation;
use crate::model::ROUND;

/// Steps per item of the first run: from hot, and where something is there already.
const SHORTEST: u64 = 400;
const SHORTEST_WARM: u64 = 1_500;

/// Steps up to which a first run is over soon, about a second. Until then there is little but what it began with, as where it would
/// come to rest from hot in a hurry is no better; where it takes longer the last chain goes through briefer ones in its place.
const SOON: u64 = 1_000_000;

/// Steps per item of the first of those, each of which is twice as long as the one before.
const BRIEF: u64 = SHORTEST / 8;

/// Steps per item of a run that tries something: with fewer, chance says more of where it ends.
const TRIAL: u64 = 6_400;

/// Steps per item of the longest run, for each item that there is, and at most: in small worlds a longer one ends
/// where a shorter one does, and another one begun anew may not.
const LONGEST_FOR_EACH: u64 = 200;
pub(crate) const LONGEST: u64 = 100_000;

/// Where an annealing run ends, in median losses of a random step.
const COLD: f64 = 0.03;

/// Where the first runs begin, in mean losses.
const HOT: f64 = 1.2;

/// What a mean work of excess costs at first, in mean losses.
const CHEAP: f64 = 1.8;

/// Where the search of a placement that is there already begins: it is left no farther than need be.
const LUKEWARM: f64 = 0.02;

/// The hottest that such a search becomes.
const HOTTEST: f64 = 1.5;

/// What a mean work of excess costs at the end of an annealing run, in mean losses.
const COSTLY: f64 = 400.0;

/// What a breach of a rule, or a hundredth of a power cap, costs at least, in mean losses: it is seldom on the way to
/// something better, as overload is.
const BREACH: f64 = 30.0;

/// The part of an annealing run in which excess stays cheap.
const FORGIVING: f64 = 0.4;

/// A run is of so many parts, the first of which one leaves out that begins late: so many at first.
const PARTS: u64 = 10;
const LEFT_OUT: u64 = 5;

/// How many times shorter such a run is, as a whole, than the next from hot.
const SHORTER: u64 = 4;

/// One annealing run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Annealing {
    /// Pieces of effort.
    pub length: u64,
    /// Pieces that are left out at the beginning.
    pub begun: u64,
    /// The first temperature, in mean losses.
    pub from: f64,
    /// Whether it starts from the best that anybody has found, or a placement that it tries, not from where the chain stands.
    pub from_best: bool,
    /// Whether it keeps to the scale of small losses from the first.
    pub is_fine: bool,
    /// Whether it tries to leave more nodes empty.
    pub is_trial: bool,
    /// What a breach of a rule costs at least, in mean losses.
    breach: f64,
    /// The part of it in which excess stays cheap.
    forgiving: f64,
}

impl Annealing {
    /// The temperature after a part of the run, where losses have this mean and median: an annealing run from hot begins
    /// at the scale of the mean, and all end at that of the median.
    pub fn temperature(&self, part: f64, (mean, median): (f64, f64)) -> f64 {
        let from = self.from * if self.is_fine { median } else { mean };
        let to = COLD * median;
        from * (to / from).powf(part)
    }

    /// What a mean work of excess costs after a part of the run, in mean losses.
    pub fn price(&self, part: f64) -> f64 {
        let costly = ((part - self.forgiving) / (1.0 - self.forgiving)).max(0.0);
        CHEAP * (COSTLY / CHEAP).powf(costly)
    }

    /// What a breach of a rule costs after a part of the run, in mean losses.
    pub fn price_of_breach(&self, part: f64) -> f64 {
        self.price(part).max(self.breach)
    }

    /// The same without so many parts at its beginning.
    fn without(self, parts: u64) -> Self {
        Self { begun: self.length * parts / PARTS / ROUND * ROUND, ..self }
    }

    /// How far it is after so many pieces.
    pub fn part(&self, done: u64) -> f64 {
        done as f64 / self.length as f64
    }
}

/// The runs of one chain, without end.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    items: u64,
    /// Steps of a piece of effort.
    steps: u64,
    /// The part of a run in which excess stays cheap.
    forgiving: f64,
    /// By how many doublings its runs are longer than those of the first chain.
    longer: u32,
    /// Steps per item of the next long run.
    long: u64,
    /// Where the next long run begins.
    from: f64,
    is_warm: bool,
    /// Runs begun.
    runs: u32,
    /// Parts that the next run leaves out which begins late.
    left_out: u64,
}

impl Schedule {
    /// For so many items, in pieces of so many steps, and the chain of this number; `is_warm` when it starts from a placement that is
    /// worth keeping.
    pub fn new((items, steps): (usize, u64), chain: u32, is_warm: bool, without: Option<Ablation>) -> Self {
        let forgiving = if without == Some(Ablation::PenaltySchedule) { 0.0 } else { FORGIVING };
        let items = (items as u64).max(1);
        let (long, from) = if is_warm {
            (SHORTEST_WARM << chain, LUKEWARM * f64::from(1 << chain))
        } else {
            let is_brief = chain > 0 && SHORTEST * items > SOON;
            (if is_brief { BRIEF } else { SHORTEST }, HOT)
        };
        Self { items, steps, forgiving, longer: chain, long, from, is_warm, runs: 0, left_out: LEFT_OUT }
    }

    /// The next run.
    pub fn next(&mut self) -> Annealing {
        self.runs = self.runs.saturating_add(1);
        let from_best = self.is_warm && self.runs > 1;
        let (length, from) = (self.pieces(self.long), self.from);
        let (is_fine, breach, forgiving) = (self.is_warm, BREACH, self.forgiving);
        let annealing =
            Annealing { length, begun: 0, from, from_best, is_fine, is_trial: false, breach, forgiving };
        if self.is_warm {
            self.long = (self.long * 2).min(self.longest());
            self.from = (self.from * 2.0).min(HOTTEST);
        } else {
            // Chains are out of step, so that one of them has always finished an annealing run lately.
            let next = match self.long {
                brief if brief * 2 < SHORTEST => brief * 2,
                first if first <= SHORTEST => SHORTEST * (4 << self.longer),
                long => long * 4,
            };
            self.long = next.min(self.longest());
        }
        annealing
    }

    /// The next run as one that begins late, with the best that anybody has found: what is decided while it is hot stays as it is there.
    /// Where the last such run has found nothing better it begins earlier, and after one that left nothing out late again.
    pub fn next_late(&mut self, was_better: Option<bool>) -> Annealing {
        if was_better == Some(false) {
            self.left_out = self.left_out.checked_sub(1).unwrap_or(LEFT_OUT);
        }
        let next = self.next();
        let length = (next.length / SHORTER).next_multiple_of(ROUND);
        Annealing { length, from_best: true, ..next }.without(self.left_out)
    }

    /// Whether a run like this one is long enough for others to be held against, where nothing is there.
    pub fn is_telling(&self, run: &Annealing) -> bool {
        !self.is_warm && run.length >= self.pieces(TRIAL)
    }

    /// A run that tries where a placement leads; it begins as late as the first of those that do.
    pub fn trial_of_start(&self) -> Annealing {
        Annealing { from_best: true, ..self.trial() }.without(LEFT_OUT)
    }

    /// A run from hot that tries something.
    pub fn trial(&self) -> Annealing {
        Annealing {
            length: self.pieces(TRIAL),
            begun: 0,
            from: HOT,
            from_best: false,
            is_fine: false,
            is_trial: true,
            breach: BREACH,
            forgiving: self.forgiving,
        }
    }

    /// Steps per item of the longest run.
    fn longest(&self) -> u64 {
        (LONGEST_FOR_EACH * self.items).clamp(SHORTEST_WARM, LONGEST)
    }

    fn pieces(&self, steps_per_item: u64) -> u64 {
        (steps_per_item * self.items).div_ceil(self.steps).next_multiple_of(ROUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::STEPS;

    #[test]
    fn where_the_first_run_takes_long_the_last_chain_goes_through_brief_ones_in_its_place() {
        let lengths = |items, chain, is_warm| {
            let mut schedule = Schedule::new((items, STEPS), chain, is_warm, None);
            [(); 5].map(|()| schedule.next().length)
        };
        assert_eq!(lengths(2_500, 0, false), [1_000, 4_000, 16_000, 64_000, 250_000]);
        assert_eq!(lengths(2_500, 1, false), [1_000, 8_000, 32_000, 128_000, 250_000]);
        assert_eq!(lengths(20_000, 0, false), [8_000, 32_000, 128_000, 512_000, 2_000_000]);
        assert_eq!(lengths(20_000, 1, false), [1_000, 2_000, 4_000, 64_000, 256_000]);
        assert_eq!(lengths(20_000, 1, true), [60_000, 120_000, 240_000, 480_000, 960_000]);
    }

    #[test]
    fn runs_that_begin_late_begin_earlier_until_something_better_is_found() {
        let mut schedule = Schedule::new((400, STEPS), 1, false, None);
        let hot: Vec<u64> = (0..3).map(|_| schedule.next().length).collect();
        assert_eq!(hot, [160, 1_280, 5_120]);
        let mut late = |was_better| {
            let run = schedule.next_late(was_better);
            assert!(run.from_best && !run.is_trial);
            (run.length, run.begun)
        };
        assert_eq!(late(None), (5_120, 2_560));
        assert_eq!(late(Some(true)), (8_000, 4_000));
        let begun: Vec<u64> = (0..7).map(|_| late(Some(false)).1).collect();
        assert_eq!(begun, [3_200, 2_400, 1_600, 800, 0, 4_000, 3_200]);
    }

    #[test]
    fn where_a_run_begins_late_it_is_as_cool_as_others_are_there() {
        let schedule = Schedule::new((400, STEPS), 1, false, None);
        let (whole, late) = (schedule.trial(), schedule.trial_of_start());
        assert_eq!((whole.length, whole.begun, late.begun * 2), (late.length, 0, late.length));
        let scales = (3.0, 2.0);
        assert!(late.temperature(late.part(late.begun), scales) < whole.temperature(0.0, scales));
    }
}
