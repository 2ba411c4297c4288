//! A multiset of values over units, with its extremes.

use std::collections::BTreeMap;

/// The number of units with each value.
#[derive(Clone, Debug)]
pub struct Counts(BTreeMap<i64, usize>);

impl Counts {
    /// All units at 0.
    pub fn of(units: usize) -> Self {
        Self(BTreeMap::from([(0, units)]))
    }

    /// Changes the value of one unit.
    pub fn change(&mut self, from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(count) = self.0.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&from);
            }
        }
        *self.0.entry(to).or_default() += 1;
    }

    /// The smallest.
    pub fn least(&self) -> i64 {
        self.0.keys().next().copied().unwrap_or(0)
    }

    /// The largest.
    pub fn most(&self) -> i64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// The largest value if the values of some units changed.
    pub fn most_with(&self, changes: impl Iterator<Item = (i64, i64)>) -> i64 {
        let mut gone: BTreeMap<i64, usize> = BTreeMap::new();
        let mut most = None;
        for (before, after) in changes {
            *gone.entry(before).or_default() += 1;
            most = most.max(Some(after));
        }
        let stays = |(value, count): &(&i64, &usize)| gone.get(value).is_none_or(|gone| gone < count);
        let kept = self.0.iter().rev().find(stays).map(|(value, _)| *value);
        kept.max(most).unwrap_or(0)
    }

    /// The smallest and the largest value if the value of one unit changed.
    pub fn extremes_with(&self, before: i64, after: i64) -> (i64, i64) {
        let alone = self.0.get(&before) == Some(&1);
        // Without the unit's old value if it was the only one, and with its new value.
        let stays = |value: &&i64| !(alone && **value == before);
        let least = self.0.keys().find(stays).map_or(after, |value| after.min(*value));
        let most = self.0.keys().rev().find(stays).map_or(after, |value| after.max(*value));
        (least, most)
    }
}
