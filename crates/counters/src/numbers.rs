//! Input and output of measurements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::windows::{GroupReports, WindowSlot, bit};

/// What the manifest states of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupProfile {
    /// Short names of all its actors, also of those that do not run.
    pub actors: Vec<String>,
    /// The groups that its channels lead to.
    pub receivers: Vec<String>,
    /// Its implementations by kind.
    pub kinds: BTreeMap<String, KindProfile>,
}

/// What the manifest, and earlier measurements, state of a group on one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindProfile {
    /// The manifest's work of an actor per window, in microseconds at speed 1.
    pub work_microseconds: f64,
    /// The manifest's microseconds per message at speed 1.
    pub service_microseconds: f64,
    /// The last measured microseconds per message at speed 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_service_microseconds: Option<f64>,
}

/// The measured numbers of an application, per window. What is absent is as in the manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredNumbers {
    /// How much of each group is measured.
    pub groups: BTreeMap<String, MeasuredGroup>,
    /// Messages from one actor to another, by short names; a pair of a measured group that is absent has none beyond
    /// `group_messages`.
    pub pairs: BTreeMap<(String, String), u64>,
    /// Messages from each actor of a group to each actor of another, beside `pairs`.
    pub group_messages: BTreeMap<(String, String), u64>,
    /// Work by actor and kind, in microseconds at speed 1.
    pub work: BTreeMap<String, BTreeMap<String, u64>>,
    /// Annoyance by the actor that lost time and its peer.
    pub annoyance: BTreeMap<(String, String), u64>,
    /// Measured microseconds per message at speed 1, by group and kind.
    pub services: BTreeMap<(String, String), f64>,
}

/// How much of a group is measured; for the rest the manifest's numbers hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredGroup {
    /// Its actors.
    pub wanted: usize,
    /// Windows in which at least 90 % of its running actors reported.
    pub windows: usize,
    /// Whether the messages that it sends are measured.
    pub messages: bool,
    /// Whether its work is measured.
    pub work: bool,
    /// Whether its annoyance is measured.
    pub annoyance: bool,
}

impl MeasuredNumbers {
    /// Actors of groups of which messages or work are measured, and all actors.
    pub fn coverage(&self) -> (usize, usize) {
        let covered = self.groups.values().filter(|group| group.messages || group.work);
        (covered.map(|group| group.wanted).sum(), self.groups.values().map(|group| group.wanted).sum())
    }
}

/// Whether at least 90 % of the running actors reported.
fn is_covered(reported: usize, running: usize) -> bool {
    running > 0 && reported * 10 >= running * 9
}

impl GroupReports {
    /// Whether its messages are measured: at least 90 % of its running actors reported a counter, and the application has counters by peer.
    pub(crate) fn has_messages(&self) -> bool {
        is_covered(self.reported, self.running)
    }

    /// Whether its work is measured: that of at least 90 % of its running actors was reported.
    pub(crate) fn has_work(&self) -> bool {
        is_covered(self.worked, self.running)
    }

    /// Whether its annoyance is measured: its messages are, and any of its actors reported it.
    fn has_annoyance(&self) -> bool {
        self.has_messages() && self.annoyed > 0
    }
}

/// The columns of the windows in which a group is measured, as bit masks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupMasks {
    pub messages: u16,
    pub work: u16,
    pub annoyance: u16,
}

impl GroupMasks {
    pub(crate) fn of(group: &str, slots: &[&WindowSlot]) -> Self {
        let mask = |is_measured: fn(&GroupReports) -> bool| {
            let measured = slots.iter().filter(|slot| slot.groups.get(group).is_some_and(is_measured));
            measured.fold(0, |mask, slot| mask | bit(slot.column))
        };
        Self {
            messages: mask(GroupReports::has_messages),
            work: mask(GroupReports::has_work),
            annoyance: mask(GroupReports::has_annoyance),
        }
    }
}

/// Sum of the columns in a mask.
pub(crate) fn sum(column: &[f32], mask: u16) -> f64 {
    let in_mask = column.iter().enumerate().filter(|(at, _)| mask & bit(*at) != 0);
    in_mask.map(|(_, value)| f64::from(*value)).sum()
}
