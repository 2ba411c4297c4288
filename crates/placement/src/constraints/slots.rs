//! Units host a limited number of actors.

use super::ConstraintKind;
use crate::checker::checked::{Checked, Rule, Used, Violation};
use crate::checker::index::number;
use crate::file::format::SnapshotFile;
use crate::ix::{IxVec, UnitIx};
use crate::problem::dense::Problem;
use crate::rules::circuit::{CurrentPlacement, Writer};
use crate::rules::suspended_limits::{SuspendedLimit, SuspendedLimits};
use crate::{Assignment, Snapshot};

/// The name of suspended slots of a unit.
const SLOTS: &str = "slots";

/// A unit hosts no more actors than it has slots.
pub(super) struct Slots;

/// Whether a unit with this number of actors has a free slot.
#[inline]
pub(crate) fn has_slot(snapshot: &Snapshot, unit: UnitIx, hosted: u64) -> bool {
    snapshot.problem.slots[unit].is_none_or(|slots| i64::try_from(hosted).is_ok_and(|hosted| hosted < slots))
}

impl ConstraintKind for Slots {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let hosted = |places: &Assignment| {
            let mut hosted: IxVec<UnitIx, Used> = IxVec::of(Used::default(), checked.file.units.len());
            for (actor, unit) in Checked::at(places) {
                hosted[unit].add(checked, actor, 1);
            }
            hosted
        };
        let mut now = None;
        for (unit, used) in hosted(checked.assignment).enumerate() {
            let given = checked.unit(unit);
            let Some(slots) = given.slots.map(number).filter(|slots| used.passes(*slots)) else { continue };
            let known = checked.is_suspended(SLOTS, &given.id, "");
            let now = now.get_or_insert_with(|| hosted(checked.now));
            let is_excused = || checked.is_grounded((SLOTS, &given.id, "")) && used.is_excused_by(&now[unit]);
            if !known && !is_excused() {
                let says = format!("{} hosts {} actors and has {slots} slots", given.id, used.sum);
                found.push(Violation { rule: checked.kind((SLOTS, &given.id, ""), Rule::Slots), says });
            }
        }
    }

    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        for (unit, slots) in now.problem.slots.enumerate() {
            let uses = now.on_unit[unit].iter().map(|actor| (*actor, 1));
            if slots.is_some_and(|slots| now.is_broken(uses, slots)) && now.affords(now.visitors(unit)) {
                found.insert(SLOTS, &now.file.units[unit.at()].id, "");
            }
        }
    }

    fn suspend(&self, suspended: &SuspendedLimits, _: &SnapshotFile, problem: &mut Problem) {
        for (id, _) in suspended.of(SLOTS) {
            if let Some(unit) = problem.unit_by_id.get(id) {
                problem.slots[*unit] = None;
            }
        }
    }

    fn ground(&self, writer: &mut Writer) {
        for (id, _) in writer.suspended.of(SLOTS) {
            let unit = writer.problem.unit_by_id[id];
            writer.everywhere_if(writer.file.actors.len(), |writer| {
                let actors = writer.problem.current.positions();
                let here = actors.filter(|actor| writer.is_place(*actor, unit));
                let uses: Vec<_> = here.map(|actor| (actor, unit, 1)).collect();
                let slots = writer.file.units[unit.at()].slots.map_or(0, number);
                let says = format!("{id}: at most {slots} actors, by its slots");
                writer.at_most(&uses, slots, SuspendedLimit::Slots(unit), says);
            });
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/limits.lp")
    }
}
