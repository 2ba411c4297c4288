//! The paper's programs and its four test cases, in small, on every back-end that is there.

#[path = "../../examples/programs/fibonacci.rs"]
mod fibonacci;
#[path = "../../examples/programs/figures.rs"]
mod figures;
#[path = "../../examples/programs/jacobi.rs"]
mod jacobi;
#[path = "../../examples/programs/network.rs"]
mod network;
#[path = "../../examples/programs/ping_pong.rs"]
mod ping_pong;

use std::sync::Arc;

use jacobi::{Managers, Problem, solve};
use runtime::{
    ComputeManager, ExecutionUnit, TopologyManager,
    backends::{Coroutines, Futures, Threads, host::HostTopology, processes},
    frontends::{channel::Setup, rpc::Rpc, tasking::Tasking},
    hicr::{ComputeResource, Topology},
};

use crate::{
    instances::{host, on_hosts},
    ranks::{Rank, everywhere, member},
};

fn workers(count: usize) -> Vec<ComputeResource> {
    let topology = HostTopology::new().unwrap().query().unwrap();
    let mut one = topology.devices[0].compute_resources[0].clone();
    one.more.remove("Logical Processor Id");
    vec![one; count]
}

#[test]
fn a_message_is_in_all_memory_spaces_and_survives_a_telephone_game() {
    everywhere(1, "programs::a_message_is_in_all_memory_spaces_and_survives_a_telephone_game", |rank| {
        let message = rank.slot(5);
        message.write(0, b"hello").unwrap();
        let copies =
            figures::broadcast(&*rank.topology, &*rank.memory, &*rank.communication, &message).unwrap();
        assert!(!copies.is_empty());
        assert!(copies.iter().all(|copy| copy.read_values::<u8>(0, 5).unwrap() == b"hello"));
        let heard =
            figures::telephone(&*rank.topology, &*rank.memory, &*rank.communication, b"hello").unwrap();
        assert_eq!(heard, b"hello");
    });
}

#[test]
fn a_function_runs_on_all_compute_resources_at_once() {
    let topology = HostTopology::new().unwrap();
    let count =
        topology.query().unwrap().devices.iter().map(|device| device.compute_resources.len()).sum::<usize>();
    let managers: [Box<dyn ComputeManager>; 2] = [Box::new(Threads::new()), Box::new(Coroutines::new())];
    for manager in managers {
        let unit = ExecutionUnit::function(|_, number: usize| number * 2);
        let states = figures::everywhere(&topology, &*manager, &unit, |index| Box::new(index)).unwrap();
        let results: Vec<usize> = states.iter().map(|state| state.take().unwrap()).collect();
        assert_eq!(results, (0..count).map(|number| number * 2).collect::<Vec<_>>());
    }
}

#[test]
fn missing_instances_are_created() {
    if processes::launched() {
        member(|rank| {
            let needs = Topology::from_json(host(1, 1)).unwrap();
            let created = figures::ensure(&*rank.instances, 3, &needs);
            if rank.me() == rank.instances.root_id() {
                assert!(created.len() == 2 && created.iter().all(Result::is_ok), "{created:?}");
                assert_eq!(figures::ensure(&*rank.instances, 3, &needs).len(), 0);
                rank.instances.finalize().unwrap();
            } else {
                std::thread::park();
            }
        });
    }
    on_hosts(&[host(1, 64), host(1, 64), host(1, 64)], "programs::missing_instances_are_created");
}

#[test]
fn all_topologies_are_gathered() {
    everywhere(2, "programs::all_topologies_are_gathered", |rank| {
        let space = rank.space();
        let setup = Setup {
            memory: &*rank.memory,
            communication: &*rank.communication,
            space: &space,
            me: rank.me(),
        };
        let mut rpc = Rpc::new(setup, runtime::Tag(1), &rank.group()).unwrap();
        let all = rpc.gather(&rank.topology.query().unwrap()).unwrap();
        assert!(rank.instances.instances().iter().all(|one| all[&one.id()].has(one.topology())));
        rank.barrier(9);
    });
}

