//! A machine, given the responses of its collectors.

use super::*;
use crds::{ComputeResource, Link, MemorySpace};

/// The local machine without drivers, for given responses of hwloc.
fn machine() -> Machine {
    let described = Machine::new("node-a", Some("nowhere.xml".into()), None, None);
    Machine { description: None, root: PathBuf::from("/does/not/exist"), ..described }
}

fn found(ids: &[&str]) -> Answer<NodeTopologySpec> {
    let device = |id: &&str| Device { id: (*id).into(), type_: "NUMA Domain".into(), ..Device::default() };
    Answer::Found(NodeTopologySpec { devices: ids.iter().map(device).collect(), links: Vec::new() })
}

#[test]
fn failed_probes_keep_the_last_result() {
    let mut machine = machine();
    let mut probe = |answer| {
        machine.process(answer, 1);
        let reading = machine.assemble();
        let state = <&str>::from(reading.collectors[0].state);
        let devices = reading.topologies.get("node-a").map(|spec| spec.summary());
        (state, devices.unwrap_or_else(|| "no topology".to_owned()))
    };
    let failed = || Answer::Failed("it hangs".to_owned());
    let two = || "2 NUMA Domain".to_owned();
    assert_eq!(probe(failed()), ("error", "no topology".to_owned()), "before the first result");
    assert_eq!(probe(found(&[])), ("error", "no topology".to_owned()), "every machine has devices");
    assert_eq!(probe(found(&["numa-0", "numa-1"])), ("ok", two()));
    assert_eq!(probe(failed()), ("error", two()));
    assert_eq!(probe(Answer::Denied("no".to_owned())), ("denied", two()));
    assert_eq!(probe(Answer::Absent("no".to_owned())), ("absent", two()));
    assert_eq!(probe(found(&[])), ("error", two()), "an empty result is a failure");
    assert_eq!(probe(found(&["numa-0", "numa-1"])), ("ok", two()));
    assert_eq!(probe(failed()), ("error", two()));
    assert_eq!(probe(found(&["numa-0"])), ("error", two()), "not confirmed yet");
    assert_eq!(probe(failed()), ("error", two()));
    assert_eq!(probe(found(&["numa-0"])), ("ok", "1 NUMA Domain".to_owned()), "confirmed");
}

#[test]
fn failed_opencl_probes_keep_the_last_result() {
    let mut machine = Machine { opencl: Some(Background::new()), ..machine() };
    machine.process(found(&["numa-0"]), 1);
    let mut probe = |answer| {
        machine.opencl.as_mut().unwrap().process(answer);
        machine.assemble();
        // the second consecutive probe, after which a device counts as lost
        let reading = machine.assemble();
        let state = <&str>::from(reading.collectors.last().unwrap().state);
        (state, reading.topologies["node-a"].summary())
    };
    let card = || {
        let id = "accelerator-opencl0d0".into();
        Answer::Found(vec![Device { id, type_: "Accelerator".into(), ..Device::default() }])
    };
    let there = || "1 Accelerator, 1 NUMA Domain".to_owned();
    let failed = || Answer::Failed("it hangs".to_owned());
    assert_eq!(probe(failed()), ("error", "1 NUMA Domain".to_owned()), "before the first result");
    assert_eq!(probe(card()), ("ok", there()));
    assert_eq!(probe(failed()), ("error", there()));
    assert_eq!(probe(Answer::Denied("no".to_owned())), ("denied", there()));
    assert_eq!(probe(Answer::Absent("no".to_owned())), ("absent", there()));
    assert_eq!(probe(card()), ("ok", there()));
    let lost = "1 Accelerator (1 lost), 1 NUMA Domain".to_owned();
    assert_eq!(probe(Answer::Found(Vec::new())), ("error", there()), "a platform that did not load");
    assert_eq!(probe(Answer::Found(Vec::new())), ("ok", lost), "confirmed");
}

