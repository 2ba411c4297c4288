//! A topology as series.

use crds::{Device, Health, Link, NodeTopologySpec};

use super::series::Series;
use metric_names::agent::{
    DEVICE_COMPUTE_RESOURCES, DEVICE_HEALTH, DEVICE_INFO, LINK_BANDWIDTH, LINK_LATENCY, MEMORY_CAPACITY,
    SERIES_DROPPED,
};

/// The maximum number of link series per node: a full mesh of 23 devices. The NodeTopology contains all links.
const MAX_LINKS: usize = 512;

/// Adds the series of one node, and returns the number of dropped links.
pub fn add(series: &mut Series, node: &str, spec: &NodeTopologySpec) -> usize {
    for device in &spec.devices {
        add_device(series, node, device);
    }
    for link in spec.links.iter().take(MAX_LINKS) {
        add_link(series, node, link);
    }
    spec.links.len().saturating_sub(MAX_LINKS)
}

/// Adds the number of dropped links of all nodes.
pub fn add_dropped(series: &mut Series, links: usize) {
    series.add_count(&SERIES_DROPPED, &["links"], links);
}

fn add_device(series: &mut Series, node: &str, device: &Device) {
    const STATES: [Health; 4] = [Health::Ok, Health::Degraded, Health::Lost, Health::Unknown];
    let id = device.id.as_str();
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let numa = device.numa_node.map(|numa| numa.to_string()).unwrap_or_default();
    let info = [
        node,
        id,
        &kind(&device.type_),
        &text(&device.vendor),
        &text(&device.model),
        &text(&device.pci_bus_id),
        &text(&device.uuid),
        &text(&device.driver),
        &numa,
        &text(&device.parent),
    ];
    series.add(&DEVICE_INFO, &info, 1.0);
    for state in STATES {
        let value = if state == device.health { 1.0 } else { 0.0 };
        series.add(&DEVICE_HEALTH, &[node, id, state.into()], value);
    }
    for resource in &device.compute_resources {
        let count = f64::from(resource.count);
        series.add(&DEVICE_COMPUTE_RESOURCES, &[node, id, &kind(&resource.type_)], count);
    }
    for (number, memory) in device.memory_spaces.iter().enumerate() {
        let labels = [node, id, &number.to_string(), &kind(&memory.type_)];
        series.add(&MEMORY_CAPACITY, &labels, bytes(memory.size_bytes));
    }
}

fn add_link(series: &mut Series, node: &str, link: &Link) {
    let labels = [node, &link.source, &link.destination, &kind(&link.kind)];
    if let Some(bandwidth) = link.bandwidth_bytes_per_second {
        series.add(&LINK_BANDWIDTH, &labels, bytes(bandwidth));
    }
    if let Some(latency) = link.relative_latency {
        // in the units of ACPI's SLIT, where 10 is local
        series.add(&LINK_LATENCY, &labels, f64::from(latency) / 10.0);
    }
}

/// A type in Prometheus' spelling: `NUMA Domain` is `numa_domain`.
fn kind(type_: &str) -> String {
    type_.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus values are floating point; exact up to 8 PiB")]
fn bytes(value: i64) -> f64 {
    value as f64
}
