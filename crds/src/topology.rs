//! `NodeTopology`: the devices of a node (a Topology in HiCR).

use std::collections::BTreeMap;

use kube::core::{Message, Rule};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Condition;

/// The devices of one node and the links between them, as reported by the node agent. It has the name of the Node.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "NodeTopology",
    doc = "The devices of one node and the links between them, as reported by the node agent. It has the name of the Node.",
    plural = "nodetopologies",
    shortname = "nodetopo",
    category = "cairn",
    status = "NodeTopologyStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Devices","type":"string","description":"The number of devices by type.","jsonPath":".status.devices"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether the node agent reports.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = links_need_devices(), validation = known_parent(), validation = known_memory(), validation = known_end("source"), validation = known_end("destination"))]
pub struct NodeTopologySpec {
    /// The devices of the node, sorted by id, at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub devices: Vec<Device>,

    /// The links between devices, sorted by source, destination and kind, at most 1,024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub links: Vec<Link>,
}

/// Links require devices.
fn links_need_devices() -> Rule {
    Rule::new("!has(self.links) || self.links.size() == 0 || has(self.devices)")
        .message("spec.links requires spec.devices: list the devices that the links connect")
        .field_path(".links")
}

/// `parent` names an existing device.
fn known_parent() -> Rule {
    Rule::new(
        "!has(self.devices) || sets.contains(self.devices.map(d, d.id), \
         self.devices.map(d, has(d.parent), d.parent))",
    )
    .message("parent of each device must be the id of a device in spec.devices: correct or remove it")
    .field_path(".devices")
}

/// `nearestMemory` names an existing device.
fn known_memory() -> Rule {
    Rule::new(
        "!has(self.devices) || sets.contains(self.devices.map(d, d.id), \
         self.devices.map(d, has(d.nearestMemory), d.nearestMemory))",
    )
    .message("nearestMemory of each device must be the id of a device in spec.devices: correct or remove it")
    .field_path(".devices")
}

/// `source` and `destination` name existing devices.
fn known_end(end: &str) -> Rule {
    Rule::new(format!(
        "!has(self.links) || !has(self.devices) \
         || sets.contains(self.devices.map(d, d.id), self.links.map(l, l.{end}))"
    ))
    .message(Message::Message(format!(
        "{end} of each link must be the id of a device in spec.devices: correct it or remove the link"
    )))
    .field_path(".links")
}

/// One device of a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The name of the device, unique on its node and stable across restarts, such as `gpu-0000:3b:00.0`.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,

    /// The type of the device: `NUMA Domain`, `GPU`, `FPGA`, `NPU`, `NIC`, or another type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// The vendor of the device, such as `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub vendor: Option<String>,

    /// The vendor's model name, such as `NVIDIA A100-SXM4-40GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,

    /// The PCI address, such as `0000:3b:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub pci_bus_id: Option<String>,

    /// The PCI address of the root port above the device, such as `0000:15:01.0`; devices below one port share its link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub pci_root_port: Option<String>,

    /// The unique id of the device in the vendor's tools and device plugins, such as `GPU-8f6b…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub uuid: Option<String>,

    /// Other names of the device in device plugins and drivers, such as `card0`, `accel0` or a serial number; sorted, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub aliases: Vec<String>,

    /// The driver and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub driver: Option<String>,

    /// The health of the device: `ok`, `degraded`, `lost` or `unknown`; default `ok`.
    #[serde(default)]
    pub health: Health,

    /// The NUMA domain that the device is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub numa_node: Option<i32>,

    /// The id of the device that contains this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub parent: Option<String>,

    /// The id of the domain with the nearest memory; only of a NUMA domain without memory of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub nearest_memory: Option<String>,

    /// The bandwidth of a network interface in one direction, in bytes per second; absent without a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub network_bandwidth_bytes_per_second: Option<i64>,

    /// The compute resources of the device, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub compute_resources: Vec<ComputeResource>,

    /// The memory spaces of the device, in the order of HiCR.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub memory_spaces: Vec<MemorySpace>,
}

