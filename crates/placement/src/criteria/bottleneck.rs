//! `bottleneck`: the most loaded unit.

use super::encoding::sum_of_bits;
use super::{Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, Placed, Step};
use crate::Snapshot;
use crate::evaluation::counts::Counts;
use crate::file::format::SnapshotFile;
use crate::ix::UnitIx;
use crate::problem::room::Rooms;

/// Largest load of a unit in thousandths of its capacity, rounded up.
pub(super) struct Bottleneck;

impl Measure for Bottleneck {
    fn class(&self) -> CriterionClass {
        CriterionClass::NonAdditive
    }

    fn value(&self, placed: &Placed) -> i64 {
        let full = placed.units().map(|(unit, load)| placed.snapshot.fullness(unit, load));
        full.max().unwrap_or(0)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let snapshot = amounts.snapshot;
        let full =
            UnitIx::first(snapshot.units()).map(|unit| i128::from(snapshot.fullness(unit, amounts.work)));
        full.max().unwrap_or(0)
    }

    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let smallest = file.units.iter().map(|unit| unit.capacity).min().unwrap_or(1);
        Some(("units", "bottleneck", (sums.work * 1000).div_ceil(u128::from(smallest))))
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(Fullness(Counts::of(snapshot.units()))))
    }

    fn symmetry_key(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        vec![Some(snapshot.problem().capacity[unit]), Some(rooms.work[unit].left)]
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        let full = relevant_units(world);
        for &unit in &full {
            let fixed = 1000 * world.rooms.fixed_load(problem, unit);
            facts.weighed.insert(unit);
            facts.say("full", [unit.into(), problem.capacity[unit].into(), fixed.into()]);
        }
        facts.bits("peak_bit", &[], peak(world, &full));
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        sum_of_bits(peak(world, &relevant_units(world)))
    }

    fn most_work(&self, world: &Encoding) -> i64 {
        let (problem, full) = (world.problem(), relevant_units(world));
        let bits = sum_of_bits(peak(world, &full));
        let work = full.iter().map(|&unit| {
            let bits = problem.capacity[unit].saturating_mul(bits);
            world.rooms.most_load(problem, unit).saturating_mul(1000).saturating_add(bits)
        });
        work.max().unwrap_or(0)
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/bottleneck.lp")
    }
}

/// The units that the program needs: those whose load can change, and the most loaded of the others.
fn relevant_units(world: &Encoding) -> Vec<UnitIx> {
    let units = world.problem().capacity.positions();
    let (wanted, others): (Vec<UnitIx>, Vec<UnitIx>) =
        units.partition(|unit| world.rooms.work[*unit].wanted > 0 && world.can_host(*unit));
    let fixed = |unit: UnitIx| world.rooms.fixed_load(world.problem(), unit);
    let fullest = others.into_iter().max_by_key(|&unit| world.snapshot.fullness(unit, fixed(unit)));
    wanted.into_iter().chain(fullest).collect()
}

/// A unit with all its possible actors.
fn fullest(world: &Encoding, unit: UnitIx) -> i64 {
    world.snapshot.fullness(unit, world.rooms.most_load(world.problem(), unit))
}

fn peak(world: &Encoding, full: &[UnitIx]) -> i64 {
    full.iter().map(|&unit| fullest(world, unit)).max().unwrap_or(0)
}

/// The number of units with each load, in thousandths of capacity.
#[derive(Clone)]
struct Fullness(Counts);

impl IncrementalTerm for Fullness {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let of = |load| snapshot.fullness(step.unit, load);
        self.0.change(of(step.load.0), of(step.load.1));
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.0.most()
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let of = |load| snapshot.fullness(step.unit, load);
        self.0.extremes_with(of(step.load.0), of(step.load.1)).1
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
