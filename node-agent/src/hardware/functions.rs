//! PCI functions that are no separate devices: virtual functions (SR-IOV), and management functions of a board.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crds::{Device, NodeTopologySpec};

use super::changes::names;

/// The addresses of virtual functions: each links to its physical function.
///
/// Inside a virtual machine the link is missing, and the function is an ordinary device.
pub fn virtual_ones(root: &Path) -> BTreeSet<String> {
    let devices = root.join("sys/bus/pci/devices");
    let is_virtual = |address: &String| devices.join(address).join("physfn").exists();
    names(&devices).into_iter().filter(is_virtual).collect()
}

/// Removes the devices at these addresses, with their children and links.
pub fn without(spec: &mut NodeTopologySpec, addresses: &BTreeSet<String>) {
    let is_one = |device: &Device| device.pci_bus_id.as_ref().is_some_and(|at| addresses.contains(at));
    let gone: BTreeSet<String> =
        spec.devices.iter().filter(|it| is_one(it)).map(|it| it.id.clone()).collect();
    if gone.is_empty() {
        return;
    }
    spec.devices.retain(|device| !gone.contains(&device.id));
    spec.devices.retain(|device| device.parent.as_ref().is_none_or(|parent| !gone.contains(parent)));
    let is_present: BTreeSet<&str> = spec.devices.iter().map(|device| device.id.as_str()).collect();
    spec.links
        .retain(|link| [&link.source, &link.destination].iter().all(|end| is_present.contains(end.as_str())));
}

/// Merges the functions of each FPGA board into one device.
///
/// Function 0 of an Alveo manages the board (`xclmgmt`, `ami`); programs use the following ones. The first of these is
/// kept, and of an Intel board function 0. It inherits attributes that only another function reports.
pub fn join_boards(devices: Vec<Device>) -> Vec<Device> {
    let mut boards = BTreeMap::<String, Vec<Device>>::new();
    let mut others = Vec::new();
    for device in devices {
        match slot(&device) {
            Some(slot) => boards.entry(slot.to_owned()).or_default().push(device),
            None => others.push(device),
        }
    }
    others.retain(|device| virtio_slot(device).is_none_or(|slot| !boards.contains_key(slot)));
    others.extend(boards.into_values().map(|mut functions| {
        functions.sort_by(|one, other| one.pci_bus_id.cmp(&other.pci_bus_id));
        let is_managed = functions.iter().all(|it| it.vendor.as_deref() == Some("xilinx"));
        let place = usize::from(is_managed && functions.len() > 1);
        let mut board = functions.swap_remove(place);
        for other in functions {
            board.model = board.model.or(other.model);
            board.uuid = board.uuid.or(other.uuid);
            board.numa_node = board.numa_node.or(other.numa_node);
            if board.compute_resources.is_empty() {
                board.compute_resources = other.compute_resources;
            }
            if board.memory_spaces.is_empty() {
                board.memory_spaces = other.memory_spaces;
            }
        }
        board
    }));
    others
}

/// Whether a device is a function of a board that is listed under another function. Older agents published such
/// devices.
pub fn is_of_board(device: &Device, devices: &[Device]) -> bool {
    slot(device)
        .or_else(|| virtio_slot(device))
        .is_some_and(|slot_of_it| devices.iter().any(|it| it.id != device.id && slot(it) == Some(slot_of_it)))
}

/// Whether a device of another collector is, by its address, another function of a listed board.
pub fn is_beside_board(found: &Device, devices: &[Device]) -> bool {
    let address = found.pci_bus_id.as_deref();
    let place = address.and_then(|address| Some(address.rsplit_once('.')?.0));
    let other = |it: &&Device| it.pci_bus_id.as_deref() != address && slot(it) == place;
    place.is_some() && devices.iter().any(|it| other(&it))
}

/// The slot of an FPGA board with several functions: the address without the function number.
fn slot(device: &Device) -> Option<&str> {
    let is_board =
        device.type_ == "FPGA" && matches!(device.vendor.as_deref(), Some("xilinx" | "intel" | "silicom"));
    Some(device.pci_bus_id.as_deref().filter(|_| is_board)?.rsplit_once('.')?.0)
}

