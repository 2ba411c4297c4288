//! Makes a topology acceptable to the API server, whatever a driver or a file reported.

use std::collections::BTreeSet;

use crds::{Device, NodeTopologySpec};

/// The maximum number of devices of a NodeTopology.
const DEVICES: usize = 256;
/// The maximum number of links of a NodeTopology.
const LINKS: usize = 1024;
/// The maximum length of a text of a device.
const TEXT: usize = 128;
/// The largest number of a NUMA domain.
const NUMA: i32 = 4095;
/// The maximum number of computing units of one type on one device.
const UNITS: i32 = 1_000_000;
/// The maximum number of types of computing units, and of memories, of one device.
const PARTS: usize = 64;
/// The maximum number of aliases of a device.
const ALIASES: usize = 16;
/// The maximum number of kinds of cores of one domain, and the largest capacity of a core.
const KINDS: usize = 16;
const CAPACITY: i32 = 65_536;

/// Types of devices by relevance for placement; all others come after them.
const BY_USE: [&str; 8] =
    ["NUMA Domain", "GPU", "FPGA", "NPU", "Accelerator", "GPU Partition", "Memory Domain", "NIC"];

/// Truncates a topology to the limits of a NodeTopology, and sorts it; returns sentences about what was removed.
pub fn fit(spec: &mut NodeTopologySpec) -> Vec<String> {
    let mut said = Vec::new();
    for device in &mut spec.devices {
        fit_device(device);
    }
    spec.devices.retain(|device| !device.id.is_empty() && !device.type_.is_empty());

    let use_of =
        |device: &Device| BY_USE.iter().position(|type_| *type_ == device.type_).unwrap_or(BY_USE.len());
    spec.devices.sort_by(|a, b| (use_of(a), &a.id).cmp(&(use_of(b), &b.id)));
    let mut known = BTreeSet::new();
    spec.devices.retain(|device| known.insert(device.id.clone()));
    if let Some(lost) = spec.devices.len().checked_sub(DEVICES).filter(|lost| *lost > 0) {
        said.push(format!(
            "{} devices were found, a NodeTopology holds {DEVICES}: {lost} are left out, network interfaces first",
            spec.devices.len()
        ));
        spec.devices.truncate(DEVICES);
    }
    let known: BTreeSet<String> = spec.devices.iter().map(|device| device.id.clone()).collect();
    for device in &mut spec.devices {
        for other in [&mut device.parent, &mut device.nearest_memory] {
            *other = other.take().filter(|other| *other != device.id && known.contains(other));
        }
    }

    spec.links.retain(|link| {
        known.contains(&link.source)
            && known.contains(&link.destination)
            && link.source != link.destination
            && (1..=64).contains(&link.kind.chars().count())
            && link.bandwidth_bytes_per_second.is_none_or(|bandwidth| bandwidth >= 0)
            && link.relative_latency.is_none_or(|latency| (0..=UNITS).contains(&latency))
    });
    if let Some(lost) = spec.links.len().checked_sub(LINKS).filter(|lost| *lost > 0) {
        said.push(format!(
            "{} links were found, a NodeTopology holds {LINKS}: {lost} are left out, the slowest and farthest first",
            spec.links.len()
        ));
        // Bandwidth links join GPUs with GPUs and processors; latencies exist between all NUMA domains.
        spec.links
            .sort_by_key(|link| (std::cmp::Reverse(link.bandwidth_bytes_per_second), link.relative_latency));
        spec.links.truncate(LINKS);
    }
    crate::source::sort(spec);
    spec.links.dedup_by(|a, b| (&a.source, &a.destination, &a.kind) == (&b.source, &b.destination, &b.kind));
    said
}

