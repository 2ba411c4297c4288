//! Exact cover: the columns that contain every item once and save most, given prices.

use crate::branch::column::Column;
use crate::branch::interruption::Interruption;
use crate::branch::model::ones;
use crate::branch::pricing::{GRAIN, Prices, surplus};
use crate::branch::value::Value;

/// Steps between two checks of the clock.
const CHECK_INTERVAL: u64 = 4096;

/// A column and what it saves beyond the prices of its members.
struct Candidate<N> {
    column: Column<N>,
    surplus: N,
    /// The prices of its members.
    prices: N,
}

/// A search for the best partition.
pub(crate) struct ExactCover<N> {
    /// By item: the columns of which it is the first, the largest saving beyond prices first.
    first: Vec<Vec<Candidate<N>>>,
    prices: Vec<N>,
    max_surplus: N,
    units: usize,
    /// The least saving of an acceptable partition.
    target: N,
    best: Option<(N, Vec<u64>)>,
    chosen: Vec<u64>,
    steps: u64,
    /// The number of steps at which the clock is checked next.
    next_check: u64,
}

impl<N: Value> ExactCover<N> {
    /// Keeps the columns that a partition with `target` can contain.
    pub fn new(columns: &[Column<N>], prices: Prices<N>, units: usize, target: N) -> Self {
        let Prices { each: prices, max_surplus, .. } = prices;
        let units = units.min(prices.len());
        let mut cover = Self {
            first: prices.iter().map(|_| Vec::new()).collect(),
            prices,
            max_surplus,
            units,
            target,
            best: None,
            chosen: Vec::new(),
            steps: 0,
            next_check: CHECK_INTERVAL,
        };
        let slack = cover.slack(N::default(), cover.prices.iter().copied().sum(), units);
        for column in columns {
            let surplus = surplus(column, &cover.prices);
            if surplus >= max_surplus - slack {
                let prices = ones(column.members).map(|member| cover.prices[member]).sum();
                let first = column.members.trailing_zeros() as usize;
                cover.first[first].push(Candidate { column: *column, surplus, prices });
            }
        }
        for candidates in &mut cover.first {
            candidates
                .sort_by_key(|candidate| (std::cmp::Reverse(candidate.surplus), candidate.column.members));
        }
        cover
    }

    /// By how much a partition can stay below what prices allow, given what is saved, open, and left of units.
    fn slack(&self, saved: N, open: N, units: usize) -> N {
        let (units, grain) = (N::from(i32::try_from(units).unwrap_or(i32::MAX)), N::from(GRAIN));
        saved * grain + open + self.max_surplus.saturating_mul(units) - self.target.saturating_mul(grain)
    }

    /// The saving and the columns of the best partition, if one was found.
    pub fn best(self) -> Option<(N, Vec<u64>)> {
        self.best
    }

    /// Enumerates the partitions of `items` that can reach the target.
    pub fn search(
        &mut self,
        items: u64,
        left: &mut u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Interruption> {
        let open = self.prices.iter().copied().sum();
        let ended = self.extend(items, N::default(), open, self.units, (*left, stop));
        *left = left.saturating_sub(self.steps);
        ended
    }

    fn extend(
        &mut self,
        items: u64,
        saved: N,
        open: N,
        units: usize,
        limits: (u64, &dyn Fn() -> bool),
    ) -> Result<(), Interruption> {
        self.steps += 1;
        if self.steps > limits.0 {
            return Err(Interruption::LimitExceeded);
        }
        if self.steps >= self.next_check {
            self.next_check = self.steps + CHECK_INTERVAL;
            if limits.1() {
                return Err(Interruption::Stopped);
            }
        }
        if items == 0 {
            if saved >= self.target {
                self.best = Some((saved, self.chosen.clone()));
                self.target = saved + N::from(1);
            }
            return Ok(());
        }
        if units == 0 {
            return Ok(());
        }
        let first = items.trailing_zeros() as usize;
        for position in 0..self.first[first].len() {
            let Candidate { column, surplus, prices } = &self.first[first][position];
            let (column, prices) = (*column, *prices);
            // The target may have risen meanwhile.
            if *surplus < self.max_surplus - self.slack(saved, open, units) {
                break;
            }
            self.steps += 1;
            if column.members & !items == 0 {
                self.chosen.push(column.members);
                self.extend(items & !column.members, saved + column.value, open - prices, units - 1, limits)?;
                self.chosen.pop();
            }
        }
        Ok(())
    }
}
