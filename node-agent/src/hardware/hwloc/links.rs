//! Links between devices: PCIe, GPU interconnects, and distances between NUMA domains.

use std::collections::BTreeMap;

use crds::{Device, Link};
use hwlocality::{
    Topology,
    object::{TopologyObject, attributes::ObjectAttributes, distance::Distances, types::ObjectType},
};

use super::{
    domains::{self, Domain},
    object::pci_of,
    pci,
};

/// hwloc's names of bandwidth matrices in MB/s, and the kind of link.
const BANDWIDTHS: [(&str, &str); 3] =
    [("NVLinkBandwidth", "NVLink"), ("XGMIBandwidth", "XGMI"), ("XeLinkBandwidth", "Xe Link")];

/// The links between the listed devices.
pub fn read(topology: &Topology, domains: &[Domain], devices: &[Device]) -> Vec<Link> {
    let mut links = pcie(topology, domains, devices);
    for matrix in topology.distances(None).unwrap_or_default() {
        let name = matrix.name().and_then(|name| name.to_str().ok());
        if let Some((_, kind)) = BANDWIDTHS.iter().find(|(matrix, _)| Some(*matrix) == name) {
            let bandwidth = |value: u64| {
                let bytes = i64::try_from(value).unwrap_or(i64::MAX).saturating_mul(1_000_000);
                (value > 0).then(|| Link {
                    kind: (*kind).to_owned(),
                    bandwidth_bytes_per_second: Some(bytes),
                    ..Link::default()
                })
            };
            links.extend(both_ways(&matrix, |object| end(object, domains, devices), bandwidth));
        } else if name.is_none_or(|name| name == "NUMALatency")
            && matrix.objects().all(|it| it.is_some_and(|it| it.object_type() == ObjectType::NUMANode))
        {
            let latency = |value: u64| {
                let value = i32::try_from(value).ok().filter(|value| (1..=1_000_000).contains(value))?;
                Some(Link {
                    kind: "Interconnect".to_owned(),
                    relative_latency: Some(value),
                    ..Link::default()
                })
            };
            links.extend(both_ways(&matrix, numa, latency));
        }
    }
    links
}

/// The link from a NUMA domain to each of its devices, with the bandwidth of the device's PCIe link.
fn pcie(topology: &Topology, domains: &[Domain], devices: &[Device]) -> Vec<Link> {
    let mut links = Vec::new();
    for object in topology.objects_with_type(ObjectType::PCIDevice) {
        let Some(ObjectAttributes::PCIDevice(attributes)) = object.attributes() else { continue };
        let address = pci::address(attributes);
        let Some(device) = devices.iter().find(|it| it.pci_bus_id.as_ref() == Some(&address)) else {
            continue;
        };
        let near = object.first_non_io_ancestor().and_then(|it| domains::of(domains, it));
        let Some(near) = near else { continue };
        links.push(Link {
            source: near.device.id.clone(),
            destination: device.id.clone(),
            kind: "PCIe".to_owned(),
            bandwidth_bytes_per_second: bytes_per_second(attributes.link_speed()),
            relative_latency: None,
        });
    }
    links
}

/// Bytes per second from GB/s; 0 means unknown, and values above a terabyte per second are implausible.
fn bytes_per_second(gigabytes: f32) -> Option<i64> {
    // An f32 is precise to about a megabyte.
    let megabytes = (f64::from(gigabytes) * 1000.0).floor();
    (1.0..1e6).contains(&megabytes).then(|| {
        #[expect(clippy::cast_possible_truncation, reason = "below a million")]
        let megabytes = megabytes as i64;
        megabytes * 1_000_000
    })
}

/// The links of a matrix: one per pair if both directions are equal, otherwise one per direction.
fn both_ways(
    matrix: &Distances<'_>,
    id: impl Fn(&TopologyObject) -> Option<String>,
    link: impl Fn(u64) -> Option<Link>,
) -> Vec<Link> {
    let ids: Vec<_> = matrix.objects().map(|object| object.and_then(&id)).collect();
    let mut values = BTreeMap::new();
    for ((from, to), value) in matrix.enumerate_distances() {
        if let (Some(from), Some(to)) = (&ids[from], &ids[to])
            && from != to
        {
            values.insert((from, to), value);
        }
    }
    let mut links = Vec::new();
    for (&(from, to), &value) in &values {
        let back = values.get(&(to, from)).copied();
        if from > to && back == Some(value) {
            continue;
        }
        links.extend(link(value).map(|link| Link { source: from.clone(), destination: to.clone(), ..link }));
    }
    links
}

fn numa(object: &TopologyObject) -> Option<String> {
    object.os_index().map(|index| format!("numa-{index}"))
}

/// The device at the end of a GPU link; processors with such links are identified by their package.
fn end(object: &TopologyObject, domains: &[Domain], devices: &[Device]) -> Option<String> {
    match object.object_type() {
        ObjectType::NUMANode => numa(object),
        ObjectType::Package => domains::of(domains, object).map(|domain| domain.device.id.clone()),
        _ => {
            let Some(ObjectAttributes::PCIDevice(attributes)) = pci_of(object)?.attributes() else {
                return None;
            };
            let address = pci::address(attributes);
            devices.iter().find(|it| it.pci_bus_id.as_ref() == Some(&address)).map(|it| it.id.clone())
        }
    }
}