fn fit_device(device: &mut Device) {
    cut(&mut device.id, TEXT);
    cut(&mut device.type_, 64);
    for text in [
        &mut device.vendor,
        &mut device.model,
        &mut device.uuid,
        &mut device.driver,
        &mut device.parent,
        &mut device.nearest_memory,
    ] {
        fit_text(text, TEXT);
    }
    for alias in &mut device.aliases {
        cut(alias, TEXT);
    }
    device.aliases.retain(|alias| !alias.is_empty());
    device.aliases.sort();
    device.aliases.dedup();
    device.aliases.truncate(ALIASES);
    fit_text(&mut device.pci_bus_id, 32);
    fit_text(&mut device.pci_root_port, 32);
    device.numa_node = device.numa_node.filter(|numa| (0..=NUMA).contains(numa));
    device.network_bandwidth_bytes_per_second =
        device.network_bandwidth_bytes_per_second.filter(|bandwidth| *bandwidth >= 0);

    let mut types = BTreeSet::new();
    device.compute_resources.retain_mut(|resource| {
        cut(&mut resource.type_, 64);
        resource.count = resource.count.clamp(0, UNITS);
        resource.kinds.truncate(KINDS);
        for kind in &mut resource.kinds {
            fit_text(&mut kind.name, 64);
            kind.count = kind.count.clamp(0, UNITS);
            kind.relative_capacity = kind.relative_capacity.clamp(1, CAPACITY);
        }
        !resource.type_.is_empty() && types.insert(resource.type_.clone())
    });
    device.compute_resources.truncate(PARTS);
    device.memory_spaces.retain_mut(|space| {
        cut(&mut space.type_, 64);
        space.size_bytes >= 0 && !space.type_.is_empty()
    });
    device.memory_spaces.truncate(PARTS);
}

fn fit_text(text: &mut Option<String>, most: usize) {
    if let Some(text) = text {
        cut(text, most);
    }
    *text = text.take().filter(|text| !text.is_empty());
}

