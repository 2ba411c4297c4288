//! Online schedulers, round by round.

use std::collections::BTreeMap;

use proptest::prelude::*;
use taskgraph::online::{Cache, Classes, Dispatch, Pool, Ready, Round, SCHEDULERS, scheduler};
use taskgraph::{Cost, Costs, Group, Implementation, Kind, Platform, Task};

/// A pool and ready tasks, each with its estimates on a CPU and an FFT in microseconds; 0 is incompatible.
#[derive(Clone, Debug)]
struct World {
    cores: usize,
    ffts: usize,
    estimates: Vec<(u32, u32)>,
    available: Vec<u64>,
    open: Vec<bool>,
    queueing: bool,
}

fn any_world(most: usize) -> impl Strategy<Value = World> {
    let task = (1..6_u32, prop_oneof![2 => Just(0), 3 => 1..6_u32]);
    let tasks = proptest::collection::vec(task, 1..most);
    (1..4_usize, 0..3_usize, tasks, any::<bool>()).prop_flat_map(|(cores, ffts, estimates, queueing)| {
        let pes = cores + ffts;
        let open = proptest::collection::vec(any::<bool>(), pes);
        (proptest::collection::vec(0..12_000_u64, pes), open).prop_map(move |(available, open)| {
            let open = if queueing { vec![true; pes] } else { open };
            World { cores, ffts, estimates: estimates.clone(), available, open, queueing }
        })
    })
}

/// Dispatched tasks, end, number of evaluations, and remaining tasks of one round.
fn round(world: &World, name: &str, cache: Option<&mut Cache>) -> (Vec<Dispatch>, u64, u64, Vec<Ready>) {
    let platform = Platform::new(&[Group::new(Kind::Cpu, world.cores), Group::new(Kind::Fft, world.ffts)])
        .expect("there are cores");
    let mut classes = Classes::new(&platform);
    let mut queue = Vec::new();
    for (number, (cpu, fft)) in world.estimates.iter().enumerate() {
        let one = |expected: u32| Implementation {
            expected: f64::from(expected),
            actual: None,
            function: String::new(),
        };
        let mut on = BTreeMap::from([(Kind::Cpu, one(*cpu))]);
        if *fft > 0 {
            on.insert(Kind::Fft, one(*fft));
        }
        let task = Task { id: number.to_string(), cost: Cost::Measured(on.clone()), arguments: Vec::new() };
        let class = classes.intern(&task, &on).expect("there are cores");
        queue.push(Ready { token: number as u64, class, origin: u32::try_from(number).expect("few") });
    }
    let mut pool =
        Pool { available: world.available.clone(), open: world.open.clone(), queueing: world.queueing };
    let mut round = Round::new(5_000, &classes, Costs::FREE, &mut pool, &mut queue);
    round.run(&mut *scheduler(name).expect("a name of the list"), cache);
    let (handed, now, looks) = (round.dispatched, round.now, round.evaluations);
    (handed, now, looks, queue)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    /// Equal decisions in equal order, whatever the classes are.
    #[test]
    fn etf_indexed_makes_the_same_decisions_as_etf(world in any_world(40)) {
        let (expected, _, _, stays) = round(&world, "ETF", None);
        let (found, _, _, left) = round(&world, "ETF_INDEXED", None);
        prop_assert_eq!((found, left), (expected, stays));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Every task is dispatched once or stays, and only to a compatible processing element that accepts tasks.
    #[test]
    fn a_round_dispatches_only_to_compatible_accepting_elements(world in any_world(20), name in proptest::sample::select(&SCHEDULERS[..]), cached in any::<bool>()) {
        let mut cache = Cache::default();
        let (handed, now, _, left) = round(&world, name, cached.then_some(&mut cache));
        let mut all: Vec<u64> = handed.iter().map(|one| one.task.token).chain(left.iter().map(|one| one.token)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..world.estimates.len() as u64).collect::<Vec<_>>());
        if world.queueing {
            prop_assert!(left.is_empty());
        }
        let mut times = vec![0; world.open.len()];
        for Dispatch { task, pe, at } in handed {
            prop_assert!(world.open[pe] && at <= now);
            prop_assert!(pe < world.cores || world.estimates[usize::try_from(task.token).unwrap()].1 > 0);
            times[pe] += 1;
        }
        if !world.queueing {
            prop_assert!(times.iter().all(|count| *count <= 1));
        }
        // A second round with the same tasks repeats the cached decisions.
        if cached && world.queueing {
            let (first, ..) = round(&world, name, Some(&mut cache));
            let (again, ..) = round(&world, "SIMPLE", Some(&mut cache));
            prop_assert_eq!(first, again);
        }
    }
}

/// Evaluations and comparisons of a round of three tasks on three processing elements, by the table of docs/reference/task-graphs.md.
#[test]
fn evaluations_are_counted_as_documented() {
    let world = World {
        cores: 2,
        ffts: 1,
        estimates: vec![(4, 0), (5, 2), (5, 2)],
        available: vec![0; 3],
        open: vec![true; 3],
        queueing: true,
    };
    let looks = |name| round(&world, name, None).2;
    // SIMPLE: core 1, core 2, FFT. MET: 1 + 1, then 2 + 2 and 2 + 3. ETF: 3 × (3 + 2 + 1). Indexed: 3 × (2 + 2 + 1).
    let found = SCHEDULERS.map(looks);
    assert_eq!(found, [3, 11, 9, 18, 15, 9]);
}
