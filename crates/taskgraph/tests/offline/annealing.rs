//! The model `work`: its worked example, Table I, and mappers against brute force.

use proptest::prelude::*;
use taskgraph::cost::{Division, WorkModel};
use taskgraph::generate::annealing::{Family, STRIPS, graph, platform};
use taskgraph::offline::list::{Sending, schedule};
use taskgraph::offline::{AnnealingImproved, AnnealingStandard, BinPacking};
use taskgraph::{Budget, Graph, MapError, Mapper, Mapping, Platform, files};

/// t0 sends 1,000 bytes to t1; x is slow, y is fast.
fn example() -> (Graph, Platform) {
    let graph = "{version: 1, model: work, tasks: [{id: t0, work: 100, vector: 10}, {id: t1, work: 50, vector: 20}], edges: [{from: t0, to: t1, bytes: 1000}]}";
    let platform =
        "{pes: [{kind: x, work: 10, vector: 5}, {kind: y, work: 20, vector: 10}], links: {bandwidth: 100}}";
    (files::graph::read(graph).unwrap(), files::platform::read(platform).unwrap())
}

fn model(graph: &Graph, platform: &Platform) -> WorkModel {
    WorkModel::new("test", graph, platform, Division::Exact).unwrap()
}

#[test]
fn the_worked_example_has_the_documented_loads_and_makespans() {
    let (graph, platform) = example();
    let model = model(&graph, &platform);
    let of = |mapping: &[usize]| (model.loads(mapping), schedule(&model, mapping).makespan);
    assert_eq!(of(&[0, 1]), (vec![30.0, 5.0], 35.0));
    assert_eq!(of(&[1, 1]), (vec![0.0, 10.0], 10.0));
}

#[test]
fn long_vectors_take_several_instructions() {
    assert_eq!(Division::Ceil.instructions(1000.0, 100.0), 10.0);
    assert_eq!(Division::Ceil.instructions(1001.0, 100.0), 11.0);
    assert_eq!(Division::Exact.instructions(1001.0, 100.0), 10.01);
}

#[test]
fn messages_without_a_link_take_the_cheapest_path() {
    let platform = "{pes: [{kind: a}, {kind: b}, {kind: c}], links: [{a: a-0, b: b-0, bandwidth: 2}, {a: b-0, b: c-0, bandwidth: 2}, {a: a-0, b: c-0, bandwidth: 0.5}]}";
    let (graph, _) = example();
    let model = model(&graph, &files::platform::read(platform).unwrap());
    assert_eq!((model.per_byte(0, 2), model.per_byte(2, 0), model.per_byte(1, 1)), (1.0, 1.0, 0.0));
    let apart = "{pes: [{kind: a}, {kind: b}], links: []}";
    let error = WorkModel::new("test", &graph, &files::platform::read(apart).unwrap(), Division::Exact);
    assert_eq!(error.unwrap_err().to_string(), "the platform lacks a path from a-0 to b-0 (links); add it");
}

#[test]
fn data_stores_count_their_bytes_once() {
    let text = "{version: 1, model: work, tasks: [{id: w, work: 1}, {id: r, work: 1}, {id: o, work: 1}], edges: [{from: w, to: r, bytes: 70}, {from: w, to: o, bytes: 5}], variables: [{name: v, bytes: 100, writers: [w, r], readers: [r]}]}";
    let platform = "{pes: [{kind: a}, {kind: b}, {kind: c}], links: {bandwidth: 1}}";
    let model = model(&files::graph::read(text).unwrap(), &files::platform::read(platform).unwrap());
    // w on a, r on b, o on a, the store on c: w writes 100, r writes 100, the store is read once, w -> r only orders.
    assert_eq!(model.loads(&[0, 1, 0, 2]), [102.0, 101.0, 100.0]);
    // r writes what it reads: no task waits for that, and there is no cycle.
    assert_eq!(schedule(&model, &[0, 1, 0, 2]).schedule.slots.len(), 4);
}