#[test]
fn a_message_goes_to_and_fro() {
    everywhere(2, "programs::a_message_goes_to_and_fro", |rank| {
        let (space, ids) = (rank.space(), rank.ids());
        let setup = Setup {
            memory: &*rank.memory,
            communication: &*rank.communication,
            space: &space,
            me: rank.me(),
        };
        for (tag, size) in [(1, 1), (3, 1000), (5, 1 << 20)] {
            match ping_pong::sides(setup, tag, [ids[0], ids[1]], size).unwrap() {
                [Some(mut first), None] => assert_eq!(first.ping(20).unwrap().len(), 20),
                [None, Some(mut second)] => second.pong(20).unwrap(),
                _ => panic!("each has one side"),
            }
        }
        rank.barrier(9);
    });
}

#[test]
fn fibonacci_is_right_and_its_tasks_are_counted_on_every_manager() {
    let new =
        |tasks: Arc<dyn ComputeManager>| Tasking::new(Arc::new(Threads::new()), tasks, &workers(2)).unwrap();
    assert_eq!(fibonacci::by_functions(&new(Arc::new(Coroutines::new())), 24).unwrap(), (46_368, 150_049));
    assert_eq!(fibonacci::by_functions(&new(Arc::new(Threads::new())), 14).unwrap(), (377, 1219));
    assert_eq!(fibonacci::by_futures(&new(Arc::new(Futures::new())), 20).unwrap(), (6_765, 21_891));
}

/// Each Instance's part of the grid, on so many workers each, is bit-equal to the sequential program's.
fn heat(rank: &Rank) {
    for (round, (edge, reach, count)) in [(17, 1, 1), (18, 2, 3), (23, 1, 2)].into_iter().enumerate() {
        let problem = Problem { edge, reach, iterations: 7 };
        let managers = Managers {
            memory: Arc::clone(&rank.memory),
            communication: Arc::clone(&rank.communication),
            compute: if count == 2 { Arc::new(Coroutines::new()) } else { Arc::new(Threads::new()) },
            space: rank.space(),
            me: rank.me(),
        };
        let group = rank.group();
        let record = round == 1;
        let solved =
            solve(&managers, problem, &group, &workers(count), 10 * round as u64 + 1, record).unwrap();
        let (planes, traced) = (solved.planes, solved.trace.unwrap_or_default().contains("\"exchange\""));
        assert!(traced == record && solved.seconds.is_finite());
        let all = group.len() * count;
        let own = group.iter().position(|id| *id == rank.me()).unwrap();
        let (first, last) = (problem.share(own * count, all).0, problem.share((own + 1) * count - 1, all).1);
        let cube = problem.sequential(problem.slab(0, edge));
        let expected = &cube[first * edge * edge..last * edge * edge];
        assert!(planes.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits())), "{problem:?}");
    }
}

#[test]
fn heat_spreads_alike_for_every_split() {
    everywhere(2, "programs::heat_spreads_alike_for_every_split", heat);
}

#[test]
fn heat_spreads_alike_in_one_instance() {
    everywhere(1, "programs::heat_spreads_alike_in_one_instance", heat);
}

#[test]
fn digits_are_read_alike_on_every_back_end_and_almost_all_right() {
    let (points, labels) = network::images(include_str!("../../examples/data/digits.txt"));
    let points: Arc<[f32]> = points.into();
    let network = network::Network::read(include_bytes!("../../examples/data/digits.weights")).unwrap();
    assert_eq!(network.0.iter().map(Vec::len).sum::<usize>(), 23_114);
    let plain = network.plain(&points);
    let read = network::digits(&plain);
    let out = network::held_out(labels.len());
    let right = (0..labels.len()).filter(|&at| out[at] && read[at] == labels[at]).count();
    let held = out.iter().filter(|out| **out).count();
    assert!(held == 359 && right * 100 >= held * 96, "{right} of {held}");
    let managers: [Arc<dyn ComputeManager>; 2] = [Arc::new(Threads::new()), Arc::new(Coroutines::new())];
    for manager in managers {
        for count in [1, 2] {
            let scores = network::infer(&manager, &workers(count), &network, &points, 128).unwrap();
            assert_eq!(network::digits(&scores), read);
            assert!(scores.iter().zip(&plain).all(|(one, other)| (one - other).abs() < 1e-4));
        }
    }
}
