//! Whether the load changed since the last search.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::windows::{PairKey, WindowChoice, WindowSlot, Windows, bit};

/// Difference from which a change counts: 10 %.
const LEAST_CHANGE: f64 = 0.1;
/// A change is larger than the noise by this factor.
const NOISE_FACTOR: f64 = 2.0;
/// Windows that must both show a change.
const NEWEST: usize = 2;

/// Messages of pairs, and work of actors in microseconds: of a window, or the mean of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredLoad {
    messages: BTreeMap<PairKey, f64>,
    work: BTreeMap<Arc<str>, f64>,
}

/// Relative differences between two loads: Σ|Δ| / Σ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadDifference {
    /// Of the messages of pairs.
    pub messages: f64,
    /// Of the work of actors.
    pub work: f64,
}

impl LoadDifference {
    fn parts(self) -> [f64; 2] {
        [self.messages, self.work]
    }
}

/// Σ|Δ| / Σ over all keys of both; 0 if both are equal, infinite if only the first one is 0.
fn relative<K: Ord>(from: &BTreeMap<K, f64>, to: &BTreeMap<K, f64>) -> f64 {
    let sum: f64 = from.values().sum();
    let changed = from.iter().map(|(key, value)| (to.get(key).copied().unwrap_or_default() - value).abs());
    let new = to.iter().filter(|(key, _)| !from.contains_key(key)).map(|(_, value)| value.abs());
    let difference = changed.chain(new).sum::<f64>();
    match difference > 0.0 {
        false => 0.0,
        true if sum > 0.0 => difference / sum,
        true => f64::INFINITY,
    }
}

impl MeasuredLoad {
    /// Messages between the actors per window.
    pub fn total_messages(&self) -> f64 {
        self.messages.values().sum()
    }

    /// How far `other` is from this load.
    pub fn difference(&self, other: &Self) -> LoadDifference {
        LoadDifference {
            messages: relative(&self.messages, &other.messages),
            work: relative(&self.work, &other.work),
        }
    }
}

impl Windows {
    /// The mean load of the chosen windows.
    pub fn load(&self, choice: WindowChoice) -> MeasuredLoad {
        self.mean_load(&self.chosen(choice))
    }

    /// Whether the load changed since the search whose facts were `facts`: the newest two settled windows both differ from
    /// them by more than 10 %, in messages or in work, and by more than twice what the windows before differ from their
    /// mean.
    pub fn has_changed(&self, facts: &MeasuredLoad) -> bool {
        let usable: Vec<&WindowSlot> = self.usable().collect();
        let Some((newest, before)) = usable.split_at_checked(NEWEST) else { return false };
        let of_one = |slot: &&WindowSlot| self.mean_load(std::slice::from_ref(slot));
        let mean = self.mean_load(before);
        let noises: Vec<[f64; 2]> =
            before.iter().map(|slot| mean.difference(&of_one(slot)).parts()).collect();
        let differences: Vec<[f64; 2]> =
            newest.iter().map(|slot| facts.difference(&of_one(slot)).parts()).collect();
        #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
        let windows = noises.len().max(1) as f64;
        (0..2).any(|part| {
            let noise = noises.iter().map(|noise| noise[part]).sum::<f64>() / windows;
            let is_change = |difference: f64| difference > LEAST_CHANGE && difference > NOISE_FACTOR * noise;
            differences.iter().all(|difference| is_change(difference[part]))
        })
    }

    fn mean_load(&self, slots: &[&WindowSlot]) -> MeasuredLoad {
        #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
        let windows = slots.len().max(1) as f64;
        let sum = |column: &[f32]| slots.iter().map(|slot| f64::from(column[slot.column])).sum::<f64>();
        let messages = self.messages.iter().map(|(key, column)| (key.clone(), sum(column) / windows));
        let work = self.actors.iter().map(|(name, actor)| {
            let worked = slots.iter().filter(|slot| actor.worked & bit(slot.column) != 0).count();
            #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
            let worked = worked.max(1) as f64;
            (name.clone(), sum(&actor.work) / worked)
        });
        MeasuredLoad {
            messages: messages.filter(|(_, count)| *count > 0.0).collect(),
            work: work.filter(|(_, work)| *work > 0.0).collect(),
        }
    }
}
