//! `excused`: the number of actors in grandfathered violations of rules or limits.

use super::{Amounts, CriterionClass, Encoding, Measure, Placed};
use crate::{Rules, Snapshot};

/// The number of actors in grandfathered violations, as the rules determine.
pub(super) struct Excused;

fn most(snapshot: &Snapshot) -> i64 {
    let excuses = snapshot.rules().map_or(0, |rules| rules.excuses().len());
    i64::try_from(excuses).expect("there are no more than actors")
}

impl Measure for Excused {
    fn class(&self) -> CriterionClass {
        CriterionClass::Actors
    }

    fn value(&self, placed: &Placed) -> i64 {
        let of_rules = |rules: &Rules| rules.excused_count(placed.assignment);
        placed.snapshot.rules().map_or(0, of_rules)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        most(amounts.snapshot).into()
    }

    /// Nothing: the ground rules determine it, also for fixed actors, if the rules are of a snapshot in which they were
    /// movable.
    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        most(world.snapshot)
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/excused.lp")
    }
}
