//! A machine, given the answers of its collectors.

use super::*;
use crds::{ComputeResource, Link, MemorySpace};

/// The agent's own machine with hwloc's answers, without drivers.
fn machine() -> Machine {
    let described = Machine::new("node-a", Some("nowhere.xml".into()), None);
    Machine { description: None, root: PathBuf::from("/does/not/exist"), ..described }
}

fn found(ids: &[&str]) -> Answer<NodeTopologySpec> {
    let device = |id: &&str| Device { id: (*id).into(), type_: "NUMA Domain".into(), ..Device::default() };
    Answer::Found(NodeTopologySpec { devices: ids.iter().map(device).collect(), links: Vec::new() })
}

#[test]
fn failed_probes_keep_the_last_result() {
    let mut machine = machine();
    let mut look = |answer| {
        machine.hear(answer, 1);
        let reading = machine.assemble();
        let state = <&str>::from(reading.collectors[0].state);
        let devices = reading.topologies.get("node-a").map(|spec| spec.summary());
        (state, devices.unwrap_or_else(|| "nothing is said".to_owned()))
    };
    let failed = || Answer::Failed("it hangs".to_owned());
    let two = || "2 NUMA Domain".to_owned();
    assert_eq!(look(failed()), ("error", "nothing is said".to_owned()), "before anything was seen");
    assert_eq!(look(found(&[])), ("error", "nothing is said".to_owned()), "no machine has nothing");
    assert_eq!(look(found(&["numa-0", "numa-1"])), ("ok", two()));
    assert_eq!(look(failed()), ("error", two()));
    assert_eq!(look(Answer::Denied("no".to_owned())), ("denied", two()));
    assert_eq!(look(Answer::Absent("no".to_owned())), ("absent", two()));
    assert_eq!(look(found(&[])), ("error", two()), "nothing where there was something is a failure");
    assert_eq!(look(found(&["numa-0", "numa-1"])), ("ok", two()));
    assert_eq!(look(failed()), ("error", two()));
    assert_eq!(look(found(&["numa-0"])), ("error", two()), "it is asked once more, whatever was before");
    assert_eq!(look(failed()), ("error", two()));
    assert_eq!(look(found(&["numa-0"])), ("ok", "1 NUMA Domain".to_owned()), "less twice is news");
}

#[test]
fn failed_opencl_probes_keep_the_last_result() {
    let mut machine = Machine { opencl: Some(Background::new()), ..machine() };
    machine.hear(found(&["numa-0"]), 1);
    let mut look = |answer| {
        machine.opencl.as_mut().unwrap().take_in(answer);
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
    assert_eq!(look(failed()), ("error", "1 NUMA Domain".to_owned()), "before anything was found");
    assert_eq!(look(card()), ("ok", there()));
    assert_eq!(look(failed()), ("error", there()));
    assert_eq!(look(Answer::Denied("no".to_owned())), ("denied", there()));
    assert_eq!(look(Answer::Absent("no".to_owned())), ("absent", there()));
    assert_eq!(look(card()), ("ok", there()));
    let lost = "1 Accelerator (1 lost), 1 NUMA Domain".to_owned();
    assert_eq!(look(Answer::Found(Vec::new())), ("error", there()), "a platform that did not load");
    assert_eq!(look(Answer::Found(Vec::new())), ("ok", lost), "less twice is news");
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
        // the first answer without one may be due to a platform that failed to load
        (Answer::Found(vec![gpu.clone()]), 1, [&card, &gpu]),
        (Answer::Found(vec![gpu.clone()]), 2, [&lost, &gpu]),
        (Answer::Absent("it is not installed".to_owned()), 1, [&lost, &bare]),
    ] {
        let mut machine = Machine { opencl: Some(Background::new()), ..machine() };
        machine.hear(Answer::Found(NodeTopologySpec { devices: vec![bare.clone()], links: Vec::new() }), 1);
        machine.recall(Some(&published));
        assert_eq!(*machine.assemble().topologies["node-a"], published, "it is being asked");
        let said = format!("{times} times {answer:?}");
        for answer in vec![answer; times] {
            machine.opencl.as_mut().unwrap().take_in(answer);
        }
        machine.assemble();
        let devices: Vec<_> = machine.assemble().topologies["node-a"].devices.clone();
        assert_eq!(devices.iter().collect::<Vec<_>>(), then, "{said}");
    }
}

