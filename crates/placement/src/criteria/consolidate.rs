//! `consolidate`: units in use.

use super::{Amounts, CriterionClass, Encoding, Facts, IncrementalTerm, Measure, OverUnits, Placed};
use crate::Snapshot;
use crate::ix::UnitIx;
use crate::problem::room::Rooms;

/// Units that host anything.
pub(super) struct Consolidate;

impl Measure for Consolidate {
    fn class(&self) -> CriterionClass {
        CriterionClass::Places
    }

    fn value(&self, placed: &Placed) -> i64 {
        placed.in_use.iter().map(|in_use| i64::from(*in_use)).sum()
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.snapshot.units() as i128
    }

    fn incremental_term(&self, _: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(OverUnits { cost: |_, _, _, hosted| i64::from(hosted > 0), sum: 0 }))
    }

    fn symmetry_key(&self, _: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        vec![Some(i64::from(rooms.hosts_fixed[unit]))]
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let free = world.rooms.hosts_fixed.enumerate().filter(|(_, hosts)| !**hosts);
        for (unit, _) in free.filter(|(unit, _)| world.can_host(*unit)) {
            facts.say("counted", [unit.into()]);
        }
    }

    fn constant_part(&self, world: &Encoding, _: i64) -> i64 {
        world.rooms.hosts_fixed.iter().map(|hosts| i64::from(*hosts)).sum()
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        i64::try_from(world.snapshot.units()).unwrap_or(i64::MAX)
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/consolidate.lp")
    }
}
