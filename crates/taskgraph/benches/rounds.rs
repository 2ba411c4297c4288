//! One round of 1,280 ready tasks on 5 processing elements, as at the peak of the high latency workload.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use taskgraph::online::{Classes, Pool, Ready, Round, SCHEDULERS, scheduler};
use taskgraph::{Cost, Costs, Group, Implementation, Kind, Platform, Task};

fn rounds(criterion: &mut Criterion) {
    let groups = [Group::new(Kind::Cpu, 3), Group::new(Kind::Fft, 1), Group::new(Kind::Mmult, 1)];
    let platform = Platform::new(&groups).expect("there are cores");
    let mut classes = Classes::new(&platform);
    let one = |expected: f64| Implementation { expected, actual: None, function: String::new() };
    let mut queue = Vec::new();
    for token in 0..1280_u32 {
        // Three of four are transforms.
        let mut on = BTreeMap::from([(Kind::Cpu, one(30.0))]);
        if token % 4 != 0 {
            on.insert(Kind::Fft, one(28.0));
        }
        let task = Task { id: token.to_string(), cost: Cost::Measured(on.clone()), arguments: Vec::new() };
        let class = classes.intern(&task, &on).expect("there are cores");
        queue.push(Ready { token: u64::from(token), class, origin: token });
    }
    let pool = Pool { available: vec![0; 5], open: vec![true; 5], queueing: true };
    for name in SCHEDULERS {
        criterion.bench_function(&format!("round of 1,280 on 5: {name}"), |bencher| {
            bencher.iter_batched(
                || (pool.clone(), queue.clone(), scheduler(name).expect("a name of the list")),
                |(mut pool, mut queue, mut scheduler)| {
                    let mut round = Round::new(0, &classes, Costs::ZCU102, &mut pool, &mut queue);
                    round.run(&mut *scheduler, None);
                    black_box(round.dispatched.len())
                },
                BatchSize::SmallInput,
            );
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = rounds
}
criterion_main!(benches);
