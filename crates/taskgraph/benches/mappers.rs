//! Mapping times at the sizes reported in docs/results/kernels.md.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use taskgraph::cost::{ParallelModel, Vector};
use taskgraph::generate::annealing::{Family, graph, platform};
use taskgraph::generate::published::PROFILE_A;
use taskgraph::generate::semi_static::{self, Shape, shaped};
use taskgraph::offline::{AnnealingImproved, BinPacking, ect};
use taskgraph::table::{Build, build_region};
use taskgraph::{Budget, Mapper, Platform, files};

/// The annealing paper's maximum number of processing elements, half of them GPUs.
fn thirty_two() -> Platform {
    let text = "{pes: [{kind: cpu, count: 16, work: 1048576, vector: 4}, {kind: gpu, count: 16, work: 65536, vector: 32}], \
                links: {bandwidth: 4e9}}";
    files::platform::read(text).expect("a sound platform")
}

fn mappers(criterion: &mut Criterion) {
    // 50 strips: a vector of 1,000 is cut to 20, which fits a GPU of 32.
    let (large, pool) = (graph(Family::GramSchmidt, 50, 1).expect("one of Table I's"), platform(1));
    let pool = if pool.pes().iter().any(|pe| pe.vector >= 20.0) { pool } else { thirty_two() };
    criterion.bench_function("A-BFD: 5,068 tasks", |bencher| {
        bencher.iter(|| BinPacking::default().map(&large, &pool, &Budget::effort(None, 1)).map(black_box));
    });
    let (hundred, parallel) =
        (shaped(Shape::Random, 100, 1).expect("a sound graph"), semi_static::platform());
    let model = ParallelModel::new("bench", &hundred, &parallel, &Vector::new(PROFILE_A[0]));
    let model = model.expect("its own platform");
    criterion.bench_function("ECT: 100 tasks", |bencher| bencher.iter(|| black_box(ect(&model))));

    let mut long = criterion.benchmark_group("long");
    long.sample_size(10);
    let thousand = graph(Family::GramSchmidt, 22, 1).expect("any number of strips");
    let pool = thirty_two();
    long.bench_function("annealing-improved: 1,008 tasks on 32, to its end", |bencher| {
        bencher.iter(|| {
            AnnealingImproved::default().map(&thousand, &pool, &Budget::effort(None, 1)).map(black_box)
        });
    });
    long.bench_function("table entry: 100 tasks, 100 runs of the GA", |bencher| {
        bencher.iter(|| build_region(&hundred, &parallel, &Build::default(), [1; 4]).map(black_box));
    });
    long.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = mappers
}
criterion_main!(benches);
