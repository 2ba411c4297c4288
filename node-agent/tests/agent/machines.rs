//! Described machines: the program's output, compared with that of hwloc's own tools.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::tool::{agent, machines_folder, program};
use crds::{NodeTopology, NodeTopologySpec};

/// All described machines by name, each a file in one of hwloc's formats.
fn machines(folder: &Path) -> BTreeMap<String, std::path::PathBuf> {
    let mut machines = BTreeMap::new();
    for entry in fs::read_dir(machines_folder()).expect("the folder exists") {
        let path = entry.expect("the entry is readable").path();
        if path.extension().is_some_and(|end| end == "xml") {
            machines.insert(path.file_stem().expect("a file name").to_string_lossy().into_owned(), path);
        }
    }
    let lines = fs::read_to_string(machines_folder().join("synthetic.txt")).expect("the file exists");
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let (name, machine) = line.split_once(": ").expect("a name and a machine");
        let path = folder.join(name);
        fs::write(&path, machine).expect("the file is written");
        assert!(machines.insert(name.to_owned(), path).is_none(), "duplicate machine {name}");
    }
    machines
}

fn topology(name: &str, path: &Path, form: &str) -> String {
    let path = path.to_str().expect("the path is UTF-8");
    let (status, out, errors) =
        agent(&["topology", "--node-name", name, "--topology-file", path, "-o", form]);
    assert!(status.success(), "{name}: {errors}");
    out
}

fn spec(name: &str, path: &Path) -> NodeTopologySpec {
    let topology: NodeTopology =
        serde_yaml::from_str(&topology(name, path, "yaml")).expect("the output is a manifest");
    assert_eq!(topology.metadata.name.as_deref(), Some(name));
    topology.spec
}

#[test]
fn each_machine_has_the_devices_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let machines = machines(folder.path());
    assert!(machines.len() >= 30, "{}", machines.len());
    for (name, path) in machines {
        insta::with_settings!({snapshot_path => "described", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name.as_str(), topology(&name, &path, "tree"));
        });
    }
}

/// The lines of `lstopo` for one type of object.
fn lstopo(name: &str, path: &Path, type_: &str) -> Vec<String> {
    let mut command = Command::new("lstopo-no-graphics");
    if path.extension().is_some_and(|end| end == "xml") {
        command.arg("-i").arg(path);
    } else {
        command.args(["--if", "synthetic", "-i"]).arg(fs::read_to_string(path).expect("a file").trim());
    }
    let output = command.args(["--disallowed", "--whole-io", "--of", "console", "--only", type_]).output();
    let output = output.expect("lstopo-no-graphics, of Debian's package hwloc, is installed");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn lstopo_counts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in machines(folder.path()) {
        let spec = spec(&name, &path);
        let units = |type_: &str| -> usize {
            let all = spec.devices.iter().filter(|device| device.type_ == "NUMA Domain");
            let of = all.flat_map(|device| &device.compute_resources).filter(|it| it.type_ == type_);
            of.map(|it| usize::try_from(it.count).unwrap()).sum()
        };
        assert_eq!(units("Core"), lstopo(&name, &path, "core").len(), "cores of {name}");
        assert_eq!(units("Processing Unit"), lstopo(&name, &path, "pu").len(), "processing units of {name}");
        let nodes = lstopo(&name, &path, "numanode");
        let is_listed = |device: &&crds::Device| {
            let number = format!("P#{} ", device.numa_node.expect("a domain has a number"));
            nodes.iter().any(|line| line.replace(')', " ").contains(&number))
        };
        let domains = spec.devices.iter().filter(|device| device.id.starts_with("numa-"));
        let (listed, others): (Vec<_>, Vec<_>) = domains.partition(is_listed);
        assert_eq!(listed.len(), nodes.len(), "NUMA nodes of {name}");
        for domain in others {
            assert!(domain.memory_spaces.is_empty(), "{name}: lstopo does not list {domain:?}");
        }
        invariants(&name, &spec, &described(&name, &path));

        // By lstopo's names of PCI classes, and the types that we derive from them.
        let listed = lstopo(&name, &path, "pci");
        for (class, types) in [
            ("(3D)", &["GPU"][..]),
            ("(ProcessingAccelerator)", &["FPGA", "NPU", "GPU", "Accelerator"]),
            ("(Ethernet)", &["NIC"]),
        ] {
            for line in listed.iter().filter(|line| line.contains(class)) {
                let address = line.split_whitespace().nth(1).unwrap();
                let ours = spec
                    .devices
                    .iter()
                    .find(|it| it.pci_bus_id.as_ref().is_some_and(|it| it.ends_with(address)));
                if let Some(device) = ours {
                    assert!(types.contains(&device.type_.as_str()), "{name}: {line} is {}", device.type_);
                    continue;
                }
                // dropped because of the limit, or the management function of an FPGA board
                let is_dropped = spec.devices.len() == 256 && class == "(Ethernet)";
                let slot = address.strip_suffix('0').unwrap_or("no function 0");
                let of_board = |it: &crds::Device| it.pci_bus_id.as_ref().is_some_and(|it| it.contains(slot));
                let is_management = spec.devices.iter().any(|it| it.type_ == "FPGA" && of_board(it));
                // an encryption engine
                let is_engine = name == "accelerators" && address == "16:00.0";
                assert!(is_dropped || is_management || is_engine, "{name}: {line} is missing");
            }
        }
        for device in &spec.devices {
            if let Some(address) = &device.pci_bus_id {
                let short = address.strip_prefix("0000:").unwrap_or(address);
                assert!(listed.iter().any(|line| line.contains(short)), "{name}: {address} is not in lstopo");
            }
        }
    }
}

