//! Loom tests of parking and channels under all interleavings with up to three preemptions: the sources themselves
//! over loom's models of atomics, mutexes and the futex. `docs/adr/0087-loom-model-checking-in-a-separate-workspace.md`
//! explains why this is not behind a `cfg`.

#![cfg(test)]

#[path = "../../src/model/error.rs"]
mod error;
#[path = "../../raw/src/header.rs"]
mod header;
#[path = "../../src/model/id.rs"]
mod id;
mod model;
#[expect(dead_code, reason = "not all operations are tested")]
#[path = "../../src/frontends/tasking/parking.rs"]
mod parking;
#[expect(dead_code, reason = "not all operations are tested")]
#[path = "../../src/frontends/channel/ring.rs"]
mod ring;
pub mod shape;
mod sync;
#[expect(dead_code, reason = "awaiting is tested elsewhere")]
#[path = "../../src/model/wait.rs"]
mod wait;

use header::Header;
use loom::thread;
use model::{Copies, Error, GlobalSlot, InstanceId, LocalSlot};
use parking::Parking;
use ring::{Ring, Sender};
use shape::{PushError, Setup, Shape};
use sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Explores all interleavings with up to three preemptions.
fn every_interleaving(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn a_waiter_for_a_count_is_woken_and_sees_the_copied_bytes() {
    every_interleaving(|| {
        let slot = LocalSlot::new();
        let peers: Vec<_> = (0..2_usize)
            .map(|place| {
                let slot = slot.clone();
                thread::spawn(move || {
                    slot.write(8 * place, &[7; 8]).unwrap();
                    slot.header().count_received();
                })
            })
            .collect();
        let all = || (slot.header().received.load(SeqCst) == 2).then_some(());
        slot.header().wait(None, all).unwrap();
        assert_eq!(slot.read_values::<u8>(0, 16).unwrap(), [7; 16]);
        peers.into_iter().for_each(|peer| peer.join().unwrap());
    });
}

#[test]
fn a_waiter_checks_again_when_a_peer_is_lost() {
    every_interleaving(|| {
        let (header, lost) = (Arc::new(Header::new(0)), Arc::new(AtomicBool::new(false)));
        let waker = thread::spawn({
            let (header, lost) = (Arc::clone(&header), Arc::clone(&lost));
            move || {
                lost.store(true, SeqCst);
                header.kick();
            }
        });
        header.wait(None, || lost.load(SeqCst).then_some(())).unwrap();
        waker.join().unwrap();
    });
}

#[test]
fn an_outcome_is_taken_once_under_races() {
    every_interleaving(|| {
        let (promise, mut wait) = wait::promise("it", || {});
        let keeper = thread::spawn(move || promise.keep(Ok(7)));
        assert_eq!(wait.block(None), Ok(7));
        assert!(wait.try_take().unwrap().is_err());
        keeper.join().unwrap();
    });
}

#[test]
fn dropping_a_promise_ends_its_wait() {
    every_interleaving(|| {
        let (promise, mut wait) = wait::promise::<()>("it", || {});
        let keeper = thread::spawn(move || drop(promise));
        assert!(matches!(wait.block(None), Err(Error::Gone(_))));
        keeper.join().unwrap();
    });
}

#[test]
fn a_wait_is_withdrawn_or_completed_under_races() {
    every_interleaving(|| {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let (promise, mut wait) = wait::promise("it", {
            let withdrawn = Arc::clone(&withdrawn);
            move || withdrawn.store(true, SeqCst)
        });
        let keeper = thread::spawn(move || promise.keep(Ok(())));
        let taken = wait.try_take().is_some();
        drop(wait);
        assert!(!(taken && withdrawn.load(SeqCst)));
        keeper.join().unwrap();
    });
}

/// A ring with room for two messages, of one word or of any size, which transfers three.
fn through_a_ring(shape: Shape) {
    every_interleaving(move || {
        let (slot, credit) = (LocalSlot::new(), LocalSlot::new());
        let producer = thread::spawn({
            let (slot, credit) = (slot.clone(), credit.clone());
            move || {
                let setup = Setup { communication: &Copies };
                let mut sender = Sender::new(setup, GlobalSlot(slot), credit, None, shape).unwrap();
                for message in 1..=3_u64 {
                    while let Err(error) = sender.push(&message.to_le_bytes()) {
                        assert!(matches!(error, PushError::Full), "{error:?}");
                        thread::yield_now();
                    }
                }
                sender.depth()
            }
        });
        let setup = Setup { communication: &Copies };
        let mut ring = Ring::new(setup, slot, GlobalSlot(credit), shape, InstanceId(1)).unwrap();
        for expected in 1..=3_u64 {
            let message = loop {
                if let Some(message) = ring.next(true).unwrap() {
                    break message;
                }
                let received = ring.slot.header();
                received.wait(None, || (ring.depth() > 0).then_some(())).unwrap();
            };
            assert_eq!(message, expected.to_le_bytes());
        }
        assert!(producer.join().unwrap() <= 3);
        assert_eq!(ring.depth(), 0);
    });
}

#[test]
fn fixed_size_messages_pass_a_ring_intact_and_in_order() {
    through_a_ring(Shape::Fixed { size: 8 });
}

#[test]
fn variable_size_messages_pass_a_ring_intact_and_in_order() {
    through_a_ring(Shape::Variable { capacity: 8 * model::WORDS });
}

#[test]
fn a_parked_worker_is_woken_by_a_ready_task() {
    every_interleaving(|| {
        let (parking, tasks) = (Arc::new(Parking::default()), Arc::new(AtomicUsize::new(0)));
        let spawner = thread::spawn({
            let (parking, tasks) = (Arc::clone(&parking), Arc::clone(&tasks));
            move || {
                tasks.fetch_add(1, SeqCst);
                parking.ready();
            }
        });
        loop {
            let seen = parking.epoch();
            if tasks.load(SeqCst) == 1 {
                break;
            }
            parking.park(seen, None, || false, |_| false);
        }
        spawner.join().unwrap();
    });
}

#[test]
fn the_last_worker_to_park_ends_all() {
    every_interleaving(|| {
        let (parking, ends) = (Arc::new(Parking::default()), Arc::new(AtomicU64::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (parking, ends) = (Arc::clone(&parking), Arc::clone(&ends));
                thread::spawn(move || {
                    while !parking.has_ended() {
                        let seen = parking.epoch();
                        parking.park(seen, None, || false, |parked| parked == 2);
                    }
                    ends.fetch_add(1, SeqCst);
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(ends.load(SeqCst), 2);
    });
}
