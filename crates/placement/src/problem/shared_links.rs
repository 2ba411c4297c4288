//! Links that units share, and which messages cross them.

use std::collections::BTreeMap;

use crate::error::number;
use crate::file::format::SnapshotFile;
use crate::ix::{IxVec, UnitIx};

/// A link that several units share. Each direction has its capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedLink {
    /// The units on one side, ascending.
    pub units: Vec<UnitIx>,
    /// The units on the other side, ascending; `None` means all others.
    pub to: Option<Vec<UnitIx>>,
    /// Pairs whose messages take another way: one of `units` and another unit, ascending.
    pub direct: Vec<(UnitIx, UnitIx)>,
    /// Messages per window in each direction.
    pub capacity: i64,
}

impl IndexedLink {
    /// Whether a message between a unit of the link and another unit crosses it.
    fn is_between(&self, unit: UnitIx, other: UnitIx) -> bool {
        self.units.binary_search(&other).is_err()
            && self.to.as_ref().is_none_or(|to| to.binary_search(&other).is_ok())
            && self.direct.binary_search(&(unit, other)).is_err()
    }
}

/// The direction of a shared link, as a number: twice the position of the link, plus 1 for messages towards its units.
pub type Lane = usize;

/// The sides of shared links that a unit is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// The links that it is behind, ascending.
    pub behind: Vec<usize>,
    /// The links with a list of the other side that it is on, ascending.
    pub before: Vec<usize>,
    /// Whether some of its messages take another way.
    pub has_direct: bool,
}

/// All shared links.
#[derive(Clone, Debug, Default)]
pub struct SharedLinks {
    links: Vec<IndexedLink>,
    /// By unit; empty if there are no links.
    sides: IxVec<UnitIx, Sides>,
}

impl SharedLinks {
    /// Those of a checked file.
    pub(crate) fn new(file: &SnapshotFile, unit_by_id: &BTreeMap<String, UnitIx>) -> Self {
        let mut all = Self::default();
        if file.shared_links.is_empty() {
            return all;
        }
        all.sides = IxVec::of(Sides::default(), file.units.len());
        let sorted = |ids: &Vec<String>| {
            let mut units: Vec<UnitIx> = ids.iter().map(|id| unit_by_id[id]).collect();
            units.sort_unstable();
            units.dedup();
            units
        };
        for given in &file.shared_links {
            let units = sorted(&given.units);
            let to = given.to.as_ref().map(sorted);
            for &unit in &units {
                all.sides[unit].behind.push(all.links.len());
            }
            for &unit in to.iter().flatten() {
                all.sides[unit].before.push(all.links.len());
            }
            let mut direct = Vec::new();
            for (a, b) in given.direct.iter().map(|(a, b)| (unit_by_id[a], unit_by_id[b])) {
                direct.extend([(a, b), (b, a)].into_iter().filter(|(unit, _)| units.contains(unit)));
                (all.sides[a].has_direct, all.sides[b].has_direct) = (true, true);
            }
            direct.sort_unstable();
            all.links.push(IndexedLink { units, to, direct, capacity: number(given.capacity) });
        }
        all
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// All links, in the order of the file.
    pub fn links(&self) -> &[IndexedLink] {
        &self.links
    }

    /// The number of lanes.
    pub fn lanes(&self) -> Lane {
        2 * self.links.len()
    }

    /// Messages per window of a lane.
    pub fn capacity(&self, lane: Lane) -> i64 {
        self.links[lane / 2].capacity
    }

    /// The sides that a unit is on; `None` if there are no links.
    pub fn sides(&self, unit: UnitIx) -> Option<&Sides> {
        self.sides.get(unit)
    }

    /// The lanes that a message crosses.
    pub fn crossed(&self, from: UnitIx, to: UnitIx) -> impl Iterator<Item = Lane> {
        let of = move |unit: UnitIx, other: UnitIx| {
            let behind = self.sides(unit).map_or(&[][..], |sides| &sides.behind);
            behind.iter().copied().filter(move |link| self.links[*link].is_between(unit, other))
        };
        of(from, to).map(|link| 2 * link).chain(of(to, from).map(|link| 2 * link + 1))
    }
}
