//! Units host at most so many actors.

use super::Limit;
use crate::Snapshot;
use crate::checked::{Checked, Rule, Violation};
use crate::ix::{IxVec, UnitIx};

/// A unit hosts no more actors than it has slots.
pub(super) struct Slots;

/// Whether a unit that hosts so many has a slot left.
#[inline]
pub(crate) fn has_slot(snapshot: &Snapshot, unit: UnitIx, hosted: u64) -> bool {
    snapshot.file().units[unit.at()].slots.is_none_or(|slots| hosted < slots)
}

impl Limit for Slots {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let mut hosted: IxVec<UnitIx, (u64, bool)> = IxVec::of((0, false), checked.file.units.len());
        for (actor, unit) in checked.placed() {
            hosted[unit] = (hosted[unit].0 + 1, hosted[unit].1 | !checked.is_fixed(actor));
        }
        for (given, (count, takes_part)) in checked.file.units.iter().zip(hosted) {
            if let Some(slots) = given.slots.filter(|slots| takes_part && count > *slots) {
                let says = format!("{} hosts {count} actors and has {slots} slots", given.id);
                found.push(Violation { rule: Rule::Slots, says });
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/limits.lp")
    }
}
