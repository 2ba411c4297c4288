//! `overload`: how unevenly units are loaded beyond their capacities.

use super::encoding::sum_of_bits;
use super::{Amounts, CriterionClass, Encoding, Facts, IncrementalTerm, Measure, Placed, Scaling, Step};
use crate::Snapshot;
use crate::evaluation::counts::Counts;
use crate::ix::UnitIx;
use crate::problem::room::Rooms;

/// Largest minus smallest overload of the units (APO III-B, M1); every unit counts, also one that hosts nothing.
pub(super) struct Overload;

fn overload(snapshot: &Snapshot, unit: UnitIx, load: i64) -> i64 {
    (load - snapshot.problem().capacity[unit]).max(0)
}

impl Measure for Overload {
    fn class(&self) -> CriterionClass {
        CriterionClass::NonAdditive
    }

    fn is_always_reported(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        let overloads = placed.units().map(|(unit, load)| overload(placed.snapshot, unit, load));
        let (least, most) = overloads.fold((i64::MAX, 0), |(least, most), o| (least.min(o), most.max(o)));
        if least == i64::MAX { 0 } else { most - least }
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        i128::from(amounts.work)
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(Overloads(Counts::of(snapshot.units()))))
    }

    fn is_limit_of_load(&self) -> bool {
        true
    }

    fn symmetry_key(&self, _: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        vec![rooms.work[unit].binding()]
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let least = world.rooms.least_overload();
        for (unit, room) in world.rooms.work.enumerate() {
            // A unit without actors and with headroom has the smallest overload.
            let matters = |left: &i64| world.can_host(unit) || *left < 0 || least > 0;
            if let Some(left) = room.binding().filter(matters) {
                facts.weighed.insert(unit);
                facts.say("headroom", [unit.into(), left.into()]);
            }
        }
        facts.bits("most_bit", &[], world.rooms.most_overload());
        facts.bits("least_bit", &[], least);
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        sum_of_bits(world.rooms.most_overload())
    }

    fn most_work(&self, world: &Encoding) -> i64 {
        let bits = sum_of_bits(world.rooms.most_overload());
        let tight = world.rooms.work.iter().filter(|room| room.binds());
        tight.map(|room| room.size().saturating_add(bits)).max().unwrap_or(0)
    }

    fn scaling(&self) -> Scaling {
        Scaling::Work
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/overload.lp")
    }
}

/// How many units have each overload.
#[derive(Clone)]
struct Overloads(Counts);

impl IncrementalTerm for Overloads {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let of = |load| overload(snapshot, step.unit, load);
        self.0.change(of(step.load.0), of(step.load.1));
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.0.most() - self.0.least()
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let of = |load| overload(snapshot, step.unit, load);
        let (least, most) = self.0.extremes_with(of(step.load.0), of(step.load.1));
        most - least
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
