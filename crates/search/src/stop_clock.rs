//! A clock that is looked at after so much work, however much of it one actor or one bundle takes.

use placement::Snapshot;
use placement::ix::{ActorIx, UnitIx};

/// Work between two looks: places that are priced for somebody with few ties. Some thousandths of a second.
const PATIENCE: usize = 1 << 12;

/// Ties of an actor, or numbers that a figure is read off, that are looked at in the time that a price takes anyway.
const TIES: usize = 16;

/// The clock said stop in the middle of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

/// When to look at a clock, and what it says.
pub(crate) struct Clock<'a> {
    stop: &'a dyn Fn() -> bool,
    /// Work that is done before the next look.
    left: usize,
    /// Numbers that figures are read off at each price.
    looked_at: usize,
}

impl<'a> Clock<'a> {
    /// For work that is counted by whoever does it.
    pub fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop, left: PATIENCE, looked_at: 0 }
    }

    /// For prices in this world.
    pub fn of_prices(snapshot: &Snapshot, stop: &'a dyn Fn() -> bool) -> Self {
        let criteria = snapshot.objectives().levels().iter().flatten();
        let looked_at = criteria.map(|criterion| criterion.measure().looks_at(snapshot)).sum();
        Self { looked_at, ..Self::new(stop) }
    }

    /// Looks at it now.
    pub fn look(&mut self) -> Result<(), Cut> {
        self.left = PATIENCE;
        if (self.stop)() { Err(Cut) } else { Ok(()) }
    }

    /// Counts work that is done, and looks at it where that was much since the last look.
    pub fn after(&mut self, work: usize) -> Result<(), Cut> {
        self.left = self.left.saturating_sub(work);
        if self.left == 0 { self.look() } else { Ok(()) }
    }

    /// The first of those of `units` that cost the actor least, as far as they cost anything at all: the others do not take it.
    pub fn cheapest<K: Ord>(
        &mut self,
        snapshot: &Snapshot,
        (actor, units): (ActorIx, &[UnitIx]),
        cost: impl Fn(UnitIx) -> Option<K>,
    ) -> Result<Option<(K, UnitIx)>, Cut> {
        let work = 1 + (self.looked_at + snapshot.problem().edges[actor].len()) / TIES;
        let mut best: Option<(K, UnitIx)> = None;
        for &unit in units {
            self.after(work)?;
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
    fn it_is_looked_at_as_often_however_the_work_is_cut() {
        for piece in [1, 7, 64, PATIENCE] {
            let looks = Cell::new(0);
            let stop = || {
                looks.set(looks.get() + 1);
                looks.get() == 3
            };
            let mut clock = Clock::new(&stop);
            let pieces = (1..=3 * PATIENCE).find(|_| clock.after(piece) == Err(Cut));
            let expected = 3 * PATIENCE.div_ceil(piece);
            assert_eq!((looks.get(), pieces), (3, Some(expected)), "pieces of {piece}");
        }
    }

    /// A look that was due anyway puts off the next.
    #[test]
    fn who_looks_often_is_not_made_to_look_more() {
        let looks = Cell::new(0);
        let stop = || {
            looks.set(looks.get() + 1);
            false
        };
        let mut clock = Clock::new(&stop);
        for _ in 0..10 {
            assert_eq!((clock.after(PATIENCE - 1), clock.look()), (Ok(()), Ok(())));
        }
        assert_eq!(looks.get(), 10);
    }

    #[test]
    fn the_first_of_the_cheapest_is_found_and_nothing_where_the_clock_is_over() {
        let snapshot = testkit::line::world("u:cpu:9 v:cpu:9 w:cpu:9 x:cpu:9", "a:cpu=1", "");
        let actor = ActorIx::new(0);
        let units = snapshot.problem().candidates(actor);
        let cost = |unit: UnitIx| [None, Some(2), Some(1), Some(1)][unit.at()];
        let mut clock = Clock::of_prices(&snapshot, &|| true);
        let found = clock.cheapest(&snapshot, (actor, units), cost);
        assert_eq!(found, Ok(Some((1, UnitIx::new(2)))));
        let many = units.repeat(PATIENCE);
        assert_eq!(clock.cheapest(&snapshot, (actor, many.as_slice()), cost), Err(Cut));
    }
}