#[test]
fn generated_graphs_match_table_one() {
    let printed = [
        (Family::Binomial, [(82, 206), (102, 306), (122, 406), (142, 506), (162, 606)]),
        (Family::Convolution, [(79, 143), (89, 173), (99, 203), (109, 233), (119, 263)]),
        (Family::GramSchmidt, [(228, 443), (838, 1653), (1848, 3663), (3258, 6473), (5068, 10083)]),
        (Family::GaussSeidel, [(227, 531), (837, 2041), (1847, 4551), (3257, 8061), (5067, 12571)]),
        (Family::Jacobi, [(48, 130), (78, 240), (108, 350), (138, 460), (168, 570)]),
    ];
    for (family, sizes) in printed {
        let ours = STRIPS.map(|strip| {
            let graph = graph(family, strip, 1).unwrap();
            (graph.tasks().len(), graph.edges().len())
        });
        assert_eq!(ours, sizes, "{family}");
    }
}

#[test]
fn generated_platforms_match_the_paper() {
    for seed in 0..200 {
        let platform = platform(seed);
        let (count, kinds) = (platform.pes().len(), platform.kinds());
        assert!((2..=32).contains(&count));
        let gpus = kinds.iter().find(|(kind, _)| kind.as_str() == "gpu").map_or(0, |(_, count)| *count);
        assert!(4 * gpus + 2 >= count && 4 * gpus <= 3 * count + 2, "{gpus} GPUs of {count}");
        assert!(platform.pes().iter().all(|pe| (2.0..=32.0).contains(&pe.vector)));
        assert!(platform.pes().iter().all(|pe| (128.0..=1_048_576.0).contains(&pe.work)));
    }
}

/// A random graph of up to 8 tasks and a platform of 2 to 4 processing elements.
fn small(seed: u64) -> (Graph, Platform) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (tasks, pes) = (rng.usize(2..=8), rng.usize(2..=4));
    let (mut nodes, mut edges, mut pool) = (Vec::new(), Vec::new(), Vec::new());
    for to in 0..tasks {
        nodes.push(format!("{{id: t{to}, work: {}, vector: {}}}", rng.u32(1..1000), rng.u32(1..100)));
        for from in 0..to {
            if rng.f64() < 0.4 {
                edges.push(format!("{{from: t{from}, to: t{to}, bytes: {}}}", rng.u32(0..3000)));
            }
        }
    }
    for pe in 0..pes {
        pool.push(format!("{{kind: p{pe}, work: {}, vector: {}}}", rng.u32(1..50), rng.u32(1..32)));
    }
    let (nodes, edges, pool) = (nodes.join(", "), edges.join(", "), pool.join(", "));
    let graph = format!("{{version: 1, model: work, tasks: [{nodes}], edges: [{edges}]}}");
    let platform = format!("{{pes: [{pool}], links: {{bandwidth: {}}}}}", rng.u32(1..100));
    (files::graph::read(&graph).unwrap(), files::platform::read(&platform).unwrap())
}

/// The minimum objective over all mappings.
fn brute_force(model: &WorkModel) -> f64 {
    let mut mapping = vec![0; model.tasks()];
    let mut least = f64::INFINITY;
    loop {
        least = least.min(model.objective(&mapping));
        let Some(at) = mapping.iter().position(|pe| pe + 1 < model.pes()) else { return least };
        mapping[at] += 1;
        mapping[..at].fill(0);
    }
}

#[test]
fn annealing_finds_the_optimum_of_nearly_all_small_graphs() {
    let mappers: [&dyn Mapper; 2] = [&AnnealingImproved::default(), &AnnealingStandard::default()];
    for mapper in mappers {
        let optimal = |seed: &u64| {
            let (graph, platform) = small(*seed);
            let found = mapper.map(&graph, &platform, &Budget::effort(None, *seed)).unwrap();
            let least = brute_force(&model(&graph, &platform));
            assert!(found.objective >= least * (1.0 - 1e-12));
            found.objective <= least * (1.0 + 1e-9)
        };
        let optimal = (0..200).filter(optimal).count();
        assert!(optimal >= 190, "{}: {optimal} of 200", mapper.name());
    }
}

#[test]
fn bin_packing_fills_by_vector_length_and_names_tasks_that_do_not_fit() {
    let graph = "{version: 1, model: work, tasks: [{id: a, work: 1, vector: 4}, {id: b, work: 1, vector: 8}, {id: c, work: 1, vector: 3}]}";
    let platform = "{pes: [{kind: x, work: 8, vector: 8}, {kind: y, work: 64, vector: 8}, {kind: z, work: 1, vector: 16}]}";
    let (graph, platform) = (files::graph::read(graph).unwrap(), files::platform::read(platform).unwrap());
    let found = BinPacking::default().map(&graph, &platform, &Budget::effort(None, 0)).unwrap();
    // b on the widest, z; then y, x and z have 8 free, y first by W0/W1; c on x. No element is empty in the end.
    assert_eq!(found.mapping, Mapping::Single(vec![1, 2, 0]));
    let wide =
        files::graph::read("{version: 1, model: work, tasks: [{id: w, work: 1, vector: 17}]}").unwrap();
    let error = BinPacking::default().map(&wide, &platform, &Budget::effort(None, 0)).unwrap_err();
    assert!(matches!(&error, MapError::NoPlace { task, .. } if task == "w"), "{error}");
}