/// The machine in hwloc's XML, as `lstopo` exports it.
fn described(name: &str, path: &Path) -> String {
    let mut command = Command::new("lstopo-no-graphics");
    if path.extension().is_some_and(|end| end == "xml") {
        command.arg("-i").arg(path);
    } else {
        command.args(["--if", "synthetic", "-i"]).arg(fs::read_to_string(path).expect("a file").trim());
    }
    let output = command.args(["--disallowed", "--whole-io", "--of", "xml"]).output();
    let output = output.expect("lstopo-no-graphics, of Debian's package hwloc, is installed");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The invariants of each machine: processing units, cores and memory sum up to those of hwloc; no device is listed
/// twice; the NUMA domain of a device, the nearest memory of a domain and each parent exist.
fn invariants(name: &str, spec: &NodeTopologySpec, xml: &str) {
    let objects = |type_: &str| xml.matches(&format!("<object type=\"{type_}\"")).count();
    let resources = |type_: &str| -> usize {
        let all = spec.devices.iter().filter(|device| device.id.starts_with("numa-"));
        let of = all.flat_map(|device| &device.compute_resources).filter(|it| it.type_ == type_);
        of.map(|it| usize::try_from(it.count).expect("a count")).sum()
    };
    assert_eq!(resources("Processing Unit"), objects("PU"), "processing units of {name}");
    assert_eq!(resources("Core"), objects("Core"), "cores of {name}");
    let sizes = xml.split("local_memory=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let memory: i64 = sizes.map(|size| size.parse::<i64>().expect("a size")).sum();
    let domains = || spec.devices.iter().filter(|device| device.id.starts_with("numa-"));
    let ours: i64 = domains().flat_map(|domain| &domain.memory_spaces).map(|space| space.size_bytes).sum();
    assert_eq!(ours, memory, "memory of {name}");

    let is_unique = |values: Vec<&String>| {
        let set: std::collections::BTreeSet<_> = values.iter().collect();
        set.len() == values.len()
    };
    let devices = &spec.devices;
    assert!(is_unique(devices.iter().map(|it| &it.id).collect()), "{name}: duplicate id");
    assert!(
        is_unique(devices.iter().filter_map(|it| it.pci_bus_id.as_ref()).collect()),
        "{name}: duplicate PCI device"
    );
    for device in devices {
        for other in [&device.parent, &device.nearest_memory].into_iter().flatten() {
            assert!(devices.iter().any(|it| it.id == *other), "{name}: {other} of {}", device.id);
        }
        if let Some(numa) = device.numa_node {
            assert!(devices.iter().any(|it| it.id == format!("numa-{numa}")), "{name}: {}", device.id);
        }
        for resource in device.compute_resources.iter().filter(|it| !it.kinds.is_empty()) {
            let of_kinds: i32 = resource.kinds.iter().map(|kind| kind.count).sum();
            assert_eq!(of_kinds, resource.count, "{name}: kinds of {}", device.id);
        }
        let has_memory = !device.memory_spaces.is_empty();
        let is_bare = device.type_ == "NUMA Domain" && !has_memory;
        assert!(is_bare || device.nearest_memory.is_none(), "{name}: nearest memory of {}", device.id);
    }
}

/// Writes a copy of `/sys`: two packages with two cores of two threads each, of which one core is slower. The memory of the second
/// package is offline.
fn write_machine(root: &Path) {
    let write = |file: &str, text: &str| {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(path, format!("{text}\n")).expect("the file is written");
    };
    for cpu in 0..8 {
        let (core, package, folder) = (cpu / 2, cpu / 4, format!("sys/devices/system/cpu/cpu{cpu}"));
        write(&format!("{folder}/topology/core_cpus"), &format!("{:x}", 0b11 << (2 * core)));
        write(&format!("{folder}/topology/package_cpus"), &format!("{:x}", 0b1111 << (4 * package)));
        write(&format!("{folder}/topology/physical_package_id"), &package.to_string());
        write(&format!("{folder}/topology/core_id"), &(core % 2).to_string());
        write(&format!("{folder}/cpu_capacity"), if core % 2 == 0 { "1024" } else { "512" });
    }
    for (file, text) in [
        ("sys/devices/system/cpu/online", "0-7"),
        ("sys/devices/system/cpu/possible", "0-7"),
        ("sys/devices/system/node/online", "0"),
        ("sys/devices/system/node/node0/cpumap", "f"),
        ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        2097152 kB"),
        ("proc/meminfo", "MemTotal:        2097152 kB"),
    ] {
        write(file, text);
    }
}

#[test]
fn a_machine_with_offline_memory_and_two_kinds_of_cores_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    write_machine(folder.path());
    let run = |mut command: Command, arguments: &[&str]| {
        // Otherwise hwloc mixes in what this machine's processors say.
        command.args(arguments).env("HWLOC_FSROOT", folder.path()).env("HWLOC_COMPONENTS", "-x86");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let found: NodeTopology = serde_yaml::from_str(&run(program(), &["topology", "-o", "yaml"])).unwrap();
    let lstopo = Command::new("lstopo-no-graphics");
    invariants("sysfs", &found.spec, &run(lstopo, &["--disallowed", "--whole-io", "--of", "xml"]));
    let domain = |device: &crds::Device| {
        let cores = &device.compute_resources[0];
        let kinds: Vec<_> = cores.kinds.iter().map(|kind| (kind.count, kind.relative_capacity)).collect();
        (device.id.clone(), cores.count, kinds, device.nearest_memory.clone())
    };
    let kinds = vec![(1, 512), (1, 1024)];
    assert_eq!(
        found.spec.devices.iter().map(domain).collect::<Vec<_>>(),
        [
            ("numa-0".to_owned(), 2, kinds.clone(), None),
            ("numa-1".to_owned(), 2, kinds, Some("numa-0".to_owned())),
        ]
    );
}

#[test]
fn devices_have_the_root_port_above_them() {
    let folder = tempfile::tempdir().unwrap();
    let all = machines(folder.path());
    let ports = |name: &str| {
        let devices =
            spec(name, &all[name]).devices.into_iter().filter(|it| ["GPU", "NIC"].contains(&&*it.type_));
        devices
            .map(|it| format!("{} {}", it.id, it.pci_root_port.as_deref().unwrap_or("-")))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ports("pcie-switches"),
        [
            "gpu-0000:13:00.0 0000:10:01.0",
            "gpu-0000:14:00.0 0000:10:01.0",
            "gpu-0000:1b:00.0 0000:10:03.0",
            "gpu-0000:1c:00.0 0000:10:03.0",
            "gpu-0000:53:00.0 0000:50:01.0",
            "gpu-0000:54:00.0 0000:50:01.0",
            "gpu-0000:5b:00.0 0000:50:03.0",
            "gpu-0000:5c:00.0 0000:50:03.0",
            "nic-0000:15:00.0 0000:10:01.0",
            "nic-0000:1d:00.0 0000:10:03.0",
            "nic-0000:55:00.0 0000:50:01.0",
            "nic-0000:5d:00.0 0000:50:03.0",
        ]
    );
    // devices on a root bus have no root port
    assert!(ports("t4-4").iter().all(|line| line.ends_with(" -")), "{:?}", ports("t4-4"));
}

#[test]
fn what_is_no_machine_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| {
        let path = folder.path().join("machine");
        fs::write(&path, text).unwrap();
        let (status, _, errors) = agent(&["topology", "--topology-file", path.to_str().unwrap()]);
        assert!(!status.success());
        errors.replace(path.to_str().unwrap(), "FILE").replace("cairn-node-agent: ", "")
    };
    let v3 = "<?xml version=\"1.0\"?>\n<topology version=\"3.0\"><object/></topology>";
    let cases = [
        "",
        "garbage",
        "<html></html>",
        v3,
        "<topology version=\"2.0\"><object type=\"Machine\"",
        "core:0 pu:1",
    ];
    insta::assert_snapshot!(cases.map(at).join("---\n"));
    let (status, _, errors) = agent(&["topology", "--topology-file", "/nowhere/machine.xml"]);
    assert!(!status.success());
    assert_eq!(
        errors,
        "cairn-node-agent: cannot read /nowhere/machine.xml: No such file or directory (os error 2); --topology-file \
         takes hwloc's XML, as `lstopo FILE.xml` writes it, or a file with one line in hwloc's synthetic form\n"
    );
}

/// Debian has hwloc's plugins for OpenCL, GL and PCI in a separate package, which may be missing in an image.
#[test]
fn a_machine_is_probed_without_the_plugins_of_hwloc() {
    let nothing = tempfile::tempdir().unwrap();
    let output = program()
        .args(["topology", "-o", "yaml"])
        .env("HWLOC_PLUGINS_PATH", nothing.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let topology: NodeTopology = serde_yaml::from_slice(&output.stdout).unwrap();
    assert!(topology.spec.devices.iter().any(|it| it.type_ == "NUMA Domain"), "{topology:?}");
}

/// The machine that the test runs on has as many processing units as `lstopo` lists, and memory.
#[test]
fn the_local_machine_is_complete() {
    let (status, out, errors) = agent(&["topology", "-o", "yaml"]);
    assert!(status.success(), "{errors}");
    let topology: NodeTopology = serde_yaml::from_str(&out).unwrap();
    let units = topology.spec.devices.iter().flat_map(|device| &device.compute_resources);
    let units: i32 = units.filter(|it| it.type_ == "Processing Unit").map(|it| it.count).sum();
    let listed = Command::new("lstopo-no-graphics")
        .args(["--disallowed", "--of", "console", "--only", "pu"])
        .output()
        .unwrap();
    assert_eq!(usize::try_from(units).unwrap(), String::from_utf8(listed.stdout).unwrap().lines().count());
    assert!(
        topology
            .spec
            .devices
            .iter()
            .any(|it| it.type_ == "NUMA Domain" && it.memory_spaces[0].size_bytes > 0)
    );
}
