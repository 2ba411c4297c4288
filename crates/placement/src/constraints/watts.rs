//! Watts of units as rules: they follow from load, and are rounded up unit by unit.

use crate::file::{SnapshotFile, Unit};
use crate::ix::{IxVec, KindIx, UnitIx};
use crate::problem::Problem;
use crate::reading::number;
use crate::written::{MOST_LITERALS, Writer, gcd};

/// What could be on a unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// How many actors.
    actors: usize,
    /// Their work.
    work: i128,
}

impl Load {
    fn add(&mut self, work: i64) {
        self.actors += 1;
        self.work += i128::from(work);
    }
}

/// By unit: everybody who can move and runs on its kind, and whoever else is there now.
pub(super) fn most_loads(problem: &Problem) -> IxVec<UnitIx, Load> {
    let mut of_kind: IxVec<KindIx, Load> = IxVec::of(Load::default(), problem.kinds.len());
    for &actor in &problem.movable {
        for (kind, way) in problem.implementations[actor].enumerate() {
            way.iter().for_each(|way| of_kind[kind].add(way.work));
        }
    }
    let mut loads: IxVec<UnitIx, Load> = problem.unit_kind.iter().map(|kind| of_kind[*kind]).collect();
    for (actor, place) in problem.current.enumerate() {
        if let Some(unit) = *place
            && (problem.fixed[actor] || problem.implementation(actor, unit).is_none())
        {
            loads[unit].add(problem.work(actor, unit));
        }
    }
    loads
}

/// Whether what some units draw takes no more literals, and no larger numbers, than are written out.
pub(super) fn is_small(
    file: &SnapshotFile,
    units: impl Iterator<Item = UnitIx>,
    loads: &IxVec<UnitIx, Load>,
) -> bool {
    let (mut literals, mut most) = (0, 0);
    for unit in units {
        let load = loads[unit];
        let meter = Meter::new(&file.units[unit.at()], load);
        let bits = meter.bits as usize;
        literals += (bits + 1) * (load.actors + bits);
        most = meter.most(load).max(most);
    }
    literals <= MOST_LITERALS && most <= i128::from(i64::MAX / 2)
}

/// Literals for what a unit draws, each with its watts.
pub(super) fn write_out(writer: &mut Writer, unit: UnitIx, watts: &mut Vec<(i32, i64)>) {
    let (given, problem) = (&writer.file.units[unit.at()], writer.problem);
    let (mut here, mut most) = (Vec::new(), Load::default());
    for actor in problem.current.positions() {
        if writer.is_place(actor, unit) {
            let work = problem.work(actor, unit);
            here.push((writer.at(actor, unit), work));
            most.add(work);
        }
    }
    let idle = given.idle_watts.map_or(0, number);
    if idle > 0 && !here.is_empty() {
        let all: Vec<i32> = here.iter().map(|(literal, _)| *literal).collect();
        watts.push((writer.any(&all), idle));
    }
    let work: Vec<(i32, i64)> = here.into_iter().filter(|(_, work)| *work > 0).collect();
    let meter = Meter::new(given, most);
    // The bits above that are not set, as if they were load.
    let mut above: Vec<(i32, i64)> = Vec::new();
    for bit in (0..meter.bits).rev() {
        let load = work.iter().map(|(literal, work)| (*literal, fits(i128::from(*work) * meter.per_load)));
        let reaches = writer.if_sum(fits(meter.reached(bit)), load.chain(above.iter().copied()).collect());
        watts.push((reaches, 1 << bit));
        above.push((-reaches, fits(meter.per_watt << bit)));
    }
}

fn fits(number: i128) -> i64 {
    i64::try_from(number).expect("a cap of such numbers is not written out")
}

/// How watts follow from load: load · `per_load` / `per_watt`, in lowest terms and rounded up. They are told bit by bit from the
/// highest on: a bit is set where they reach it together with those above that are.
struct Meter {
    per_load: i128,
    per_watt: i128,
    /// Bits that the watts have at most.
    bits: u32,
}

impl Meter {
    fn new(unit: &Unit, most: Load) -> Self {
        let (full, capacity) = (number(unit.power_watts.unwrap_or(0)), number(unit.capacity));
        let common = gcd(full, capacity);
        let (per_load, per_watt) = (i128::from(full / common), i128::from(capacity / common));
        let most = (most.work * per_load + per_watt - 1) / per_watt;
        Self { per_load, per_watt, bits: i128::BITS - most.leading_zeros() }
    }

    /// From what sum on a bit is set, of the load times `per_load` and of those bits above that are not set times `per_watt`: watts
    /// reach W where load · `per_load` > (W - 1) · `per_watt`.
    fn reached(&self, bit: u32) -> i128 {
        ((1_i128 << self.bits) - (1_i128 << bit) - 1) * self.per_watt + 1
    }

    /// The largest such sum.
    fn most(&self, most: Load) -> i128 {
        most.work * self.per_load + (self.per_watt << self.bits)
    }
}