#[test]
fn a_load_moves_to_an_empty_cheaper_processing_element() {
    let graph = "{version: 1, model: work, tasks: [{id: a, work: 1, vector: 4}]}";
    let platform = "{pes: [{kind: x, work: 64, vector: 8}, {kind: y, work: 8, vector: 4}]}";
    let (graph, platform) = (files::graph::read(graph).unwrap(), files::platform::read(platform).unwrap());
    let found = BinPacking::default().map(&graph, &platform, &Budget::effort(None, 0)).unwrap();
    assert_eq!(found.mapping, Mapping::Single(vec![1]));
}

#[test]
fn equal_seed_and_effort_give_equal_answers() {
    let (graph, platform) = (graph(Family::Jacobi, 10, 3).unwrap(), platform(4));
    for literal in [false, true] {
        let mapper = AnnealingImproved { literal, ..AnnealingImproved::default() };
        let whole = mapper.map(&graph, &platform, &Budget::effort(None, 5)).unwrap();
        assert_eq!(whole, mapper.map(&graph, &platform, &Budget::effort(None, 5)).unwrap());
        // An effort of three reproduces a search that a deadline ended after three units.
        let asked = std::sync::atomic::AtomicU64::new(0);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
        let ended = mapper.map(&graph, &platform, &Budget { effort: None, seed: 5, stop: &stop }).unwrap();
        let replayed = mapper.map(&graph, &platform, &Budget::effort(Some(ended.effort), 5)).unwrap();
        assert_eq!((ended.effort, ended.mapping), (3, replayed.mapping));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Extreme but valid numbers: a result or an error, never a panic, never worse than reported.
    #[test]
    fn extreme_numbers_are_mapped_or_rejected(exponents in proptest::collection::vec(-15_i32..=15, 10), seed in 0_u64..100) {
        let at = |number: usize| 10_f64.powi(exponents[number]);
        let graph = format!(
            "{{version: 1, model: work, tasks: [{{id: a, work: {}, vector: {}}}, {{id: b, work: {}, vector: 0}}, {{id: c, work: 0}}], edges: [{{from: a, to: b, bytes: {}}}, {{from: b, to: c, bytes: 0.3}}], variables: [{{name: v, bytes: 7, writers: [a], readers: [a, c]}}]}}",
            at(0), at(1), at(2), at(3)
        );
        let platform = format!(
            "{{pes: [{{kind: x, work: {}, vector: {}}}, {{kind: y, work: {}, vector: {}}}], links: {{bandwidth: {}}}}}",
            at(4), at(5), at(6), at(7), at(8)
        );
        let (Ok(graph), Ok(platform)) = (files::graph::read(&graph), files::platform::read(&platform)) else {
            return Ok(());
        };
        for mapper in [&AnnealingImproved::default() as &dyn Mapper, &AnnealingStandard::default(), &BinPacking::default()] {
            if let Ok(found) = mapper.map(&graph, &platform, &Budget::effort(Some(1), seed)) {
                prop_assert!(found.makespan >= found.objective);
                let Mapping::Single(pes) = &found.mapping else { panic!("one each") };
                prop_assert_eq!(found.objective, model(&graph, &platform).objective(pes));
            }
        }
    }

    /// Senders wait until they have sent: no makespan is below the largest load, and every schedule is feasible.
    #[test]
    fn makespans_are_never_below_objectives(seed in 0_u64..10_000, draws in proptest::collection::vec(0_usize..4, 8)) {
        let (graph, platform) = small(seed);
        let model = model(&graph, &platform);
        let mapping: Vec<usize> = draws[..graph.tasks().len()].iter().map(|pe| pe % model.pes()).collect();
        let listed = schedule(&model, &mapping);
        prop_assert!(listed.makespan >= model.objective(&mapping));
        let sending = Sending { model: &model, mapping: &mapping };
        prop_assert_eq!(listed.schedule.violations(&graph, &platform, &sending), vec![]);
    }
}
