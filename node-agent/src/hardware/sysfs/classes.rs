//! The kernel's classes `drm` and `accel`: which PCI devices have a driver that computes, and by which names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crds::{Device, MemorySpace};

use super::{CLASSES, health, number, numbered, text};
use crate::hardware::{
    changes::names,
    hwloc::{is_address, prefix},
    pci_ids,
};

/// A PCI device with an entry in one of the classes.
pub struct ClassDevice {
    /// Its address.
    pub address: String,
    /// Its folder under `/sys/devices`.
    pub folder: PathBuf,
    /// Its names in the classes, such as `card0`, `renderD128`, `accel0`; without those of connectors.
    pub names: Vec<String>,
    /// Its type, vendor and driver.
    pub type_: &'static str,
    pub vendor: Option<&'static str>,
    pub driver: Option<String>,
}

/// The entries by address.
pub fn entries(root: &Path) -> Vec<ClassDevice> {
    let mut entries = BTreeMap::<String, ClassDevice>::new();
    for class in CLASSES {
        let folder = root.join("sys/class").join(class);
        let is_device = |name: &String| {
            let digits = ["card", "renderD", "accel"].iter().find_map(|word| name.strip_prefix(word));
            digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|digit| digit.is_ascii_digit()))
        };
        for name in names(&folder).into_iter().filter(is_device) {
            let Ok(device) = fs::canonicalize(folder.join(&name).join("device")) else { continue };
            let address = device.file_name().and_then(|name| name.to_str()).filter(|name| is_address(name));
            let Some(address) = address.map(str::to_owned) else { continue };
            let Some((type_, vendor)) = kind(&device, class) else { continue };
            let driver = || driver(&device);
            let entry = entries.entry(address.clone()).or_insert_with(|| ClassDevice {
                address,
                driver: driver(),
                folder: device.clone(),
                names: Vec::new(),
                type_,
                vendor,
            });
            entry.names.push(name);
        }
    }
    entries.into_values().collect()
}

/// The type and the vendor of a device, unless it is for displays only. A driver of the class `accel` is for an NPU.
fn kind(device: &Path, class: &str) -> Option<(&'static str, Option<&'static str>)> {
    let id = |file: &str| u16::try_from(number(device, file)?).ok();
    let (vendor, id) = (id("vendor")?, id("device")?);
    let pci_class = u16::try_from(number(device, "class")? >> 8).ok()?;
    let type_ = match pci_ids::device_type(pci_class, vendor, id) {
        Some("Accelerator") | None if class == "accel" => Some("NPU"),
        other => other.filter(|type_| *type_ != "NIC"),
    };
    Some((type_?, pci_ids::vendor(vendor)))
}

/// The name of the driver of a device.
fn driver(device: &Path) -> Option<String> {
    let driver = fs::canonicalize(device.join("driver")).ok()?;
    Some(driver.file_name()?.to_str()?.to_owned())
}

/// The devices of the classes.
pub fn read(root: &Path) -> Vec<Device> {
    entries(root).into_iter().map(|entry| device(root, entry)).collect()
}

fn device(root: &Path, entry: ClassDevice) -> Device {
    let folder = &entry.folder;
    let mut device = Device {
        id: format!("{}-{}", prefix(entry.type_), entry.address),
        type_: entry.type_.to_owned(),
        vendor: entry.vendor.map(str::to_owned),
        health: health::of(folder, entry.driver.as_deref()),
        numa_node: number(folder, "numa_node").and_then(|numa| numa.try_into().ok()),
        pci_bus_id: Some(entry.address),
        aliases: entry.names,
        ..Device::default()
    };
    if entry.vendor == Some("nvidia") {
        return device;
    }
    device.driver = entry.driver.map(|name| {
        let version = text(&root.join("sys/module").join(&name), "version");
        version.map(|version| format!("{name} {version}")).unwrap_or(name)
    });
    // amdgpu
    device.model = text(folder, "product_name");
    let unique = text(folder, "unique_id").filter(|id| id.bytes().any(|digit| digit != b'0'));
    device.aliases.extend(unique.clone());
    device.uuid = unique.map(|id| format!("GPU-{id}"));
    device.aliases.extend(text(folder, "serial_number"));
    let bytes = memory(folder, &device.aliases).and_then(|bytes| i64::try_from(bytes).ok());
    device.memory_spaces.extend(
        bytes
            .filter(|bytes| *bytes > 0)
            .map(|size_bytes| MemorySpace { type_: "Device RAM".to_owned(), size_bytes }),
    );
    device
}

/// The local memory in bytes, as amdgpu, xe or i915 report it.
fn memory(folder: &Path, names: &[String]) -> Option<u64> {
    let of_tiles = || {
        let tiles = numbered(folder, "tile");
        let sizes = tiles.iter().filter_map(|tile| number(tile, "physical_vram_size_bytes"));
        sizes.reduce(u64::saturating_add)
    };
    let of_card = || {
        let cards = names.iter().filter(|name| name.starts_with("card"));
        cards.into_iter().find_map(|card| number(&folder.join("drm").join(card), "lmem_total_bytes"))
    };
    number(folder, "mem_info_vram_total").or_else(of_tiles).or_else(of_card)
}
