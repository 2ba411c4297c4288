//! Files as the drivers' documentation and sources describe them, in a temporary root.

use super::*;
use crds::Health;
use std::os::unix::fs::symlink;

/// A tree of files under `/sys`.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        let path = self.root().join(from);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::create_dir_all(self.root().join(to)).unwrap();
        symlink(self.root().join(to), path).unwrap();
    }

    /// A PCI device with a driver, named in classes: its address, `class vendor:device`, its driver, and `class/name`s.
    fn device(&self, address: &str, ids: &str, driver: &str, names: &[&str]) -> String {
        let folder = format!("sys/devices/pci0000:00/{address}");
        let (class, ids) = ids.split_once(' ').unwrap();
        let (vendor, device) = ids.split_once(':').unwrap();
        for (file, text) in [
            ("class", format!("0x{class}00")),
            ("vendor", format!("0x{vendor}")),
            ("device", format!("0x{device}")),
        ] {
            self.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
        self.write(&format!("{folder}/config"), &String::from_utf8_lossy(&[0x02, 0x10, 0, 0]));
        if !driver.is_empty() {
            self.link(&format!("{folder}/driver"), &format!("sys/bus/pci/drivers/{driver}"));
        }
        for name in names {
            let (class, name) = name.split_once('/').unwrap();
            self.link(&format!("sys/class/{class}/{name}/device"), &folder);
        }
        folder
    }

    fn files(&self, folder: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
    }

    fn found(&self) -> SysfsDevices {
        read(self.root(), self.root()).unwrap()
    }
}

/// One line for each device, and one for each link.
fn shown(found: &SysfsDevices) -> String {
    let spec = crds::NodeTopologySpec { devices: found.devices.clone(), links: found.links.clone() };
    let reading = crate::source::Reading {
        topologies: [("node".to_owned(), std::sync::Arc::new(spec))].into(),
        ..Default::default()
    };
    crate::topology::render(&reading, &[], crate::args::Form::Tree).unwrap()
}

/// Two Instinct GPUs with XGMI, whose processors are `kfd`'s node 0.
fn instincts(tree: &Tree) -> [String; 2] {
    tree.write("sys/module/amdgpu/version", "6.12.12\n");
    tree.files("sys/class/kfd/kfd/topology/nodes/0", &[("properties", "cpu_cores_count 64\nsimd_count 0")]);
    [("0000:05:00.0", 0, 1, 2), ("0000:26:00.0", 1, 2, 1)].map(|(address, nth, node, other)| {
        let names = [format!("drm/card{nth}"), format!("drm/renderD{}", 128 + nth)];
        let folder = tree.device(address, "1200 1002:74a1", "amdgpu", &names.each_ref().map(String::as_str));
        let bus = u64::from_str_radix(&address[5..7], 16).unwrap();
        tree.files(
            &folder,
            &[
                ("numa_node", &nth.to_string()),
                ("product_name", "AMD Instinct MI300X OAM"),
                ("unique_id", &format!("a1b2c3d4e5f6000{nth}")),
                ("serial_number", &format!("69230000{nth}")),
                ("mem_info_vram_total", "206141652992"),
                ("mem_info_vram_used", "1048576"),
                ("gpu_busy_percent", "42"),
                ("ras/umc_err_count", "ue: 1\nce: 3"),
                ("pcie_replay_count", "7"),
                ("hwmon/hwmon4/temp1_input", "41000"),
                ("hwmon/hwmon4/temp1_label", "junction"),
                ("hwmon/hwmon4/temp2_input", "52000"),
                ("hwmon/hwmon4/temp2_label", "mem"),
                ("hwmon/hwmon4/power1_input", "143000000"),
                ("hwmon/hwmon4/power1_cap", "750000000"),
                ("hwmon/hwmon4/freq1_input", "132000000"),
            ],
        );
        let at = format!("sys/class/kfd/kfd/topology/nodes/{node}");
        let location = bus << 8;
        tree.files(
            &at,
            &[
                ("properties", &format!("simd_count 1216\nsimd_per_cu 4\nlocation_id {location}\ndomain 0\ndrm_render_minor {}", 128 + nth)),
                ("io_links/0/properties", &format!("type 2\nnode_from {node}\nnode_to 0\nmax_bandwidth 64000")),
                ("io_links/1/properties", &format!("type 11\nnode_from {node}\nnode_to {other}\nmax_bandwidth 64000")),
            ],
        );
        folder
    })
}

