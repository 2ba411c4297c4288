//! Units that are offered no more while somebody is on them, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::units::unit::Unit;

/// Units that pods of ours are on and that are offered no more, since when.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    pub lasts: Duration,
    pub now: Timestamp,
    /// By node, and by the unit's name.
    pub kept: BTreeMap<String, BTreeMap<String, Kept>>,
}

/// A unit as it was, its capacity over the window of the built-in policy, and since when it is not offered.
#[derive(Debug)]
pub(crate) struct Kept {
    pub unit: Unit,
    pub since: Timestamp,
    /// Its while is over; as long as somebody is on it, and it is not offered, there is no other.
    pub is_gone: bool,
}

impl Grace {
    /// A node that is gone takes its units along at once.
    pub fn forget(&mut self, node: &str) {
        for kept in self.kept.get_mut(node).into_iter().flat_map(BTreeMap::values_mut) {
            kept.is_gone = true;
        }
    }

    /// What is gone, and nobody is on any more, is forgotten.
    pub fn left(&mut self, node: &str, is_held: impl Fn(&str) -> bool) {
        let Some(units) = self.kept.get_mut(node) else { return };
        units.retain(|unit, kept| !kept.is_gone || is_held(unit));
        if units.is_empty() {
            self.kept.remove(node);
        }
    }

    /// Whether it was not offered for long enough.
    pub fn is_over(&self, kept: &Kept) -> bool {
        let lasted = self.now.duration_since(kept.since);
        lasted.try_into().is_ok_and(|lasted: Duration| lasted >= self.lasts)
    }
}
