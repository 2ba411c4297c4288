//! Properties of channels and fences: random programs compared with a small model.

use std::{cell::Cell, collections::VecDeque};

use proptest::prelude::*;
use runtime::{
    CommunicationManager, InstanceManager, Memcpy, MemoryManager, Tag, TopologyManager,
    backends::host,
    frontends::channel::{Mode, PushError, Setup, Shape, open},
};

#[derive(Clone, Debug)]
enum Step {
    Push(usize, u8),
    Pop,
    Peek,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (0_usize..60, any::<u8>()).prop_map(|(size, byte)| Step::Push(size, byte));
    prop::collection::vec(prop_oneof![3 => push, 2 => Just(Step::Pop), 1 => Just(Step::Peek)], 0..80)
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (1_usize..6, 1_usize..30).prop_map(|(capacity, size)| Shape::Fixed { capacity, size }),
        (64_usize..300).prop_map(|capacity| Shape::Variable { capacity }),
    ]
}

#[test]
fn a_channel_is_a_queue() {
    let it = host::alone().unwrap();
    let topology = it.topology.query().unwrap();
    let (space, me) = (&topology.devices[0].memory_spaces[0], it.instances.current().id());
    let setup = Setup { memory: &it.memory, communication: &it.communication, space, me };
    let tag = Cell::new(0);
    let modes = prop_oneof![Just(Mode::Locking), Just(Mode::NonLocking)];
    proptest!(|(shape in shapes(), mode in modes, steps in steps())| {
        tag.set(tag.get() + 1);
        let (producer, consumer) = open(setup, Tag(tag.get()), &[me], me, mode, shape).unwrap();
        let (mut producer, mut consumer) = (producer.unwrap(), consumer.unwrap());
        let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(size, byte) => {
                    // Messages that never fit are tested elsewhere.
                    let message = match shape {
                        Shape::Fixed { size, .. } => vec![byte; size],
                        Shape::Variable { capacity } => vec![byte; size.min(capacity / 2 / 8 * 8 - 8)],
                    };
                    let room = match shape {
                        Shape::Fixed { capacity, .. } => Some(queue.len() < capacity),
                        // An empty ring has room for all that fits; otherwise it depends on the offset.
                        Shape::Variable { .. } => queue.is_empty().then_some(true),
                    };
                    match producer.push(&message) {
                        Ok(()) => {
                            prop_assert_ne!(room, Some(false));
                            queue.push_back(message);
                        }
                        Err(PushError::Full) => prop_assert_ne!(room, Some(true)),
                        Err(error) => prop_assert!(false, "{error}"),
                    }
                }
                Step::Pop => prop_assert_eq!(consumer.pop().unwrap(), queue.pop_front()),
                Step::Peek => prop_assert_eq!(consumer.peek().unwrap(), queue.front().cloned()),
            }
        }
        for message in queue {
            prop_assert_eq!(consumer.pop().unwrap(), Some(message));
        }
        prop_assert_eq!(consumer.pop().unwrap(), None);
    });
}

#[test]
fn a_fence_consumes_all_its_counts_or_none() {
    let it = host::alone().unwrap();
    let topology = it.topology.query().unwrap();
    let space = &topology.devices[0].memory_spaces[0];
    let copies = (any::<bool>(), 0_usize..9).prop_map(|(back, size)| (0, back, size as u64, 0));
    let fences =
        (any::<bool>(), 0_u64..4, 0_u64..4).prop_map(|(back, sent, received)| (1, back, sent, received));
    proptest!(|(steps in prop::collection::vec(prop_oneof![copies, fences], 0..60))| {
        let slots = [it.memory.allocate(space, 8).unwrap(), it.memory.allocate(space, 8).unwrap()];
        // For each slot, the sent and received counts that no fence has consumed.
        let mut model = [[0_u64; 2]; 2];
        for (kind, back, one, other) in steps {
            let (this, that) = if back { (1, 0) } else { (0, 1) };
            if kind == 0 {
                let size = usize::try_from(one).unwrap();
                it.communication.memcpy(&slots[that], 0, &slots[this], 0, size).unwrap();
                model[this][0] += 1;
                model[that][1] += 1;
                continue;
            }
            let there = model[this][0] >= one && model[this][1] >= other;
            let taken = it.communication.fence((&slots[this]).into(), one, other).unwrap().try_take();
            prop_assert_eq!(taken.map(|taken| taken.is_ok()), there.then_some(true));
            if there {
                model[this][0] -= one;
                model[this][1] -= other;
            }
        }
    });
}
