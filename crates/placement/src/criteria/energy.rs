//! `energy`: power of all units.

use super::{
    Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, OverUnits, Placed, add,
};
use crate::evaluation::power::most_power;
use crate::file::format::SnapshotFile;
use crate::ix::UnitIx;
use crate::problem::room::Rooms;
use crate::{LARGEST, Snapshot};

/// Σ power of the units ([`Snapshot::draw`]).
pub(super) struct Energy;

impl Measure for Energy {
    fn class(&self) -> CriterionClass {
        CriterionClass::Places
    }

    fn value(&self, placed: &Placed) -> i64 {
        let draws = placed.units().map(|(unit, load)| placed.snapshot.draw(unit, load, placed.in_use[unit]));
        draws.fold(0, add)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let problem = amounts.snapshot.problem();
        // As if all actors were on each unit, which is a safe upper bound; values above 2^53 are refused on input.
        let units = problem.watts.iter().zip(&problem.capacity).map(|((idle, full), capacity)| {
            let capacity = i128::from(*capacity);
            i128::from(*idle) + (i128::from(amounts.work) * i128::from(*full) + capacity - 1) / capacity
        });
        units.sum::<i128>().min(LARGEST.into())
    }

    fn largest(&self, file: &SnapshotFile, _: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        Some(("units", "power", most_power(file)))
    }

    fn incremental_term(&self, _: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        let cost = |snapshot: &Snapshot, unit, load, hosted| snapshot.problem().draw(unit, load, hosted > 0);
        Some(Box::new(OverUnits { cost, sum: 0 }))
    }

    fn symmetry_key(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        rooms.of_unit(snapshot.problem(), unit)
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        world.say_watts(facts, |_| true);
    }

    fn constant_part(&self, world: &Encoding, _: i64) -> i64 {
        let meters = world.meters().into_iter().collect();
        let kept = world.rooms.hosts_fixed.enumerate().filter(|(_, hosts)| **hosts);
        kept.map(|(unit, _)| world.settled_watts(&meters, unit)).sum()
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        world.most_watts()
    }

    fn most_work(&self, world: &Encoding) -> i64 {
        world.most_work_of_watts()
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/energy.lp")
    }
}
