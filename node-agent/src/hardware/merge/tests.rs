//! The state of a machine over several probes.

mod readdressed;
mod withheld;

use super::*;
use crate::hardware::debounce::HealthDebouncer;
use crds::{ComputeResource, MemorySpace};

fn board(id: &str, type_: &str, address: &str) -> Device {
    let address = (!address.is_empty()).then(|| address.to_owned());
    Device { id: id.into(), type_: type_.into(), pci_bus_id: address, ..Device::default() }
}

/// A complete result of NVIDIA's driver.
fn found(devices: Vec<Device>) -> NvmlDevices {
    NvmlDevices { devices, ..NvmlDevices::default() }
}

fn units(count: i32) -> Vec<ComputeResource> {
    vec![ComputeResource::new("Streaming Multiprocessor", count)]
}

#[test]
fn a_board_of_several_collectors_is_one_device() {
    let mut gpu = board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0");
    (gpu.numa_node, gpu.model, gpu.compute_resources) = (Some(1), Some("GA100".into()), units(100));
    let other = Device { uuid: Some("GPU-2".into()), ..board("gpu-cuda1", "GPU", "") };
    let mut spec = NodeTopologySpec { devices: vec![gpu, other], links: Vec::new() };
    let mut seen = board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0");
    (seen.model, seen.uuid, seen.compute_resources) = (Some("A100".into()), Some("GPU-1".into()), units(108));
    let by_uuid = Device { uuid: Some("GPU-2".into()), health: Health::Lost, ..board("gpu-x", "GPU", "") };
    let new = board("gpu-0000:5e:00.0", "GPU", "0000:5e:00.0");
    add(&mut spec, vec![seen, by_uuid, new]);
    let [gpu, other, _new] = &spec.devices[..] else { panic!("{spec:?}") };
    assert_eq!(
        (gpu.numa_node, gpu.model.as_deref(), gpu.uuid.as_deref()),
        (Some(1), Some("A100"), Some("GPU-1"))
    );
    assert_eq!(gpu.compute_resources, units(108));
    assert_eq!((other.id.as_str(), other.health), ("gpu-cuda1", Health::Lost));
}

#[test]
fn an_accelerator_that_is_an_fpga_is_renamed_everywhere() {
    let card = board("accelerator-0000:5e:00.0", "Accelerator", "0000:5e:00.0");
    let link = Link {
        source: "numa-0".into(),
        destination: card.id.clone(),
        kind: "PCIe".into(),
        ..Link::default()
    };
    let part = Device { parent: Some(card.id.clone()), ..board("part", "FPGA", "") };
    let mut spec = NodeTopologySpec { devices: vec![card, part], links: vec![link] };
    add(&mut spec, vec![board("fpga-0000:5e:00.0", "FPGA", "0000:5e:00.0")]);
    assert_eq!(spec.devices[0].id, "fpga-0000:5e:00.0");
    assert_eq!(spec.devices[1].parent.as_deref(), Some("fpga-0000:5e:00.0"));
    assert_eq!(spec.links[0].destination, "fpga-0000:5e:00.0");
}

