//! Grace period for units in use that are no longer offered, and units whose agent is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::numbers::{Exact, floor};
use crate::units::unit::{CordonReason, Unit};
use crate::units::withdrawn::WithdrawnUnit;
use crate::units::{free_node, lost_units, offered};
use crate::{Index, Policy};

/// The offered units are the same under every policy.
fn units_policy() -> Policy {
    Policy::builtin("units")
}

impl Index {
    /// Sets the grace period after which withdrawn units in use are gone; the default is zero.
    pub fn set_grace_period(&mut self, grace: Duration) {
        self.withdrawn.grace_period = grace;
    }

    /// Advances the clock; returns the nodes with overdue units, to be passed to [`Index::expire_units`].
    pub fn advance(&mut self, now: Timestamp) -> Vec<String> {
        self.withdrawn.now = now;
        let is_over = |kept: &WithdrawnUnit| !kept.is_expired && self.withdrawn.is_overdue(kept);
        let over = self.withdrawn.by_node.iter().filter(|(_, units)| units.values().any(is_over));
        over.map(|(node, _)| node.clone()).collect()
    }

    /// Expires the overdue units of a node.
    pub fn expire_units(&mut self, node: &str) {
        let Some(mut units) = self.withdrawn.by_node.remove(node) else { return };
        self.node_changed(node);
        for kept in units.values_mut() {
            kept.is_expired |= self.withdrawn.is_overdue(kept);
        }
        units.retain(|unit, kept| {
            !kept.is_expired || self.room(node).is_some_and(|room| room.pods_on(unit) > 0)
        });
        if !units.is_empty() {
            self.withdrawn.by_node.insert(node.to_owned(), units);
        }
    }

    /// Records that the lease of a node's agent expired or was renewed. While it is expired, running actors stay on the
    /// node's devices and no new ones are placed.
    pub fn set_agent_stale(&mut self, node: &str, is_silent: bool) {
        self.node_changed(node);
        if is_silent {
            self.stale_agents.insert(node.to_owned());
        } else {
            self.stale_agents.remove(node);
        }
    }

    /// Whether the lease of a node's agent expired; unknown agents are not stale.
    pub fn is_agent_stale(&self, node: &str) -> bool {
        self.stale_agents.contains(node)
    }

    /// Nodes whose agent's lease expired.
    pub fn stale_agents(&self) -> impl Iterator<Item = &String> {
        self.stale_agents.iter()
    }

    /// Applies a change to the offer of some nodes or of all, and keeps units in use that it withdraws.
    pub(crate) fn track_withdrawals(
        &mut self,
        nodes: Option<&BTreeSet<String>>,
        change: impl FnOnce(&mut Self),
    ) {
        if self.withdrawn.grace_period.is_zero() {
            return change(self);
        }
        let all = self.node_rooms().iter();
        let all = all.filter(|(name, _)| nodes.is_none_or(|nodes| nodes.contains(*name)));
        let all: Vec<String> =
            all.filter(|(_, room)| !room.held.is_empty()).map(|(name, _)| name.clone()).collect();
        let before: Vec<BTreeMap<String, Unit>> = all.iter().map(|node| self.held_units(node)).collect();
        change(self);
        for (node, before) in all.into_iter().zip(before) {
            let after = self.held_units(&node);
            self.node_changed(&node);
            let since = self.withdrawn.now;
            let kept = self.withdrawn.by_node.entry(node.clone()).or_default();
            kept.retain(|unit, _| !after.contains_key(unit));
            for (id, unit) in before.into_iter().filter(|(id, _)| !after.contains_key(id)) {
                // It was offered until now, so an earlier expiry is void.
                if kept.get(&id).is_none_or(|kept| kept.is_expired) {
                    kept.insert(id, WithdrawnUnit { unit, since, is_expired: false });
                }
            }
            if kept.is_empty() {
                self.withdrawn.by_node.remove(&node);
            }
            self.begin_grace(&node);
        }
    }

    /// Starts the grace period of units in use on lost devices. It may be called late, since a restarted operator
    /// receives devices, pods and owners in any order.
    pub(crate) fn begin_grace(&mut self, node: &str) {
        let topology = self.topology(node).filter(|topology| topology.spec.has_lost());
        let Some(topology) = topology.filter(|_| !self.withdrawn.grace_period.is_zero()) else { return };
        let since = self.withdrawn.now;
        for unit in lost_units(self, node, topology, &units_policy()) {
            let kept = self.withdrawn.by_node.entry(node.to_owned()).or_default();
            kept.entry(unit.id.clone()).or_insert(WithdrawnUnit { unit, since, is_expired: false });
        }
    }

    /// Offered units of a node that are in use.
    fn held_units(&self, node: &str) -> BTreeMap<String, Unit> {
        let Some(free) = free_node(self, node) else { return BTreeMap::new() };
        let units = offered(self, &free, &units_policy()).units.into_iter();
        let is_held = |unit: &Unit| self.room(node).is_some_and(|room| room.pods_on(&unit.id) > 0);
        units.filter(is_held).map(|unit| (unit.id.clone(), unit)).collect()
    }

    /// Units of a node in their grace period.
    pub(crate) fn withdrawn_at(&self, node: &str) -> impl Iterator<Item = &str> {
        let units = self.withdrawn.by_node.get(node).into_iter().flatten();
        units.filter(|(_, kept)| !kept.is_expired).map(|(unit, _)| unit.as_str())
    }

    /// A withdrawn unit, scaled to the policy's window.
    pub(crate) fn withdrawn_unit(&self, node: &str, unit: &str, policy: &Policy) -> Option<Unit> {
        let kept = &self.withdrawn.by_node.get(node)?.get(unit)?.unit;
        let part = policy.window / units_policy().window;
        let scaled = |of: u64| floor(Exact::from(i128::from(of)) * part).max(1);
        Some(Unit {
            capacity: scaled(kept.capacity),
            capacity_per_actor: scaled(kept.capacity_per_actor),
            cordoned: Some(CordonReason::Withdrawn),
            ..kept.clone()
        })
    }
}