/// The slot of a virtio function with the class of an accelerator: boards with Intel's Open FPGA Stack have one, for
/// the network interface of an image.
fn virtio_slot(device: &Device) -> Option<&str> {
    let is_virtio = device.type_ == "Accelerator" && device.vendor.as_deref() == Some("virtio");
    Some(device.pci_bus_id.as_deref().filter(|_| is_virtio)?.rsplit_once('.')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::Link;
    use std::{fs, os::unix::fs::symlink};

    fn function(type_: &str, vendor: &str, address: &str, model: Option<&str>) -> Device {
        Device {
            id: format!("{}-{address}", type_.to_lowercase()),
            type_: type_.into(),
            vendor: Some(vendor.into()),
            model: model.map(Into::into),
            pci_bus_id: Some(address.into()),
            ..Device::default()
        }
    }

    fn ids(devices: &[Device]) -> Vec<&str> {
        devices.iter().map(|device| device.id.as_str()).collect()
    }

    /// As recorded from a network card with two virtual functions, one of which has a GPU next to it.
    #[test]
    fn a_virtual_function_is_found_by_its_link_and_removed_with_its_links() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("sys/devices/pci0000:00/0000:00:02.0");
        let bus = root.path().join("sys/bus/pci/devices");
        fs::create_dir_all(&bus).unwrap();
        for address in ["0000:03:00.0", "0000:03:00.2", "0000:03:00.3", "0000:3b:00.0"] {
            fs::create_dir_all(port.join(address)).unwrap();
            symlink(port.join(address), bus.join(address)).unwrap();
        }
        for (number, address) in ["0000:03:00.2", "0000:03:00.3"].into_iter().enumerate() {
            symlink("../0000:03:00.0", port.join(address).join("physfn")).unwrap();
            symlink(format!("../{address}"), port.join(format!("0000:03:00.0/virtfn{number}"))).unwrap();
        }
        let found = virtual_ones(root.path());
        assert_eq!(found.iter().collect::<Vec<_>>(), ["0000:03:00.2", "0000:03:00.3"]);

        let nic = |address| function("NIC", "mellanox", address, None);
        let link = |to: &str| Link {
            source: "gpu-0000:3b:00.0".into(),
            destination: to.into(),
            kind: "PCIe".into(),
            ..Link::default()
        };
        let mut spec = NodeTopologySpec {
            devices: vec![
                nic("0000:03:00.0"),
                nic("0000:03:00.2"),
                nic("0000:03:00.3"),
                function("GPU", "nvidia", "0000:3b:00.0", None),
            ],
            links: vec![link("nic-0000:03:00.0"), link("nic-0000:03:00.2")],
        };
        without(&mut spec, &found);
        assert_eq!(ids(&spec.devices), ["nic-0000:03:00.0", "gpu-0000:3b:00.0"]);
        assert_eq!(spec.links, [link("nic-0000:03:00.0")]);
    }

    #[test]
    fn a_board_is_one_device_whatever_functions_it_has() {
        let alveo = |address, model| function("FPGA", "xilinx", address, model);
        let gpu = function("GPU", "nvidia", "0000:3b:00.0", None);
        let joined = join_boards(vec![
            gpu,
            alveo("0000:5e:00.0", Some("Alveo U250")),
            alveo("0000:5e:00.1", None),
            alveo("0000:86:00.2", None),
            alveo("0000:86:00.1", None),
            alveo("0000:86:00.0", None),
            alveo("0000:af:00.0", Some("Alveo U280")),
        ]);
        let expected = ["gpu-0000:3b:00.0", "fpga-0000:5e:00.1", "fpga-0000:86:00.1", "fpga-0000:af:00.0"];
        assert_eq!(ids(&joined), expected);
        assert_eq!(joined[1].model.as_deref(), Some("Alveo U250"));
        // functions that an older agent published are not reported as lost
        assert!(is_of_board(&alveo("0000:5e:00.0", None), &joined));
        assert!(!is_of_board(&alveo("0000:af:00.0", None), &joined), "it is listed itself");
        assert!(!is_of_board(&alveo("0000:d8:00.0", None), &joined), "that one is lost");
        // the kernel's class of FPGA managers lists it without a vendor
        let manager = |address: &str| Device { vendor: None, ..function("FPGA", "", address, None) };
        assert!(is_beside_board(&manager("0000:5e:00.0"), &joined));
        assert!(!is_beside_board(&manager("0000:5e:00.1"), &joined), "it is the board");
        assert!(!is_beside_board(&manager("0000:3b:00.1"), &joined), "it is next to a GPU");
    }

    /// An N6001 has four functions with its own id, and one of virtio.
    #[test]
    fn a_board_with_the_open_fpga_stack_is_its_function_0() {
        let intel = |address| function("FPGA", "intel", address, None);
        let virtio = |type_, address| function(type_, "virtio", address, None);
        let joined = join_boards(vec![
            intel("0000:b1:00.4"),
            intel("0000:b1:00.0"),
            intel("0000:b1:00.1"),
            intel("0000:b1:00.2"),
            virtio("Accelerator", "0000:b1:00.3"),
            virtio("Accelerator", "0000:b2:00.3"),
            virtio("NIC", "0000:b1:00.5"),
            function("FPGA", "silicom", "0000:c1:00.1", None),
            function("FPGA", "silicom", "0000:c1:00.0", None),
            intel("0000:d1:00.0"),
        ]);
        let expected = [
            "accelerator-0000:b2:00.3",
            "nic-0000:b1:00.5",
            "fpga-0000:b1:00.0",
            "fpga-0000:c1:00.0",
            "fpga-0000:d1:00.0",
        ];
        assert_eq!(ids(&joined), expected);
        // functions that an older agent published are not reported as lost
        assert!(is_of_board(&intel("0000:b1:00.1"), &joined));
        assert!(is_of_board(&virtio("Accelerator", "0000:b1:00.3"), &joined));
        assert!(!is_of_board(&virtio("Accelerator", "0000:b2:00.3"), &joined));
    }
}
