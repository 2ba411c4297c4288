//! The paper's programs and its four test cases, in small, on every available back-end.

#[path = "../../examples/programs/fibonacci.rs"]
mod fibonacci;
#[path = "../../examples/programs/figures.rs"]
mod figures;
#[path = "../../examples/programs/jacobi/mod.rs"]
mod jacobi;
#[path = "../../examples/programs/network.rs"]
mod network;
#[path = "../../examples/programs/ping_pong.rs"]
mod ping_pong;

use std::{cell::Cell, sync::Arc};

use jacobi::{Managers, Problem, Split, solve};
use proptest::prelude::*;
use runtime::{
    ComputeManager, ExecutionUnit, TopologyManager,
    backends::{Coroutines, Futures, Threads, host::HostTopology, processes},
    frontends::{channel::Setup, rpc::Rpc, tasking::Tasking},
    hicr::{ComputeResource, Topology},
};

use crate::{
    instances::{host, on_hosts},
    ranks::{Rank, everywhere, member, one},
};

fn workers(count: usize) -> Vec<ComputeResource> {
    let topology = HostTopology::new().unwrap().query().unwrap();
    let mut one = topology.devices[0].compute_resources[0].clone();
    one.more.remove("Logical Processor Id");
    vec![one; count]
}

#[test]
fn a_message_is_copied_to_all_memory_spaces_and_through_a_chain_of_them() {
    everywhere(1, "programs::a_message_is_copied_to_all_memory_spaces_and_through_a_chain_of_them", |rank| {
        let message = rank.slot(5);
        message.write(0, b"hello").unwrap();
        let copies =
            figures::broadcast(&*rank.topology, &*rank.memory, &*rank.communication, &message).unwrap();
        assert!(!copies.is_empty());
        assert!(copies.iter().all(|copy| copy.read_values::<u8>(0, 5).unwrap() == b"hello"));
        let received =
            figures::telephone(&*rank.topology, &*rank.memory, &*rank.communication, b"hello").unwrap();
        assert_eq!(received, b"hello");
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
        assert!(rank.instances.instances().iter().all(|one| all[&one.id()].satisfies(one.topology())));
        rank.barrier(9);
    });
}

