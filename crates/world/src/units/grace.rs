//! What is offered no more while somebody is there goes after a while, and what a silent agent said is believed in part.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::numbers::{Exact, floor};
use crate::units::unit::{CordonReason, Unit};
use crate::units::withdrawn::Kept;
use crate::units::{free_node, lost_units, offered};
use crate::{Index, Policy};

/// Whichever policy: what is offered is the same under all.
fn plain() -> Policy {
    Policy::builtin("units")
}

impl Index {
    /// Units that somebody is on are gone only when they were not offered for so long; by default they are at once.
    pub fn set_grace_period(&mut self, grace: Duration) {
        self.grace.lasts = grace;
    }

    /// Lets time pass; the nodes at which units are gone by now, which [`Index::let_go`] lets go.
    pub fn advance(&mut self, now: Timestamp) -> Vec<String> {
        self.grace.now = now;
        let is_over = |kept: &Kept| !kept.is_gone && self.grace.is_over(kept);
        let over = self.grace.kept.iter().filter(|(_, units)| units.values().any(is_over));
        over.map(|(node, _)| node.clone()).collect()
    }

    /// Units at a node that were not offered for long enough are gone.
    pub fn expire_units(&mut self, node: &str) {
        let Some(mut units) = self.grace.kept.remove(node) else { return };
        self.node_changed(node);
        for kept in units.values_mut() {
            kept.is_gone |= self.grace.is_over(kept);
        }
        units
            .retain(|unit, kept| !kept.is_gone || self.room(node).is_some_and(|room| room.pods_on(unit) > 0));
        if !units.is_empty() {
            self.grace.kept.insert(node.to_owned(), units);
        }
    }

    /// The agent of a node fell silent, or is heard again. While it is silent who is on a device stays, and nobody comes.
    pub fn set_agent_stale(&mut self, node: &str, is_silent: bool) {
        self.node_changed(node);
        if is_silent {
            self.stale_agents.insert(node.to_owned());
        } else {
            self.stale_agents.remove(node);
        }
    }

    /// Whether the agent of a node is silent; one of which nothing is known is not.
    pub fn is_agent_stale(&self, node: &str) -> bool {
        self.stale_agents.contains(node)
    }

    /// The nodes whose agent is silent.
    pub fn stale_agents(&self) -> impl Iterator<Item = &String> {
        self.stale_agents.iter()
    }

    /// Changes what is offered, at a node or anywhere; what somebody is on and is offered no more is kept for a while.
    pub(crate) fn with_grace(&mut self, node: Option<&str>, change: impl FnOnce(&mut Self)) {
        if self.grace.lasts.is_zero() {
            return change(self);
        }
        let all = self.rooms().iter().filter(|(name, _)| node.is_none_or(|node| node == *name));
        let all: Vec<String> =
            all.filter(|(_, room)| !room.held.is_empty()).map(|(name, _)| name.clone()).collect();
        let before: Vec<BTreeMap<String, Unit>> = all.iter().map(|node| self.held_units(node)).collect();
        change(self);
        for (node, before) in all.into_iter().zip(before) {
            let after = self.held_units(&node);
            self.node_changed(&node);
            let since = self.grace.now;
            let kept = self.grace.kept.entry(node.clone()).or_default();
            kept.retain(|unit, _| !after.contains_key(unit));
            for (id, unit) in before.into_iter().filter(|(id, _)| !after.contains_key(id)) {
                // It was offered until now, whatever became of it before.
                if kept.get(&id).is_none_or(|kept| kept.is_gone) {
                    kept.insert(id, Kept { unit, since, is_gone: false });
                }
            }
            if kept.is_empty() {
                self.grace.kept.remove(&node);
            }
            self.begin_grace(&node);
        }
    }

    /// Begins the while of those at a node who are on a device that is lost, and of whom that was not known before: an operator that
    /// starts anew hears of devices, of pods and of whose these are in any order.
    pub(crate) fn begin_grace(&mut self, node: &str) {
        let topology = self.topology(node).filter(|topology| topology.spec.has_lost());
        let Some(topology) = topology.filter(|_| !self.grace.lasts.is_zero()) else { return };
        let since = self.grace.now;
        for unit in lost_units(self, node, topology, &plain()) {
            let kept = self.grace.kept.entry(node.to_owned()).or_default();
            kept.entry(unit.id.clone()).or_insert(Kept { unit, since, is_gone: false });
        }
    }

    /// The units of a node that are offered and that somebody is on.
    fn held_units(&self, node: &str) -> BTreeMap<String, Unit> {
        let Some(free) = free_node(self, node) else { return BTreeMap::new() };
        let units = offered(self, &free, &plain()).units.into_iter();
        let is_held = |unit: &Unit| self.room(node).is_some_and(|room| room.pods_on(&unit.id) > 0);
        units.filter(is_held).map(|unit| (unit.id.clone(), unit)).collect()
    }

    /// The units of a node that were offered a moment ago, when somebody was on them.
    pub(crate) fn kept_at(&self, node: &str) -> impl Iterator<Item = &str> {
        let units = self.grace.kept.get(node).into_iter().flatten();
        units.filter(|(_, kept)| !kept.is_gone).map(|(unit, _)| unit.as_str())
    }

    /// One of them, in the numbers of a policy.
    pub(crate) fn kept_unit(&self, node: &str, unit: &str, policy: &Policy) -> Option<Unit> {
        let kept = &self.grace.kept.get(node)?.get(unit)?.unit;
        let part = policy.window / plain().window;
        let scaled = |of: u64| floor(Exact::from(i128::from(of)) * part).max(1);
        Some(Unit {
            capacity: scaled(kept.capacity),
            capacity_per_actor: scaled(kept.capacity_per_actor),
            cordoned: Some(CordonReason::Withdrawn),
            ..kept.clone()
        })
    }
}
