//! The power of units as rules: a function of load, rounded up unit by unit.

use num_integer::gcd;

use crate::checker::index::number;
use crate::file::format::{SnapshotFile, Unit};
use crate::ix::{IxVec, KindIx, UnitIx};
use crate::problem::dense::Problem;
use crate::rules::circuit::Writer;

/// The maximum power of a unit that is encoded watt by watt.
const MOST_STEPS: i128 = 2_048;

/// The maximum sum of a rule's weights, so that clingo's 32 bits have room to spare.
const LARGEST_SUM: i128 = 1 << 29;

/// The possible actors of a unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Their number.
    actors: usize,
    /// Their work.
    work: i128,
    /// The common factor of their work; 0 if there is none.
    common: i64,
}

impl Load {
    fn add(&mut self, work: i64) {
        self.actors += 1;
        self.work += i128::from(work);
        self.common = gcd(self.common, work);
    }
}

/// By unit: all movable actors that support its kind, and other actors currently there.
pub(super) fn most_loads(problem: &Problem) -> IxVec<UnitIx, Load> {
    let mut of_kind: IxVec<KindIx, Load> = IxVec::of(Load::default(), problem.kinds.len());
    for &actor in &problem.movable {
        for (kind, way) in problem.implementations[actor].enumerate() {
            if let Some(way) = way {
                of_kind[kind].add(way.work);
            }
        }
    }
    let mut loads: IxVec<UnitIx, Load> = problem.unit_kind.iter().map(|kind| of_kind[*kind]).collect();
    for (actor, place) in problem.running.enumerate() {
        if let Some(unit) = *place
            && (problem.fixed[actor] || problem.implementation(actor, unit).is_none())
        {
            loads[unit].add(problem.work(actor, unit));
        }
    }
    loads
}

/// The maximum number of literals in the rules for some units' power; `None` if numbers are too large.
pub(super) fn literals(
    file: &SnapshotFile,
    units: impl Iterator<Item = UnitIx>,
    loads: &IxVec<UnitIx, Load>,
) -> Option<usize> {
    let (mut literals, mut most) = (0, 0);
    for unit in units {
        let load = loads[unit];
        let meter = Meter::new(&file.units[unit.at()], load);
        // Each rule contains all actors, that of a bit also the higher bits; one more tests whether the unit is in use.
        let (rules, above, sum) = match meter.steps() {
            Some(steps) => (steps, 0, meter.load),
            None => (meter.bits as usize, meter.bits as usize, meter.sum_of_bits()),
        };
        literals += rules * (load.actors + above) + load.actors + rules;
        most = sum.max(most);
    }
    (most <= i128::from(i64::MAX / 2)).then_some(literals)
}

/// Literals for a unit's power, each with its watts. Whether bits are used is decided by kinds alone, which are known when the size
/// is computed.
pub(super) fn add_watts(writer: &mut Writer, unit: UnitIx, by_kinds: Load, watts: &mut Vec<(i32, i64)>) {
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
    let meter = Meter::new(given, most);
    let load = here.into_iter().filter(|(_, work)| *work > 0);
    let load: Vec<(i32, i64)> = load.map(|(literal, work)| (literal, work / meter.share)).collect();
    if Meter::new(given, by_kinds).steps().is_some() {
        for watt in 0..meter.watts {
            watts.push((writer.if_sum(fits(meter.passed(watt)), load.clone()), 1));
        }
        return;
    }
    // The higher bits that are not set count like load.
    let mut above: Vec<(i32, i64)> = Vec::new();
    for bit in (0..meter.bits).rev() {
        let load = load.iter().map(|(literal, load)| (*literal, fits(i128::from(*load) * meter.per_load)));
        let reaches = writer.if_sum(fits(meter.reached(bit)), load.chain(above.iter().copied()).collect());
        watts.push((reaches, 1 << bit));
        above.push((-reaches, fits(meter.per_watt << bit)));
    }
}

fn fits(number: i128) -> i64 {
    i64::try_from(number).expect("a cap of such numbers is not written out")
}

/// The power as a function of load: load · `per_load` / `per_watt`, in lowest terms and rounded up. It is encoded bit by bit from the
/// highest: a bit is set if the power reaches it together with the higher bits that are set. If those numbers are too large for
/// clingo and the range is small, it is encoded watt by watt, each with its threshold of load.
struct Meter {
    /// The unit of load: an amount of work.
    share: i64,
    /// The maximum load, in that unit.
    load: i128,
    /// The same, in multiples of the common factor of the actors' work.
    least: i128,
    per_load: i128,
    per_watt: i128,
    /// The maximum power, and its number of bits.
    watts: i128,
    bits: u32,
}

impl Meter {
    fn new(unit: &Unit, most: Load) -> Self {
        let (full, capacity) = (number(unit.power_watts.unwrap_or(0)), number(unit.capacity));
        let common = gcd(full, capacity);
        let (full, capacity) = (full / common, capacity / common);
        let share = gcd(most.common, capacity);
        let (per_load, per_watt) = (i128::from(full), i128::from(capacity / share));
        let load = most.work / i128::from(share);
        let least = most.work / i128::from(most.common.max(1));
        let watts = (load * per_load + per_watt - 1) / per_watt;
        Self { share, load, least, per_load, per_watt, watts, bits: i128::BITS - watts.leading_zeros() }
    }

    /// The number of watts that are encoded one by one, if they are.
    fn steps(&self) -> Option<usize> {
        let is_worth_it = self.sum_of_bits() > LARGEST_SUM && self.least <= LARGEST_SUM;
        usize::try_from(self.watts).ok().filter(|_| is_worth_it && self.watts <= MOST_STEPS)
    }

    /// The load from which the power exceeds these watts.
    fn passed(&self, watts: i128) -> i128 {
        watts * self.per_watt / self.per_load + 1
    }

    /// The sum from which a bit is set, of load times `per_load` and of the higher bits that are not set times `per_watt`: the power
    /// reaches W if load · `per_load` > (W - 1) · `per_watt`.
    fn reached(&self, bit: u32) -> i128 {
        ((1_i128 << self.bits) - (1_i128 << bit) - 1) * self.per_watt + 1
    }

    /// The largest such sum.
    fn sum_of_bits(&self) -> i128 {
        self.load * self.per_load + (self.per_watt << self.bits)
    }
}
