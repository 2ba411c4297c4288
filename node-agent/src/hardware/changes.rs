//! Detects hardware changes with a few small reads, which are cheaper than a full probe.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// A fingerprint of the hardware that the kernel reports.
///
/// It covers PCI devices, FPGAs, online processors, and the memory of each NUMA domain, or of the machine if it has one
/// domain. The memory of a virtual machine can change at run time.
pub fn fingerprint(root: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    for folder in ["sys/bus/pci/devices", "sys/class/fpga_manager", "sys/class/fpga_region"] {
        names(&root.join(folder)).hash(&mut hasher);
    }
    for file in ["sys/devices/system/cpu/online", "sys/devices/system/node/online"] {
        fs::read(root.join(file)).unwrap_or_default().hash(&mut hasher);
    }
    let all = memory_of_only_domain(root);
    all.hash(&mut hasher);
    if all.is_none() {
        for folder in domains(root) {
            total(&folder.join("meminfo")).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The memory of the machine in bytes, if one NUMA domain has all of it.
///
/// In virtual machines with lazily initialized memory, the kernel reports only the initialized part for the domain, but
/// all memory for the machine.
pub fn memory_of_only_domain(root: &Path) -> Option<i64> {
    match *domains(root) {
        [_] => total(&root.join("proc/meminfo")),
        _ => None,
    }
}

/// The folders of the NUMA domains.
fn domains(root: &Path) -> Vec<PathBuf> {
    let folder = root.join("sys/devices/system/node");
    let is_domain = |name: &String| {
        name.strip_prefix("node").is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    names(&folder).into_iter().filter(is_domain).map(|name| folder.join(name)).collect()
}

/// The memory in a `meminfo` file, in bytes.
fn total(meminfo: &Path) -> Option<i64> {
    let text = fs::read_to_string(meminfo).ok()?;
    let (_, rest) = text.lines().find_map(|line| line.split_once("MemTotal:"))?;
    rest.split_whitespace().next()?.parse::<i64>().ok()?.checked_mul(1024)
}

/// The names in a folder, sorted; empty if it does not exist.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The addresses of the PCI devices; `None` if they are not visible.
pub fn on_bus(root: &Path) -> Option<BTreeSet<String>> {
    let entries = fs::read_dir(root.join("sys/bus/pci/devices")).ok()?;
    let address = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let addresses = entries.map(address).collect::<Option<BTreeSet<_>>>()?;
    // An empty bus means that it is hidden from this process.
    (!addresses.is_empty()).then_some(addresses)
}

/// The maximum bandwidth of a PCI device and its slot, in bytes per second, by address.
///
/// The current speed is not representative, as idle links run at a lower one.
pub fn pcie_capacities(root: &Path) -> BTreeMap<String, i64> {
    let devices = root.join("sys/bus/pci/devices");
    let capacity = |folder: &Path| -> Option<i64> {
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let transfers = read("max_link_speed")?.split_whitespace().next()?.parse::<f64>().ok()?;
        let lanes = read("max_link_width")?.trim().parse::<i64>().ok()?;
        link_bytes_per_second(transfers, lanes)
    };
    let of = |address: &str| {
        let folder = fs::canonicalize(devices.join(address)).ok()?;
        let own = capacity(&folder)?;
        Some(folder.parent().and_then(capacity).map_or(own, |slot| slot.min(own)))
    };
    names(&devices).into_iter().filter_map(|address| Some((address.clone(), of(&address)?))).collect()
}

/// The bandwidth of a link without the overhead of its line code, by lanes and GT/s.
pub fn link_bytes_per_second(gigatransfers: f64, lanes: i64) -> Option<i64> {
    // Per lane, in bytes per second: 8b/10b up to 5 GT/s, 128b/130b up to 32, flits above.
    let lane: i64 = match gigatransfers {
        speed if (2.4..2.6).contains(&speed) => 250_000_000,
        speed if (4.9..5.1).contains(&speed) => 500_000_000,
        speed if (7.9..8.1).contains(&speed) => 984_600_000,
        speed if (15.9..16.1).contains(&speed) => 1_969_200_000,
        speed if (31.9..32.1).contains(&speed) => 3_938_400_000,
        speed if (63.9..64.1).contains(&speed) => 7_563_000_000,
        _ => return None,
    };
    (1..=32).contains(&lanes).then_some(lane * lanes)
}

/// The root of `/sys` and `/proc`: that of the machine, or of a described one.
pub fn root() -> PathBuf {
    std::env::var_os("HWLOC_FSROOT").filter(|root| !root.is_empty()).map_or_else(|| "/".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_added_or_removed_hardware_changes_the_fingerprint() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let mut last = fingerprint(root);
        let mut changed = |file: &str, text: &str| {
            write(root, file, text);
            let now = fingerprint(root);
            std::mem::replace(&mut last, now) != now
        };
        assert!(changed("sys/bus/pci/devices/0000:01:00.0/class", "0x030200"));
        assert!(!changed("sys/bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe"));
        assert!(changed(
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 4 kB\n"
        ));
        assert!(!changed(
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 3 kB\n"
        ));
        assert!(changed(
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 9 kB\nNode 0 MemFree: 3 kB\n"
        ));
        let mut machine = |kibibytes| changed("proc/meminfo", &format!("MemTotal: {kibibytes} kB\n"));
        assert!(machine(16));
        assert!(!machine(16));
        assert!(machine(32));
        assert!(!changed("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 10 kB\n"));
        assert!(changed("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 10 kB\n"));
        assert!(changed("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 11 kB\n"));
        assert!(changed("sys/class/fpga_manager/fpga0/state", "operating"));
        assert!(changed("sys/devices/system/cpu/online", "0-3"));
    }

    #[test]
    fn a_hidden_bus_differs_from_one_without_devices() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(on_bus(root), None);
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        assert_eq!(on_bus(root), None);
        write(root, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200");
        assert_eq!(on_bus(root), Some(["0000:01:00.0".to_owned()].into()));
    }

    #[test]
    fn the_bandwidth_of_a_link_is_the_minimum_of_both_ends() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let port = "sys/devices/pci0000:00/0000:00:01.0";
        write(root, &format!("{port}/max_link_speed"), "8.0 GT/s PCIe\n");
        write(root, &format!("{port}/max_link_width"), "16\n");
        write(root, &format!("{port}/0000:01:00.0/max_link_speed"), "16.0 GT/s PCIe\n");
        write(root, &format!("{port}/0000:01:00.0/max_link_width"), "16\n");
        write(root, &format!("{port}/0000:02:00.0/max_link_speed"), "Unknown\n");
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        for (address, at) in
            [("0000:01:00.0", "0000:00:01.0/0000:01:00.0"), ("0000:02:00.0", "0000:00:01.0/0000:02:00.0")]
        {
            symlink(
                format!("../../../devices/pci0000:00/{at}"),
                root.join("sys/bus/pci/devices").join(address),
            )
            .unwrap();
        }
        let expected = BTreeMap::from([("0000:01:00.0".to_owned(), 15_753_600_000)]);
        assert_eq!(pcie_capacities(root), expected);
    }
}