#[test]
fn opencl_only_fills_missing_attributes() {
    let gpu = Device {
        vendor: Some("nvidia".into()),
        compute_resources: units(108),
        ..board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0")
    };
    let mut spec = NodeTopologySpec { devices: vec![gpu], links: Vec::new() };
    let space = vec![MemorySpace { type_: "Device RAM".into(), size_bytes: 7 }];
    let of = |vendor: &str, device: Device| Device {
        vendor: Some(vendor.into()),
        compute_resources: units(1),
        memory_spaces: space.clone(),
        ..device
    };
    let found = vec![
        of("nvidia", board("gpu-opencl0d0", "GPU", "")),
        of("nvidia", board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0")),
        of("xilinx", board("accelerator-opencl1d0", "Accelerator", "")),
    ];
    add_opencl(&mut spec, found);
    let [gpu, card] = &spec.devices[..] else { panic!("{spec:?}") };
    assert_eq!((&gpu.compute_resources, &gpu.memory_spaces), (&units(108), &space));
    assert_eq!(card.id, "accelerator-opencl1d0");
}

#[test]
fn a_missing_board_is_lost_until_it_returns_and_a_missing_partition_is_removed() {
    let mut memory = DeviceHistory::default();
    let mut probe = |devices: &[(&str, &str)]| {
        let devices = devices.iter().map(|(id, type_)| board(id, type_, "")).collect();
        let mut spec = NodeTopologySpec { devices, links: Vec::new() };
        memory.add_lost(&mut spec, false);
        spec.summary()
    };
    assert_eq!(
        probe(&[("gpu-0", "GPU"), ("mig-1", "GPU Partition"), ("nic-0", "NIC")]),
        "1 GPU, 1 GPU Partition, 1 NIC"
    );
    assert_eq!(probe(&[]), "1 GPU (1 lost)");
    assert_eq!(probe(&[]), "1 GPU (1 lost)");
    assert_eq!(probe(&[("gpu-0", "GPU"), ("gpu-1", "GPU")]), "2 GPU");
    assert_eq!(probe(&[("gpu-0", "GPU")]), "2 GPU (1 lost)");
}

#[test]
fn published_devices_are_lost_once_the_topology_is_complete() {
    let devices = vec![
        board("gpu-0", "GPU", ""),
        board("fpga-0", "FPGA", ""),
        board("numa-0", "NUMA Domain", ""),
        board("mig-1", "GPU Partition", ""),
    ];
    let published = NodeTopologySpec { devices, links: Vec::new() };
    let mut memory = DeviceHistory::default();
    let probe = |memory: &mut DeviceHistory, is_incomplete| {
        let devices = vec![board("gpu-0", "GPU", ""), board("numa-1", "NUMA Domain", "")];
        let mut spec = NodeTopologySpec { devices, links: Vec::new() };
        memory.add_lost(&mut spec, is_incomplete);
        spec.summary()
    };
    memory.recall(&published);
    assert_eq!(probe(&mut memory, true), "1 FPGA, 1 GPU, 1 NUMA Domain");
    assert_eq!(probe(&mut memory, false), "1 FPGA (1 lost), 1 GPU, 1 NUMA Domain");
    memory.recall(&published);
    assert_eq!(probe(&mut memory, false), "1 FPGA (1 lost), 1 GPU, 1 NUMA Domain");
    memory.forget();
    assert_eq!(probe(&mut memory, false), "1 GPU, 1 NUMA Domain");
}

#[test]
fn forget_drops_lost_gpus_and_keeps_listed_ones() {
    let mut memory = DeviceHistory::default();
    let spec = NodeTopologySpec::default();
    let [one, other] =
        ["0000:3b:00.0", "0000:5e:00.0"].map(|address| board(&format!("gpu-{address}"), "GPU", address));
    let list = |gpus: &[&Device]| Some(found(gpus.iter().copied().cloned().collect()));
    memory.driven(&spec, list(&[&one, &other]), false);
    let healths = |found: Vec<Device>| found.iter().map(|gpu| gpu.health).collect::<Vec<_>>();
    assert_eq!(healths(memory.driven(&spec, list(&[&one]), false)), [Health::Ok, Health::Lost]);
    memory.forget();
    assert_eq!(healths(memory.driven(&spec, None, true)), [Health::Unknown]);
    assert_eq!(healths(memory.driven(&spec, list(&[&one]), false)), [Health::Ok]);
}

#[test]
fn a_gpu_without_a_handle_is_not_lost() {
    let mut memory = DeviceHistory::default();
    let spec = NodeTopologySpec::default();
    let [one, other] =
        ["0000:3b:00.0", "0000:5e:00.0"].map(|address| board(&format!("gpu-{address}"), "GPU", address));
    let part = Device { parent: Some(other.id.clone()), ..board("mig-1", "GPU Partition", "") };
    let mut probe = |devices: &[&Device], is_withheld: bool| {
        let devices = devices.iter().copied().cloned().collect();
        let withheld = usize::from(is_withheld);
        let devices = memory.driven(&spec, Some(NvmlDevices { withheld, ..found(devices) }), false);
        devices.iter().map(|it| it.health).collect::<Vec<_>>()
    };
    let with_other = |health| vec![Health::Ok, health, health];
    assert_eq!(probe(&[&one, &other, &part], false), with_other(Health::Ok));
    assert_eq!(probe(&[&one], true), with_other(Health::Unknown), "it is withheld");
    assert_eq!(probe(&[&one], false), with_other(Health::Lost), "it is not counted");
    assert_eq!(probe(&[&one], true), with_other(Health::Lost), "a lost GPU stays lost");
    assert_eq!(probe(&[&one, &other, &part], false), with_other(Health::Ok));
}

#[test]
fn driver_results_survive_a_restart_until_the_next_answer() {
    let ram = vec![MemorySpace { type_: "Device RAM".into(), size_bytes: 80 << 30 }];
    let driven = |id: &str, type_: &str, address: &str| Device {
        driver: Some("nvidia 580.65.06".into()),
        vendor: Some("nvidia".into()),
        memory_spaces: ram.clone(),
        ..board(id, type_, address)
    };
    let gpu = driven("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0");
    let part = Device { parent: Some(gpu.id.clone()), ..driven("mig-1", "GPU Partition", "") };
    let nvlink = Link { kind: "NVLink".into(), source: gpu.id.clone(), ..Link::default() };
    let pcie = Link { kind: "PCIe".into(), destination: gpu.id.clone(), ..Link::default() };
    let devices = vec![gpu.clone(), part.clone(), board("numa-0", "NUMA Domain", "")];
    let published = NodeTopologySpec { devices, links: vec![nvlink.clone(), pcie] };
    let spec = NodeTopologySpec::default();
    let mut memory = DeviceHistory::default();
    memory.recall(&published);
    assert_eq!(memory.driven(&spec, None, true), [gpu.clone(), part.clone()], "as they were");
    assert_eq!(memory.links(None), std::slice::from_ref(&nvlink));
    let later = memory.driven(&spec, None, false);
    assert!(later.iter().all(|it| it.health == Health::Unknown && it.memory_spaces == ram), "{later:?}");
    // it responds: an unlisted GPU is lost, with its partition
    let whole = driven("gpu-0000:5e:00.0", "GPU", "0000:5e:00.0");
    let now = memory.driven(&spec, Some(found(vec![whole.clone()])), true);
    let now: Vec<_> = now.iter().map(|it| (it.id.as_str(), it.health)).collect();
    let lost = [gpu.id.as_str(), part.id.as_str()].map(|id| (id, Health::Lost));
    assert_eq!(now, [(whole.id.as_str(), Health::Ok), lost[0], lost[1]]);
    assert_eq!(memory.links(Some(&NvmlDevices::default())), []);
    // from then on, probes without a response mean unknown
    memory.recall(&published);
    assert_eq!(memory.driven(&spec, None, true)[0].health, Health::Unknown);
    assert_eq!(memory.links(None), []);
}

#[test]
fn a_partition_is_kept_until_the_driver_reports_its_removal() {
    let spec = NodeTopologySpec::default();
    let driver = || Some("nvidia 580.65.06".to_owned());
    let gpu = Device { driver: driver(), ..board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0") };
    let parts = ["mig-1", "mig-2"].map(|id| Device {
        driver: driver(),
        parent: Some(gpu.id.clone()),
        compute_resources: units(60),
        ..board(id, "GPU Partition", "")
    });
    let mut devices = vec![gpu.clone()];
    devices.extend_from_slice(&parts);
    let published = NodeTopologySpec { devices, links: Vec::new() };
    let probe = |memory: &mut DeviceHistory, health: Health, listed: &[Device], is_incomplete: bool| {
        let mut devices = vec![Device { health, ..gpu.clone() }];
        devices.extend_from_slice(listed);
        let incomplete = is_incomplete.then(|| gpu.id.clone()).into_iter().collect();
        let devices = memory.driven(&spec, Some(NvmlDevices { incomplete, ..found(devices) }), false);
        let has_units = |it: &Device| it.parent.is_none() || it.compute_resources == units(60);
        assert!(devices.iter().all(has_units), "{devices:?}");
        NodeTopologySpec { devices, links: Vec::new() }.summary()
    };
    let bare = Device { compute_resources: Vec::new(), ..parts[0].clone() };
    let (none, one): (&[Device], _) = (&[], std::slice::from_ref(&bare));
    let mut memory = DeviceHistory::default();
    memory.recall(&published);
    for (health, listed, is_incomplete, then) in [
        // the first probe after a start
        (Health::Ok, none, true, "1 GPU, 2 GPU Partition"),
        (Health::Degraded, none, true, "1 GPU (1 degraded), 2 GPU Partition (2 degraded)"),
        (Health::Lost, none, true, "1 GPU (1 lost), 2 GPU Partition (2 lost)"),
        // readings of lost devices are ignored
        (Health::Lost, none, false, "1 GPU (1 lost), 2 GPU Partition (2 lost)"),
        // one of them is listed without its partitions
        (Health::Ok, one, true, "1 GPU, 2 GPU Partition"),
        (Health::Ok, one, false, "1 GPU, 1 GPU Partition"),
        (Health::Ok, none, true, "1 GPU, 1 GPU Partition"),
        (Health::Ok, none, false, "1 GPU"),
        (Health::Ok, none, true, "1 GPU"),
        (Health::Lost, none, true, "1 GPU (1 lost)"),
    ] {
        assert_eq!(
            probe(&mut memory, health, listed, is_incomplete),
            then,
            "{health} {listed:?} {is_incomplete}"
        );
    }
    assert_eq!(probe(&mut memory, Health::Ok, &parts, false), "1 GPU, 2 GPU Partition");
    let all = memory.driven(&spec, Some(NvmlDevices::default()), false);
    assert!(all.len() == 3 && all.iter().all(|it| it.health == Health::Lost), "none is listed: {all:?}");

    // the driver reported before the published topology was restored
    let mut memory = DeviceHistory::default();
    assert_eq!(probe(&mut memory, Health::Ok, none, true), "1 GPU");
    memory.recall(&published);
    assert_eq!(probe(&mut memory, Health::Ok, none, true), "1 GPU, 2 GPU Partition");
    assert_eq!(probe(&mut memory, Health::Ok, none, false), "1 GPU");
}

#[test]
fn published_opencl_devices_are_used_before_its_first_result() {
    let near =
        |address: &str| Device { numa_node: Some(0), ..board(&format!("gpu-{address}"), "GPU", address) };
    let driven = Device { driver: Some("nvidia 1".into()), ..board("gpu-1", "GPU", "") };
    let devices = vec![
        board("accelerator-opencl0d0", "Accelerator", ""),
        board("fpga-0", "FPGA", ""),
        driven,
        near("0000:3b:00.0"),
        near("0000:5e:00.0"),
        board("numa-0", "NUMA Domain", ""),
    ];
    let mut memory = DeviceHistory::default();
    memory.recall(&NodeTopologySpec { devices, links: Vec::new() });
    let spec = NodeTopologySpec { devices: vec![near("0000:3b:00.0")], links: Vec::new() };
    let ids = |found| memory.opencl(&spec, found).into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(None), ["accelerator-opencl0d0", "gpu-0000:3b:00.0"]);
    assert_eq!(ids(Some(Vec::new())), [""; 0]);
    assert_eq!(ids(Some(vec![board("gpu-opencl0d0", "GPU", "")])), ["gpu-opencl0d0"]);
}

#[test]
fn a_deleted_topology_is_not_restored() {
    let gpu = Device { driver: Some("nvidia 1".into()), ..board("gpu-0", "GPU", "") };
    let card = board("accelerator-opencl0d0", "Accelerator", "");
    let mut memory = DeviceHistory::default();
    memory.recall(&NodeTopologySpec { devices: vec![gpu, card], links: Vec::new() });
    memory.forget();
    let spec = NodeTopologySpec::default();
    assert_eq!(memory.driven(&spec, None, true), []);
    assert_eq!(memory.opencl(&spec, None), []);
}

#[test]
fn a_gpu_that_is_removed_while_its_driver_does_not_respond_is_lost() {
    let address = |slot: &str| format!("0000:{slot}:00.0");
    let gpu = |slot: &str| board(&format!("gpu-{}", address(slot)), "GPU", &address(slot));
    let gpus = ["3b", "5e", "af"].map(gpu);
    let part = Device { parent: Some(gpus[1].id.clone()), ..board("mig-1", "GPU Partition", "") };
    // hwloc lists the first two
    let spec = NodeTopologySpec { devices: gpus[..2].to_vec(), links: Vec::new() };
    let bus = |slots: &[&str]| slots.iter().map(|slot| address(slot)).collect::<BTreeSet<_>>();
    let mut memory = DeviceHistory::default();
    memory.update_bus(&spec, Some(&bus(&["3b", "5e"])));
    let all = [&gpus[..], std::slice::from_ref(&part)].concat();
    assert_eq!(memory.driven(&spec, Some(found(all.clone())), false), all);
    let unanswered = |memory: &mut DeviceHistory, bus: Option<BTreeSet<String>>| {
        memory.update_bus(&NodeTopologySpec::default(), bus.as_ref());
        let devices = memory.driven(&NodeTopologySpec::default(), None, true);
        devices.iter().map(|it| it.health).collect::<Vec<_>>()
    };
    let second = |health| vec![Health::Unknown, health, Health::Unknown, health];
    assert_eq!(unanswered(&mut memory, Some(bus(&["3b", "5e"]))), second(Health::Unknown));
    assert_eq!(unanswered(&mut memory, Some(bus(&["3b"]))), second(Health::Lost), "with its partition");
    assert_eq!(unanswered(&mut memory, None), second(Health::Lost), "a hidden bus changes nothing");
    assert_eq!(unanswered(&mut memory, Some(bus(&["3b", "5e"]))), second(Health::Unknown), "it returns");
    // the driver reports it lost twice, and then fails
    let lost = |it: &Device| Device { health: Health::Lost, ..it.clone() };
    for _ in 0..2 {
        memory.driven(&spec, Some(found(vec![gpus[0].clone(), lost(&gpus[1]), gpus[2].clone()])), false);
    }
    assert_eq!(unanswered(&mut memory, Some(bus(&["3b", "5e"]))), second(Health::Lost), "it stays lost");
    // to forget a removed card, delete the NodeTopology
    assert_eq!(unanswered(&mut memory, Some(bus(&["5e"])))[0], Health::Lost);
    memory.forget();
    assert_eq!(
        unanswered(&mut memory, Some(bus(&["5e"]))),
        [Health::Unknown],
        "of the one that hwloc never listed"
    );
}

/// The published health of a GPU after each probe: `o` is ok, `l` lost, `?` unknown; `-` is a probe without a response
/// of its driver.
#[test]
fn a_gpu_is_lost_after_two_results_and_probes_without_response_do_not_count() {
    let letters = [('o', Health::Ok), ('l', Health::Lost), ('?', Health::Unknown)];
    let health_of = |letter: char| letters.iter().find(|it| it.0 == letter).map(|it| it.1);
    let letter_of = |health: Health| letters.iter().find(|it| it.1 == health).map_or('-', |it| it.0);
    let spec = NodeTopologySpec::default();
    for (before, results, then) in [
        ('o', "ol-ooo", "oooooo"),
        ('o', "ol------", "oooooo??"),
        ('o', "ol-l----", "ooolllll"),
        ('o', "oll-----", "oollllll"),
        ('o', "ollo-l-----", "oollllllll?"),
        // the published state counts as an observation
        ('l', "------", "llllll"),
        ('l', "l-----", "llllll"),
    ] {
        let gpu = |health| Device {
            driver: Some("nvidia 1".into()),
            health,
            ..board("gpu-3b", "GPU", "0000:3b:00.0")
        };
        let published = health_of(before).map(gpu).into_iter().collect();
        let (mut memory, mut steady) = (DeviceHistory::default(), HealthDebouncer::default());
        memory.recall(&NodeTopologySpec { devices: published, links: Vec::new() });
        let mut probe = |letter: char| {
            let result = health_of(letter).map(|health| found(vec![gpu(health)]));
            let mut devices = memory.driven(&spec, result, false);
            steady.hold(&mut devices);
            letter_of(devices[0].health)
        };
        assert_eq!(results.chars().map(&mut probe).collect::<String>(), then, "{before} {results}");
    }
}

#[test]
fn a_gpu_removed_while_the_agent_was_down_is_lost_even_without_its_driver() {
    let gpus = ["0000:3b:00.0", "0000:5e:00.0"]
        .map(|at| Device { driver: Some("nvidia 570".into()), ..board(&format!("gpu-{at}"), "GPU", at) });
    let link = |gpu: &Device| Link {
        source: "numa-0".into(),
        destination: gpu.id.clone(),
        kind: "PCIe".into(),
        ..Link::default()
    };
    // hwloc may never have listed the second one
    let published = NodeTopologySpec { devices: gpus.to_vec(), links: vec![link(&gpus[0])] };
    let mut memory = DeviceHistory::default();
    memory.recall(&published);
    let bus = BTreeSet::from(["0000:00:00.0".to_owned()]);
    for starting in [true, false] {
        memory.update_bus(&NodeTopologySpec::default(), Some(&bus));
        let found = memory.driven(&NodeTopologySpec::default(), None, starting);
        let second = if starting { Health::Ok } else { Health::Unknown };
        assert_eq!(found.iter().map(|it| it.health).collect::<Vec<_>>(), [Health::Lost, second]);
    }
}