#[test]
fn opencl_results_survive_a_restart_until_the_next_answer() {
    let bare = Device {
        id: "gpu-0000:3b:00.0".into(),
        type_: "GPU".into(),
        vendor: Some("amd".into()),
        pci_bus_id: Some("0000:3b:00.0".into()),
        numa_node: Some(0),
        ..Device::default()
    };
    let ram = vec![MemorySpace { type_: "Device RAM".into(), size_bytes: 64 << 30 }];
    let unit = ComputeResource::new("Compute Unit", 104);
    let gpu = Device { memory_spaces: ram.clone(), compute_resources: vec![unit.clone()], ..bare.clone() };
    let card = Device {
        id: "accelerator-opencl0d0".into(),
        type_: "Accelerator".into(),
        vendor: Some("xilinx".into()),
        memory_spaces: ram,
        compute_resources: vec![unit],
        ..Device::default()
    };
    let lost = Device { health: Health::Lost, ..card.clone() };
    let published = NodeTopologySpec { devices: vec![card.clone(), gpu.clone()], links: Vec::new() };
    for (answer, times, then) in [
        (Answer::Failed("it hangs".to_owned()), 1, [&card, &gpu]),
        (Answer::Denied("no".to_owned()), 1, [&card, &gpu]),
        (Answer::Found(vec![card.clone()]), 1, [&card, &bare]),
        // the first result without a device may be due to a platform that failed to load
        (Answer::Found(vec![gpu.clone()]), 1, [&card, &gpu]),
        (Answer::Found(vec![gpu.clone()]), 2, [&lost, &gpu]),
        (Answer::Absent("it is not installed".to_owned()), 1, [&lost, &bare]),
    ] {
        let mut machine = Machine { opencl: Some(Background::new()), ..machine() };
        machine
            .process(Answer::Found(NodeTopologySpec { devices: vec![bare.clone()], links: Vec::new() }), 1);
        machine.recall(Some(&published));
        assert_eq!(*machine.assemble().topologies["node-a"], published, "before the first result");
        let case = format!("{times} times {answer:?}");
        for answer in vec![answer; times] {
            machine.opencl.as_mut().unwrap().process(answer);
        }
        machine.assemble();
        let devices: Vec<_> = machine.assemble().topologies["node-a"].devices.clone();
        assert_eq!(devices.iter().collect::<Vec<_>>(), then, "{case}");
    }
}

/// Events in order: `r` restores the published topology, `-` is a result without the card, `+` one with it, `k` one
/// with the card of unknown kind, `f` a failure.
#[test]
fn a_result_that_lacks_a_published_device_is_confirmed_by_another_probe() {
    let address = "0000:5e:00.0";
    let card = Device {
        id: format!("fpga-{address}"),
        type_: "FPGA".into(),
        pci_bus_id: Some(address.into()),
        ..Device::default()
    };
    let unknown =
        Device { id: format!("accelerator-{address}"), type_: "Accelerator".into(), ..card.clone() };
    let numa = Device { id: "numa-0".into(), type_: "NUMA Domain".into(), ..Device::default() };
    let link = |to: &Device| Link {
        source: numa.id.clone(),
        destination: to.id.clone(),
        kind: "PCIe".into(),
        ..Link::default()
    };
    let with = |card: &Device| {
        let devices = vec![numa.clone(), card.clone()];
        NodeTopologySpec { devices, links: vec![link(card)] }
    };
    let (there, lost) = ("1 FPGA, 1 NUMA Domain", "1 FPGA (1 lost), 1 NUMA Domain");
    for (events, then, is_probed_again) in [
        ("r", "no topology", true),
        ("r-", "no topology", true),
        ("r-f", "no topology", true),
        ("r--", lost, false),
        ("r-f-", lost, false),
        ("r-+", there, false),
        ("rk", "1 Accelerator, 1 NUMA Domain", false),
        ("-", "1 NUMA Domain", false),
        ("-r", there, true),
        ("-rf", there, true),
        ("-r-", lost, false),
        ("-rf-", lost, false),
        ("-r+", there, false),
        ("+r", there, false),
        ("+r-", there, true),
        ("+r--", lost, false),
    ] {
        let mut machine = machine();
        for event in events.chars() {
            match event {
                'r' => machine.recall(Some(&with(&card))),
                '-' => machine.process(found(&["numa-0"]), 1),
                '+' => machine.process(Answer::Found(with(&card)), 1),
                'k' => machine.process(Answer::Found(with(&unknown)), 1),
                _ => machine.process(Answer::Failed("it hangs".to_owned()), 1),
            }
            // the second consecutive probe, after which a device counts as lost
            machine.assemble();
            machine.reading = machine.assemble();
        }
        let summary = machine.reading.topologies.get("node-a").map(|spec| spec.summary());
        assert_eq!(summary.as_deref().unwrap_or("no topology"), then, "{events}");
        assert_eq!(machine.stamp.is_none(), is_probed_again, "{events}");
    }
}

