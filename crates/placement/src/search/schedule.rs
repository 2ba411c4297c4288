//! Which coolings follow one another: no clock is read, so that whenever the search is stopped a good part of it has
//! gone into one long cooling, and what came of that has been polished.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use super::exchange::small;

/// Steps of one piece of effort.
pub(crate) const STEPS: u64 = 1_000;

/// Pieces that walks do between two looks at the clock; all lengths are multiples of it.
pub(crate) const ROUND: u64 = 40;

/// Steps per item of the first cooling, of the longest, and of a polish.
const SHORTEST: u64 = 400;
const LONGEST: u64 = 100_000;
const POLISH: u64 = 1_500;

/// Where a cooling begins and ends, in mean losses of a random step.
const HOT: f64 = 1.5;
const COLD: f64 = 0.005;

/// Where polishes begin, one after the other.
const WARM: [f64; 3] = [0.05, 0.1, 0.2];

/// Where the search of a placement that is there already begins: it is left no farther than need be.
const LUKEWARM: f64 = 0.02;

/// What a piece of work above a limit costs at first and at the end of a cooling, in mean losses over mean works.
const CHEAP: f64 = 2.0;
const DEAR: f64 = 1000.0;

/// The part of a cooling in which excess stays cheap.
const FORGIVING: f64 = 0.4;

/// One cooling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cooling {
    /// Pieces of effort.
    pub length: u64,
    /// The first temperature, in mean losses.
    pub from: f64,
    /// Whether it starts from the best that anybody has found, not from where the walk stands.
    pub from_best: bool,
    /// Whether it keeps to the scale of small losses from the first.
    pub is_fine: bool,
}

impl Cooling {
    /// The temperature after a part of the cooling, where losses have this mean and median: a cooling from hot begins
    /// at the scale of the mean, and all end at that of the median.
    pub fn temperature(&self, part: f64, (mean, median): (f64, f64)) -> f64 {
        let from = self.from * if self.is_fine { median } else { mean };
        let to = COLD * median;
        from * (to / from).powf(part)
    }

    /// What a mean work of excess costs after a part of the cooling.
    pub fn price(part: f64) -> f64 {
        let dear = ((part - FORGIVING) / (1.0 - FORGIVING)).max(0.0);
        CHEAP * (DEAR / CHEAP).powf(dear)
    }

    /// How far it is after so many pieces.
    pub fn part(&self, done: u64) -> f64 {
        done as f64 / self.length as f64
    }
}

/// The coolings of one walk, without end.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    items: u64,
    /// Steps per item of the next long cooling.
    long: u64,
    /// Where the next long cooling begins.
    from: f64,
    /// Steps per item that are still to be spent on polishing.
    polish: u64,
    polishes: usize,
    is_warm: bool,
    is_first: bool,
}

impl Schedule {
    /// For the walk of this number; `is_warm` when it starts from a placement that is worth keeping.
    pub fn new(items: usize, walk: u32, is_warm: bool) -> Self {
        let items = u64::from(small(items)).max(1);
        let (long, from) = if is_warm { (POLISH, LUKEWARM) } else { (SHORTEST, HOT) };
        // Walks are out of step, so that one of them has always finished a cooling lately.
        Self {
            items,
            long: long << walk,
            from: from * f64::from(1 << walk).min(HOT / from),
            polish: 0,
            polishes: 0,
            is_warm,
            is_first: true,
        }
    }

    /// The next cooling.
    pub fn next(&mut self) -> Cooling {
        if self.polish >= POLISH {
            self.polish -= POLISH;
            self.polishes += 1;
            let from = WARM[self.polishes % WARM.len()];
            return Cooling { length: self.pieces(POLISH), from, from_best: true, is_fine: true };
        }
        let from_best = self.is_warm && !self.is_first;
        let (length, from) = (self.pieces(self.long), self.from);
        let cooling = Cooling { length, from, from_best, is_fine: self.is_warm };
        self.is_first = false;
        if self.is_warm {
            self.long = (self.long * 2).min(LONGEST);
            self.from = (self.from * 2.0).min(HOT);
        } else {
            self.polish += self.long;
            self.long = (self.long * 4).min(LONGEST);
        }
        cooling
    }

    fn pieces(&self, steps_per_item: u64) -> u64 {
        (steps_per_item * self.items).div_ceil(STEPS).next_multiple_of(ROUND)
    }
}
