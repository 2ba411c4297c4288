//! Devices of a kind that take no new actors, for explanations.

use crate::units::dra::claimed_device::Candidate;
use crate::units::dra::slices::{DeviceAvailability, SliceDevice};
use crate::units::{Measures, PoolOnNode, free_nodes, selects};
use crate::{Index, Policy};

impl Index {
    /// The published devices that pools of a kind select and that take no new actors, each with the claim that holds it, or else
    /// its taint or health.
    pub fn unavailable_devices(&self, kind: &str) -> Vec<String> {
        let (policy, nodes) = (Policy::builtin("units"), free_nodes(self));
        let mut found = Vec::new();
        for (name, pool) in self.pools.iter().filter(|(_, pool)| pool.spec.kind == kind) {
            let Ok(measures) = Measures::of(pool, &policy) else { continue };
            for node in nodes.iter().filter(|node| selects(pool, node.node)) {
                found.extend(PoolOnNode { index: self, pool, name, node, measures: &measures }.unavailable());
            }
        }
        found
    }
}

impl PoolOnNode<'_> {
    fn unavailable(&self) -> Vec<String> {
        let all: Vec<&SliceDevice> = self.index.published.on_node(self.node.name).collect();
        let selected = self.dra().and_then(|devices| self.selected(devices, &all).ok()).unwrap_or_default();
        let candidates = selected.into_iter().map(|device| self.candidate(device, &all));
        candidates.filter_map(|candidate| self.obstacle(&candidate)).collect()
    }

    /// What keeps a device from new actors.
    fn obstacle(&self, candidate: &Candidate) -> Option<String> {
        let (device, node) = (candidate.device, self.node.name);
        if let Some((namespace, claim)) = self.index.published.holders(&device.key).next() {
            return Some(format!("{} of {node}: allocated to ResourceClaim {namespace}/{claim}", device.key));
        }
        let why = match candidate.described {
            Some(it) if candidate.availability > device.availability => it.device.health.to_string(),
            _ => device.availability.to_string(),
        };
        (candidate.availability != DeviceAvailability::Usable)
            .then(|| format!("{} of {node}: {why}", device.key))
    }
}