/// Events in order: `r` restores the published topology, `-` is a result without the card, `+` one with it, `n` a
/// missing OpenCL installation, `f` a failure.
#[test]
fn opencl_probes_again_if_a_device_is_restored_after_a_result() {
    let card =
        Device { id: "accelerator-opencl0d0".into(), type_: "Accelerator".into(), ..Device::default() };
    let published = NodeTopologySpec { devices: vec![card.clone()], links: Vec::new() };
    let (there, lost) = ("1 Accelerator, 1 NUMA Domain", "1 Accelerator (1 lost), 1 NUMA Domain");
    for (events, then) in [
        ("-r", there),
        ("-rf", there),
        ("-r-", lost),
        ("-rf-", lost),
        ("-r+", there),
        ("-rn", lost),
        ("nr", lost),
        ("-fr", there),
        ("-fr-", lost),
        ("+r-", there),
        ("+r--", lost),
    ] {
        let mut machine = Machine { opencl: Some(Background::new()), ..machine() };
        machine.process(found(&["numa-0"]), 1);
        for event in events.chars() {
            let answer = match event {
                'r' => None,
                '-' => Some(Answer::Found(Vec::new())),
                '+' => Some(Answer::Found(vec![card.clone()])),
                'n' => Some(Answer::Absent("it is not installed".to_owned())),
                _ => Some(Answer::Failed("it hangs".to_owned())),
            };
            match answer {
                Some(answer) => machine.opencl.as_mut().unwrap().process(answer),
                None => machine.recall(Some(&published)),
            }
            // the second consecutive probe, after which a device counts as lost
            machine.assemble();
            machine.reading = machine.assemble();
        }
        assert_eq!(machine.reading.topologies["node-a"].summary(), then, "{events}");
    }
}

#[test]
fn failed_hwloc_probes_back_off() {
    let mut machine = machine();
    machine.process(found(&["numa-0"]), 1);
    assert_eq!((machine.stamp, machine.failures), (Some(1), 0));
    let delays = (0..8).map(|_| {
        machine.process(Answer::Failed("it hangs".to_owned()), 1);
        assert_eq!(machine.stamp, None, "it is retried");
        backoff(machine.failures).as_secs()
    });
    assert_eq!(delays.collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 120, 120]);
    machine.process(found(&["numa-0"]), 1);
    assert_eq!(machine.failures, 0);
}

#[test]
fn drivers_are_released_when_the_last_user_is_gone() {
    let mut machine = machine();
    let mut holds: Vec<_> = (0..3).map(|_| Arc::new(())).collect();
    machine.unloading = holds.iter().map(|hold| Unloading::of(Arc::downgrade(hold))).collect();
    assert_eq!(machine.release(), None, "not requested");
    machine.use_drivers(Drivers::Released);
    for gone in [2, 0, 0] {
        assert!(matches!(machine.release(), Some(Release::Waits(why)) if why.contains("NVML")));
        holds.remove(gone);
    }
    assert_eq!(machine.release(), Some(Release::Done));
}