/// The health of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Health {
    /// The device works.
    #[default]
    Ok,
    /// The device works with errors or at reduced speed; running actors stay, no new actors are placed.
    Degraded,
    /// The device was present and is missing.
    Lost,
    /// The agent cannot determine the health.
    Unknown,
}

/// The compute resources of one type on a device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeResource {
    /// The type, such as `Core` or `Streaming Multiprocessor`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// The number of compute resources.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub count: i32,

    /// The kinds of cores of a machine with several, the slowest first; their counts sum up to `count`. Empty if all are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub kinds: Vec<CoreKind>,
}

/// Equal cores of a machine that has several kinds of cores.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoreKind {
    /// The name of the kind, such as `IntelAtom`; absent if the system reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,

    /// The number of cores of this kind.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub count: i32,

    /// The capacity of one core, on a scale on which the fastest cores of the machine have about 1024.
    #[schemars(range(min = 1, max = 65_536))]
    pub relative_capacity: i32,
}

impl ComputeResource {
    /// Equal compute resources of one type.
    pub fn new(type_: impl Into<String>, count: i32) -> Self {
        Self { type_: type_.into(), count, kinds: Vec::new() }
    }

    /// The sum of the relative capacities: `1024 * count` if all are equal.
    pub fn relative_capacity(&self) -> i64 {
        let known: i64 = self.kinds.iter().map(|kind| i64::from(kind.count)).sum();
        let of_kinds: i64 =
            self.kinds.iter().map(|kind| i64::from(kind.count) * i64::from(kind.relative_capacity)).sum();
        of_kinds + 1024 * (i64::from(self.count) - known).max(0)
    }
}

/// One memory space of a device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemorySpace {
    /// The type, such as `RAM` or `Device RAM`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// The size in bytes.
    #[schemars(range(min = 0))]
    pub size_bytes: i64,
}

/// A link between two devices of the node; HiCR has no equivalent.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// The id of the device at one end.
    #[schemars(length(min = 1, max = 128))]
    pub source: String,

    /// The id of the device at the other end.
    #[schemars(length(min = 1, max = 128))]
    pub destination: String,

    /// The kind of link, such as `NVLink`, `PCIe` or `Interconnect`.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,

    /// The bandwidth in one direction, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bandwidth_bytes_per_second: Option<i64>,

    /// The latency relative to local memory, which is 10, as in the ACPI SLIT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub relative_latency: Option<i32>,
}

/// The observed state of the report.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The number of devices by type, for tables, such as `2 GPU, 2 NUMA Domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,

    /// The devices, CPUs and memory allocated to containers, as reported by the kubelet; sorted, at most 1,024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub allocations: Vec<Allocation>,

    /// The conditions of the report; `Ready` summarizes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The allocation of one resource to one container, as reported by the kubelet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// The namespace of the pod.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,

    /// The name of the pod.
    #[schemars(length(min = 1, max = 253))]
    pub pod: String,

    /// The uid of the pod, which tells it apart from another pod of the same name.
    #[schemars(length(min = 1, max = 64))]
    pub pod_uid: String,

    /// The name of the container.
    #[schemars(length(min = 1, max = 63))]
    pub container: String,

    /// The requested resource: `nvidia.com/gpu`, `cpu`, `memory`, `hugepages-1Gi`, or the driver of a claim.
    #[schemars(length(min = 1, max = 317))]
    pub resource: String,

    /// The resource claim, such as `vision/gpu-claim`; absent without a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub claim: Option<String>,

    /// The allocated devices as named by the device plugin or driver: device names, CPU numbers, NUMA domains.
    #[schemars(length(max = 1024), inner(length(min = 1, max = 256)))]
    pub device_ids: Vec<String>,
}

impl NodeTopologySpec {
    /// Whether any device is lost.
    pub fn has_lost(&self) -> bool {
        self.devices.iter().any(|device| device.health == Health::Lost)
    }

