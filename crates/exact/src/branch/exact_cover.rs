//! What prices leave open: which columns hold every item once and keep most.

use crate::branch::column::Column;
use crate::branch::interruption::Interruption;
use crate::branch::model::ones;
use crate::branch::pricing::{GRAIN, Prices, beyond};
use crate::branch::value::Value;

/// Between two looks at the clock.
const PATIENCE: u64 = 4096;

/// A column and what it keeps beyond the prices of its members.
struct Candidate<N> {
    column: Column<N>,
    beyond: N,
    /// The prices of its members.
    prices: N,
}

/// A search for the best partition.
pub(crate) struct ExactCover<N> {
    /// By item: the columns of which it is the first, those that keep most beyond their prices first.
    first: Vec<Vec<Candidate<N>>>,
    prices: Vec<N>,
    excess: N,
    units: usize,
    /// A partition must keep so much.
    target: N,
    best: Option<(N, Vec<u64>)>,
    chosen: Vec<u64>,
    steps: u64,
    /// At how many steps the clock is looked at again.
    next_look: u64,
}

impl<N: Value> ExactCover<N> {
    /// Keeps those columns that a partition with `target` can have.
    pub fn new(columns: &[Column<N>], prices: Prices<N>, units: usize, target: N) -> Self {
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
            next_look: PATIENCE,
        };
        let slack = cover.slack(N::default(), cover.prices.iter().copied().sum(), units);
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
    fn slack(&self, kept: N, open: N, units: usize) -> N {
        let (units, grain) = (N::from(i32::try_from(units).unwrap_or(i32::MAX)), N::from(GRAIN));
        kept * grain + open + self.excess.saturating_mul(units) - self.target.saturating_mul(grain)
    }

    /// What was found: how much it keeps, and the columns.
    pub fn best(self) -> Option<(N, Vec<u64>)> {
        self.best
    }

    /// Looks at all partitions of `items` that can be good enough.
    pub fn search(
        &mut self,
        items: u64,
        left: &mut u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Interruption> {
        let open = self.prices.iter().copied().sum();
        let ended = self.part(items, N::default(), open, self.units, (*left, stop));
        *left = left.saturating_sub(self.steps);
        ended
    }

    fn part(
        &mut self,
        items: u64,
        kept: N,
        open: N,
        units: usize,
        limits: (u64, &dyn Fn() -> bool),
    ) -> Result<(), Interruption> {
        self.steps += 1;
        if self.steps > limits.0 {
            return Err(Interruption::TooMuch);
        }
        if self.steps >= self.next_look {
            self.next_look = self.steps + PATIENCE;
            if limits.1() {
                return Err(Interruption::Stopped);
            }
        }
        if items == 0 {
            if kept >= self.target {
                self.best = Some((kept, self.chosen.clone()));
                self.target = kept + N::from(1);
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