#[test]
fn a_message_makes_round_trips() {
    everywhere(2, "programs::a_message_makes_round_trips", |rank| {
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
fn fibonacci_and_its_task_count_are_correct_on_every_manager() {
    let new =
        |tasks: Arc<dyn ComputeManager>| Tasking::new(Arc::new(Threads::new()), tasks, &workers(2)).unwrap();
    assert_eq!(fibonacci::by_functions(&new(Arc::new(Coroutines::new())), 24).unwrap(), (46_368, 150_049));
    assert_eq!(fibonacci::by_functions(&new(Arc::new(Threads::new())), 14).unwrap(), (377, 1219));
    assert_eq!(fibonacci::by_futures(&new(Arc::new(Futures::new())), 20).unwrap(), (6_765, 21_891));
}

/// This Instance's part of the grid, on this number of workers, is bit-equal to the sequential result.
fn heat(rank: &Rank, problem: Problem, split: Split, count: usize, tag: u64) {
    let managers = Managers {
        memory: Arc::clone(&rank.memory),
        communication: Arc::clone(&rank.communication),
        compute: if count == 2 { Arc::new(Coroutines::new()) } else { Arc::new(Threads::new()) },
        space: rank.space(),
        me: rank.me(),
    };
    let group = rank.group();
    let record = problem.reach == 2;
    let solved = solve(&managers, problem, split, &group, &workers(count), tag, record).unwrap();
    let traced = solved.trace.unwrap_or_default().contains("\"exchange\"");
    assert!(traced == (record && problem.iterations > 0) && solved.seconds.is_finite());
    let own = group.iter().position(|id| *id == rank.me()).unwrap() * count;
    assert_eq!(solved.blocks.len(), count);
    let cube = problem.sequential();
    for (part, block) in (own..).zip(solved.blocks) {
        let region = split.region(problem, part);
        let rows = problem.stencil().rows_of(&region);
        let expected: Vec<u64> = rows.flat_map(|row| &cube[row]).map(|x| x.to_bits()).collect();
        let values: Vec<u64> = block.iter().map(|x| x.to_bits()).collect();
        assert!(values == expected, "{problem:?} {split}, part {part}");
    }
}

#[test]
fn jacobi_is_bit_equal_for_every_split() {
    everywhere(2, "programs::jacobi_is_bit_equal_for_every_split", |rank| {
        // Edge, reach, workers of each Instance, split; including uneven splits and parts as thin as the stencil's reach.
        let cases = [
            (17, 1, 1, Split::slabs(2)),
            (23, 1, 2, Split::slabs(4)),
            (18, 2, 3, Split::slabs(6)),
            (18, 2, 1, Split([1, 2, 1])),
            (17, 1, 2, Split([1, 2, 2])),
            (12, 2, 2, Split([1, 1, 4])),
            (19, 2, 4, Split([2, 2, 2])),
            (15, 1, 3, Split([3, 1, 2])),
        ];
        for (tag, (edge, reach, count, split)) in (1..).step_by(2).zip(cases) {
            heat(rank, Problem { edge, reach, iterations: 7 }, split, count, tag);
        }
    });
}

#[test]
fn jacobi_is_bit_equal_in_one_instance() {
    let tag = Cell::new(1);
    let splits = (1_usize..4, 1_usize..4, 1_usize..4).prop_map(|(x, y, z)| [x, y, z]);
    let cases = (1_usize..3, 0_usize..9, splits, 0_usize..6);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((reach, more, split, iterations) in cases)| {
        // The minimum size for the split, and slightly larger.
        let edge = reach * (2 + split.iter().max().unwrap()) + more;
        let problem = Problem { edge, reach, iterations };
        tag.set(tag.get() + 2);
        let managers = one();
        heat(&managers, problem, Split(split), split.iter().product(), tag.get());
    });
}

/// The result is bit-equal to the sequential one, which averages the points of the stencil.
#[test]
fn the_sequential_stencil_averages_its_neighbours() {
    for (edge, reach) in [(7, 1), (8, 2)] {
        let problem = Problem { edge, reach, iterations: 1 };
        let at = |x, y, z| problem.begin(x, y, z);
        let after = problem.sequential();
        let inside = |at: usize| (reach..edge - reach).contains(&at);
        for (index, value) in after.into_iter().enumerate() {
            let (x, y, z) = (index / edge / edge, index / edge % edge, index % edge);
            let expected = if [x, y, z].into_iter().all(inside) {
                let far = |d| [at(x - d, y, z), at(x + d, y, z), at(x, y - d, z), at(x, y + d, z)];
                let along = |d| [at(x, y, z - d), at(x, y, z + d)];
                let read = (1..=reach).flat_map(|d| far(d).into_iter().chain(along(d)));
                (at(x, y, z) + read.sum::<f64>()) / [7.0, 13.0][reach - 1]
            } else {
                at(x, y, z)
            };
            assert!((value - expected).abs() < 1e-12, "{edge} {reach}: {x} {y} {z}");
        }
    }
}

#[test]
fn an_impossible_split_has_a_reason() {
    let check = |edge, reach, split: &str, workers| {
        let problem = Problem { edge, reach, iterations: 1 };
        let split = split.parse::<Split>().and_then(|split| split.check(problem, workers));
        split.err().map_or_else(|| "as asked".into(), |error| error.to_string())
    };
    let errors = [
        check(18, 2, "1x2x2", 4),
        check(18, 2, "7x1x1", 7),
        check(18, 2, "1x8x1", 8),
        check(18, 2, "1x1x0", 0),
        check(18, 1, "2x2x2", 4),
        check(18, 3, "1x1x1", 1),
        check(4, 2, "1x1x1", 1),
        check(5, 2, "1x1x1", 1),
        check(18, 2, "2x2", 4),
        check(18, 2, "2x2xall", 4),
        check(18, 1, "18446744073709551615x2x1", 4),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    as asked
    as asked
    cannot split the cube: 1x8x1 cuts the 14 points inside along y into 8, and each part needs 2 or more; cut it into 1 to 7
    cannot split the cube: 1x1x0 cuts the 14 points inside along z into 0, and each part needs 2 or more; cut it into 1 to 7
    cannot split the cube: 2x2x2 makes 8 parts, and there are 4 workers; make one for each
    cannot split the cube: a stencil reaches 1 point (7 in all) or 2 (13), not 3
    cannot split the cube: of 4 points on an edge none is inside the boundary of 2; give it at least 5
    as asked
    cannot split the cube: "2x2" is not of the form PXxPYxPZ, as 1x2x2 is
    cannot split the cube: "2x2xall" is not of the form PXxPYxPZ, as 1x2x2 is
    cannot split the cube: 18446744073709551615x2x1 cuts the 16 points inside along x into 18446744073709551615, and each part needs 1 or more; cut it into 1 to 16
    "#);
}

#[test]
fn inference_is_identical_on_every_back_end_and_accurate() {
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