    /// The device that the kubelet reports as `id`.
    ///
    /// Plugins name devices by uuid, by PCI address, or by a name of their own, which is an alias. Shared devices have a suffix
    /// `::N` (NVIDIA) or `-N` (Intel), devices of a claim have their pool as a prefix.
    pub fn device_of(&self, id: &str) -> Option<&Device> {
        let id = id.split("::").next().unwrap_or(id);
        let alone = id.rsplit('/').next().unwrap_or(id);
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let unshared = alone.rsplit_once('-').filter(|(_, share)| is_number(share)).map(|(name, _)| name);
        // an exact name takes precedence over one with a suffix removed
        [Some(id), Some(alone), unshared].into_iter().flatten().find_map(|name| {
            let address = address(name);
            self.devices.iter().find(|device| {
                let own = [Some(&device.id), device.uuid.as_ref()];
                own.into_iter().flatten().chain(&device.aliases).any(|own| own.eq_ignore_ascii_case(name))
                    || device.pci_bus_id.as_deref().is_some_and(|own| self::address(own) == address)
            })
        })
    }

    /// The number of devices by type, sorted by type, such as `2 GPU, 2 NUMA Domain`.
    ///
    /// Unhealthy devices are listed separately: `2 GPU (1 lost), 2 NUMA Domain`.
    pub fn summary(&self) -> String {
        let mut by_type = BTreeMap::<&str, (usize, BTreeMap<Health, usize>)>::new();
        for device in &self.devices {
            let (all, unhealthy) = by_type.entry(&device.type_).or_default();
            *all += 1;
            if device.health != Health::Ok {
                *unhealthy.entry(device.health).or_default() += 1;
            }
        }
        let parts = by_type.iter().map(|(type_, (all, unhealthy))| {
            let unhealthy: Vec<_> =
                unhealthy.iter().map(|(health, count)| format!("{count} {health}")).collect();
            if unhealthy.is_empty() {
                format!("{all} {type_}")
            } else {
                format!("{all} {type_} ({})", unhealthy.join(", "))
            }
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// A PCI address with the usual four-digit domain; NVIDIA's tools write it with eight digits.
fn address(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_every_name_that_plugins_use() {
        let device = |id: &str, aliases: &[&str]| Device {
            id: id.to_owned(),
            pci_bus_id: id.strip_prefix("gpu-").map(str::to_owned),
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            ..Device::default()
        };
        let devices = vec![
            device("gpu-0000:05:00.0", &["card1", "renderD129"]),
            device("gpu-0000:06:00.0", &["card1-2"]),
        ];
        let spec = NodeTopologySpec { devices, links: Vec::new() };
        let found = |name: &str| spec.device_of(name).map(|device| device.id.as_str());
        for name in [
            "card1",
            "card1-0",
            "CARD1::3",
            "renderd129",
            "00000000:05:00.0",
            "pool-a/card1",
            "0000:05:00.0-7",
        ] {
            assert_eq!(found(name), Some("gpu-0000:05:00.0"), "{name}");
        }
        assert_eq!(found("card1-2"), Some("gpu-0000:06:00.0"), "an exact name takes precedence");
        assert_eq!((found("card2-0"), found("card"), found("")), (None, None, None));
    }

    #[test]
    fn capacity_of_cores_is_the_sum_over_their_kinds() {
        let kind = |count, relative_capacity| CoreKind { name: None, count, relative_capacity };
        let mut cores = ComputeResource::new("Core", 20);
        assert_eq!(cores.relative_capacity(), 20 * 1024);
        cores.kinds = vec![kind(10, 718), kind(10, 997)];
        assert_eq!(cores.relative_capacity(), 10 * 718 + 10 * 997);
    }

    #[test]
    fn summary_counts_by_type_and_lists_unhealthy_devices() {
        let device = |type_: &str, health| Device { type_: type_.to_owned(), health, ..Device::default() };
        let devices = vec![
            device("NUMA Domain", Health::Ok),
            device("GPU", Health::Lost),
            device("NUMA Domain", Health::Ok),
            device("GPU", Health::Unknown),
        ];
        let spec = NodeTopologySpec { devices, links: Vec::new() };
        assert_eq!(spec.summary(), "2 GPU (1 lost, 1 unknown), 2 NUMA Domain");
        assert_eq!(NodeTopologySpec::default().summary(), "");
    }
}
