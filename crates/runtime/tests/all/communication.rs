//! Copies, counters, fences and exchanges.

use std::time::{Duration, Instant};

use runtime::{Capability, CommunicationManager, Counts, Error, GlobalSlot, Key, Memcpy, Tag};

use crate::ranks::{Rank, everywhere, key, soon};

fn counts(sent: u64, received: u64) -> Counts {
    Counts { sent, received }
}

fn exchange(rank: &Rank, tag: u64, slots: &[(Key, &runtime::LocalSlot)]) -> Result<Vec<GlobalSlot>, Error> {
    let wait = rank.communication.exchange(&rank.group(), Tag(tag), slots)?;
    soon(wait).map(|slots| slots.into_values().collect())
}

#[test]
fn each_copy_moves_its_bytes_and_is_counted_once_at_both_ends() {
    everywhere(2, "communication::each_copy_moves_its_bytes_and_is_counted_once_at_both_ends", |rank| {
        assert!(rank.communication.supports(Capability::GlobalCopies));
        let (mine, source) = (rank.slot(64), rank.slot(16));
        let global = exchange(rank, 1, &[(key(rank.index()), &mine)]).unwrap();
        let peer = &global[1 - rank.index()];
        let message = if rank.index() == 0 { b"from the root!" } else { b"from the other" };
        source.write(0, message).unwrap();
        // Three puts: two with bytes, one of size 0, which counts too.
        rank.communication.memcpy(peer, 8, &source, 0, 14).unwrap();
        rank.communication.memcpy(peer, 40, &source, 5, 9).unwrap();
        rank.communication.memcpy(peer, 64, &source, 16, 0).unwrap();
        soon(rank.communication.fence((&source).into(), 3, 0).unwrap()).unwrap();
        soon(rank.communication.fence(peer.into(), 0, 3).unwrap()).unwrap();
        soon(rank.communication.fence((&mine).into(), 0, 3).unwrap()).unwrap();
        assert_eq!(rank.communication.counts((&source).into()), counts(3, 0));
        assert_eq!(rank.communication.counts((&mine).into()), counts(0, 3));
        assert_eq!(rank.communication.counts(peer.into()), counts(0, 3));
        let mut bytes = [0; 14];
        mine.read(8, &mut bytes).unwrap();
        assert_eq!(&bytes, if rank.index() == 1 { b"from the root!" } else { b"from the other" });
        rank.barrier(2);
        // And a get, which the peer counts as sent.
        rank.communication.memcpy(&source, 0, peer, 8, 14).unwrap();
        soon(rank.communication.fence((&source).into(), 0, 1).unwrap()).unwrap();
        soon(rank.communication.fence((&mine).into(), 1, 0).unwrap()).unwrap();
        source.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, message);
        rank.barrier(3);
        assert_eq!(rank.communication.counts((&mine).into()), counts(1, 3));
    });
}

#[test]
fn a_fence_consumes_its_counts_and_a_time_out_consumes_nothing() {
    everywhere(1, "communication::a_fence_consumes_its_counts_and_a_time_out_consumes_nothing", |rank| {
        let (one, two) = (rank.slot(8), rank.slot(8));
        let copy = || rank.communication.memcpy(&one, 0, &two, 0, 8).unwrap();
        let fence = |received| rank.communication.fence((&one).into(), 0, received).unwrap();
        (0..3).for_each(|_| copy());
        soon(fence(2)).unwrap();
        let mut wait = fence(2);
        let error = wait.block(Instant::now() + Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, Error::TimedOut(_)), "{error}");
        let second = rank.communication.fence((&one).into(), 0, 1).unwrap_err();
        assert!(matches!(second, Error::State { .. }), "{second}");
        copy();
        // The copy continues after the time-out, so now both are counted.
        soon(wait).unwrap();
        assert!(fence(1).try_take().is_none());
        // The slot can be fenced again, since the wait was dropped.
        copy();
        soon(fence(1)).unwrap();
        assert_eq!(rank.communication.counts((&one).into()), counts(0, 5));
    });
}

