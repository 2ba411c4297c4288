//! Power of units, and power caps.

use std::collections::BTreeMap;

use crate::file::format::{Actor, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use crate::problem::dense::{PowerDomains, Problem};

impl PowerDomains {
    /// The domain of a unit, and the watts that may be drawn there: the cap, or what fixed actors draw there if that
    /// is more.
    pub fn of(&self, unit: UnitIx) -> (PlaceIx, i64) {
        let place = self.place[unit];
        (place, self.limit[place])
    }

    /// By domain, from the power of each unit.
    pub fn drawn(&self, units: &IxVec<UnitIx, i64>) -> IxVec<PlaceIx, i64> {
        let mut drawn = IxVec::of(0, self.limit.len());
        for (unit, watts) in units.enumerate() {
            drawn[self.place[unit]] += watts;
        }
        drawn
    }
}

impl Problem {
    /// As [`Snapshot::draw`].
    pub fn draw(&self, unit: UnitIx, load: i64, in_use: bool) -> i64 {
        let (idle, full) = self.watts[unit];
        if load == 0 || full == 0 {
            return if in_use { idle } else { 0 };
        }
        let capacity = i128::from(self.capacity[unit]);
        let share = (i128::from(load) * i128::from(full) + capacity - 1) / capacity;
        i64::try_from(share).expect("worlds whose watts could pass 2^53 are refused on input")
            + if in_use { idle } else { 0 }
    }

    pub(crate) fn unit_draws(&self, assignment: &IxVec<ActorIx, Option<UnitIx>>) -> IxVec<UnitIx, i64> {
        let mut load = IxVec::of((0, false), self.capacity.len());
        for (actor, place) in assignment.enumerate() {
            let Some(unit) = *place else { continue };
            let needs = self.implementation(actor, unit);
            load[unit].0 += needs.map_or(0, |needs| needs.work);
            load[unit].1 = true;
        }
        load.enumerate().map(|(unit, (load, in_use))| self.draw(unit, *load, *in_use)).collect()
    }
}

/// All units in use, and each actor where it draws most.
pub(crate) fn most_power(file: &SnapshotFile) -> u128 {
    let mut by_kind: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for unit in &file.units {
        by_kind.entry(&unit.kind).or_default().push((unit.power_watts.unwrap_or(0), unit.capacity));
    }
    let share = |work: u64, &(watts, capacity): &(u64, u64)| {
        (u128::from(work) * u128::from(watts)).div_ceil(u128::from(capacity.max(1)))
    };
    for units in by_kind.values_mut() {
        units.sort_unstable();
        units.dedup();
    }
    let most = |actor: &Actor| {
        let shares = actor.runs_on.iter().flat_map(|(kind, needs)| {
            by_kind.get(kind.as_str()).into_iter().flatten().map(|unit| share(needs.work, unit))
        });
        shares.max().unwrap_or(0)
    };
    let idle: u128 = file.units.iter().map(|unit| u128::from(unit.idle_watts.unwrap_or(0))).sum();
    idle + file.actors.iter().map(most).sum::<u128>()
}
