//! The used messages of PodResources v1, as in `node-agent/proto/podresources-v1.proto`.
//!
//! Written manually, as a generator would be more code. Unknown fields are skipped, and a test compares each field with
//! the proto.

use prost::Message;

/// A request for all pods of the node.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodResourcesRequest {}

/// The pods of the node with allocations.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// The allocations of a pod.
#[derive(Clone, PartialEq, Message)]
pub struct PodResources {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// The allocations of a container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerResources {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// CPUs that are exclusive to the container; empty if it uses the shared pool.
    #[prost(int64, repeated, tag = "3")]
    pub cpu_ids: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub memory: Vec<ContainerMemory>,
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Memory of one type that is pinned to NUMA domains.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerMemory {
    #[prost(string, tag = "1")]
    pub memory_type: String,
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// Devices of one resource; a resource may be listed more than once, by NUMA domain.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerDevices {
    #[prost(string, tag = "1")]
    pub resource_name: String,
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// The locality of a device.
#[derive(Clone, PartialEq, Message)]
pub struct TopologyInfo {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NumaNode>,
}

/// A NUMA domain.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NumaNode {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The devices that were allocated for a claim.
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
#[derive(Clone, PartialEq, Message)]
pub struct DynamicResource {
    #[prost(string, tag = "2")]
    pub claim_name: String,
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// One device of a claim.
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
#[derive(Clone, PartialEq, Message)]
pub struct ClaimResource {
    #[prost(string, tag = "2")]
    pub driver_name: String,
    #[prost(string, tag = "3")]
    pub pool_name: String,
    #[prost(string, tag = "4")]
    pub device_name: String,
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_field_matches_the_proto() {
        let proto = include_str!("../../proto/podresources-v1.proto");
        crate::proto::assert_fields(include_str!("wire.rs"), proto, 16);
    }
}
