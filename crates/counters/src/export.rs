//! Windows as a file, to repeat a decision elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::windows::{ActorColumns, Column, GroupReports, LoadScale, MAX_WINDOWS, WindowSlot, Windows, bit};

/// The windows of an application as a file; every list of numbers has one for each window, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WindowsFile {
    /// Length of a window in seconds.
    pub window_seconds: f64,
    /// Bytes that one message of a snapshot carries.
    pub message_quantum: f64,
    /// The windows.
    pub windows: Vec<WindowEntry>,
    /// Messages of ordered pairs, times the factor of their size.
    #[serde(default)]
    pub messages: Vec<PairEntry>,
    /// Annoyance of ordered pairs.
    #[serde(default)]
    pub annoyance: Vec<PairEntry>,
    /// Actors by short name.
    #[serde(default)]
    pub actors: BTreeMap<String, ActorEntry>,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a window")]
pub struct WindowEntry {
    /// When it ended, in seconds of Prometheus' clock.
    pub ended_at: f64,
    /// Whether nothing started, stopped or moved in it, nor in the half window before.
    pub settled: bool,
    /// Whether anything was reported.
    pub has_data: bool,
    /// Fewest scrapes of a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_scrapes: Option<u64>,
    /// Whether a value was refused, so that the window is not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bad_value: bool,
    /// Whether counters of a measured group are missing, so that the window is not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Groups: actors that ran, and of how many any counter, work and annoyance were reported.
    #[serde(default)]
    pub groups: BTreeMap<String, [usize; 4]>,
}

/// A number of an ordered pair in each window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairEntry {
    /// The actor that reports.
    pub actor: String,
    /// Its peer.
    pub peer: String,
    /// By window.
    pub values: Vec<f32>,
}

/// The numbers of an actor in each window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActorEntry {
    /// Its group.
    pub group: String,
    /// Kind of its unit; absent in windows in which it did not run.
    pub kinds: Vec<Option<String>>,
    /// Microseconds of work at speed 1; absent where not measured.
    pub work: Vec<Option<f32>>,
    /// Microseconds per message at speed 1; 0 where not measured.
    pub service: Vec<f32>,
    /// Messages to actors that are not listed; absent where it reported nothing.
    pub other: Vec<Option<f32>>,
    /// Messages that it processed; absent where not reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processed: Vec<Option<f32>>,
    /// Whether it was busy all the time.
    pub saturated: Vec<bool>,
}

impl Windows {
    /// The windows as a file.
    pub fn file(&self) -> WindowsFile {
        let slots = &self.slots;
        let pairs = |table: &BTreeMap<_, Column>| {
            let entry =
                |((actor, peer), column): (&(std::sync::Arc<str>, std::sync::Arc<str>), &Column)| PairEntry {
                    actor: actor.to_string(),
                    peer: peer.to_string(),
                    values: slots.iter().map(|slot| column[slot.column]).collect(),
                };
            table.iter().map(entry).collect()
        };
        WindowsFile {
            window_seconds: self.scale.window_seconds,
            message_quantum: self.scale.message_quantum,
            windows: slots.iter().map(window).collect(),
            messages: pairs(&self.messages),
            annoyance: pairs(&self.annoyance),
            actors: self.actors.iter().map(|(name, actor)| (name.to_string(), entry(actor, slots))).collect(),
        }
    }

    /// The windows of a file; what it lists beyond 16 windows is ignored. The file's numbers of annoyance are final.
    pub fn of_file(file: &WindowsFile) -> Self {
        let scale = LoadScale {
            window_seconds: file.window_seconds,
            message_quantum: file.message_quantum,
            annoyance: crate::AnnoyanceScale::default(),
        };
        let mut windows = Self::new(scale);
        windows.restore(file);
        windows
    }

    /// Fills empty windows from a file.
    fn restore(&mut self, file: &WindowsFile) {
        for (column, window) in file.windows.iter().take(MAX_WINDOWS).enumerate() {
            let reports = |[running, reported, worked, annoyed]: [usize; 4]| GroupReports {
                running,
                reported,
                worked,
                annoyed,
            };
            let groups = window.groups.iter().map(|(group, of)| (self.name(group), reports(*of))).collect();
            self.slots.push(WindowSlot {
                column,
                ended_at: window.ended_at,
                is_settled: window.settled,
                has_data: window.has_data,
                min_scrapes: window.min_scrapes,
                has_bad_value: window.bad_value,
                is_incomplete: window.incomplete,
                groups,
            });
        }
        for (name, entry) in &file.actors {
            let mut columns =
                ActorColumns { group: Some(self.name(&entry.group)), ..ActorColumns::default() };
            for column in 0..self.slots.len() {
                columns.kinds[column] = at(&entry.kinds, column).map(|kind| self.name(&kind));
                let (work, other) = (at(&entry.work, column), at(&entry.other, column));
                columns.work[column] = work.unwrap_or_default();
                columns.other[column] = other.unwrap_or_default();
                let processed = at(&entry.processed, column);
                columns.processed[column] = processed.unwrap_or_default();
                columns.service[column] = at(&entry.service, column);
                let mask = |is_set: bool| if is_set { bit(column) } else { 0 };
                columns.worked |= mask(work.is_some());
                columns.reported |= mask(other.is_some());
                columns.has_processed |= mask(processed.is_some());
                columns.saturated |= mask(at(&entry.saturated, column));
            }
            let name = self.name(name);
            self.actors.insert(name, columns);
        }
        for entry in &file.messages {
            let key = (self.name(&entry.actor), self.name(&entry.peer));
            self.messages.insert(key, std::array::from_fn(|column| at(&entry.values, column)));
        }
        for entry in &file.annoyance {
            let key = (self.name(&entry.actor), self.name(&entry.peer));
            self.annoyance.insert(key, std::array::from_fn(|column| at(&entry.values, column)));
        }
    }
}

fn window(slot: &WindowSlot) -> WindowEntry {
    let groups = slot.groups.iter().map(|(group, reports)| {
        let GroupReports { running, reported, worked, annoyed } = *reports;
        (group.to_string(), [running, reported, worked, annoyed])
    });
    WindowEntry {
        ended_at: slot.ended_at,
        settled: slot.is_settled,
        has_data: slot.has_data,
        min_scrapes: slot.min_scrapes,
        bad_value: slot.has_bad_value,
        incomplete: slot.is_incomplete,
        groups: groups.collect(),
    }
}

fn entry(actor: &ActorColumns, slots: &[WindowSlot]) -> ActorEntry {
    let columns = || slots.iter().map(|slot| slot.column);
    let if_set = |mask: u16, values: &Column| -> Vec<Option<f32>> {
        columns().map(|column| (mask & bit(column) != 0).then(|| values[column])).collect()
    };
    ActorEntry {
        group: actor.group.as_deref().unwrap_or_default().to_owned(),
        kinds: columns().map(|column| actor.kinds[column].as_deref().map(str::to_owned)).collect(),
        work: if_set(actor.worked, &actor.work),
        service: columns().map(|column| actor.service[column]).collect(),
        other: if_set(actor.reported, &actor.other),
        processed: match actor.has_processed {
            0 => Vec::new(),
            reported => if_set(reported, &actor.processed),
        },
        saturated: columns().map(|column| actor.saturated & bit(column) != 0).collect(),
    }
}

/// The part of a file that belongs to a window; 0 where a list is too short.
fn at<T: Clone + Default>(values: &[T], position: usize) -> T {
    values.get(position).cloned().unwrap_or_default()
}
