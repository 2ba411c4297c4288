//! Tests of topology, memory, communication and compute on devices, and of inference there.
//! They need a device; Debian's pocl provides one on the processor.

#![expect(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_precision_loss, reason = "counts of images are small")]

#[path = "../../examples/programs/network.rs"]
#[expect(dead_code, reason = "the programs of other back-ends use the rest")]
mod network;

#[path = "../examples/programs/kernels.rs"]
mod kernels;

use std::fs;

use opencl::{Argument, Managers, open};
use runtime::{
    Capability, CommunicationManager, ComputeManager, Error, ExecutionUnit, Kernel, LocalSlot, Memcpy,
    MemoryManager, Slot, TopologyManager, UnitStatus,
    backends::host,
    hicr::{MemorySpace, Topology},
};

/// A device and the host.
struct Bench {
    managers: Managers,
    host: host::Managers,
    space: MemorySpace,
    host_space: MemorySpace,
}

fn bench() -> Bench {
    let managers = open().unwrap();
    let topology = managers.topology.query().unwrap();
    let device =
        topology.devices.first().expect("pocl-opencl-icd is not installed; `make runtime-tools` does");
    let space = device.memory_spaces[0].clone();
    let host = host::alone().unwrap();
    let spaces = host.topology.query().unwrap();
    let host_space = spaces.devices[0].memory_spaces[0].clone();
    Bench { managers, host, space, host_space }
}

impl Bench {
    fn slot(&self, size: usize) -> LocalSlot {
        self.managers.memory.allocate(&self.space, size).unwrap()
    }

    fn on_host(&self, bytes: &[u8]) -> LocalSlot {
        let slot = self.host.memory.allocate(&self.host_space, bytes.len()).unwrap();
        slot.write(0, bytes).unwrap();
        slot
    }

    /// The contents of a device slot.
    fn read(&self, slot: &LocalSlot) -> Vec<u8> {
        let copy = self.on_host(&vec![9; slot.size()]);
        self.managers.communication.memcpy(&copy, 0, slot, 0, slot.size()).unwrap();
        self.managers.communication.fence((&copy).into(), 0, 1).unwrap().done().unwrap();
        copy.read_values::<u8>(0, slot.size()).unwrap()
    }
}

#[test]
fn devices_have_hicr_descriptions_and_merge_with_the_host() {
    let desk = bench();
    let devices = desk.managers.topology.query().unwrap();
    assert_eq!(Topology::read(&devices.to_json().to_string()).unwrap(), devices);
    assert!(devices.devices.iter().all(|it| it.type_ == opencl::DEVICE && it.memory_spaces[0].size > 0));
    let both = runtime::SeveralTopologies(vec![&desk.host.topology, &desk.managers.topology]);
    let all = both.query().unwrap();
    assert!(all.satisfies(&devices) && all.satisfies(&desk.host.topology.query().unwrap()));
}

#[test]
fn a_slot_is_zeroed_filled_and_copied_within_its_bounds() {
    let desk = bench();
    let (slot, copies) = (desk.slot(100), &desk.managers.communication);
    assert_eq!(desk.read(&slot), [0; 100]);
    desk.managers.memory.fill(&slot, 10, 7, 5).unwrap();
    copies.memcpy(&slot, 95, &desk.on_host(b"hello"), 0, 5).unwrap();
    // Within the device.
    copies.memcpy(&slot, 0, &slot, 95, 5).unwrap();
    let bytes = desk.read(&slot);
    assert_eq!(
        (&bytes[..5], &bytes[9..16], &bytes[95..]),
        (&b"hello"[..], &[0, 7, 7, 7, 7, 7, 0][..], &b"hello"[..])
    );
    let other = desk.on_host(&[0; 8]);
    for error in [
        desk.managers.memory.fill(&slot, 96, 0, 5),
        copies.memcpy(&slot, 96, &other, 0, 5),
        copies.memcpy(&other, 0, &slot, usize::MAX, 2),
    ] {
        assert!(matches!(error, Err(Error::OutOfBounds { .. })), "{error:?}");
    }
    let overlap = copies.memcpy(&slot, 0, &slot, 4, 8).unwrap_err().to_string();
    assert!(overlap.contains("overlap"), "{overlap}");
    let between = copies.memcpy(&other, 0, &desk.on_host(&[1; 8]), 0, 8).unwrap_err().to_string();
    assert!(between.contains("use a manager that claims"), "{between}");
    // The bytes are in device memory.
    for error in [slot.write(0, &[1]), slot.read(0, &mut [0])] {
        assert!(error.unwrap_err().to_string().ends_with("is on a device; copy it to a host slot"));
    }
    desk.managers.memory.free(slot).unwrap();
}

#[test]
fn each_copy_is_counted_once_at_both_ends_and_consumed_by_a_fence() {
    let desk = bench();
    let (slot, from, copies) = (desk.slot(8), desk.on_host(b"12345678"), &desk.managers.communication);
    copies.memcpy(&slot, 0, &from, 0, 8).unwrap();
    copies.memcpy(&slot, 8, &from, 0, 0).unwrap();
    let counts = |slot: Slot<'_>| (copies.counts(slot).sent, copies.counts(slot).received);
    assert_eq!((counts((&slot).into()), counts((&from).into())), ((0, 2), (2, 0)));
    copies.fence((&slot).into(), 0, 2).unwrap().done().unwrap();
    assert!(copies.fence((&slot).into(), 0, 1).unwrap().try_take().is_none());
    assert_eq!(desk.read(&slot), b"12345678");
}

