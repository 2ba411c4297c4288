//! Benchmarks of the basic operations: reading a snapshot, pricing and checking an assignment, local search.
//!
//! `cargo bench --profile dev -p search`: the profile of all other builds, so that nothing is built twice.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use placement::{Budget, Snapshot, Strategy};
use search::{Greedy, improve};

/// Two published instances: one machine, and a cluster with every hard limit.
const INSTANCES: [&str; 2] = ["P-24x6-s1", "C-1000x200-s1"];

fn text(name: &str) -> String {
    let file = format!("{}/../../examples/instances/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).unwrap_or_else(|problem| panic!("{file}: {problem}"))
}

fn kernels(criterion: &mut Criterion) {
    for name in INSTANCES {
        let text = text(name);
        let snapshot = Snapshot::read(&text).expect("a published instance is a snapshot");
        let greedy = Greedy.solve(&snapshot, &Budget::effort(None, 1)).expect("greedy always answers");
        let start = greedy.assignment;
        let mut group = criterion.benchmark_group(name);
        group.bench_function("read", |bench| bench.iter(|| Snapshot::read(black_box(&text))));
        group.bench_function("cost", |bench| bench.iter(|| snapshot.cost(black_box(&start))));
        group.bench_function("violations", |bench| bench.iter(|| snapshot.violations(black_box(&start))));
        let batches = |effort| improve(&snapshot, black_box(&start), &Budget::effort(Some(effort), 1));
        group.bench_function("repair", |bench| bench.iter(|| batches(0)));
        // A batch of local search tries two thousand moves and swaps.
        group.throughput(Throughput::Elements(100_000));
        group.sample_size(10);
        group.bench_function("ten batches of local search", |bench| bench.iter(|| batches(10)));
        group.finish();
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
