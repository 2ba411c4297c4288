//! Units in use that are no longer offered.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::units::unit::Unit;

/// Units in use that are no longer offered, and the clock of their grace period.
#[derive(Debug, Default)]
pub(crate) struct WithdrawnUnits {
    pub grace_period: Duration,
    pub now: Timestamp,
    /// By node and unit id.
    pub by_node: BTreeMap<String, BTreeMap<String, WithdrawnUnit>>,
}

/// A withdrawn unit, with its capacity over the default window, and the time of its withdrawal.
#[derive(Debug)]
pub(crate) struct WithdrawnUnit {
    pub unit: Unit,
    pub since: Timestamp,
    /// The grace period is over. The entry stays while the unit is in use and not offered, so that no new period
    /// starts.
    pub is_expired: bool,
}

impl WithdrawnUnits {
    /// The node was deleted: its units expire at once.
    pub fn expire_node(&mut self, node: &str) {
        for kept in self.by_node.get_mut(node).into_iter().flat_map(BTreeMap::values_mut) {
            kept.is_expired = true;
        }
    }

    /// Drops expired units that are no longer in use.
    pub fn drop_unused(&mut self, node: &str, is_held: impl Fn(&str) -> bool) {
        let Some(units) = self.by_node.get_mut(node) else { return };
        units.retain(|unit, kept| !kept.is_expired || is_held(unit));
        if units.is_empty() {
            self.by_node.remove(node);
        }
    }

    /// Whether its grace period is over.
    pub fn is_overdue(&self, kept: &WithdrawnUnit) -> bool {
        let lasted = self.now.duration_since(kept.since);
        lasted.try_into().is_ok_and(|lasted: Duration| lasted >= self.grace_period)
    }
}
