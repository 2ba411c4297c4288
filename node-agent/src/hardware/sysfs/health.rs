//! The health of a device, as reported by its driver and its bus.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    path::Path,
};

use crds::{Device, Health, NodeTopologySpec};

use super::text;

/// Drivers that reserve a device for a virtual machine.
const FOR_GUESTS: [&str; 3] = ["vfio-pci", "pci-stub", "pciback"];

/// Lost if it does not respond on its bus, or its driver disabled it; unknown if it is reserved for a virtual machine;
/// degraded if its firmware must be replaced; otherwise ok.
pub fn of(folder: &Path, driver: Option<&str>) -> Health {
    if is_off_bus(folder) {
        return Health::Lost;
    }
    if driver.is_some_and(|driver| FOR_GUESTS.contains(&driver)) {
        return Health::Unknown;
    }
    // habanalabs
    match text(folder, "status").map(|status| status.to_ascii_lowercase()).as_deref() {
        Some("malfunction" | "disabled" | "needs reset") => return Health::Lost,
        Some(status) if status.starts_with("in reset") || status.contains("creation") => {
            return Health::Unknown;
        }
        Some(_) | None => {}
    }
    // xe
    if folder.join("survivability_mode").exists() { Health::Degraded } else { Health::Ok }
}

/// The driver that reserves a GPU or an NPU for a virtual machine, if it has such a driver.
///
/// The bus is read, because a device with such a driver has no entry in a class. Google's TPUs are no devices of virtual
/// machines: programs use them through `vfio-pci`.
pub fn reserved_by(root: &Path, device: &Device) -> Option<&'static str> {
    let may_be = matches!(device.type_.as_str(), "GPU" | "NPU") && device.vendor.as_deref() != Some("google");
    let address = device.pci_bus_id.as_ref().filter(|_| may_be)?;
    let driver = fs::read_link(root.join("sys/bus/pci/devices").join(address).join("driver")).ok()?;
    let name = driver.file_name()?.to_str()?;
    FOR_GUESTS.into_iter().find(|reserving| *reserving == name)
}

/// Sets the health of devices that are reserved for virtual machines to unknown, with their partitions, and names the driver.
pub fn mark_reserved(root: &Path, spec: &mut NodeTopologySpec) {
    let mut reserved = BTreeSet::new();
    for device in &mut spec.devices {
        if let Some(driver) = reserved_by(root, device) {
            device.health = Health::Unknown;
            device.driver = Some(driver.to_owned());
            reserved.insert(device.id.clone());
        }
    }
    let is_part = |part: &&mut Device| {
        part.type_ == "GPU Partition" && part.parent.as_ref().is_some_and(|gpu| reserved.contains(gpu))
    };
    for part in spec.devices.iter_mut().filter(is_part) {
        part.health = Health::Unknown;
    }
}

/// Whether a device does not respond: its bus then returns all ones. A suspended device is not read, as that would wake
/// it.
fn is_off_bus(folder: &Path) -> bool {
    let is_suspended = text(&folder.join("power"), "runtime_status").as_deref() == Some("suspended");
    let mut vendor = [0_u8; 2];
    let mut read = || File::open(folder.join("config"))?.read_exact(&mut vendor);
    !is_suspended && read().is_ok() && vendor == [0xff, 0xff]
}