#[test]
fn a_fence_can_be_awaited() {
    everywhere(2, "communication::a_fence_can_be_awaited", |rank| {
        let (mine, source) = (rank.slot(8), rank.slot(8));
        let global = exchange(rank, 1, &[(key(rank.index()), &mine)]).unwrap();
        let fence = rank.communication.fence((&mine).into(), 0, 2).unwrap();
        let awaited = std::thread::spawn(move || block_on(fence));
        for _ in 0..2 {
            rank.communication.memcpy(&global[1 - rank.index()], 0, &source, 0, 8).unwrap();
        }
        awaited.join().unwrap().unwrap();
        rank.barrier(2);
    });
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn out_of_bounds_or_overlapping_copies_fail_at_once_and_are_not_counted() {
    everywhere(
        1,
        "communication::out_of_bounds_or_overlapping_copies_fail_at_once_and_are_not_counted",
        |rank| {
            let (one, two) = (rank.slot(8), rank.slot(16));
            let refused = |error: Result<(), Error>| error.unwrap_err();
            let far = refused(rank.communication.memcpy(&one, 1, &two, 0, 8));
            assert!(matches!(far, Error::OutOfBounds { offset: 1, end: 9, size: 8, .. }), "{far}");
            assert!(matches!(
                refused(rank.communication.memcpy(&one, 0, &two, 9, 8)),
                Error::OutOfBounds { .. }
            ));
            assert!(matches!(
                refused(rank.communication.memcpy(&one, usize::MAX, &two, 0, 8)),
                Error::OutOfBounds { .. }
            ));
            let overlap = refused(rank.communication.memcpy(&two, 0, &two, 4, 8));
            assert!(overlap.to_string().contains("overlap"), "{overlap}");
            rank.communication.memcpy(&two, 0, &two, 8, 8).unwrap();
            assert_eq!(rank.communication.counts((&one).into()), counts(0, 0));
            assert_eq!(rank.communication.counts((&two).into()), counts(1, 1));
        },
    );
}

#[test]
fn exchanges_wait_for_late_members_and_return_the_union() {
    everywhere(3, "communication::exchanges_wait_for_late_members_and_return_the_union", |rank| {
        let (one, two) = (rank.slot(8), rank.slot(24));
        // The second of three contributes two slots, the others none; each is late in turn.
        for late in 0..3 {
            if rank.index() == late {
                // Lets the others enter first.
                std::thread::yield_now();
            }
            let slots: &[_] = if rank.index() == 1 { &[(Key(7), &one), (Key(3), &two)] } else { &[] };
            let global = exchange(rank, 10, slots).unwrap();
            let seen: Vec<_> = global.iter().map(|slot| (slot.key().0, slot.size(), slot.owner())).collect();
            assert_eq!(seen, [(3, 24, rank.ids()[1]), (7, 8, rank.ids()[1])]);
            // All members must fence, no matter which member destroyed a slot; then the tag is free again.
            for slot in global {
                if rank.index() == 2 {
                    rank.communication.destroy(slot).unwrap();
                }
            }
            soon(rank.communication.fence_tag(Tag(10)).unwrap()).unwrap();
        }
    });
}

#[test]
fn an_inconsistent_exchange_is_the_same_error_for_all() {
    everywhere(3, "communication::an_inconsistent_exchange_is_the_same_error_for_all", |rank| {
        let slot = rank.slot(8);
        let (ids, mut all) = (rank.ids(), rank.group());
        let same = |error: &str| {
            // Members exchange their errors and compare them.
            let text = rank.slot(256);
            text.write(0, error.as_bytes()).unwrap();
            let texts = exchange(rank, 99, &[(key(rank.index()), &text)]).unwrap();
            let copy = rank.slot(256);
            for other in &texts {
                rank.communication.memcpy(&copy, 0, other, 0, 256).unwrap();
                soon(rank.communication.fence((&copy).into(), 0, 1).unwrap()).unwrap();
                let mut bytes = vec![0; error.len() + 1];
                copy.read(0, &mut bytes).unwrap();
                assert_eq!(String::from_utf8_lossy(&bytes).trim_end_matches('\0'), error);
            }
            rank.barrier(98);
            for slot in texts {
                rank.communication.destroy(slot).unwrap();
            }
            soon(rank.communication.fence_tag(Tag(99)).unwrap()).unwrap();
        };
        // A duplicate key.
        let twice = exchange(rank, 1, &[(Key(5), &slot)]).unwrap_err().to_string();
        assert!(twice.contains("key 5 is contributed by Instance"), "{twice}");
        same(&twice);
        // Groups that differ.
        if rank.index() == 2 {
            all.retain(|id| *id != ids[0]);
        }
        let differ = soon(rank.communication.exchange(&all, Tag(2), &[]).unwrap()).unwrap_err().to_string();
        assert!(differ.contains("passed the group"), "{differ}");
        same(&differ);
        // A tag in use.
        let kept = exchange(rank, 3, &[(key(rank.index()), &slot)]).unwrap();
        let used = exchange(rank, 3, &[]).unwrap_err().to_string();
        assert!(used.contains("the tag is in use by"), "{used}");
        same(&used);
        assert_eq!(kept.len(), 3);
        // A member withdraws; members that entered before and after it, such as the third, get the same error. An exchange
        // with the same decider orders the two, since calls of one Instance reach a decider in program order.
        let call = |tag| rank.communication.exchange(&rank.group(), Tag(tag), &[]).unwrap();
        let after = || drop(soon(call(50)).unwrap());
        let withdrawn = match rank.index() {
            0 => {
                let waits = call(4);
                after();
                soon(waits).unwrap_err().to_string()
            }
            1 => {
                drop(call(4));
                after();
                format!("the exchange of tag 4 failed: Instance {} withdrew", rank.me())
            }
            _ => {
                after();
                soon(call(4)).unwrap_err().to_string()
            }
        };
        same(&withdrawn);
        // The failed exchanges leave no trace on the slots: only the one of tag 3 is global.
        assert_eq!(rank.communication.counts((&slot).into()), counts(0, 0));
        rank.barrier(5);
    });
}

#[test]
fn a_destroyed_slot_is_gone_for_all_after_the_fence_and_can_be_freed() {
    everywhere(
        2,
        "communication::a_destroyed_slot_is_gone_for_all_after_the_fence_and_can_be_freed",
        |rank| {
            let (mine, other) = (rank.slot(8), rank.slot(8));
            let mut global =
                exchange(rank, 1, &[(key(rank.index()), &mine), (key(2 + rank.index()), &other)]).unwrap();
            let rejected = rank.memory.free(mine).unwrap_err();
            assert!(matches!(rejected.error, Error::InUse { .. }));
            let mine = rejected.value;
            assert!(global.len() == 4);
            let own = global.remove(rank.index());
            let peer = global.remove(0);
            rank.communication.destroy(own).unwrap();
            soon(rank.communication.fence_tag(Tag(1)).unwrap()).unwrap();
            let gone = rank.communication.memcpy(&peer, 0, &other, 0, 8).unwrap_err();
            assert!(matches!(gone, Error::Gone(_)), "{gone}");
            rank.memory.free(mine).unwrap();
            assert!(rank.memory.free(other).is_err(), "its key was not destroyed");
            rank.barrier(2);
        },
    );
}

#[test]
fn a_lost_member_is_reported_once_and_never_waited_for() {
    everywhere(3, "communication::a_lost_member_is_reported_once_and_never_waited_for", lose_one);
}

/// The third Instance dies; all pending operations of the others end.
fn lose_one(rank: &Rank) {
    let (mine, source) = (rank.slot(8), rank.slot(8));
    let global = exchange(rank, 1, &[(key(rank.index()), &mine)]).unwrap();
    let dying = rank.ids()[2];
    let (all, me) = (rank.group(), rank.index());
    let host = rank.communication.name() == "host";
    if me == 2 {
        let lock = rank.communication.try_lock(&global[0]).unwrap().unwrap();
        rank.barrier(2);
        std::mem::forget(lock);
        if !host {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        return;
    }
    rank.barrier(2);
    if host && me == 0 {
        // A thread cannot be killed, so its Instance is terminated.
        rank.instances.terminate(dying).unwrap();
    }
    let fence = || soon(rank.communication.fence((&mine).into(), 0, 1).unwrap());
    assert_eq!(fence().unwrap_err(), Error::PeerLost(dying));
    let two: Vec<_> = all.iter().copied().filter(|id| *id != dying).collect();
    soon(rank.communication.exchange(&two, Tag(6), &[]).unwrap()).unwrap();
    // Reported once: the next fence waits for the remaining peers.
    let mut again = rank.communication.fence((&mine).into(), 0, 1).unwrap();
    assert!(again.try_take().is_none());
    soon(rank.communication.exchange(&two, Tag(7), &[]).unwrap()).unwrap();
    rank.communication.memcpy(&global[1 - me], 0, &source, 0, 8).unwrap();
    soon(again).unwrap();
    let to_lost = rank.communication.memcpy(&global[2], 0, &source, 0, 8).unwrap_err();
    assert_eq!(to_lost, Error::PeerLost(dying));
    // An exchange with a dead member fails with the same error everywhere.
    let dead = soon(rank.communication.exchange(&all, Tag(3), &[]).unwrap()).unwrap_err();
    assert_eq!(dead, Error::PeerLost(dying));
    let fence = soon(rank.communication.fence_tag(Tag(1)).unwrap()).unwrap_err();
    assert_eq!(fence, Error::PeerLost(dying));
    // The lock of a lost holder is released; after a loss, destroying needs no fence.
    if me == 1 {
        assert!(rank.communication.try_lock(&global[0]).unwrap().is_some());
    }
    soon(rank.communication.exchange(&two, Tag(4), &[]).unwrap()).unwrap();
    for slot in global {
        rank.communication.destroy(slot).unwrap();
    }
    rank.memory.free(mine).unwrap();
    soon(rank.communication.exchange(&two, Tag(5), &[]).unwrap()).unwrap();
    // Overrides the launcher's exit code, which would report the expected kill.
    if me == 0 && !host {
        rank.instances.abort(0, "the test is over").unwrap();
        std::thread::park();
    }
}

#[test]
fn a_promoted_slot_is_opened_by_its_descriptor_until_destroyed() {
    everywhere(2, "communication::a_promoted_slot_is_opened_by_its_descriptor_until_destroyed", |rank| {
        let (post, slot) = (rank.slot(128), rank.slot(8));
        let posts = exchange(rank, 1, &[(key(rank.index()), &post)]).unwrap();
        let promoted = rank.communication.promote(&slot).unwrap();
        let bytes = rank.communication.to_bytes(&promoted).unwrap();
        let letter = rank.slot(128);
        letter.write(0, &[u8::try_from(bytes.len()).unwrap()]).unwrap();
        letter.write(1, &bytes).unwrap();
        rank.communication.memcpy(&posts[1 - rank.index()], 0, &letter, 0, 128).unwrap();
        soon(rank.communication.fence((&post).into(), 0, 1).unwrap()).unwrap();
        let mut received = [0; 128];
        post.read(0, &mut received).unwrap();
        let received = &received[1..=usize::from(received[0])];
        let theirs = rank.communication.from_bytes(received).unwrap();
        rank.communication.memcpy(&theirs, 0, &letter, 0, 8).unwrap();
        soon(rank.communication.fence((&slot).into(), 0, 1).unwrap()).unwrap();
        // A descriptor with any forged byte, or a truncated one, does not resolve, because the secret does not match.
        for at in 0..received.len() {
            let mut forged = received.to_vec();
            forged[at] ^= 0x40;
            if let Ok(slot) = rank.communication.from_bytes(&forged) {
                // A descriptor with another owner fails at use; the key is only a name.
                drop(slot);
            }
            assert!(rank.communication.from_bytes(&received[..at]).is_err());
        }
        rank.barrier(2);
        rank.communication.destroy(promoted).unwrap();
        rank.barrier(3);
        assert!(matches!(rank.communication.memcpy(&theirs, 0, &letter, 0, 8), Err(Error::Gone(_))));
        assert!(matches!(rank.communication.from_bytes(received), Err(Error::Gone(_))));
        rank.memory.free(slot).unwrap();
        rank.barrier(4);
    });
}

#[test]
fn a_slot_lock_is_exclusive() {
    everywhere(3, "communication::a_slot_lock_is_exclusive", |rank| {
        let mine = rank.slot(8);
        let bring: &[_] = if rank.index() == 0 { &[(Key(0), &mine)] } else { &[] };
        let global = exchange(rank, 1, bring).unwrap();
        let number = rank.slot(8);
        // Read, increment, write: without a lock some increments would be lost.
        for _ in 0..200 {
            let guard = loop {
                if let Some(guard) = rank.communication.try_lock(&global[0]).unwrap() {
                    break guard;
                }
                std::thread::yield_now();
            };
            assert!(rank.communication.try_lock(&global[0]).unwrap().is_none(), "not even by the holder");
            rank.communication.memcpy(&number, 0, &global[0], 0, 8).unwrap();
            soon(rank.communication.fence((&number).into(), 0, 1).unwrap()).unwrap();
            let next = number.read_values::<u64>(0, 1).unwrap()[0] + 1;
            number.write(0, &next.to_ne_bytes()).unwrap();
            rank.communication.memcpy(&global[0], 0, &number, 0, 8).unwrap();
            soon(rank.communication.fence((&number).into(), 1, 0).unwrap()).unwrap();
            drop(guard);
        }
        rank.barrier(2);
        rank.communication.memcpy(&number, 0, &global[0], 0, 8).unwrap();
        soon(rank.communication.fence((&number).into(), 0, 1).unwrap()).unwrap();
        assert_eq!(number.read_values::<u64>(0, 1).unwrap(), [600]);
        rank.barrier(3);
    });
}

#[test]
fn copies_to_one_slot_take_effect_in_order() {
    everywhere(2, "communication::copies_to_one_slot_take_effect_in_order", |rank| {
        let (mine, source) = (rank.slot(8192), rank.slot(8192));
        let global = exchange(rank, 1, &[(key(rank.index()), &mine)]).unwrap();
        if rank.index() == 0 {
            for round in 1..=500_u64 {
                source.write(0, &vec![u8::try_from(round % 251).unwrap(); 8000]).unwrap();
                source.write(8000, &round.to_ne_bytes()).unwrap();
                rank.communication.memcpy(&global[1], 0, &source, 0, 8000).unwrap();
                rank.communication.memcpy(&global[1], 8000, &source, 8000, 8).unwrap();
                soon(rank.communication.fence((&source).into(), 2, 0).unwrap()).unwrap();
            }
        } else {
            let mut seen = 0;
            while seen < 500 {
                seen = mine.read_values::<u64>(8000, 1).unwrap()[0];
                // Everything written before the number is visible: of this round or a later one.
                let byte = u64::from(mine.read_values::<u8>(0, 8000).unwrap()[7999]);
                let now = mine.read_values::<u64>(8000, 1).unwrap()[0];
                assert!((seen..=now + 1).any(|round| round % 251 == byte), "{seen} {byte} {now}");
            }
            soon(rank.communication.fence((&mine).into(), 0, 1000).unwrap()).unwrap();
        }
        rank.barrier(2);
    });
}

#[test]
fn invalid_groups_are_rejected() {
    everywhere(2, "communication::invalid_groups_are_rejected", |rank| {
        let mut group = rank.group();
        group.reverse();
        let refused = |group: &[_]| {
            rank.communication.exchange(group, Tag(1), &[]).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(&group).contains("not sorted"));
        assert!(refused(&[group[0], group[0]]).contains("twice"));
        group.retain(|id| *id != rank.me());
        assert!(refused(&group).contains("not in the group"));
        assert!(matches!(rank.communication.fence_tag(Tag(1)), Err(Error::Gone(_))));
        let communication: &dyn CommunicationManager = &*rank.communication;
        assert!(communication.from_bytes(b"forged").is_err());
        rank.barrier(2);
    });
}