#[test]
fn allocations_never_exceed_a_space_and_freed_memory_is_reusable() {
    let desk = bench();
    let refused = |size| desk.managers.memory.allocate(&desk.space, size).unwrap_err().to_string();
    assert_eq!(refused(0), "cannot allocate 0 bytes: a slot has at least 1 byte");
    let all = usize::try_from(desk.space.size).unwrap();
    let slot = desk.slot(1 << 20);
    assert!(refused(all).contains(&format!("which has {} bytes free", all - (1 << 20))));
    drop(slot);
    assert!(refused(all + 1).contains(&format!("which has {all} bytes free")));
    assert!(desk.managers.memory.allocate(&desk.host_space, 1).is_err());
}

#[test]
fn a_unit_and_a_kernel_pass_each_state_once() {
    let desk = bench();
    let compute = &desk.managers.compute;
    let topology = desk.managers.topology.query().unwrap();
    let unit = compute.create_processing_unit(&topology.devices[0].compute_resources[0]).unwrap();
    let source = "kernel void fill(global uint *to, uint value) { to[get_global_id(0)] = value; }";
    let kernel = |name: &str| {
        ExecutionUnit::kernel(Kernel { source: source.into(), name: name.into(), range: [4, 1, 1] })
    };
    let slot = desk.slot(16);
    let state = |name: &str, more: Vec<Argument>| {
        let mut arguments = vec![Argument::slot(&slot).unwrap()];
        arguments.extend(more);
        compute.create_execution_state(&kernel(name), Box::new(arguments)).unwrap()
    };
    let first = state("fill", vec![Argument::U32(0x0102_0304)]);
    let early = compute.start(&unit, &first).unwrap_err().to_string();
    assert!(early.ends_with("is Uninitialized; to start a state on it it must be Ready"), "{early}");
    compute.initialize(&unit).unwrap();
    assert!(compute.initialize(&unit).is_err());
    compute.start(&unit, &first).unwrap();
    compute.wait(&first).done().unwrap();
    first.take::<()>().unwrap();
    assert_eq!(desk.read(&slot), [4, 3, 2, 1].repeat(4));
    while unit.status() != UnitStatus::Ready {
        std::thread::yield_now();
    }
    assert!(compute.start(&unit, &first).is_err(), "a state is used once");
    // A kernel error ends its state, not the unit.
    for (wrong, message) in [
        (state("nothing", vec![Argument::U32(1)]), "cannot run the kernel nothing: "),
        (state("fill", Vec::new()), "it takes 2 arguments, but got 1"),
    ] {
        compute.start(&unit, &wrong).unwrap();
        compute.wait(&wrong).done().unwrap();
        let error = wrong.take::<()>().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        while unit.status() != UnitStatus::Ready {
            std::thread::yield_now();
        }
    }
    for error in [compute.run(&first).map(|_| ()), compute.suspend(&unit), compute.resume(&unit)] {
        assert!(matches!(error, Err(Error::Unsupported { .. })));
    }
    compute.finalize(&unit).unwrap();
    assert_eq!(unit.status(), UnitStatus::Terminated);
    // The kernels have finished, so the slot is free.
    desk.managers.memory.free(slot).unwrap();
}

#[test]
fn kernel_inference_matches_plain_code() {
    let (points, labels) = network::images(include_str!("../../examples/data/digits.txt"));
    let network = network::Network::read(include_bytes!("../../examples/data/digits.weights")).unwrap();
    let plain = network.plain(&points);
    let desk = bench();
    let scores = kernels::infer(&desk.managers, &desk.host, &network, &points, 128).unwrap();
    assert_eq!(network::digits(&scores), network::digits(&plain));
    assert!(scores.iter().zip(&plain).all(|(one, other)| (one - other).abs() < 1e-4));
    let out = network::held_out(labels.len());
    let read = network::digits(&scores);
    let right = (0..labels.len()).filter(|&at| out[at] && read[at] == labels[at]).count();
    assert!(right * 100 >= out.iter().filter(|out| **out).count() * 96);
}

#[test]
fn capabilities_match_the_guide() {
    let desk = bench();
    let it = &desk.managers;
    let supports = |capability| {
        it.topology.supports(capability)
            || it.memory.supports(capability)
            || it.communication.supports(capability)
            || it.compute.supports(capability)
    };
    let supported: Vec<_> = Capability::ALL.into_iter().filter(|it| supports(*it)).collect();
    assert_eq!(supported, [Capability::DeviceCopies, Capability::Kernels]);
    let guide =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/runtime.md"))
            .unwrap();
    let words: Vec<_> = supported.iter().map(|it| it.words()).collect();
    assert!(
        guide.contains(&format!("| `opencl` supports | {} |", words.join(", "))),
        "docs/reference/runtime.md, Back-ends"
    );
}
