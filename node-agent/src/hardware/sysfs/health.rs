//! The health of a device, as reported by its driver and its bus.

use std::{fs::File, io::Read, path::Path};

use crds::Health;

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

/// Whether a device does not respond: its bus then returns all ones. A suspended device is not read, as that would wake
/// it.
fn is_off_bus(folder: &Path) -> bool {
    let is_suspended = text(&folder.join("power"), "runtime_status").as_deref() == Some("suspended");
    let mut vendor = [0_u8; 2];
    let mut read = || File::open(folder.join("config"))?.read_exact(&mut vendor);
    !is_suspended && read().is_ok() && vendor == [0xff, 0xff]
}
