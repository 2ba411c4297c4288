//! Boards that have another PCI address since a reboot.

use super::*;

/// A GPU with a UUID, as its driver reports it.
fn gpu(address: &str, uuid: &str, driver: &str) -> Device {
    Device {
        uuid: Some(uuid.to_owned()),
        driver: Some(driver.to_owned()),
        ..board(&format!("gpu-{address}"), "GPU", address)
    }
}

/// The ids and states after a probe: `on_bus` are found without a vendor's library, `driven` by NVIDIA's driver.
fn probe(
    memory: &mut DeviceHistory,
    on_bus: Vec<Device>,
    driven: Option<Vec<Device>>,
) -> Vec<(String, Health)> {
    let mut spec = NodeTopologySpec { devices: on_bus, links: Vec::new() };
    let addresses = spec.devices.iter().filter_map(|it| it.pci_bus_id.clone()).collect();
    memory.update_bus(&spec, Some(&addresses));
    let driven = memory.driven(&spec, driven.map(found), false);
    add(&mut spec, driven);
    memory.add_lost(&mut spec, false);
    let mut states: Vec<_> = spec.devices.into_iter().map(|it| (it.id, it.health)).collect();
    states.sort();
    states
}

#[test]
fn a_board_with_another_address_is_neither_lost_nor_listed_twice() {
    let nvidia = |address| gpu(address, "GPU-1", "nvidia 580");
    let amd = |address| gpu(address, "GPU-a", "amdgpu");
    let published = NodeTopologySpec {
        devices: vec![nvidia("0000:3b:00.0"), nvidia_other("0000:5e:00.0"), amd("0000:83:00.0")],
        links: Vec::new(),
    };
    let mut memory = DeviceHistory::default();
    memory.recall(&published);
    // A card was added: all buses behind it have another number, and one GPU has the former address of another one.
    let on_bus = || {
        let plain = |address: &str| board(&format!("gpu-{address}"), "GPU", address);
        vec![plain("0000:5e:00.0"), plain("0000:61:00.0"), amd("0000:86:00.0")]
    };
    let driven = || vec![nvidia("0000:5e:00.0"), nvidia_other("0000:61:00.0")];
    let all = ["gpu-0000:5e:00.0", "gpu-0000:61:00.0", "gpu-0000:86:00.0"];
    for _ in 0..3 {
        let states = probe(&mut memory, on_bus(), Some(driven()));
        assert_eq!(states, all.map(|id| (id.to_owned(), Health::Ok)));
    }
    // One that then fails is lost at its new address.
    let states = probe(&mut memory, on_bus(), Some(vec![nvidia("0000:5e:00.0")]));
    let lost: Vec<_> = states.iter().filter(|(_, health)| *health == Health::Lost).collect();
    assert_eq!(lost, [&("gpu-0000:61:00.0".to_owned(), Health::Lost)]);
}

fn nvidia_other(address: &str) -> Device {
    gpu(address, "GPU-2", "nvidia 580")
}
