//! The resource of a NUMA domain: its name, its devices, and the environment of a container.

use std::collections::{BTreeMap, HashMap};

use crds::{Health, NodeTopologySpec};

use super::wire::{Device, HEALTHY, NumaNode, TopologyInfo, UNHEALTHY};

/// The environment variable with the number of a container's NUMA node.
pub const VARIABLE: &str = "CAIRN_NUMA_NODE";

/// A NUMA domain of the node, as it is offered to the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedDomain {
    /// Its number.
    pub number: u32,
    /// Whether the kernel has a NUMA node of this number. With a hint to any other number the kubelet rejects pods.
    pub is_numa_node: bool,
    /// Whether its devices may be allocated.
    pub is_healthy: bool,
}

impl OfferedDomain {
    /// The domains of a topology, by number.
    pub fn of(spec: &NodeTopologySpec) -> BTreeMap<u32, Self> {
        let domains = spec.devices.iter().filter(|device| device.type_ == "NUMA Domain");
        let domain = |device: &crds::Device| {
            let number = u32::try_from(device.numa_node?).ok()?;
            // The number of a domain without memory may be synthetic (ADR 210).
            let is_numa_node = device.nearest_memory.is_none();
            Some((number, Self { number, is_numa_node, is_healthy: device.health != Health::Lost }))
        };
        domains.filter_map(domain).collect()
    }

    /// The extended resource that a pod requests.
    pub fn resource(self) -> String {
        format!("cairn.dev/numa-{}", self.number)
    }

    /// The name of the socket that serves it.
    pub fn socket(self) -> String {
        format!("cairn-numa-{}.sock", self.number)
    }

    /// Its devices, one per actor that it can host.
    ///
    /// An id is the domain's id in the NodeTopology with the suffix of a shared device.
    pub fn devices(self, slots: u32) -> Vec<Device> {
        let health = if self.is_healthy { HEALTHY } else { UNHEALTHY };
        let topology =
            self.is_numa_node.then(|| TopologyInfo { nodes: vec![NumaNode { id: self.number.into() }] });
        let device = |slot| Device {
            id: format!("numa-{}::{slot}", self.number),
            health: health.to_owned(),
            topology: topology.clone(),
        };
        (0..slots).map(device).collect()
    }

    /// The environment of a container that has one of its devices.
    pub fn environment(self) -> HashMap<String, String> {
        let number = self.is_numa_node.then(|| (VARIABLE.to_owned(), self.number.to_string()));
        number.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(yaml: &str) -> NodeTopologySpec {
        serde_yaml::from_str(&format!("devices: [{yaml}]")).unwrap()
    }

    #[test]
    fn each_domain_has_a_device_for_each_slot_with_its_numa_node() {
        let spec = spec(
            "{id: gpu-0, type: GPU, numaNode: 0}, {id: numa-0, type: NUMA Domain, numaNode: 0}, \
             {id: numa-2, type: NUMA Domain, numaNode: 2}, {id: numa-3, type: Memory Domain, numaNode: 3}",
        );
        let domains = OfferedDomain::of(&spec);
        assert_eq!(domains.keys().collect::<Vec<_>>(), [&0, &2], "memory has no cores");
        let domain = domains[&2];
        assert_eq!(
            (domain.resource(), domain.socket()),
            ("cairn.dev/numa-2".into(), "cairn-numa-2.sock".into())
        );
        let devices = domain.devices(110);
        assert_eq!(devices.len(), 110);
        let last = &devices[109];
        assert_eq!((last.id.as_str(), last.health.as_str()), ("numa-2::109", HEALTHY));
        assert_eq!(last.topology.as_ref().unwrap().nodes, [NumaNode { id: 2 }]);
        assert_eq!(domain.environment(), [("CAIRN_NUMA_NODE".to_owned(), "2".to_owned())].into());
        // ids in the kubelet's responses resolve to the device of the NodeTopology
        assert_eq!(spec.device_of(&last.id).unwrap().id, "numa-2");
    }

    #[test]
    fn a_lost_domain_is_unhealthy_and_one_without_memory_gives_no_hint() {
        let domains = OfferedDomain::of(&spec(
            "{id: numa-0, type: NUMA Domain, numaNode: 0, health: lost}, {id: numa-1, type: NUMA Domain, numaNode: 1, nearestMemory: numa-0}",
        ));
        assert!(domains[&0].devices(2).iter().all(|device| device.health == UNHEALTHY));
        let memoryless = domains[&1];
        assert!(memoryless.is_healthy && memoryless.devices(1)[0].topology.is_none());
        assert!(memoryless.environment().is_empty());
    }
}
