//! The bandwidth of network interfaces, in the kernel's classes `net` and `infiniband`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::text;
use crate::hardware::{changes::names, hwloc::is_address};

/// The bandwidth of the fastest port of each PCI device in one direction, in bytes per second, by PCI address.
///
/// Ports without a link, and virtual interfaces that report no speed, are left out. The fastest port, not the sum: the
/// representors of virtual functions are interfaces of the same device with the speed of its port.
///
/// The class `net` is read under a root of its own: a pod's `/sys` has the interfaces of the pod's network namespace only.
pub fn bandwidths(root: &Path, network_root: &Path) -> BTreeMap<String, i64> {
    let interfaces = |root: &Path, class: &str| {
        let folder = root.join("sys/class").join(class);
        names(&folder).into_iter().map(move |name| folder.join(name))
    };
    let ethernet = interfaces(network_root, "net").filter_map(|it| Some((address(&it)?, ethernet(&it)?)));
    let infiniband = interfaces(root, "infiniband").filter_map(|it| Some((address(&it)?, infiniband(&it)?)));
    let mut bandwidths = BTreeMap::<String, i64>::new();
    for (address, bandwidth) in ethernet.chain(infiniband) {
        let known = bandwidths.entry(address).or_default();
        *known = bandwidth.max(*known);
    }
    bandwidths
}

/// The PCI address of an interface; a virtio device is below its PCI device.
fn address(interface: &Path) -> Option<String> {
    let device = fs::canonicalize(interface.join("device")).ok()?;
    let mut names = device.ancestors().filter_map(|folder| folder.file_name()?.to_str());
    names.find(|name| is_address(name)).map(str::to_owned)
}

/// `speed` is in Mbit/s; -1, or an error, without a link.
fn ethernet(interface: &Path) -> Option<i64> {
    let megabits = text(interface, "speed")?.parse::<i64>().ok().filter(|speed| *speed > 0)?;
    megabits.checked_mul(1_000_000 / 8)
}

/// The fastest active port: `rate` is as `400 Gb/sec (4X NDR)`, `state` as `4: ACTIVE`.
fn infiniband(interface: &Path) -> Option<i64> {
    let ports = interface.join("ports");
    let is_active = |port: &PathBuf| text(port, "state").is_some_and(|state| state.starts_with("4:"));
    let rate = |port: PathBuf| {
        let rate = text(&port, "rate")?;
        let gigabits: f64 = rate.strip_suffix(')').unwrap_or(&rate).split_once(" Gb/sec")?.0.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        let bytes = (gigabits * 125_000_000.0) as i64;
        (0.0..1e6).contains(&gigabits).then_some(bytes)
    };
    let ports = names(&ports).into_iter().map(|name| ports.join(name));
    ports.filter(is_active).filter_map(rate).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A device of the class with these files.
    fn interface(root: &Path, class: &str, name: &str, device: &str, files: &[(&str, &str)]) {
        let device = root.join("sys/devices/pci0000:00").join(device);
        let folder = device.join(class).join(name);
        for (file, text) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        symlink(&device, folder.join("device")).unwrap();
        let classes = root.join("sys/class").join(class);
        fs::create_dir_all(&classes).unwrap();
        symlink(&folder, classes.join(name)).unwrap();
    }

    #[test]
    fn each_device_has_the_bandwidth_of_its_fastest_port_with_a_link() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let speed = |class, name, device, speed| interface(root, class, name, device, &[("speed", speed)]);
        speed("net", "eth0", "0000:03:00.0", "25000\n");
        // a representor of a virtual function
        speed("net", "eth0_0", "0000:03:00.0", "25000\n");
        speed("net", "down", "0000:03:00.1", "-1\n");
        speed("net", "ens3", "0000:00:03.0/virtio0", "10000\n");
        let port = |number: u32, state: &str, rate: &str| {
            [("state", state.to_owned()), ("rate", rate.to_owned())]
                .map(|(file, text)| (format!("ports/{number}/{file}"), text))
        };
        let files =
            [port(1, "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n"), port(2, "1: DOWN\n", "400 Gb/sec (4X NDR)\n")]
                .concat();
        let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        interface(root, "infiniband", "mlx5_0", "0000:5e:00.0", &files);
        speed("net", "ib0", "0000:5e:00.0", "100000\n");
        // no device of a bus
        fs::create_dir_all(root.join("sys/class/net/lo")).unwrap();
        fs::write(root.join("sys/class/net/lo/speed"), "1000\n").unwrap();
        let expected = [
            ("0000:00:03.0", 1_250_000_000),
            ("0000:03:00.0", 3_125_000_000),
            ("0000:5e:00.0", 25_000_000_000),
        ];
        let expected: BTreeMap<String, i64> =
            expected.map(|(address, bytes)| (address.to_owned(), bytes)).into();
        assert_eq!(bandwidths(root, root), expected);
        let none = root.join("none");
        assert_eq!(bandwidths(&none, &none), BTreeMap::new());
    }

    /// In a pod `/sys/class/net` has only the pod's own interfaces, which belong to no device.
    #[test]
    fn ethernet_interfaces_are_those_of_the_host() {
        let (pod, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(pod.path().join("sys/class/net/eth0")).unwrap();
        fs::write(pod.path().join("sys/class/net/eth0/speed"), "10000\n").unwrap();
        let files = [("ports/1/state", "4: ACTIVE\n"), ("ports/1/rate", "200 Gb/sec (4X HDR)\n")];
        interface(pod.path(), "infiniband", "mlx5_0", "0000:5e:00.0", &files);
        interface(host.path(), "net", "eth0", "0000:03:00.0", &[("speed", "25000\n")]);
        let infiniband = ("0000:5e:00.0".to_owned(), 25_000_000_000);
        let without = BTreeMap::<String, i64>::from([infiniband.clone()]);
        assert_eq!(bandwidths(pod.path(), pod.path()), without);
        let ethernet = ("0000:03:00.0".to_owned(), 3_125_000_000);
        let with = BTreeMap::<String, i64>::from([ethernet, infiniband]);
        assert_eq!(bandwidths(pod.path(), host.path()), with);
    }
}
