//! FPGAs of the kernel's classes `fpga_manager` and `fpga_region` under `/sys`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use crds::{ComputeResource, Device, Health};

use super::{changes::names, hwloc::is_address};
use crate::{metrics::CollectorState, source::Collector};

/// The FPGAs under a root (`None` if they cannot be read), and the state of the collector.
///
/// A card is identified by its PCI address, an FPGA of a system on chip by the name of its manager.
pub fn read(root: &Path) -> (Option<Vec<Device>>, Collector) {
    let class = root.join("sys/class/fpga_manager");
    let began = Instant::now();
    let managers = managers(&class);
    let mut collector = collector_state(&managers);
    let found = managers.ok().map(|managers| {
        let regions = regions_by_address(root);
        let mut devices = BTreeMap::new();
        for manager in &managers {
            let device = of_manager(root, &class.join(manager), manager, &regions);
            devices.entry(device.id.clone()).or_insert(device);
        }
        devices.into_values().collect()
    });
    collector.took = Some(began.elapsed());
    (found, collector)
}

/// The names in the class of managers, sorted; empty on a kernel without it.
fn managers(class: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(class) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    let mut names: Vec<_> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// The state of the collector, given the managers or an error.
fn collector_state(managers: &io::Result<Vec<String>>) -> Collector {
    let (state, message) = match managers {
        Ok(managers) if !managers.is_empty() => (CollectorState::Ok, String::new()),
        Ok(_) => (
            CollectorState::Absent,
            "the kernel manages no FPGA; cards with their own drivers are detected by their PCI class"
                .to_owned(),
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => (
            CollectorState::Denied,
            "cannot read /sys/class/fpga_manager: mount /sys into the agent, read-only".to_owned(),
        ),
        Err(error) => (CollectorState::Error, format!("cannot read /sys/class/fpga_manager: {error}")),
    };
    Collector { name: "fpga", state, message, took: None }
}

fn of_manager(root: &Path, folder: &Path, manager: &str, regions: &BTreeMap<Option<String>, i32>) -> Device {
    let text = |file: &str| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let address = pci_address(folder);
    let numa = address.as_ref().and_then(|address| {
        let file = root.join("sys/bus/pci/devices").join(address).join("numa_node");
        fs::read_to_string(file).ok()?.trim().parse::<i32>().ok().filter(|numa| *numa >= 0)
    });
    let count = regions.get(&address).copied().unwrap_or(0);
    let region = ComputeResource::new("FPGA Region", count);
    Device {
        id: format!("fpga-{}", address.as_deref().unwrap_or(manager)),
        type_: "FPGA".to_owned(),
        model: text("name"),
        pci_bus_id: address,
        health: match text("state").as_deref() {
            Some(state) if state.contains("error") => Health::Degraded,
            Some(_) => Health::Ok,
            None => Health::Unknown,
        },
        numa_node: numa,
        compute_resources: if count > 0 { vec![region] } else { Vec::new() },
        ..Device::default()
    }
}

/// The number of regions of each card; `None` is the key of those on the system board.
fn regions_by_address(root: &Path) -> BTreeMap<Option<String>, i32> {
    let class = root.join("sys/class/fpga_region");
    let mut regions = BTreeMap::new();
    for region in names(&class) {
        let count: &mut i32 = regions.entry(pci_address(&class.join(region))).or_default();
        *count = count.saturating_add(1);
    }
    regions
}

/// The address of the card of a class entry: the last one in its path.
fn pci_address(entry: &Path) -> Option<String> {
    let path: PathBuf = fs::canonicalize(entry).ok()?;
    let steps = path.components().rev().filter_map(|step| step.as_os_str().to_str());
    steps.filter(|step| is_address(step)).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A class entry, which links to the device.
    fn entry(root: &Path, class: &str, name: &str, at: &str, files: &[(&str, &str)]) {
        let folder = root.join("sys/devices").join(at).join(class).join(name);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
        let class = root.join("sys/class").join(class);
        fs::create_dir_all(&class).unwrap();
        symlink(folder, class.join(name)).unwrap();
    }

    #[test]
    fn an_unreadable_class_differs_from_an_absent_one() {
        let state = |kind: io::ErrorKind| collector_state(&Err(kind.into()));
        let denied = state(io::ErrorKind::PermissionDenied);
        assert!(
            denied.state == CollectorState::Denied && denied.message.contains("mount /sys"),
            "{}",
            denied.message
        );
        assert_eq!(collector_state(&Ok(Vec::new())).state, CollectorState::Absent);

        let root = tempfile::tempdir().unwrap();
        let class = root.path().join("sys/class");
        fs::create_dir_all(&class).unwrap();
        // a symbolic link to itself cannot be read
        symlink("fpga_manager", class.join("fpga_manager")).unwrap();
        let (found, collector) = read(root.path());
        assert_eq!((found, collector.state), (None, CollectorState::Error), "{}", collector.message);
    }

    #[test]
    fn cards_and_boards_are_found_with_their_regions() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let (found, collector) = read(root);
        assert_eq!((found, collector.state), (Some(Vec::new()), CollectorState::Absent));

        let card = "pci0000:3a/0000:3a:00.0/0000:3b:00.0/fpga_region/region0/dfl-fme.0/dfl-fme-mgr.1";
        entry(
            root,
            "fpga_manager",
            "fpga0",
            card,
            &[("name", "DFL FPGA Manager\n"), ("state", "operating\n")],
        );
        for region in ["region0", "region1"] {
            entry(root, "fpga_region", region, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", &[]);
        }
        let bus = root.join("sys/bus/pci/devices/0000:3b:00.0");
        fs::create_dir_all(&bus).unwrap();
        fs::write(bus.join("numa_node"), "1\n").unwrap();
        let files = [("name", "Xilinx Zynq FPGA Manager\n"), ("state", "write error: 0x00000001\n")];
        entry(root, "fpga_manager", "fpga1", "soc/f8007000.devcfg", &files);
        entry(root, "fpga_region", "region2", "soc/fpga-full", &[]);

        let (found, collector) = read(root);
        assert_eq!(collector.state, CollectorState::Ok);
        let found = found.unwrap();
        let [card, board] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (card.id.as_str(), card.pci_bus_id.as_deref()),
            ("fpga-0000:3b:00.0", Some("0000:3b:00.0"))
        );
        assert_eq!((card.numa_node, card.health), (Some(1), Health::Ok));
        assert_eq!(card.compute_resources[0].count, 2);
        assert_eq!((board.id.as_str(), board.health), ("fpga-fpga1", Health::Degraded));
        assert_eq!(board.model.as_deref(), Some("Xilinx Zynq FPGA Manager"));
        assert_eq!(board.compute_resources[0].count, 1);
    }
}
