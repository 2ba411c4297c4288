//! Partitions the items of one class into columns, one per unit, so that they save most.

use placement::ix::UnitIx;

use crate::branch::column::Column;
use crate::branch::exact_cover::ExactCover;
use crate::branch::interruption::{Interruption, charge};
use crate::branch::model::{Model, ones};
use crate::branch::pricing::price;
use crate::branch::value::Value;

/// The most columns that are generated.
const MAX_COLUMNS: usize = 1 << 21;

/// Columns after which work is charged and the clock is asked.
const CHECK_INTERVAL: usize = 1 << 12;

/// Items to be partitioned over the units of one class.
pub(crate) struct PartitionProblem<N> {
    class: usize,
    /// Positions in the model, the largest share of a unit first.
    items: Vec<usize>,
    /// By item: what it needs of each dimension.
    needs: Vec<Vec<i64>>,
    room: Vec<i64>,
    pub units: usize,
    /// By two items: what is saved where they share a unit.
    saved: Vec<Vec<N>>,
    /// By item: the others with which it must not share a unit.
    cannot_link: Vec<u64>,
    /// By item: the others with which it must.
    must_link: Vec<u64>,
    /// The cost with all apart, those that must be together left out.
    base: N,
}

/// A partition of a class.
pub(crate) struct Partition<N> {
    /// Its cost.
    pub cost: N,
    /// The columns, as bits.
    columns: Vec<u64>,
}

impl<N: Value> Partition<N> {
    /// Writes the unit of each item to `places`.
    pub fn put(&self, problem: &PartitionProblem<N>, model: &Model<N>, places: &mut [UnitIx]) {
        for (&members, &unit) in self.columns.iter().zip(&model.classes[problem.class].units) {
            ones(members).for_each(|member| places[problem.items[member]] = unit);
        }
    }
}

impl<N: Value> PartitionProblem<N> {
    /// The problem of a class; `None` where it is empty.
    pub fn new(model: &Model<N>, class: usize, classes: &[usize]) -> Option<Self> {
        let of = &model.classes[class];
        let mut items: Vec<usize> = (0..classes.len()).filter(|&item| classes[item] == class).collect();
        let share = |item: usize| {
            let needs = model.items[item].needs[class].iter().zip(&of.room);
            needs.map(|(need, room)| (i128::from(*need) << 20) / i128::from((*room).max(1))).max()
        };
        items.sort_by_key(|&item| std::cmp::Reverse(share(item)));
        let count = items.len();
        if count == 0 {
            return None;
        }
        let mut problem = Self {
            class,
            needs: items.iter().map(|&item| model.items[item].needs[class].clone()).collect(),
            room: of.room.clone(),
            units: of.units.len(),
            saved: vec![vec![N::default(); count]; count],
            cannot_link: vec![0; count],
            must_link: vec![0; count],
            base: N::default(),
            items,
        };
        for (a, &item) in problem.items.iter().enumerate() {
            for &(peer, tie) in &model.items[item].ties {
                let Some(b) = problem.items.iter().position(|&item| item == peer) else { continue };
                let tie = &model.ties[tie];
                let (apart, together) = (model.apart(tie, class, class), model.together(tie, class));
                let is_cannot_link = Model::<N>::is_forbidden(together);
                if is_cannot_link {
                    problem.cannot_link[a] |= 1 << b;
                }
                if Model::<N>::is_forbidden(apart) {
                    problem.must_link[a] |= 1 << b;
                    if a < b {
                        problem.base += together;
                    }
                    continue;
                }
                if a < b {
                    problem.base += apart;
                }
                if !is_cannot_link {
                    problem.saved[a][b] = apart - together;
                }
            }
        }
        Some(problem)
    }

    /// Number of items.
    pub fn size(&self) -> usize {
        self.items.len()
    }

