//! What is left of a node.

use std::collections::BTreeMap;

use crate::demand::pods::Quantities;

/// What is left of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRoom {
    /// Allocatable less what foreign pods ask for; may be below zero.
    pub(crate) free: Quantities,
    /// The same in a snapshot's amounts: nothing where it is below zero.
    pub(crate) provides: control::ResourceAmounts,
    /// Allocatable less what all pods ask for that are there or bound to be, in a snapshot's amounts.
    pub(crate) left: control::ResourceAmounts,
    /// How many of our pods there are on each unit.
    pub(crate) held: BTreeMap<String, u64>,
    /// Whether pods ask for more than there is.
    pub(crate) overfull: bool,
}

impl NodeRoom {
    /// Whether foreign pods leave as much of everything as they did before.
    pub fn has_same_free_resources(&self, before: &Self) -> bool {
        self.free == before.free
    }

    /// Whether pods ask for more than there is.
    pub fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Whether there is more left of anything than there was.
    pub fn has_grown_since(&self, before: &Self) -> bool {
        let was = |resource: &String| before.left.get(resource).copied().unwrap_or(0);
        self.left.iter().any(|(resource, amount)| *amount > was(resource))
    }

    /// How many of our pods there are on a unit.
    pub fn pods_on(&self, unit: &str) -> u64 {
        self.held.get(unit).copied().unwrap_or(0)
    }

    /// Whether there is as much left as is asked for, and one of the resource.
    pub fn fits(&self, asks: &control::ResourceAmounts, resource: Option<&str>) -> bool {
        let left = |resource: &str| self.left.get(resource).copied().unwrap_or(0);
        asks.iter().all(|(resource, amount)| left(resource) >= *amount)
            && resource.is_none_or(|resource| left(resource) >= 1)
    }
}