#[test]
fn fpgas_are_kept_while_they_cannot_be_read() {
    let root = tempfile::tempdir().unwrap();
    let class = root.path().join("sys/class/fpga_manager");
    fs::create_dir_all(class.join("fpga0")).unwrap();
    fs::write(class.join("fpga0/state"), "operating\n").unwrap();
    let mut machine = Machine { root: root.path().to_owned(), ..machine() };
    machine.process(found(&["numa-0"]), 1);
    let mut probe = || {
        // the second consecutive probe, after which a device counts as lost
        machine.assemble();
        let reading = machine.assemble();
        (<&str>::from(reading.collectors[1].state), reading.topologies["node-a"].summary())
    };
    let there = || "1 FPGA, 1 NUMA Domain".to_owned();
    assert_eq!(probe(), ("ok", there()));
    fs::remove_dir_all(&class).unwrap();
    // a symbolic link to itself cannot be read
    std::os::unix::fs::symlink("fpga_manager", &class).unwrap();
    assert_eq!(probe(), ("error", there()));
    fs::remove_file(&class).unwrap();
    assert_eq!(probe(), ("absent", "1 FPGA (1 lost), 1 NUMA Domain".to_owned()));
}

/// A device on `vfio-pci` has no entry in the kernel's classes: only its bus names the driver.
#[test]
fn devices_of_virtual_machines_are_unknown_and_need_no_library() {
    let root = tempfile::tempdir().unwrap();
    let drivers = root.path().join("sys/bus/pci/drivers");
    let device = |type_: &str, vendor: &str, address: &str, driver: &str| {
        let folder = root.path().join("sys/bus/pci/devices").join(address);
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(drivers.join(driver), folder.join("driver")).unwrap();
        Device {
            id: format!("{}-{address}", type_.to_lowercase()),
            type_: type_.into(),
            vendor: Some(vendor.into()),
            pci_bus_id: Some(address.into()),
            ..Device::default()
        }
    };
    let mut devices = vec![
        device("GPU", "amd", "0000:05:00.0", "vfio-pci"),
        device("GPU", "nvidia", "0000:3b:00.0", "vfio-pci"),
        device("NPU", "habana", "0000:4b:00.0", "pci-stub"),
        // programs use it through this driver
        device("NPU", "google", "0000:5b:00.0", "vfio-pci"),
        device("GPU", "intel", "0000:6b:00.0", "xe"),
    ];
    let part = Device {
        id: "mig-1".into(),
        type_: "GPU Partition".into(),
        vendor: Some("nvidia".into()),
        parent: Some("gpu-0000:3b:00.0".into()),
        ..Device::default()
    };
    let mut machine = Machine { root: root.path().to_owned(), ..machine() };
    let spec = |devices: &[Device]| NodeTopologySpec { devices: devices.to_vec(), links: Vec::new() };
    assert!(!machine.has_nvidia_gpu(&spec(&devices)), "its driver is not needed");
    devices.push(part);
    machine.process(Answer::Found(spec(&devices)), 1);
    let reading = machine.assemble();
    let of = |device: &Device| (device.health, device.driver.clone());
    let reserved = |driver: &str| (Health::Unknown, Some(driver.to_owned()));
    let used = (Health::Ok, None);
    // By type: GPUs, the partition, NPUs.
    let expected = [
        reserved("vfio-pci"),
        reserved("vfio-pci"),
        used.clone(),
        (Health::Unknown, None),
        reserved("pci-stub"),
        used,
    ];
    assert_eq!(reading.topologies["node-a"].devices.iter().map(of).collect::<Vec<_>>(), expected);

    let used = device("GPU", "nvidia", "0000:7b:00.0", "nvidia");
    assert!(machine.has_nvidia_gpu(&spec(&[used])), "this one is not reserved");
}
