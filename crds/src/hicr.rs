//! Lossless conversion between NodeTopology and HiCR's topology.

use hicr::{ComputeResource, Device, MemorySpace, Topology};
use serde_json::{Map, Value, json};

use crate::{Health, Link, NodeTopologySpec, topology};

/// The most compute resources of a type that are listed individually; more become one entry with a `Count`.
const MAX_LISTED: i32 = 4096;

/// The type of devices that have a `NUMA Domain Id` in HiCR.
const NUMA_DOMAIN: &str = "NUMA Domain";

impl From<&NodeTopologySpec> for Topology {
    fn from(spec: &NodeTopologySpec) -> Self {
        let mut more = Map::new();
        if !spec.links.is_empty() {
            more.insert("Links".to_owned(), spec.links.iter().map(link_to_json).collect());
        }
        Self { devices: spec.devices.iter().map(Device::from).collect(), more, metadata: Value::Null }
    }
}

impl From<&topology::Device> for Device {
    fn from(device: &topology::Device) -> Self {
        let mut more = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                more.insert(key.to_owned(), value);
            }
        };
        put("Id", Some(json!(device.id)));
        put("Vendor", device.vendor.as_ref().map(|it| json!(it)));
        put("Model", device.model.as_ref().map(|it| json!(it)));
        put("PCI Bus Id", device.pci_bus_id.as_ref().map(|it| json!(it)));
        put("PCI Root Port", device.pci_root_port.as_ref().map(|it| json!(it)));
        put("UUID", device.uuid.as_ref().map(|it| json!(it)));
        put("Aliases", (!device.aliases.is_empty()).then(|| json!(device.aliases)));
        put("Driver", device.driver.as_ref().map(|it| json!(it)));
        put("Health", (device.health != Health::Ok).then(|| json!(device.health)));
        put("Parent", device.parent.as_ref().map(|it| json!(it)));
        put("Nearest Memory", device.nearest_memory.as_ref().map(|it| json!(it)));
        put("Network Bandwidth (Bytes/s)", device.network_bandwidth_bytes_per_second.map(|it| json!(it)));
        let kinds = device.compute_resources.iter().filter(|it| !it.kinds.is_empty());
        let kinds: Map<_, _> = kinds.map(|it| (it.type_.clone(), json!(it.kinds))).collect();
        put("Core Kinds", (!kinds.is_empty()).then_some(Value::Object(kinds)));
        let numa = if device.type_ == NUMA_DOMAIN { "NUMA Domain Id" } else { "NUMA Affinity" };
        put(numa, device.numa_node.map(|it| json!(it)));
        let resources = device.compute_resources.iter().flat_map(|resource| {
            let listed = (1..=MAX_LISTED).contains(&resource.count);
            let (times, count) = if listed { (resource.count, 1) } else { (1, resource.count) };
            let count = u64::try_from(count).unwrap_or(0);
            (0..times).map(move |_| ComputeResource {
                type_: resource.type_.clone(),
                count,
                more: Map::new(),
            })
        });
        let spaces = device.memory_spaces.iter().map(|space| MemorySpace {
            type_: space.type_.clone(),
            size: u64::try_from(space.size_bytes).unwrap_or(0),
            more: Map::new(),
        });
        Self {
            type_: device.type_.clone(),
            compute_resources: resources.collect(),
            memory_spaces: spaces.collect(),
            more,
        }
    }
}

impl From<&Topology> for NodeTopologySpec {
    /// Drops properties without a field in NodeTopology, such as caches, and incomplete links.
    fn from(topology: &Topology) -> Self {
        let devices = topology.devices.iter().enumerate().map(|(index, device)| device_of(device, index));
        let links = topology.more.get("Links").and_then(Value::as_array);
        Self { devices: devices.collect(), links: links.into_iter().flatten().filter_map(link_of).collect() }
    }
}

/// The device of a NodeTopology. A device written by HiCR has no id and is named by its type and number.
fn device_of(device: &Device, index: usize) -> topology::Device {
    let text = |key: &str| device.more.get(key).and_then(Value::as_str).map(str::to_owned);
    let number =
        |key: &str| device.more.get(key).and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
    let numa_node = number("NUMA Domain Id").or_else(|| number("NUMA Affinity"));
    let id = text("Id").unwrap_or_else(|| match numa_node {
        Some(numa) if device.type_ == NUMA_DOMAIN => format!("numa-{numa}"),
        _ => format!("{}-{index}", device.type_.to_lowercase().replace(' ', "-")),
    });
    let mut compute_resources = Vec::<topology::ComputeResource>::new();
    for resource in &device.compute_resources {
        let count = i32::try_from(resource.count).unwrap_or(i32::MAX);
        match compute_resources.iter_mut().find(|known| known.type_ == resource.type_) {
            Some(known) => known.count = known.count.saturating_add(count),
            None => {
                compute_resources.push(topology::ComputeResource::new(resource.type_.clone(), count));
            }
        }
    }
    let kinds = device.more.get("Core Kinds").and_then(Value::as_object);
    for resource in &mut compute_resources {
        let kinds = kinds.and_then(|kinds| kinds.get(&resource.type_)).cloned();
        resource.kinds = kinds.and_then(|kinds| serde_json::from_value(kinds).ok()).unwrap_or_default();
    }
    let spaces = device.memory_spaces.iter().map(|space| topology::MemorySpace {
        type_: space.type_.clone(),
        size_bytes: i64::try_from(space.size).unwrap_or(i64::MAX),
    });
    let health = device.more.get("Health").cloned();
    let aliases = device.more.get("Aliases").cloned();
    topology::Device {
        id,
        type_: device.type_.clone(),
        vendor: text("Vendor"),
        model: text("Model"),
        pci_bus_id: text("PCI Bus Id"),
        pci_root_port: text("PCI Root Port"),
        uuid: text("UUID"),
        aliases: aliases.and_then(|it| serde_json::from_value(it).ok()).unwrap_or_default(),
        driver: text("Driver"),
        health: health.and_then(|it| serde_json::from_value(it).ok()).unwrap_or_default(),
        numa_node,
        parent: text("Parent"),
        nearest_memory: text("Nearest Memory"),
        network_bandwidth_bytes_per_second: device
            .more
            .get("Network Bandwidth (Bytes/s)")
            .and_then(Value::as_i64),
        compute_resources,
        memory_spaces: spaces.collect(),
    }
}

fn link_to_json(link: &Link) -> Value {
    let mut object = Map::new();
    object.insert("Source".to_owned(), json!(link.source));
    object.insert("Destination".to_owned(), json!(link.destination));
    object.insert("Kind".to_owned(), json!(link.kind));
    if let Some(bandwidth) = link.bandwidth_bytes_per_second {
        object.insert("Bandwidth (Bytes/s)".to_owned(), json!(bandwidth));
    }
    if let Some(latency) = link.relative_latency {
        object.insert("Relative Latency".to_owned(), json!(latency));
    }
    Value::Object(object)
}

fn link_of(value: &Value) -> Option<Link> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| value.get(key).and_then(Value::as_i64);
    Some(Link {
        source: text("Source")?,
        destination: text("Destination")?,
        kind: text("Kind")?,
        bandwidth_bytes_per_second: number("Bandwidth (Bytes/s)"),
        relative_latency: number("Relative Latency").and_then(|it| i32::try_from(it).ok()),
    })
}
