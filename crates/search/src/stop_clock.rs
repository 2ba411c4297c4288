//! Checks the clock after a fixed amount of work, however much of it one actor or one bundle takes.

use placement::Snapshot;
use placement::ix::{ActorIx, UnitIx};

/// Work between two checks, in prices of actors with few ties: some milliseconds.
const CHECK_INTERVAL: usize = 1 << 12;

/// Ties of an actor, or numbers that a term is computed from, that cost as much time as one price.
pub(crate) const TIES_PER_PRICE: usize = 16;

/// The clock ended the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired;

/// When to check the clock.
pub(crate) struct StopClock<'a> {
    stop: &'a dyn Fn() -> bool,
    /// Work until the next check.
    left: usize,
    /// Numbers that terms are computed from at each price.
    numbers_read: usize,
}

impl<'a> StopClock<'a> {
    /// For work that the caller counts.
    pub fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop, left: CHECK_INTERVAL, numbers_read: 0 }
    }

    /// For prices in this snapshot.
    pub fn of_prices(snapshot: &Snapshot, stop: &'a dyn Fn() -> bool) -> Self {
        let criteria = snapshot.objectives().levels().iter().flatten();
        let numbers_read = criteria.map(|criterion| criterion.measure().evaluation_cost(snapshot)).sum();
        Self { numbers_read, ..Self::new(stop) }
    }

    /// Checks it now.
    pub fn check(&mut self) -> Result<(), Expired> {
        self.left = CHECK_INTERVAL;
        if (self.stop)() { Err(Expired) } else { Ok(()) }
    }

    /// Counts work that is done, and checks the clock when enough has been done since the last check.
    pub fn spend(&mut self, work: usize) -> Result<(), Expired> {
        self.left = self.left.saturating_sub(work);
        if self.left == 0 { self.check() } else { Ok(()) }
    }

    /// The first of `units` that costs the actor least. Units for which `cost` returns `None` do not admit it.
    pub fn cheapest<K: Ord>(
        &mut self,
        snapshot: &Snapshot,
        (actor, units): (ActorIx, &[UnitIx]),
        cost: impl Fn(UnitIx) -> Option<K>,
    ) -> Result<Option<(K, UnitIx)>, Expired> {
        let work = 1 + (self.numbers_read + snapshot.problem().edges[actor].len()) / TIES_PER_PRICE;
        let mut best: Option<(K, UnitIx)> = None;
        for &unit in units {
            self.spend(work)?;
            if let Some(found) = cost(unit)
                && best.as_ref().is_none_or(|(least, _)| found < *least)
            {
                best = Some((found, unit));
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn checks_do_not_depend_on_the_size_of_steps() {
        for batch in [1, 7, 64, CHECK_INTERVAL] {
            let checks = Cell::new(0);
            let stop = || {
                checks.set(checks.get() + 1);
                checks.get() == 3
            };
            let mut clock = StopClock::new(&stop);
            let batches = (1..=3 * CHECK_INTERVAL).find(|_| clock.spend(batch) == Err(Expired));
            let expected = 3 * CHECK_INTERVAL.div_ceil(batch);
            assert_eq!((checks.get(), batches), (3, Some(expected)), "batches of {batch}");
        }
    }

    /// A check that was made anyway postpones the next.
    #[test]
    fn explicit_checks_postpone_the_next() {
        let checks = Cell::new(0);
        let stop = || {
            checks.set(checks.get() + 1);
            false
        };
        let mut clock = StopClock::new(&stop);
        for _ in 0..10 {
            assert_eq!((clock.spend(CHECK_INTERVAL - 1), clock.check()), (Ok(()), Ok(())));
        }
        assert_eq!(checks.get(), 10);
    }

    #[test]
    fn the_first_cheapest_unit_is_found_unless_the_clock_expires() {
        let snapshot = testkit::line::world("u:cpu:9 v:cpu:9 w:cpu:9 x:cpu:9", "a:cpu=1", "");
        let actor = ActorIx::new(0);
        let units = snapshot.problem().candidates(actor);
        let cost = |unit: UnitIx| [None, Some(2), Some(1), Some(1)][unit.at()];
        let mut clock = StopClock::of_prices(&snapshot, &|| true);
        let found = clock.cheapest(&snapshot, (actor, units), cost);
        assert_eq!(found, Ok(Some((1, UnitIx::new(2)))));
        let repeated = units.repeat(CHECK_INTERVAL);
        assert_eq!(clock.cheapest(&snapshot, (actor, repeated.as_slice()), cost), Err(Expired));
    }
}
