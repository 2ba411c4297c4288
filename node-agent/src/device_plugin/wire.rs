//! The used messages of the kubelet's device plugin API v1beta1, as in
//! `node-agent/proto/deviceplugin-v1beta1.proto`.
//!
//! Written manually, like those of PodResources. Unknown fields are skipped, and a test compares each field with the
//! proto.

use std::collections::HashMap;

use prost::Message;

/// The version of the API, as a plugin registers it.
pub const VERSION: &str = "v1beta1";

/// The method of the kubelet that registers a plugin.
pub const REGISTER: &str = "/v1beta1.Registration/Register";
/// The method of a plugin that returns which optional methods it needs.
pub const OPTIONS: &str = "/v1beta1.DevicePlugin/GetDevicePluginOptions";
/// The method of a plugin that streams its devices.
pub const LIST_AND_WATCH: &str = "/v1beta1.DevicePlugin/ListAndWatch";
/// The optional method of a plugin that chooses among devices.
pub const PREFERRED: &str = "/v1beta1.DevicePlugin/GetPreferredAllocation";
/// The method of a plugin that returns the environment of a container with its devices.
pub const ALLOCATE: &str = "/v1beta1.DevicePlugin/Allocate";
/// The optional method of a plugin that prepares devices.
pub const PRE_START: &str = "/v1beta1.DevicePlugin/PreStartContainer";

/// An empty message; also the response to [`PRE_START`].
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Empty {}

/// The optional methods that a plugin needs.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct DevicePluginOptions {
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// The registration of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct RegisterRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of the plugin's socket, in the same folder as the kubelet's.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    #[prost(string, tag = "3")]
    pub resource_name: String,
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}

/// All devices of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ListAndWatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// A device of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct Device {
    /// At most 63 characters.
    #[prost(string, tag = "1")]
    pub id: String,
    /// [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(string, tag = "2")]
    pub health: String,
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// The health of a device that may be allocated.
pub const HEALTHY: &str = "Healthy";
/// The health of a device that must not be allocated.
pub const UNHEALTHY: &str = "Unhealthy";

/// The locality of a device, from which the kubelet derives topology hints.
#[derive(Clone, PartialEq, Message)]
pub struct TopologyInfo {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NumaNode>,
}

/// A NUMA node of the kernel.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NumaNode {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// A request for preferred devices, by container.
#[derive(Clone, PartialEq, Message)]
pub struct PreferredAllocationRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

/// The same for one container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerPreferredAllocationRequest {
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

/// The preferred devices, by container.
#[derive(Clone, PartialEq, Message)]
pub struct PreferredAllocationResponse {
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

/// The same for one container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerPreferredAllocationResponse {
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// The allocation of devices, by container.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// The same for one container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAllocateRequest {
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// The results of allocations, by container.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateResponse {
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// The same for one container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAllocateResponse {
    #[prost(map = "string, string", tag = "1")]
    pub envs: HashMap<String, String>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_field_matches_the_proto() {
        let proto = include_str!("../../proto/deviceplugin-v1beta1.proto");
        crate::proto::assert_fields(include_str!("wire.rs"), proto, 20);
    }
}