    /// The cheapest partition that costs at most `most`; `left` is the work that may be done.
    pub fn solve(
        &self,
        most: N,
        left: &mut u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Partition<N>>, Interruption> {
        let all = u64::MAX >> (64 - self.size());
        if let Some(value) = self.saving_on_one_unit() {
            let cost = self.base - value;
            return Ok((cost <= most).then(|| Partition { cost, columns: vec![all] }));
        }
        let target = self.base - most;
        let mut columns = Vec::new();
        let mut check = |generated: usize| {
            if generated == 0 || !generated.is_multiple_of(CHECK_INTERVAL) {
                return Ok(());
            }
            charge(left, CHECK_INTERVAL as u64)?;
            match generated {
                MAX_COLUMNS => Err(Interruption::LimitExceeded),
                _ if stop() => Err(Interruption::Stopped),
                _ => Ok(()),
            }
        };
        let nothing = Column { members: 0, value: N::default() };
        self.generate_columns(&mut columns, nothing, (0, &self.room), &mut check)?;
        charge(left, (columns.len() % CHECK_INTERVAL) as u64)?;
        columns.retain(|column| ones(column.members).all(|one| self.must_link[one] & !column.members == 0));
        let Some(prices) = price((self.size(), self.units), &columns, target, left, stop)? else {
            return Ok(None);
        };
        let mut cover = ExactCover::new(&columns, prices, self.units, target);
        cover.search(all, left, stop)?;
        Ok(cover.best().map(|(value, columns)| Partition { cost: self.base - value, columns }))
    }

    /// The saving of all items on one unit, where that is feasible and optimal.
    fn saving_on_one_unit(&self) -> Option<N> {
        let total =
            |dimension: usize| self.needs.iter().map(|needs| needs[dimension]).fold(0, i64::saturating_add);
        let fits = (0..self.room.len()).all(|dimension| total(dimension) <= self.room[dimension]);
        let is_best = self.saved.iter().flatten().all(|saved| *saved >= N::default());
        let is_feasible = self.cannot_link.iter().all(|cannot_link| *cannot_link == 0);
        (fits && is_best && is_feasible).then(|| self.total_saving())
    }

    /// The saving of all pairs, each counted once.
    fn total_saving(&self) -> N {
        self.saved.iter().enumerate().flat_map(|(item, saved)| &saved[..item]).copied().sum()
    }

    /// Generates all columns that extend `column` with items from `first` on; `check` gets their number before each.
    fn generate_columns(
        &self,
        columns: &mut Vec<Column<N>>,
        column: Column<N>,
        (first, room): (usize, &[i64]),
        check: &mut dyn FnMut(usize) -> Result<(), Interruption>,
    ) -> Result<(), Interruption> {
        for item in first..self.size() {
            let needs = &self.needs[item];
            let fits = needs.iter().zip(room).all(|(need, room)| need <= room);
            if !fits || self.cannot_link[item] & column.members != 0 {
                continue;
            }
            check(columns.len())?;
            let saved = ones(column.members).map(|other| self.saved[item][other]).sum::<N>();
            let larger = Column { members: column.members | 1 << item, value: column.value + saved };
            columns.push(larger);
            let room: Vec<i64> = room.iter().zip(needs).map(|(room, need)| room - need).collect();
            self.generate_columns(columns, larger, (item + 1, &room), check)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Items of which all but one fit a unit; sharing a unit saves nothing.
    fn problem(items: usize) -> PartitionProblem<i64> {
        PartitionProblem {
            class: 0,
            items: (0..items).collect(),
            needs: vec![vec![1]; items],
            room: vec![i64::try_from(items).unwrap() - 1],
            units: 2,
            saved: vec![vec![0; items]; items],
            cannot_link: vec![0; items],
            must_link: vec![0; items],
            base: 0,
        }
    }

    /// The clock is checked before all of 2^24 columns are generated.
    #[test]
    fn generating_columns_checks_the_clock() {
        let (polls, mut left) = (Cell::new(0), u64::MAX);
        let stop = || {
            polls.set(polls.get() + 1);
            polls.get() == 3
        };
        let found = problem(24).solve(0, &mut left, &stop);
        assert_eq!(found.err(), Some(Interruption::Stopped));
        assert_eq!((polls.get(), u64::MAX - left), (3, 3 * CHECK_INTERVAL as u64));
    }

    #[test]
    fn the_number_of_columns_is_limited() {
        let mut left = u64::MAX;
        let found = problem(24).solve(0, &mut left, &|| false);
        assert_eq!(found.err(), Some(Interruption::LimitExceeded));
        assert_eq!(u64::MAX - left, MAX_COLUMNS as u64);
    }
}
