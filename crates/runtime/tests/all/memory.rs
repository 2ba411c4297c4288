//! Slots: allocation, registration, lending and release.

use runtime::{
    Capability, Error, MemoryManager, Register, SeveralMemories, backends::processes, hicr::MemorySpace,
};

use crate::ranks::{Rank, everywhere, inside};

#[test]
fn a_slot_is_zeroed_filled_read_and_written_within_its_bounds() {
    everywhere(1, "memory::a_slot_is_zeroed_filled_read_and_written_within_its_bounds", |rank| {
        let mut slot = rank.slot(100);
        assert_eq!(slot.read_values::<u8>(0, 100).unwrap(), [0; 100]);
        rank.memory.fill(&slot, 10, 7, 5).unwrap();
        slot.write(99, &[9]).unwrap();
        assert_eq!(slot.read_values::<u8>(9, 7).unwrap(), [0, 7, 7, 7, 7, 7, 0]);
        for error in
            [rank.memory.fill(&slot, 96, 0, 5), slot.write(100, &[0]), slot.read(usize::MAX, &mut [0; 2])]
        {
            assert!(matches!(error, Err(Error::OutOfBounds { size: 100, .. })), "{error:?}");
        }
        assert_eq!(slot.bytes_mut().unwrap()[99], 9);
        rank.memory.free(slot).unwrap();
    });
}

#[test]
fn allocations_never_exceed_a_space_and_freed_memory_is_reusable() {
    everywhere(1, "memory::allocations_never_exceed_a_space_and_freed_memory_is_reusable", |rank| {
        let space = rank.space();
        let refused = |size| rank.memory.allocate(&space, size).unwrap_err().to_string();
        assert_eq!(refused(0), "cannot allocate 0 bytes: a slot has at least 1 byte");
        let all = usize::try_from(space.size).unwrap();
        assert!(refused(all + 1).contains(&format!("which has {all} bytes free")), "{}", refused(all + 1));
        let slot = rank.slot(1 << 20);
        assert!(refused(all).contains(&format!("which has {} bytes free", all - (1 << 20))));
        drop(slot);
        assert!(refused(all + 1).contains(&format!("which has {all} bytes free")));
        let foreign = MemorySpace { type_: "RAM".into(), size: 1, more: serde_json::Map::new() };
        assert!(!rank.memory.claims(&foreign));
        let error = rank.memory.allocate(&foreign, 1).unwrap_err().to_string();
        assert!(error.ends_with("does not manage this RAM space; use one from its topology"), "{error}");
    });
}

#[test]
fn a_buffer_is_registered_and_returned_where_supported() {
    fn body(rank: &Rank) {
        let buffer = vec![1_u64, 2, 3];
        if !rank.memory.supports(Capability::Register) {
            let rejected = rank.memory.register(&rank.space(), buffer).unwrap_err();
            assert!(matches!(rejected.error, Error::Unsupported { .. }));
            assert_eq!(rejected.value, [1, 2, 3]);
            return;
        }
        let slot = rank.memory.register(&rank.space(), buffer).unwrap();
        slot.write(8, &7_u64.to_ne_bytes()).unwrap();
        let rejected = rank.memory.deregister::<u32>(slot).unwrap_err();
        assert!(rejected.error.to_string().contains("name the registered type"));
        assert_eq!(rank.memory.deregister::<u64>(rejected.value).unwrap(), [1, 7, 3]);
        let empty = rank.memory.register(&rank.space(), Vec::<u8>::new()).unwrap_err();
        assert_eq!(empty.error.to_string(), "cannot register 0 bytes: a slot has at least 1 byte");
        let allocated = rank.slot(8);
        assert!(rank.memory.deregister::<u8>(allocated).is_err());
    }
    everywhere(1, "memory::a_buffer_is_registered_and_returned_where_supported", body);
}

#[test]
fn the_first_manager_that_claims_a_space_handles_it() {
    inside(1, |rank| {
        let topology = rank.topology.query().unwrap();
        let segments = processes::Segments::new(&topology);
        let both = SeveralMemories(vec![&segments, &*rank.memory]);
        let slot = both.allocate(&rank.space(), 8).unwrap();
        assert_eq!(slot.origin(), "processes");
        both.fill(&slot, 0, 1, 8).unwrap();
        both.free(slot).unwrap();
        let own = rank.slot(8);
        let alone = SeveralMemories(vec![&segments]);
        assert!(alone.free(own).is_err());
    });
}
