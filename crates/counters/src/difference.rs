//! Whether the load changed since the last search.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::windows::{Column, PairKey, WindowChoice, WindowSlot, Windows, bit};

/// Difference from which a change counts: 10 %.
const LEAST_CHANGE: f64 = 0.1;
/// A change is larger than the noise by this factor.
const NOISE_FACTOR: f64 = 2.0;
/// Part of the load that pairs or actors must change together, if each changes by far more than its own noise: 3 %.
const LEAST_SINGLE_CHANGE: f64 = 0.03;
/// Standard deviations of its own noise by which a pair or an actor changes.
const SINGLE_DEVIATIONS: f64 = 3.0;
/// Windows by which its noise is known, at least.
const WINDOWS_OF_NOISE: usize = 6;
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
    /// mean; or single pairs or actors, that each differ by more than three standard deviations of their own windows before,
    /// differ by 3 % of the messages or work together.
    pub fn has_changed(&self, facts: &MeasuredLoad) -> bool {
        let usable: Vec<&WindowSlot> = self.usable().collect();
        let Some((newest, before)) = usable.split_at_checked(NEWEST) else { return false };
        if before.len() >= WINDOWS_OF_NOISE && self.has_single_changes(facts, newest, before) {
            return true;
        }
        let mean = self.mean_load(before);
        let noises: Vec<[f64; 2]> = before.iter().map(|slot| self.difference_in(&mean, slot)).collect();
        let differences: Vec<[f64; 2]> = newest.iter().map(|slot| self.difference_in(facts, slot)).collect();
        #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
        let windows = noises.len().max(1) as f64;
        (0..2).any(|part| {
            let noise = noises.iter().map(|noise| noise[part]).sum::<f64>() / windows;
            let is_change = |difference: f64| difference > LEAST_CHANGE && difference > NOISE_FACTOR * noise;
            differences.iter().all(|difference| is_change(difference[part]))
        })
    }

    /// How far a window is from a load, in messages and in work; an actor without reports there counts as unchanged.
    fn difference_in(&self, from: &MeasuredLoad, slot: &WindowSlot) -> [f64; 2] {
        let mut load = self.mean_load(&[slot]);
        let is_missing = |missing: &BTreeMap<&str, u16>, actor: &str| {
            missing.get(actor).is_some_and(|columns| columns & bit(slot.column) != 0)
        };
        let missing = self.missing_reports(|actor| actor.reported);
        let unchanged = from.messages.iter().filter(|((actor, _), _)| is_missing(&missing, actor));
        load.messages.extend(unchanged.map(|(key, count)| (key.clone(), *count)));
        let missing = self.missing_reports(|actor| actor.worked);
        let unchanged = from.work.iter().filter(|(actor, _)| is_missing(&missing, actor));
        load.work.extend(unchanged.map(|(name, work)| (name.clone(), *work)));
        from.difference(&load).parts()
    }

    /// Whether pairs or actors changed that were steady before; those without reports in a newest window count as unchanged.
    fn has_single_changes(
        &self,
        facts: &MeasuredLoad,
        newest: &[&WindowSlot],
        before: &[&WindowSlot],
    ) -> bool {
        let changed = |fact: f64, column: &Column, missing: u16| {
            let values = |slots: &[&WindowSlot]| -> Vec<f64> {
                let reporting = slots.iter().filter(|slot| missing & bit(slot.column) == 0);
                reporting.map(|slot| f64::from(column[slot.column])).collect()
            };
            let (of_before, of_newest) = (values(before), values(newest));
            if of_before.len() < WINDOWS_OF_NOISE || of_newest.len() < newest.len() {
                return 0.0;
            }
            let least = SINGLE_DEVIATIONS * deviation(&of_before);
            let changes = of_newest.into_iter().map(|value| value - fact);
            let (lowest, highest) = changes
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(lowest, highest), change| {
                    (change.min(lowest), change.max(highest))
                });
            let change = lowest.max(-highest);
            if change > least { change } else { 0.0 }
        };
        let columns = |missing: &BTreeMap<&str, u16>, actor: &str| missing.get(actor).copied().unwrap_or(0);
        let fact = |key: &PairKey| facts.messages.get(key).copied().unwrap_or_default();
        let missing = self.missing_reports(|actor| actor.reported);
        let change =
            |(key, column): (&PairKey, &Column)| changed(fact(key), column, columns(&missing, &key.0));
        let messages: f64 = self.messages.iter().map(change).sum();
        let fact = |name: &Arc<str>| facts.work.get(name).copied().unwrap_or_default();
        let missing = self.missing_reports(|actor| actor.worked);
        let work = self.actors.iter().map(|(name, actor)| {
            let missing = columns(&missing, name);
            changed(fact(name), &actor.work, missing)
        });
        let work: f64 = work.sum();
        let is_large = |change: f64, all: f64| change > LEAST_SINGLE_CHANGE * all;
        is_large(messages, facts.messages.values().sum()) || is_large(work, facts.work.values().sum())
    }

    fn mean_load(&self, slots: &[&WindowSlot]) -> MeasuredLoad {
        let sum = |column: &[f32]| slots.iter().map(|slot| f64::from(column[slot.column])).sum::<f64>();
        let missing = self.missing_reports(|actor| actor.reported);
        let messages = self.messages.iter().map(|(key, column)| {
            // A missing report does not lower the mean.
            let missing = missing.get(&*key.0).copied().unwrap_or(0);
            let reports = slots.iter().filter(|slot| missing & bit(slot.column) == 0).count();
            #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
            let reports = reports.max(1) as f64;
            (key.clone(), sum(column) / reports)
        });
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

/// Standard deviation of at least two numbers.
fn deviation(numbers: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    // Not `powi`, whose last bit depends on the platform.
    let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
    (squares / (count - 1.0)).sqrt()
}
