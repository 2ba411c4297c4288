//! GPUs that a driver counts, but returns no handle for.

use super::*;

#[test]
fn a_withheld_gpu_does_not_hide_the_loss_of_another_one() {
    let address = |slot: char| format!("0000:{slot}0:00.0");
    let gpu = |slot: char| board(&format!("gpu-{}", address(slot)), "GPU", &address(slot));
    let gpus = |slots: &str| slots.chars().map(gpu).collect::<Vec<_>>();
    // each probe: listed GPUs, number of withheld ones, GPUs on the bus, and the health of the known ones
    for probes in [
        // a missing GPU is not the one that never had a handle
        [("ab", 1, "abc", "a ok, b ok"), ("a", 1, "abc", "a ok, b lost"), ("a", 1, "abc", "a ok, b lost")],
        // the same GPU stays withheld
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("ab", 1, "abc", "a ok, b ok, c unknown"),
            ("a", 1, "abc", "a ok, b lost, c unknown"),
        ],
        // two are missing and one is withheld: the one on the bus
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("a", 1, "ac", "a ok, b lost, c unknown"),
            ("ab", 1, "ac", "a ok, b ok, c unknown"),
        ],
        // all are withheld, and then none; those present are known
        [("", 2, "ab", ""), ("ab", 0, "ab", "a ok, b ok"), ("a", 1, "ab", "a ok, b unknown")],
        // more are missing than withheld: it is unknown which ones, until one leaves the bus or is listed again
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("c", 1, "abc", "a unknown, b unknown, c ok"),
            ("c", 1, "bc", "a lost, b unknown, c ok"),
        ],
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("c", 1, "abc", "a unknown, b unknown, c ok"),
            ("ac", 0, "abc", "a ok, b lost, c ok"),
        ],
        // a GPU that is missing later is lost
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("c", 1, "abc", "a unknown, b unknown, c ok"),
            ("", 1, "abc", "a unknown, b unknown, c lost"),
        ],
        // unless more are withheld by then
        [
            ("abc", 0, "abc", "a ok, b ok, c ok"),
            ("c", 1, "abc", "a unknown, b unknown, c ok"),
            ("", 2, "abc", "a unknown, b unknown, c unknown"),
        ],
        // one that was lost is listed again, and another one is withheld in its place
        [("ab", 0, "ab", "a ok, b ok"), ("a", 1, "a", "a ok, b lost"), ("b", 1, "ab", "a unknown, b ok")],
        // it is removed while it is withheld
        [("ab", 0, "ab", "a ok, b ok"), ("a", 1, "ab", "a ok, b unknown"), ("a", 1, "a", "a ok, b lost")],
    ] {
        let mut memory = DeviceHistory::default();
        let located = NodeTopologySpec { devices: gpus("abc"), links: Vec::new() };
        for (listed, withheld, on_bus, then) in probes {
            memory.update_bus(&located, Some(&on_bus.chars().map(address).collect()));
            let result = NvmlDevices { withheld, ..found(gpus(listed)) };
            let mut devices = memory.driven(&NodeTopologySpec::default(), Some(result), false);
            devices.sort_by(|one, other| one.id.cmp(&other.id));
            let healths: Vec<_> = devices
                .iter()
                .map(|it| format!("{} {}", it.id.replace("gpu-0000:", "").replace("0:00.0", ""), it.health))
                .collect();
            assert_eq!(healths.join(", "), then, "{probes:?}");
        }
    }
}

#[test]
fn a_published_gpu_may_be_the_withheld_one() {
    let gpu = Device { driver: Some("nvidia 1".into()), ..board("gpu-0000:3b:00.0", "GPU", "0000:3b:00.0") };
    let spec = NodeTopologySpec::default();
    let mut memory = DeviceHistory::default();
    let one_withheld = || Some(NvmlDevices { withheld: 1, ..NvmlDevices::default() });
    assert_eq!(memory.driven(&spec, one_withheld(), false), [], "not known yet");
    memory.recall(&NodeTopologySpec { devices: vec![gpu], links: Vec::new() });
    let healths = memory.driven(&spec, one_withheld(), false).iter().map(|it| it.health).collect::<Vec<_>>();
    assert_eq!(healths, [Health::Unknown]);
}

#[test]
fn a_card_whose_id_changes_is_not_lost_under_the_previous_one() {
    let mut memory = DeviceHistory::default();
    let mut probe = |devices: &[(&str, &str, &str)]| {
        let devices = devices.iter().map(|(id, type_, address)| board(id, type_, address)).collect();
        let mut spec = NodeTopologySpec { devices, links: Vec::new() };
        memory.add_lost(&mut spec, false);
        spec.devices.iter().map(|it| format!("{} {}", it.id, it.health)).collect::<Vec<_>>().join(", ")
    };
    let (card, fpga) = (("accelerator-5e", "Accelerator", "5e"), ("fpga-5e", "FPGA", "5e"));
    let gpu = ("gpu-3b", "GPU", "3b");
    assert_eq!(probe(&[card, gpu]), "accelerator-5e ok, gpu-3b ok");
    assert_eq!(probe(&[fpga, gpu]), "fpga-5e ok, gpu-3b ok");
    assert_eq!(probe(&[card, gpu]), "accelerator-5e ok, gpu-3b ok");
    assert_eq!(probe(&[gpu]), "gpu-3b ok, accelerator-5e lost");
    // without an address, or with another one, it is another card
    assert_eq!(probe(&[fpga, ("fpga-0", "FPGA", "")]), "fpga-5e ok, fpga-0 ok, gpu-3b lost");
    let function = ("fpga-5e.1", "FPGA", "5e.1");
    assert_eq!(
        probe(&[function, ("npu-0", "NPU", "")]),
        "fpga-5e.1 ok, npu-0 ok, fpga-0 lost, fpga-5e lost, gpu-3b lost"
    );
}

#[test]
fn links_of_withheld_gpus_are_kept() {
    // a link is identified by its two ends
    let link = |ends: &str| Link {
        kind: NVLINK.into(),
        source: ends[..1].to_owned(),
        destination: ends[1..].to_owned(),
        ..Link::default()
    };
    let mut memory = DeviceHistory::default();
    // each probe: listed GPUs, number of withheld ones, reported links, and published links
    for (listed, withheld, reported, then) in [
        ("ab", 1, "ab", "ab"),
        ("ab", 1, "", ""),
        ("abc", 0, "ab ac bc", "ab ac bc"),
        ("ab", 1, "ab", "ab ac bc"),
        // one link went down meanwhile, and another GPU takes the place of the withheld one
        ("ab", 1, "", "ac bc"),
        ("ac", 1, "ac", "ac bc"),
        ("a", 2, "", "ac bc"),
        ("ac", 0, "ac", "ac"),
        ("", 0, "", ""),
    ] {
        let devices = listed.chars().map(|id| board(&id.to_string(), "GPU", "")).collect();
        let links = reported.split_whitespace().map(link).collect();
        let links = memory.links(Some(&NvmlDevices { links, withheld, ..found(devices) }));
        let mut ends: Vec<_> = links.iter().map(|it| format!("{}{}", it.source, it.destination)).collect();
        ends.sort();
        assert_eq!(ends.join(" "), then, "{listed} {withheld} {reported}");
    }
}
