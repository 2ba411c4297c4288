//! What prices leave open: which columns hold every item once and keep most.

use crate::branch::column::Column;
use crate::branch::halt::Halt;
use crate::branch::model::ones;
use crate::branch::prices::{GRAIN, Prices, beyond};

/// Between two looks at the clock.
const PATIENCE: u64 = 4096;

/// A column and what it keeps beyond the prices of its members.
struct Candidate {
    column: Column,
    beyond: i64,
    /// The prices of its members.
    prices: i64,
}

/// A search for the best partition.
pub(crate) struct ExactCover {
    /// By item: the columns of which it is the first, those that keep most beyond their prices first.
    first: Vec<Vec<Candidate>>,
    prices: Vec<i64>,
    excess: i64,
    units: usize,
    /// A partition must keep so much.
    target: i64,
    best: Option<(i64, Vec<u64>)>,
    chosen: Vec<u64>,
    steps: u64,
}

impl ExactCover {
    /// Keeps those columns that a partition with `target` can have.
    pub fn new(columns: &[Column], prices: Prices, units: usize, target: i64) -> Self {
        let Prices { each: prices, excess, .. } = prices;
        let units = units.min(prices.len());
        let mut cover = Self {
            first: prices.iter().map(|_| Vec::new()).collect(),
            prices,
            excess,
            units,
            target,
            best: None,
            chosen: Vec::new(),
            steps: 0,
        };
        let slack = cover.slack(0, cover.prices.iter().sum(), units);
        for column in columns {
            let beyond = beyond(column, &cover.prices);
            if beyond >= excess - slack {
                let prices = ones(column.members).map(|member| cover.prices[member]).sum();
                let first = column.members.trailing_zeros() as usize;
                cover.first[first].push(Candidate { column: *column, beyond, prices });
            }
        }
        for candidates in &mut cover.first {
            candidates
                .sort_by_key(|candidate| (std::cmp::Reverse(candidate.beyond), candidate.column.members));
        }
        cover
    }

    /// By how much a partition can stay below what prices allow, with so much kept, open and so many units left.
    fn slack(&self, kept: i64, open: i64, units: usize) -> i64 {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        kept * GRAIN + open + self.excess.saturating_mul(units) - self.target.saturating_mul(GRAIN)
    }

    /// What was found: how much it keeps, and the columns.
    pub fn best(self) -> Option<(i64, Vec<u64>)> {
        self.best
    }

    /// Looks at all partitions of `items` that can be good enough.
    pub fn search(&mut self, items: u64, left: &mut u64, stop: &dyn Fn() -> bool) -> Result<(), Halt> {
        let open = self.prices.iter().sum();
        let ended = self.part(items, 0, open, self.units, (*left, stop));
        *left = left.saturating_sub(self.steps);
        ended
    }

    fn part(
        &mut self,
        items: u64,
        kept: i64,
        open: i64,
        units: usize,
        limits: (u64, &dyn Fn() -> bool),
    ) -> Result<(), Halt> {
        self.steps += 1;
        if self.steps > limits.0 {
            return Err(Halt::TooMuch);
        }
        if self.steps.is_multiple_of(PATIENCE) && limits.1() {
            return Err(Halt::Stopped);
        }
        if items == 0 {
            if kept >= self.target {
                self.best = Some((kept, self.chosen.clone()));
                self.target = kept + 1;
            }
            return Ok(());
        }
        if units == 0 {
            return Ok(());
        }
        let first = items.trailing_zeros() as usize;
        for position in 0..self.first[first].len() {
            let Candidate { column, beyond, prices } = &self.first[first][position];
            let (column, prices) = (*column, *prices);
            // A better one may have been found meanwhile.
            if *beyond < self.excess - self.slack(kept, open, units) {
                break;
            }
            self.steps += 1;
            if column.members & !items == 0 {
                self.chosen.push(column.members);
                self.part(items & !column.members, kept + column.value, open - prices, units - 1, limits)?;
                self.chosen.pop();
            }
        }
        Ok(())
    }
}
