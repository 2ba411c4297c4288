//! Channels, data objects, calls and deployment, tested through the traits on every back-end with Instances.

use std::time::{Duration, Instant};

use runtime::{
    CommunicationManager, Error, InstanceId, Memcpy, Tag,
    frontends::{
        channel::{Consumer, Mode, Producer, PushError, Setup, Shape, open},
        data_object::{DataObjects, ObjectId},
        deployment::{Runner, deploy},
        rpc::Rpc,
    },
    hicr::{MemorySpace, Topology},
};

use crate::{
    instances::{host, on_hosts},
    ranks::{Rank, everywhere, member, soon},
};

fn setup<'a>(rank: &'a Rank, space: &'a MemorySpace) -> Setup<'a> {
    Setup { memory: &*rank.memory, communication: &*rank.communication, space, me: rank.me() }
}

/// Pushes, retrying until there is room.
fn push(producer: &mut Producer<'_>, message: &[u8]) {
    loop {
        match producer.push(message) {
            Ok(()) => return,
            Err(PushError::Full | PushError::Locked) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn pop(consumer: &mut Consumer<'_>) -> Result<Vec<u8>, Error> {
    consumer.wait(Instant::now() + Duration::from_mins(1))
}

/// Message `number` of producer `from`: 8 bytes, or of varying size.
fn message(shape: Shape, from: usize, number: usize) -> Vec<u8> {
    let mut bytes = [u8::try_from(from).unwrap(), u8::try_from(number % 256).unwrap()].repeat(4);
    if let Shape::Variable { .. } = shape {
        bytes = bytes.repeat(number % 5);
        bytes.truncate((number * 7) % 40);
    }
    bytes
}

/// Number of messages per producer.
const COUNT: usize = 300;

/// All Instances but the first push `COUNT` messages each, in order; the first pops all.
fn many_to_one(rank: &Rank, mode: Mode, shape: Shape, tag: u64) {
    let (ids, space) = (rank.ids(), rank.space());
    let (producer, consumer) = open(setup(rank, &space), Tag(tag), &ids[1..], ids[0], mode, shape).unwrap();
    if let Some(mut producer) = producer {
        for number in 0..COUNT {
            push(&mut producer, &message(shape, rank.index(), number));
        }
    }
    if let Some(mut consumer) = consumer {
        let mut next = vec![0; ids.len()];
        for _ in 0..COUNT * (ids.len() - 1) {
            let peeked = loop {
                match consumer.peek().unwrap() {
                    Some(message) => break message,
                    None => consumer.until_some(None).unwrap(),
                }
            };
            let popped = pop(&mut consumer).unwrap();
            assert_eq!(peeked, popped);
            // An empty message does not identify its producer: take the first that it may come from.
            let of = |from: &usize| popped == message(shape, *from, next[*from]);
            let from = (1..ids.len()).find(of).expect("it is the next of its producer");
            next[from] += 1;
        }
        assert_eq!((next[1..].iter().sum::<usize>(), consumer.depth()), (COUNT * (ids.len() - 1), 0));
    }
    rank.barrier(tag + 1000);
}

const FIXED: Shape = Shape::Fixed { capacity: 4, size: 8 };
const VARIABLE: Shape = Shape::Variable { capacity: 104 };

#[test]
fn messages_of_one_producer_arrive_in_order() {
    everywhere(2, "frontends::messages_of_one_producer_arrive_in_order", |rank| {
        many_to_one(rank, Mode::NonLocking, FIXED, 1);
        many_to_one(rank, Mode::NonLocking, VARIABLE, 2);
        many_to_one(rank, Mode::Locking, FIXED, 3);
        many_to_one(rank, Mode::Locking, VARIABLE, 4);
    });
}

#[test]
fn messages_of_several_producers_arrive_completely_and_in_order_per_producer() {
    everywhere(
        3,
        "frontends::messages_of_several_producers_arrive_completely_and_in_order_per_producer",
        |rank| {
            many_to_one(rank, Mode::NonLocking, FIXED, 1);
            many_to_one(rank, Mode::Locking, FIXED, 2);
            many_to_one(rank, Mode::Locking, Shape::Fixed { capacity: 3, size: 8 }, 3);
        },
    );
}

#[test]
fn a_full_channel_rejects_pushes_until_a_pop() {
    everywhere(1, "frontends::a_full_channel_rejects_pushes_until_a_pop", |rank| {
        let (me, space) = (rank.me(), rank.space());
        for (tag, mode) in [(1, Mode::NonLocking), (2, Mode::Locking)] {
            let ends = open(setup(rank, &space), Tag(tag), &[me], me, mode, FIXED).unwrap();
            let (Some(mut producer), Some(mut consumer)) = ends else { panic!("both ends are here") };
            let all = [b"message0", b"message1", b"message2", b"message3", b"message4"].map(|text| &text[..]);
            assert_eq!(producer.push_n(&all).unwrap(), 4);
            assert_eq!(producer.push(b"message4"), Err(PushError::Full));
            assert_eq!((producer.depth().unwrap(), consumer.depth()), (4, 4));
            assert_eq!(consumer.pop().unwrap().unwrap(), b"message0");
            assert_eq!(producer.depth().unwrap(), 3);
            producer.push(b"message4").unwrap();
            assert!(matches!(producer.push(b"long"), Err(PushError::Failed(Error::Misuse { .. }))));
            for text in &all[1..] {
                assert_eq!(consumer.pop().unwrap().unwrap(), *text);
            }
            assert_eq!(consumer.pop().unwrap(), None);
        }
    });
}

#[test]
fn a_lost_producer_is_an_error_once_its_ring_is_empty() {
    everywhere(2, "frontends::a_lost_producer_is_an_error_once_its_ring_is_empty", |rank| {
        let (ids, space) = (rank.ids(), rank.space());
        let ends = open(setup(rank, &space), Tag(1), &ids[1..], ids[0], Mode::NonLocking, FIXED).unwrap();
        if let Some(mut producer) = ends.0 {
            push(&mut producer, b"the last");
            rank.barrier(2);
            if rank.communication.name() == "processes" {
                std::process::exit(0);
            }
        } else if let Some(mut consumer) = ends.1 {
            rank.barrier(2);
            if rank.communication.name() == "host" {
                rank.instances.terminate(ids[1]).unwrap();
            }
            assert_eq!(pop(&mut consumer).unwrap(), b"the last");
            assert_eq!(pop(&mut consumer).unwrap_err(), Error::PeerLost(ids[1]));
        }
    });
}

#[test]
fn an_object_is_readable_by_its_id_until_destroyed() {
    everywhere(2, "frontends::an_object_is_readable_by_its_id_until_destroyed", |rank| {
        let (ids, space) = (rank.ids(), rank.space());
        let shape = Shape::Variable { capacity: 1024 };
        let to = |tag, index: usize| {
            open(setup(rank, &space), Tag(tag), &[ids[1 - index]], ids[index], Mode::NonLocking, shape)
                .unwrap()
        };
        let (there, back) = (to(1, 1), to(2, 0));
        let mut objects = DataObjects::new(&*rank.memory, &*rank.communication);
        if rank.index() == 0 {
            let slot = rank.slot(100_000);
            rank.memory.fill(&slot, 0, 42, 100_000).unwrap();
            let id = objects.publish(slot).unwrap();
            push(&mut there.0.unwrap(), &postcard::to_stdvec(&id).unwrap());
            let mut back = back.1.unwrap();
            assert_eq!(pop(&mut back).unwrap(), b"have it");
            let slot = objects.destroy(&id).unwrap();
            assert!(matches!(objects.destroy(&id), Err(Error::Gone(_))));
            rank.memory.free(slot).unwrap();
            rank.barrier(3);
        } else {
            let id: ObjectId = postcard::from_bytes(&pop(&mut there.1.unwrap()).unwrap()).unwrap();
            let handle = objects.get_handle(&id).unwrap();
            assert_eq!(handle.size(), 100_000);
            let slot = objects.get(&handle, &space).unwrap();
            soon(rank.communication.fence((&slot).into(), 0, 1).unwrap()).unwrap();
            assert!(slot.read_values::<u8>(0, 100_000).unwrap().iter().all(|byte| *byte == 42));
            push(&mut back.0.unwrap(), b"have it");
            rank.barrier(3);
            assert!(matches!(objects.get_handle(&id), Err(Error::Gone(_))));
            assert!(matches!(objects.get(&handle, &space), Err(Error::Gone(_))));
        }
        rank.barrier(4);
    });
}

#[test]
fn calls_run_in_order_and_failures_are_returned() {
    everywhere(3, "frontends::calls_run_in_order_and_failures_are_returned", |rank| {
        let (ids, space) = (rank.ids(), rank.space());
        let mut rpc = Rpc::new(setup(rank, &space), Tag(1), &rank.group()).unwrap();
        let deadline = || Instant::now() + Duration::from_mins(1);
        let topology = rank.topology.query().unwrap();
        let all = rpc.gather(&topology).unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), rank.group());
        rpc.register("reverse", |bytes| Ok(bytes.iter().rev().copied().collect())).unwrap();
        rpc.register("refuse", |_| Err("not today".into())).unwrap();
        rpc.register("panic", |_| panic!("oh")).unwrap();
        assert!(rpc.register("panic", |_| Ok(Vec::new())).is_err());
        let calls = 6;
        if rank.index() == 0 {
            let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
            for to in &ids[1..] {
                assert_eq!(rpc.call(*to, "reverse", b"abc", deadline()).unwrap(), b"cba");
                let backwards = rpc.call(*to, "reverse", &large, deadline()).unwrap();
                assert!(backwards.iter().rev().eq(&large));
                let mut failure = |name: &str| rpc.call(*to, name, b"", deadline()).unwrap_err().to_string();
                assert_eq!(failure("refuse"), "not today");
                assert_eq!(failure("panic"), "the function panicked: oh");
                assert_eq!(
                    failure("none"),
                    format!("Instance {to} has no function \"none\"; register it there")
                );
                assert_eq!(rpc.call(*to, "reverse", b"", deadline()).unwrap(), b"");
            }
            let unknown = rpc.call(InstanceId(1), "reverse", b"", deadline()).unwrap_err().to_string();
            assert!(unknown.contains("is not in the group"), "{unknown}");
            let late = Instant::now() + Duration::from_millis(1);
            assert!(matches!(rpc.call(ids[1], "reverse", b"", late), Err(Error::TimedOut(_))));
        } else {
            (0..calls).for_each(|_| rpc.listen(deadline()).unwrap());
        }
        rank.barrier(99);
    });
}

/// The program of a runner; the root deploys the others.
fn runners(rank: &Rank) {
    if rank.me() != rank.instances.root_id() {
        std::thread::park();
        return;
    }
    let needs = |topology| Topology::from_json(topology).unwrap();
    let worker = || needs(host(8, 33_554_432));
    let runner = |name: &str, needs| Runner { name: name.into(), needs };
    let all = [runner("leader", Topology::default()), runner("one", worker()), runner("two", worker())];
    let deployed = deploy(&*rank.instances, &[], &all);
    assert!(deployed.refused.is_empty(), "{deployed:?}");
    assert_eq!((deployed.placed.len(), deployed.created.len()), (3, 3));
    for name in ["one", "two"] {
        let instance = rank.instances.add_instance(deployed.placed[name]).unwrap();
        assert!(instance.topology().satisfies(&worker()), "{name} is on {:?}", instance.topology());
    }
    // Existing Instances are matched, and none is created.
    let again = deploy(&*rank.instances, &deployed.created, &all);
    assert_eq!((again.created, again.refused.len()), (Vec::new(), 0));
    rank.instances.finalize().unwrap();
}

#[test]
fn runners_are_deployed_to_fitting_hosts_in_any_host_order() {
    if runtime::backends::processes::launched() {
        member(runners);
    }
    for small in 0..5 {
        let mut hosts = vec![host(8, 33_554_432); 5];
        hosts[small] = host(4, 16_777_216);
        on_hosts(&hosts, "frontends::runners_are_deployed_to_fitting_hosts_in_any_host_order");
    }
}

#[test]
fn a_message_is_pushed_from_a_slot() {
    everywhere(1, "frontends::a_message_is_pushed_from_a_slot", |rank| {
        let (me, space) = (rank.me(), rank.space());
        let ends = open(setup(rank, &space), Tag(1), &[me], me, Mode::NonLocking, FIXED).unwrap();
        let (Some(mut producer), Some(mut consumer)) = ends else { panic!("both ends are here") };
        let slot = rank.slot(24);
        slot.write(16, b"in place").unwrap();
        producer.push_slot(&slot, 16).unwrap();
        soon(rank.communication.fence((&slot).into(), 1, 0).unwrap()).unwrap();
        let mut bytes = [0; 8];
        assert!(consumer.pop_into(&mut bytes).unwrap() && !consumer.pop_into(&mut bytes).unwrap());
        assert_eq!(&bytes, b"in place");
        let communication: &dyn CommunicationManager = &*rank.communication;
        assert!(communication.memcpy(&slot, 0, &slot, 16, 8).is_ok());
    });
}