#[test]
fn amd_gpus_have_memory_units_ids_links_and_driver() {
    let tree = Tree::new();
    instincts(&tree);
    // connectors, and the display adapter of a console
    tree.device("0000:c1:00.0", "0300 1a03:2000", "ast", &["drm/card9"]);
    fs::create_dir_all(tree.root().join("sys/class/drm/card0-DP-1")).unwrap();
    let found = tree.found();
    assert!(found.devices.iter().all(|gpu| gpu.driver.as_deref() == Some("amdgpu 6.12.12")), "{found:?}");
    assert_eq!(found.devices[1].numa_node, Some(1));
    insta::assert_snapshot!(shown(&found));
}

#[test]
fn readings_are_in_base_units() {
    let tree = Tree::new();
    instincts(&tree);
    let card = tree.device("0000:07:00.0", "0380 8086:56c0", "xe", &["drm/card2"]);
    tree.files(
        &card,
        &[
            ("hwmon/hwmon1/energy1_input", "2500000"),
            ("hwmon/hwmon1/temp2_input", "38000"),
            ("hwmon/hwmon1/temp2_label", "pkg"),
        ],
    );
    let readings = readings::read(tree.root());
    let lines = readings.iter().flat_map(|it| {
        it.quantities.iter().map(move |(quantity, value)| format!("{} {quantity} {value}", it.device))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_partitioned_gpu_is_the_parent_of_its_partitions() {
    let tree = Tree::new();
    instincts(&tree);
    // the second partition of the first GPU, on a device of the platform
    tree.link("sys/class/drm/renderD136/device", "sys/devices/platform/amdgpu_xcp_0");
    let location = 5 << 8 | 1;
    tree.files(
        "sys/class/kfd/kfd/topology/nodes/3",
        &[
            (
                "properties",
                &format!(
                    "simd_count 1216\nsimd_per_cu 4\nlocation_id {location}\ndomain 0\ndrm_render_minor 136"
                ),
            ),
            ("mem_banks/0/properties", "heap_type 1\nsize_in_bytes 103070826496"),
            ("io_links/0/properties", "type 11\nnode_from 3\nnode_to 1\nmax_bandwidth 64000"),
        ],
    );
    insta::assert_snapshot!(shown(&tree.found()));
}

#[test]
fn gpus_and_npus_of_other_drivers_are_described() {
    let tree = Tree::new();
    let xe = tree.device("0000:03:00.0", "0380 8086:0bd5", "xe", &["drm/card1", "drm/renderD129"]);
    tree.files(
        &xe,
        &[
            ("tile0/physical_vram_size_bytes", "0x1000000000"),
            ("tile1/physical_vram_size_bytes", "0x1000000000"),
        ],
    );
    let i915 = tree.device("0000:04:00.0", "0380 8086:56c0", "i915", &["drm/card2"]);
    tree.write(&format!("{i915}/drm/card2/lmem_total_bytes"), "0x3fe000000\n");
    tree.device("0000:00:0b.0", "1200 8086:7d1d", "intel_vpu", &["accel/accel0"]);
    tree.device("0000:c5:00.1", "1180 1022:17f0", "amdxdna", &["accel/accel1"]);
    tree.device("0000:21:00.0", "1200 17cb:a100", "qaic", &["accel/accel2"]);
    tree.device("0000:22:00.0", "1200 abcd:0001", "new", &["accel/accel3"]);
    // only the names of an NVIDIA GPU are read here; NVML reports the rest
    tree.device("0000:3b:00.0", "0302 10de:2330", "nvidia", &["drm/card4"]);
    insta::assert_snapshot!(shown(&tree.found()));
}

#[test]
fn health_is_that_of_driver_and_bus() {
    let tree = Tree::new();
    let gaudi = |address: &str, nth: u32, status: &str| {
        let folder = tree.device(address, "1200 1da3:1020", "habanalabs", &[&format!("accel/accel{nth}")]);
        tree.files(&folder, &[("status", status)]);
    };
    gaudi("0000:01:00.0", 0, "Operational");
    gaudi("0000:02:00.0", 1, "Malfunction");
    gaudi("0000:03:00.0", 2, "In reset after device release");
    tree.device("0000:04:00.0", "0302 1002:740f", "vfio-pci", &["drm/card0"]);
    let xe = tree.device("0000:05:00.0", "0380 8086:56c0", "xe", &["drm/card1"]);
    tree.files(&xe, &[("survivability_mode", "")]);
    let off = tree.device("0000:06:00.0", "0302 1002:740f", "amdgpu", &["drm/card2"]);
    fs::write(tree.root().join(&off).join("config"), [0xff; 64]).unwrap();
    let asleep = tree.device("0000:07:00.0", "0302 1002:740f", "amdgpu", &["drm/card3"]);
    fs::write(tree.root().join(&asleep).join("config"), [0xff; 64]).unwrap();
    tree.files(&asleep, &[("power/runtime_status", "suspended")]);
    let health: Vec<_> = tree.found().devices.iter().map(|it| it.health).collect();
    assert_eq!(
        health,
        [
            Health::Ok,
            Health::Lost,
            Health::Unknown,
            Health::Unknown,
            Health::Degraded,
            Health::Lost,
            Health::Ok
        ]
    );
}

#[test]
fn the_collector_keeps_its_last_result_and_reports_the_error() {
    let tree = Tree::new();
    let mut sysfs = Sysfs::new(tree.root(), tree.root());
    let (found, collector) = sysfs.read();
    assert_eq!(
        (found, collector.state),
        (SysfsDevices::default(), CollectorState::Absent),
        "{}",
        collector.message
    );
    instincts(&tree);
    let (found, collector) = sysfs.read();
    assert_eq!((found.devices.len(), collector.state), (2, CollectorState::Ok), "{}", collector.message);
    assert_eq!(sysfs.counters().len(), 2);
    fs::remove_dir_all(tree.root().join("sys/class/drm")).unwrap();
    symlink("drm", tree.root().join("sys/class/drm")).unwrap();
    let (again, collector) = sysfs.read();
    assert_eq!((again, collector.state), (found, CollectorState::Error), "{}", collector.message);
}

/// The kernel refuses `properties` to a container that may not use the GPU's render device, even to user 0.
#[test]
fn denied_topology_of_amd_gpus_is_reported_and_their_other_attributes_are_used() {
    for file in ["properties", "mem_banks/0/properties", "io_links/1/properties"] {
        let tree = Tree::new();
        instincts(&tree);
        let path = tree.root().join("sys/class/kfd/kfd/topology/nodes/1").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        // no user may read this file
        symlink("/proc/sys/vm/drop_caches", &path).unwrap();
        let (found, collector) = Sysfs::new(tree.root(), tree.root()).read();
        assert_eq!(collector.state, CollectorState::Denied, "{file}: {}", collector.message);
        assert!(collector.message.contains("agent.privileged"), "{file}: {}", collector.message);
        assert_eq!(found.devices.len(), 2, "{file}");
        let first = &found.devices[0];
        assert_eq!(first.memory_spaces[0].size_bytes, 206_141_652_992, "{file}");
        assert_eq!(first.compute_resources.is_empty(), file == "properties", "{file}");
        assert!(!found.devices[1].compute_resources.is_empty(), "{file}");
    }
}
