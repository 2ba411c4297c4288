//! The best placement that a walk has visited.

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::evaluation::solution::Solution;

/// The best placement visited so far: the present one with the journal undone, or a copy.
#[derive(Clone)]
pub(super) struct BestVisited {
    pub unplaced: usize,
    pub objective: i64,
    /// Items and where they were, since the best was left. Replaced by a copy when it grows long.
    pub journal: Vec<(ItemIx, UnitIx)>,
    pub copy: Option<IxVec<ItemIx, UnitIx>>,
}

impl BestVisited {
    /// No placement yet.
    pub fn none() -> Self {
        Self { unplaced: usize::MAX, objective: i64::MAX, journal: Vec::new(), copy: Some(IxVec::new()) }
    }

    /// Its places, given the present solution.
    pub fn places(&self, solution: &Solution) -> IxVec<ItemIx, UnitIx> {
        if let Some(copy) = &self.copy {
            return copy.clone();
        }
        let mut places = solution.place.clone();
        for (item, place) in self.journal.iter().rev() {
            places[*item] = *place;
        }
        places
    }
}
