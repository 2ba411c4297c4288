//! Free capacity of a node.

use std::collections::{BTreeMap, BTreeSet};

use crate::demand::pods::{Quantities, resource_unit};
use crate::numbers::{Exact, floor};

/// What a node provides of a resource that a `DeviceClass` serves: more than there are devices, which constraints count.
const MORE_THAN_DEVICES: u64 = 1 << 20;

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
    /// Extended resources that a `DeviceClass` serves there.
    pub(crate) served: BTreeSet<String>,
}

impl NodeRoom {
    /// What requests of foreign pods, and of all pods, leave of what is allocatable.
    pub(crate) fn of(
        allocatable: &Quantities,
        [foreign, all]: [&Quantities; 2],
        held: BTreeMap<String, u64>,
        served: BTreeSet<String>,
    ) -> Self {
        let less = |requests: &Quantities| {
            let mut left = allocatable.clone();
            for (resource, amount) in requests {
                *left.entry(resource.clone()).or_default() -= amount;
            }
            left
        };
        let rounded = |left: &Quantities| {
            let rounded = left.iter().map(|(resource, amount)| {
                let (name, scale) = resource_unit(resource);
                (name, floor(*amount * scale))
            });
            let of_devices = served.iter().map(|resource| (resource.clone(), MORE_THAN_DEVICES));
            rounded.chain(of_devices).collect()
        };
        let (free, left) = (less(foreign), less(all));
        let is_short =
            |(resource, amount): (&String, &Exact)| *amount < Exact::default() && !served.contains(resource);
        let overfull = left.iter().any(is_short);
        Self { provides: rounded(&free), left: rounded(&left), free, held, overfull, served }
    }

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
