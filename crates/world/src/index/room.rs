//! Free capacity of a node.

use std::collections::BTreeMap;

use crate::demand::pods::Quantities;

/// Free capacity of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRoom {
    /// Allocatable less the requests of foreign pods; may be negative.
    pub(crate) free: Quantities,
    /// The same in a snapshot's amounts; 0 if negative.
    pub(crate) provides: control::ResourceAmounts,
    /// Allocatable less the requests of all pods on the node or pinned to it, in a snapshot's amounts.
    pub(crate) left: control::ResourceAmounts,
    /// Number of our pods on each unit.
    pub(crate) held: BTreeMap<String, u64>,
    /// Whether pods request more than is allocatable.
    pub(crate) overfull: bool,
}

impl NodeRoom {
    /// Whether foreign pods leave the same resources as before.
    pub fn has_same_free_resources(&self, before: &Self) -> bool {
        self.free == before.free
    }

    /// Whether pods request more than is allocatable.
    pub fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Whether more of any resource is free than before.
    pub fn has_grown_since(&self, before: &Self) -> bool {
        let was = |resource: &String| before.left.get(resource).copied().unwrap_or(0);
        self.left.iter().any(|(resource, amount)| *amount > was(resource))
    }

    /// Number of our pods on a unit.
    pub fn pods_on(&self, unit: &str) -> u64 {
        self.held.get(unit).copied().unwrap_or(0)
    }

    /// Whether the requests fit, and one of the extended resource.
    pub fn fits(&self, asks: &control::ResourceAmounts, resource: Option<&str>) -> bool {
        let left = |resource: &str| self.left.get(resource).copied().unwrap_or(0);
        asks.iter().all(|(resource, amount)| left(resource) >= *amount)
            && resource.is_none_or(|resource| left(resource) >= 1)
    }
}
