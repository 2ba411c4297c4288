//! Devices other than processors and their memory: PCI devices, and the attributes that drivers report.

use std::collections::BTreeMap;

use crds::{ComputeResource, Device, MemorySpace};
use hwlocality::{
    Topology,
    object::{TopologyObject, attributes::ObjectAttributes, types::ObjectType},
};

use super::{
    domains::{self, Domain},
    error::Error,
    object::{info, number, pci_of},
    pci,
};
use crate::hardware::{functions::join_boards, pci_ids};

/// The backends that report devices, the most precise first.
const BACKENDS: [&str; 6] = ["CUDA", "NVML", "RSMI", "LevelZero", "OpenCL", "VectorEngine"];

/// Each device that an actor could use, once, whichever backends report it. Two PCI devices at one address are an error.
pub fn read(topology: &Topology, domains: &[Domain]) -> Result<Vec<Device>, Error> {
    let mut devices = BTreeMap::<String, Device>::new();
    for object in topology.objects_with_type(ObjectType::PCIDevice) {
        let Some(ObjectAttributes::PCIDevice(attributes)) = object.attributes() else { continue };
        let Some(type_) = pci::device_type(attributes) else { continue };
        let address = pci::address(attributes);
        let near = object.first_non_io_ancestor().and_then(|it| domains::of(domains, it));
        let named = |key| info(object, key).map(str::to_owned);
        let device = Device {
            id: format!("{}-{address}", prefix(type_)),
            type_: type_.to_owned(),
            vendor: pci_ids::vendor(attributes.vendor_id())
                .map(str::to_owned)
                .or_else(|| named("PCIVendor"))
                .or_else(|| (type_ == "Accelerator").then(|| format!("{:#06x}", attributes.vendor_id()))),
            model: named("PCIDevice"),
            pci_bus_id: Some(address.clone()),
            pci_root_port: pci::root_port(object),
            numa_node: near.and_then(|domain| domain.device.numa_node),
            ..Device::default()
        };
        if devices.insert(address.clone(), device).is_some() {
            return Err(Error::Address(address));
        }
    }
    let mut unaddressed = BTreeMap::<&str, Vec<Device>>::new();
    let mut reported: Vec<_> =
        topology.objects_with_type(ObjectType::OSDevice).filter_map(|it| Some((backend(it)?, it))).collect();
    reported.sort_by_key(|(rank, object)| (*rank, object.logical_index()));
    for (rank, object) in reported {
        if info(object, "OpenCLDeviceType") == Some("CPU") {
            continue; // the processors are NUMA domains already
        }
        let type_ = type_of(object);
        let Some(ObjectAttributes::PCIDevice(attributes)) =
            pci_of(object).and_then(TopologyObject::attributes)
        else {
            let Some(name) = object.name().and_then(|name| name.to_str().ok()) else { continue };
            let id = format!("{}-{name}", prefix(type_));
            let mut device = Device { id, type_: type_.to_owned(), ..Device::default() };
            describe(&mut device, object);
            unaddressed.entry(BACKENDS[rank]).or_default().push(device);
            continue;
        };
        let address = pci::address(attributes);
        // A compute device is listed whatever its PCI class.
        let device = devices.entry(address.clone()).or_insert_with(|| {
            let near = object.first_non_io_ancestor().and_then(|it| domains::of(domains, it));
            Device {
                id: format!("{}-{address}", prefix(type_)),
                type_: type_.to_owned(),
                vendor: pci_ids::vendor(attributes.vendor_id()).map(str::to_owned),
                pci_bus_id: Some(address.clone()),
                pci_root_port: pci_of(object).and_then(pci::root_port),
                numa_node: near.and_then(|domain| domain.device.numa_node),
                ..Device::default()
            }
        });
        describe(device, object);
    }
    // Devices without an address cannot be matched across backends, so only the most precise backend is used.
    let chosen = BACKENDS.iter().find_map(|backend| unaddressed.remove(backend)).unwrap_or_default();
    Ok(join_boards(devices.into_values().chain(chosen).collect()))
}

/// The prefix of the id of a device of this type.
pub fn prefix(type_: &str) -> String {
    type_.to_lowercase().replace(' ', "-")
}

/// The index of an object's backend in [`BACKENDS`]; `None` if it is not a compute device.
fn backend(object: &TopologyObject) -> Option<usize> {
    let subtype = object.subtype().and_then(|subtype| subtype.to_str().ok());
    let name = info(object, "Backend").or(subtype)?;
    BACKENDS.iter().position(|backend| *backend == name)
}

fn type_of(object: &TopologyObject) -> &'static str {
    match info(object, "OpenCLDeviceType") {
        Some("GPU") => "GPU",
        Some(_) => "Accelerator",
        None if info(object, "Backend") == Some("VectorEngine") => "Accelerator",
        None => "GPU",
    }
}

/// Adds the attributes that a driver reports. The first backend takes precedence.
fn describe(device: &mut Device, object: &TopologyObject) {
    let text = |keys: &[&str]| keys.iter().find_map(|key| info(object, key)).map(str::to_owned);
    if let Some(model) = text(&["GPUModel", "CoProcModel", "OpenCLDeviceName"])
        && device.compute_resources.is_empty()
        && device.memory_spaces.is_empty()
    {
        device.model = Some(model);
    }
    if device.vendor.is_none() {
        device.vendor = text(&["GPUVendor"]).map(|vendor| short_vendor(&vendor));
    }
    if device.uuid.is_none() {
        device.uuid = text(&["NVIDIAUUID", "AMDUUID", "LevelZeroUUID"]);
    }
    if device.compute_resources.is_empty() {
        let count = |type_: &str, keys: &[&str]| {
            let count = keys.iter().find_map(|key| number(object, key)).filter(|count| *count > 0)?;
            Some(ComputeResource::new(type_, count.try_into().unwrap_or(i32::MAX)))
        };
        device.compute_resources.extend(
            count("Streaming Multiprocessor", &["CUDAMultiProcessors"])
                .or_else(|| count("Compute Unit", &["OpenCLComputeUnits"]))
                .or_else(|| count("Core", &["VectorEngineCores"])),
        );
    }
    if device.memory_spaces.is_empty() {
        // All of these are in KiB.
        let keys = [
            "CUDAGlobalMemorySize",
            "RSMIVRAMSize",
            "LevelZeroHBMSize",
            "LevelZeroDDRSize",
            "OpenCLGlobalMemorySize",
            "VectorEngineMemorySize",
        ];
        let kibibytes = keys.iter().find_map(|key| number(object, key)).filter(|size| *size > 0);
        device.memory_spaces.extend(kibibytes.map(|size| MemorySpace {
            type_: "Device RAM".to_owned(),
            size_bytes: size.saturating_mul(1024),
        }));
    }
}

/// The common spelling of a vendor: `nvidia` for `NVIDIA Corporation`.
pub fn short_vendor(text: &str) -> String {
    let lower = text.to_lowercase();
    let known = [
        ("nvidia", "nvidia"),
        ("advanced micro", "amd"),
        ("amd", "amd"),
        ("intel", "intel"),
        ("xilinx", "xilinx"),
    ];
    known.iter().find(|(part, _)| lower.contains(part)).map_or(lower.clone(), |(_, name)| (*name).to_owned())
}