/// Truncates a text, and removes control characters.
fn cut(text: &mut String, most: usize) {
    if text.chars().count() > most || text.chars().any(char::is_control) {
        *text = text.chars().filter(|c| !c.is_control()).take(most).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::{ComputeResource, CoreKind, Link};

    fn device(id: &str, type_: &str) -> Device {
        Device { id: id.into(), type_: type_.into(), ..Device::default() }
    }

    #[test]
    fn what_is_too_much_is_left_out_by_use_and_said() {
        let mut spec = NodeTopologySpec::default();
        spec.devices.extend((0..300).map(|n| device(&format!("nic-{n:03}"), "NIC")));
        spec.devices.extend((0..20).map(|n| device(&format!("gpu-{n:02}"), "GPU")));
        spec.devices.push(device("numa-0", "NUMA Domain"));
        for from in 0..20 {
            for to in 0..60 {
                spec.links.push(Link {
                    source: format!("gpu-{from:02}"),
                    destination: format!("nic-{to:03}"),
                    kind: "PCIe".into(),
                    bandwidth_bytes_per_second: Some(from),
                    relative_latency: None,
                });
            }
        }
        assert_eq!(
            fit(&mut spec),
            [
                "321 devices were found, a NodeTopology holds 256: 65 are left out, network interfaces first",
                "1200 links were found, a NodeTopology holds 1024: 176 are left out, the slowest and farthest first",
            ]
        );
        assert_eq!(spec.summary(), "20 GPU, 235 NIC, 1 NUMA Domain");
        assert!(spec.links.iter().all(|link| link.bandwidth_bytes_per_second > Some(1)), "the slowest went");
        let again = spec.clone();
        assert!(fit(&mut spec).is_empty());
        assert_eq!(spec, again, "what fits is left as it is");
    }

    #[test]
    fn what_the_schema_refuses_is_put_right() {
        let mut gpu = device("gpu-0", "GPU");
        gpu.model = Some("x".repeat(500));
        gpu.vendor = Some(String::new());
        gpu.uuid = Some("GPU\n-1\0".into());
        gpu.parent = Some("unknown".into());
        gpu.numa_node = Some(-1);
        gpu.compute_resources = [5, 7].map(|count| ComputeResource::new("Core", -count)).into();
        let link = |to: &str| Link {
            source: "gpu-0".into(),
            destination: to.into(),
            kind: "PCIe".into(),
            ..Link::default()
        };
        let devices = vec![gpu, device("gpu-0", "twice"), device("", "nameless"), device("nic-0", "NIC")];
        let mut spec = NodeTopologySpec {
            devices,
            links: vec![link("nic-0"), link("nic-0"), link("gpu-9"), link("gpu-0")],
        };
        assert!(fit(&mut spec).is_empty());
        let [gpu, _nic] = &spec.devices[..] else { panic!("{spec:?}") };
        assert_eq!((gpu.model.as_ref().map(String::len), gpu.uuid.as_deref()), (Some(128), Some("GPU-1")));
        assert_eq!((&gpu.vendor, &gpu.parent, gpu.numa_node), (&None, &None, None));
        assert_eq!(gpu.compute_resources, [ComputeResource::new("Core", 0)]);
        assert_eq!(spec.links, [link("nic-0")]);
    }

    /// Whatever drivers report, the result is valid for the API server, and fitting it again changes nothing.
    #[test]
    fn ten_thousand_topologies_of_anything_fit() {
        let mut rng = fastrand::Rng::with_seed(3);
        let names = ["", "a", "gpu-0", "numa-0", "\u{1}", "ü", "x\ny"];
        let long = "l".repeat(200);
        for _ in 0..10_000 {
            let mut text = || match rng.usize(..=names.len()) {
                at if at < names.len() => names[at].to_owned(),
                _ => long.clone(),
            };
            let mut maybe = || Some(text());
            let (ids, parents) = ([maybe(), maybe(), maybe(), maybe()], [maybe(), maybe(), maybe(), maybe()]);
            let texts = [maybe(), maybe(), maybe(), maybe()];
            let number = |rng: &mut fastrand::Rng| [0, -1, 7, i32::MAX, i32::MIN][rng.usize(..5)];
            let devices = ids.iter().zip(parents).map(|(id, parent)| Device {
                id: id.clone().unwrap_or_default(),
                type_: texts[0].clone().unwrap_or_default(),
                model: texts[1].clone(),
                pci_bus_id: texts[2].clone(),
                parent,
                numa_node: Some(number(&mut rng)),
                compute_resources: (0..rng.usize(..3))
                    .map(|_| ComputeResource {
                        type_: texts[rng.usize(..4)].clone().unwrap_or_default(),
                        count: number(&mut rng),
                        kinds: vec![CoreKind {
                            name: texts[rng.usize(..4)].clone(),
                            count: number(&mut rng),
                            relative_capacity: number(&mut rng),
                        }],
                    })
                    .collect(),
                aliases: texts[..rng.usize(..5)].iter().flatten().cloned().collect(),
                nearest_memory: ids[rng.usize(..4)].clone(),
                ..Device::default()
            });
            let devices: Vec<_> = devices.collect();
            let links = (0..rng.usize(..4)).map(|_| Link {
                source: ids[rng.usize(..4)].clone().unwrap_or_default(),
                destination: ids[rng.usize(..4)].clone().unwrap_or_default(),
                kind: texts[3].clone().unwrap_or_default(),
                bandwidth_bytes_per_second: Some(number(&mut rng).into()),
                relative_latency: Some(number(&mut rng)),
            });
            let mut spec = NodeTopologySpec { links: links.collect(), devices };
            fit(&mut spec);
            assert_eq!(crate::source::document::check(&spec), Ok(()), "{spec:?}");
            for device in &spec.devices {
                let lengths = [
                    Some(&device.id),
                    Some(&device.type_),
                    device.model.as_ref(),
                    device.pci_bus_id.as_ref(),
                ];
                assert!(
                    lengths.into_iter().flatten().all(|text| (1..=128).contains(&text.chars().count())),
                    "{device:?}"
                );
                assert!(device.numa_node.is_none_or(|numa| (0..=4095).contains(&numa)), "{device:?}");
            }
            let again = spec.clone();
            assert!(fit(&mut spec).is_empty() && spec == again, "{again:?}");
        }
    }
}
