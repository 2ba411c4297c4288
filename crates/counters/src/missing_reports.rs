//! Groups and actors whose counters are missing, though their load need not have changed.

use std::collections::BTreeMap;

use crate::windows::{ActorColumns, GroupReports, Windows, bit};

impl Windows {
    /// Marks the windows in which messages of a group are not measured that are in another kept one, or were before.
    ///
    /// CPU seconds may be missing from single windows, as cAdvisor's samples are rare; the other windows then have the work.
    pub(crate) fn mark_incomplete(&mut self) {
        let mut measured = self.measured_before.clone();
        for slot in self.slots.iter().filter(|slot| slot.is_sound()) {
            for (group, reports) in &slot.groups {
                measured.add(group, [reports.has_messages(), reports.has_work()]);
            }
        }
        for slot in &mut self.slots {
            slot.is_incomplete = slot
                .groups
                .iter()
                .any(|(group, reports)| !reports.has_messages() && measured.messages.contains(group));
        }
    }

    /// Remembers the groups that are measured in the windows from this position on, which are about to be forgotten.
    ///
    /// After a start, stop or move the actors may be others, which need not report.
    pub(crate) fn remember(&mut self, first: usize) {
        let last_change = self.slots.iter().position(|slot| !slot.is_settled && !slot.groups.is_empty());
        let unchanged = last_change.unwrap_or(self.slots.len());
        for slot in self.slots[..unchanged].iter().skip(first).filter(|slot| slot.is_usable()) {
            for (group, reports) in &slot.groups {
                self.measured_before.add(group, [reports.has_messages(), reports.has_work()]);
            }
        }
    }

    /// Whether actors ran in at least so many kept windows, and no group was measured in any, nor before.
    pub fn is_unmeasured(&self, windows: usize) -> bool {
        let is_known = |reports: &GroupReports| reports.has_messages() || reports.has_work();
        let is_measured =
            self.slots.iter().any(|slot| slot.has_scrapes() && slot.groups.values().any(is_known));
        !is_measured
            && self.measured_before.is_empty()
            && self.slots.iter().filter(|slot| !slot.groups.is_empty()).count() >= windows
    }

    /// When the newest window in which actors ran ended, in seconds of Prometheus' clock; `None` if Prometheus did not answer.
    pub fn newest_answered(&self) -> Option<f64> {
        self.slots.iter().find(|slot| !slot.groups.is_empty()).map(|slot| slot.ended_at)
    }

    /// By actor: the columns in which it ran without reporting these numbers, if there are any.
    pub(crate) fn missing_reports(&self, reported: fn(&ActorColumns) -> u16) -> BTreeMap<&str, u16> {
        let missing = self.actors.iter().map(|(name, actor)| {
            let ran = actor.kinds.iter().enumerate().filter(|(_, kind)| kind.is_some());
            let ran = ran.fold(0, |mask, (column, _)| mask | bit(column));
            (&**name, ran & !reported(actor))
        });
        missing.filter(|(_, missing)| *missing != 0).collect()
    }
}