/// Events in order: `r` the published topology is restored, `-` an answer without the card, `+` one with it, `k` one with the card
/// of unknown kind, `f` a failure.
#[test]
fn an_answer_that_lacks_a_published_device_is_confirmed_by_another_probe() {
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
    for (events, then, is_asked) in [
        ("r", "nothing is said", true),
        ("r-", "nothing is said", true),
        ("r-f", "nothing is said", true),
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
                '-' => machine.hear(found(&["numa-0"]), 1),
                '+' => machine.hear(Answer::Found(with(&card)), 1),
                'k' => machine.hear(Answer::Found(with(&unknown)), 1),
                _ => machine.hear(Answer::Failed("it hangs".to_owned()), 1),
            }
            // the second consecutive probe, after which a device counts as lost
            machine.assemble();
            machine.reading = machine.assemble();
        }
        let said = machine.reading.topologies.get("node-a").map(|spec| spec.summary());
        assert_eq!(said.as_deref().unwrap_or("nothing is said"), then, "{events}");
        assert_eq!(machine.stamp.is_none(), is_asked, "{events}");
    }
}

/// Events in order: `r` the published topology is restored, `-` an answer without the card, `+` one with it, `n` OpenCL is not
/// installed, `f` a failure.
#[test]
fn opencl_that_spoke_before_what_was_published_was_heard_is_asked_once_more() {
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
        machine.hear(found(&["numa-0"]), 1);
        for event in events.chars() {
            let answer = match event {
                'r' => None,
                '-' => Some(Answer::Found(Vec::new())),
                '+' => Some(Answer::Found(vec![card.clone()])),
                'n' => Some(Answer::Absent("it is not installed".to_owned())),
                _ => Some(Answer::Failed("it hangs".to_owned())),
            };
            match answer {
                Some(answer) => machine.opencl.as_mut().unwrap().take_in(answer),
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
fn hwloc_that_fails_again_and_again_is_asked_less_and_less_often() {
    let mut machine = machine();
    machine.hear(found(&["numa-0"]), 1);
    assert_eq!((machine.stamp, machine.failures), (Some(1), 0));
    let pauses = (0..8).map(|_| {
        machine.hear(Answer::Failed("it hangs".to_owned()), 1);
        assert_eq!(machine.stamp, None, "it is asked again");
        patience(machine.failures).as_secs()
    });
    assert_eq!(pauses.collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 120, 120]);
    machine.hear(found(&["numa-0"]), 1);
    assert_eq!(machine.failures, 0);
}

#[test]
fn drivers_are_released_when_the_last_user_is_gone() {
    let mut machine = machine();
    let mut holds: Vec<_> = (0..3).map(|_| Arc::new(())).collect();
    machine.leaving = holds.iter().map(|hold| Leaving::of(Arc::downgrade(hold))).collect();
    assert_eq!(machine.release(), None, "not requested");
    machine.use_drivers(Drivers::Released);
    for gone in [2, 0, 0] {
        assert!(matches!(machine.release(), Some(Release::Waits(why)) if why.starts_with("NVML")));
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
    machine.hear(found(&["numa-0"]), 1);
    let mut look = || {
        // the second consecutive probe, after which a device counts as lost
        machine.assemble();
        let reading = machine.assemble();
        (<&str>::from(reading.collectors[1].state), reading.topologies["node-a"].summary())
    };
    let there = || "1 FPGA, 1 NUMA Domain".to_owned();
    assert_eq!(look(), ("ok", there()));
    fs::remove_dir_all(&class).unwrap();
    // a link to itself: an error for every reader
    std::os::unix::fs::symlink("fpga_manager", &class).unwrap();
    assert_eq!(look(), ("error", there()));
    fs::remove_file(&class).unwrap();
    assert_eq!(look(), ("absent", "1 FPGA (1 lost), 1 NUMA Domain".to_owned()));
}
