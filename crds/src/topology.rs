//! `NodeTopology`: what a node has. In HiCR's terms, its Topology.

use std::collections::BTreeMap;

use kube::core::{Message, Rule};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Condition;

/// The devices of one node and the links between them, as the node agent found them. It has the name of the Node.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "NodeTopology",
    doc = "The devices of one node and the links between them, as the node agent found them. It has the name of the Node.",
    plural = "nodetopologies",
    shortname = "nodetopo",
    category = "cairn",
    status = "NodeTopologyStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Devices","type":"string","description":"How many devices of which type.","jsonPath":".status.devices"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether the agent of the node reports.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = links_need_devices(), validation = known_parent(), validation = known_end("source"), validation = known_end("destination"))]
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

/// Links join devices.
fn links_need_devices() -> Rule {
    Rule::new("!has(self.links) || self.links.size() == 0 || has(self.devices)")
        .message("spec.links needs spec.devices: list the devices that the links join")
        .field_path(".links")
}

/// A device is a part of a device that exists.
fn known_parent() -> Rule {
    Rule::new(
        "!has(self.devices) || sets.contains(self.devices.map(d, d.id), \
         self.devices.map(d, has(d.parent), d.parent))",
    )
    .message("parent of each device must be the id of a device in spec.devices: correct it or leave it out")
    .field_path(".devices")
}

/// A link joins devices that exist.
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
    /// The name of the device, unique on its node and stable over restarts, such as `gpu-0000:3b:00.0`.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,

    /// What the device is: `NUMA Domain`, `GPU`, `FPGA`, `NPU`, `NIC`, or another type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// Who made the device, such as `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub vendor: Option<String>,

    /// The maker's name for the model, such as `NVIDIA A100-SXM4-40GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,

    /// The address on the PCI bus, such as `0000:3b:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub pci_bus_id: Option<String>,

    /// The name that the maker's tools and device plugins have for this very device, such as `GPU-8f6b…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub uuid: Option<String>,

    /// The driver and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub driver: Option<String>,

    /// How well the device is: `ok`, `degraded`, `lost` or `unknown`; default `ok`.
    #[serde(default)]
    pub health: Health,

    /// The number of the NUMA domain that the device is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub numa_node: Option<i32>,

    /// The id of the device that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub parent: Option<String>,

    /// What can compute on the device, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub compute_resources: Vec<ComputeResource>,

    /// The memories of the device, in the order in which HiCR lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub memory_spaces: Vec<MemorySpace>,
}

/// How well a device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Health {
    /// It works.
    #[default]
    Ok,
    /// It works, with errors or at reduced speed; it keeps what runs and takes nothing new.
    Degraded,
    /// It was there and is gone.
    Lost,
    /// The agent cannot tell.
    Unknown,
}

/// Units of computation of one type on a device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeResource {
    /// The type, such as `Core` or `Streaming Multiprocessor`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// How many there are.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub count: i32,
}

/// One memory of a device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemorySpace {
    /// The type, such as `RAM` or `Device RAM`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,

    /// Its size in bytes.
    #[schemars(range(min = 0))]
    pub size_bytes: i64,
}

/// A link between two devices of the node; ours, HiCR has none.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// The id of the device at one end.
    #[schemars(length(min = 1, max = 128))]
    pub source: String,

    /// The id of the device at the other end.
    #[schemars(length(min = 1, max = 128))]
    pub destination: String,

    /// What the link is, such as `NVLink`, `PCIe` or `Interconnect`.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,

    /// What the link carries in one direction, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bandwidth_bytes_per_second: Option<i64>,

    /// The latency relative to local memory, which is 10, as ACPI's SLIT gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub relative_latency: Option<i32>,
}

/// What is known about the report itself.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many devices of which type there are, for tables, as in `2 GPU, 2 NUMA Domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,

    /// Which pods hold which devices, CPUs and memory, as the kubelet says; sorted, at most 1,024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub allocations: Vec<Allocation>,

    /// What holds for the report now, `Ready` first of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What one container holds of one resource, as the kubelet says.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// The namespace of the pod.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,

    /// The name of the pod.
    #[schemars(length(min = 1, max = 253))]
    pub pod: String,

    /// The uid of the pod: another pod of the same name holds something else.
    #[schemars(length(min = 1, max = 64))]
    pub pod_uid: String,

    /// The name of the container.
    #[schemars(length(min = 1, max = 63))]
    pub container: String,

    /// What it asked for: `nvidia.com/gpu`, `cpu`, `memory`, `hugepages-1Gi`, or the driver of a claim.
    #[schemars(length(min = 1, max = 317))]
    pub resource: String,

    /// The claim through which it asked, as in `vision/gpu-claim`; only where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub claim: Option<String>,

    /// What it got, in the words of the device plugin or driver: names of devices, numbers of CPUs, NUMA domains.
    #[schemars(length(max = 1024), inner(length(min = 1, max = 256)))]
    pub device_ids: Vec<String>,
}

impl NodeTopologySpec {
    /// Whether one of the devices is lost.
    pub fn has_lost(&self) -> bool {
        self.devices.iter().any(|device| device.health == Health::Lost)
    }

    /// The device that the kubelet means by `id`.
    ///
    /// Plugins name devices by the maker's uuid, by the address on the PCI bus, or as they like; a device that several
    /// pods share has a suffix `::N`, and one of a claim comes after its pool.
    pub fn device_of(&self, id: &str) -> Option<&Device> {
        let id = id.split("::").next().unwrap_or(id);
        let alone = id.rsplit('/').next().unwrap_or(id);
        let is_it = |device: &&Device| {
            let own = [Some(&device.id), device.uuid.as_ref()];
            let is_called = |name: &str| own.iter().flatten().any(|own| own.eq_ignore_ascii_case(name));
            let address = device.pci_bus_id.as_deref().map(address);
            is_called(id) || is_called(alone) || (address.is_some() && address == Some(self::address(alone)))
        };
        self.devices.iter().find(is_it)
    }

    /// How many devices of which type there are, sorted by type, as in `2 GPU, 2 NUMA Domain`.
    ///
    /// Devices that are not well are counted apart: `2 GPU (1 lost), 2 NUMA Domain`.
    pub fn summary(&self) -> String {
        let mut by_type = BTreeMap::<&str, (usize, BTreeMap<Health, usize>)>::new();
        for device in &self.devices {
            let (all, unwell) = by_type.entry(&device.type_).or_default();
            *all += 1;
            if device.health != Health::Ok {
                *unwell.entry(device.health).or_default() += 1;
            }
        }
        let words = by_type.iter().map(|(type_, (all, unwell))| {
            let unwell: Vec<_> = unwell.iter().map(|(health, count)| format!("{count} {health}")).collect();
            if unwell.is_empty() {
                format!("{all} {type_}")
            } else {
                format!("{all} {type_} ({})", unwell.join(", "))
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// An address on the PCI bus as everybody writes it: NVIDIA's tools write the domain with eight digits.
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
    fn a_summary_counts_by_type_and_names_what_is_not_well() {
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
