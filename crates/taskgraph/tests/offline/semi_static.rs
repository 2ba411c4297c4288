//! The model `parallel`: data of the semi-static paper, and tables.

use proptest::prelude::*;
use taskgraph::cost::{ParallelModel, Vector};
use taskgraph::generate::published::{PROFILE_A, PROFILE_B, Row, Run, TABLE_3, TABLE_4, TABLE_5};
use taskgraph::generate::semi_static::{Shape, platform, profile, shaped, ten_node};
use taskgraph::offline::{Plan, Settings, ect, evolve, makespan, schedule};
use taskgraph::table::online::{Candidate, Stored, models, replay, with_table, worthwhile};
use taskgraph::table::{Build, build, build_region, read, write};
use taskgraph::{Budget, Graph, Mapping, Parts, Range};

fn model(vector: [f64; 4]) -> ParallelModel {
    ParallelModel::new("test", &ten_node(), &platform(), &Vector::new(vector)).unwrap()
}

#[test]
fn times_and_messages_match_table_4_within_a_unit() {
    let model = model(PROFILE_A[5]);
    let mut compared = (0, 0);
    for (tasks, messages) in TABLE_4 {
        for (task, (kind, processors, printed)) in tasks.into_iter().enumerate() {
            let ours = model.time(task, kind, processors);
            assert!((ours - printed).abs() <= 1.0, "s{task}: {ours} instead of {printed}");
            compared.0 += 1;
        }
        for (edge, printed) in messages.into_iter().enumerate() {
            let ends = &ten_node().edges()[edge].clone();
            let ours = model.message(edge, tasks[ends.from].0, tasks[ends.to].0);
            assert!((ours - printed).abs() <= 1.0, "edge {edge}: {ours} instead of {printed}");
            compared.1 += 1;
        }
    }
    assert_eq!(compared, (40, 48));
}

#[test]
fn the_worked_examples() {
    let model5 = model([3090.0, 13.0, 258.0, 67.0]);
    assert_eq!(model5.time(0, 1, 10).floor(), 11_217.0);
    assert_eq!(makespan(&model5, &ect(&model5)).floor(), 39_455.0);
    // s3 at (3228, 11): the optimum is 17 processors, above the available 16.
    assert_eq!(model([3228.0, 11.0, 273.0, 71.0]).optimum(3, 0), 16);
}

/// 76 of 76 decisions and 4 of 4 totals; the total of ECT on A is printed as 1,688,705, a misprint.
#[test]
fn the_online_rule_reproduces_tables_3_and_5() {
    type Column = fn(&Row) -> Run;
    let runs: [(&[Row; 21], Column, f64); 4] = [
        (&TABLE_3, |row| row.on_off, 1_115_545.0),
        (&TABLE_3, |row| row.ect, 1_668_705.0),
        (&TABLE_5, |row| row.on_off, 995_987.0),
        (&TABLE_5, |row| row.ect, 1_447_666.0),
    ];
    let mut decisions = 0;
    for (rows, of, printed) in runs {
        for row in &rows[1..20] {
            let Run { time, stored, remapped } = of(row);
            assert_eq!(worthwhile(stored, 1000.0, time), remapped, "{row:?}");
            decisions += 1;
        }
        let total: f64 =
            rows.iter().map(|row| of(row).time + if of(row).remapped { 1000.0 } else { 0.0 }).sum();
        assert_eq!(total, printed);
    }
    assert_eq!(decisions, 76);
}

#[test]
fn online_ect_reproduces_the_papers_totals() {
    for (profile, printed) in [(PROFILE_A, 868_398.0), (PROFILE_B, 788_032.0)] {
        let models: Vec<ParallelModel> = profile.iter().map(|vector| model(*vector)).collect();
        let replay = replay(&models, 1000.0, |_, model, _| {
            let plan = ect(model);
            Candidate { stored: makespan(model, &plan), plan }
        });
        assert!((replay.total - printed).abs() < 1.0, "{} instead of {printed}", replay.total);
    }
}

/// The ten-node graph with two intervals in α and one in the others.
fn two_regions() -> Graph {
    let graph = ten_node();
    let Parts { parameters, .. } = graph.parts().clone();
    let coarse = parameters
        .into_iter()
        .map(|(name, range)| {
            let intervals = if name == "alpha" { 2 } else { 1 };
            (name, Range { intervals, ..range })
        })
        .collect();
    Graph::new(Parts { parameters: coarse, ..graph.into_parts() }).unwrap()
}

fn quick() -> Build {
    let genetic = Settings { runs: 2, generations: 40, ..Settings::default() };
    Build { samples: 4, seed: 7, divisions: 1, genetic }
}

#[test]
fn a_region_built_alone_equals_the_tables_for_any_thread_count() {
    let (graph, platform) = (two_regions(), platform());
    let table = build(&graph, &platform, &quick(), 1, &|_| {}).unwrap();
    assert_eq!(table, build(&graph, &platform, &quick(), 2, &|_| {}).unwrap());
    for (number, region) in table.regions.iter().enumerate() {
        let (alone, mappings) = build_region(&graph, &platform, &quick(), [number, 0, 0, 0]).unwrap();
        assert_eq!((alone.mean, &mappings[alone.plan]), (region.mean, &table.mappings[region.plan]));
        assert_eq!(alone.parts.len(), region.parts.len());
    }
    assert_eq!(read(&write(&table)).unwrap(), table);
}

#[test]
fn regions_are_half_open_and_clamped() {
    let settings = Build {
        samples: 1,
        divisions: 0,
        genetic: Settings { runs: 1, generations: 0, ..Settings::default() },
        ..quick()
    };
    let table = build(&ten_node(), &platform(), &settings, 2, &|_| {}).unwrap();
    let index = |text: &str| table.lookup(&text.parse().unwrap()).path[0];
    assert_eq!(index("3090,13,258,67"), [2, 1, 1, 2]);
    assert_eq!(index("1000,10,200,40"), [0, 1, 1, 1]);
    assert_eq!(index("5000,25,500,100"), [3, 3, 3, 3]);
    assert_eq!(index("0,1e9,0,1e9"), [0, 3, 0, 3]);
    let profile: Vec<Vector> = PROFILE_A.map(Vector::new).to_vec();
    for stored in [Stored::Table, Stored::Observed] {
        let replay = with_table(&ten_node(), &platform(), &table, &profile, 1000.0, stored).unwrap();
        let times: f64 = replay.iterations.iter().filter_map(|iteration| iteration.time).sum();
        let remaps = u32::try_from(replay.remaps).unwrap();
        assert!((replay.total - times - 1000.0 * f64::from(remaps)).abs() < 1e-6);
        assert!(replay.iterations[0].remapped && replay.iterations[0].time.is_none());
    }
}

#[test]
fn the_running_mapping_is_never_adopted_again() {
    let (graph, platform) = (ten_node(), platform());
    let profile = [PROFILE_A[0], PROFILE_A[1], PROFILE_A[2]].map(Vector::new);
    let models = models(&graph, &platform, &profile).unwrap();
    let (first, other) =
        (ect(&models[0]), evolve(&models[1], &Settings::default(), &[], &Budget::effort(None, 1)).plan);
    assert_ne!(first, other);
    // A stored time of 0 would always be worth a reconfiguration.
    let remapped = |second: &Plan| {
        let plans = [first.clone(), second.clone()];
        let found =
            replay(&models, 1000.0, |number, _, _| Candidate { plan: plans[number].clone(), stored: 0.0 });
        found.iterations.iter().map(|iteration| iteration.remapped).collect::<Vec<_>>()
    };
    assert_eq!(remapped(&other), [true, true, false]);
    assert_eq!(remapped(&first), [true, false, false]);
}

#[test]
fn the_genetic_algorithm_is_never_worse_than_its_seed() {
    let settings = Settings { runs: 1, generations: 20, ..Settings::default() };
    for shape in [Shape::Random, Shape::InTree, Shape::OutTree, Shape::ForkJoin] {
        for size in [1, 2, 10, 33] {
            let graph = shaped(shape, size, 3).unwrap();
            assert_eq!(graph.tasks().len(), size);
            let model = ParallelModel::new("test", &graph, &platform(), &Vector::new(PROFILE_A[0])).unwrap();
            let found = evolve(&model, &settings, &[], &Budget::effort(None, 1));
            assert_eq!(found, evolve(&model, &settings, &[], &Budget::effort(None, 1)));
            assert!(found.makespan <= makespan(&model, &ect(&model)));
            assert_eq!(found.makespan, makespan(&model, &found.plan));
        }
    }
}

#[test]
fn profiles_stay_in_range_and_change_by_delta() {
    for delta in [0.05, 0.4] {
        let profile = profile(200, delta, 9);
        assert_eq!(profile.len(), 201);
        for pair in profile.windows(2) {
            let [alpha, beta, gamma, mu] = pair[1].values();
            assert!((1000.0..=5000.0).contains(&alpha) && (5.0..=25.0).contains(&beta));
            assert!((100.0..=500.0).contains(&gamma) && (20.0..=100.0).contains(&mu));
            let change = (alpha / pair[0].alpha - 1.0).abs();
            assert!(change <= 1.5 * delta + 1e-9, "{change}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any byte sequence is parsed or rejected.
    #[test]
    fn any_table_is_parsed_or_rejected(at in 0_usize..400, byte in 32_u8..127, until in 0_usize..2000) {
        let genetic = Settings { runs: 1, generations: 0, population: 2, ..Settings::default() };
        let settings = Build { samples: 1, genetic, ..quick() };
        let mut text = write(&build(&two_regions(), &platform(), &settings, 1, &|_| {}).unwrap()).into_bytes();
        let place = at % text.len();
        text[place] = byte;
        text.truncate(until.max(place + 1));
        if let Ok(table) = read(&String::from_utf8(text).unwrap()) {
            table.lookup(&Vector::new(PROFILE_A[0]));
            let _ = with_table(&ten_node(), &platform(), &table, &[Vector::new(PROFILE_A[0])], 1000.0, Stored::Table);
        }
    }

    /// Schedules of random plans are feasible, and as long as the fast evaluation computes.
    #[test]
    fn schedules_of_plans_are_feasible(shape in 0_usize..4, size in 1_usize..40, seed in 0_u64..1000) {
        let shape = [Shape::Random, Shape::InTree, Shape::OutTree, Shape::ForkJoin][shape];
        let (graph, platform) = (shaped(shape, size, seed).unwrap(), platform());
        let model = ParallelModel::new("test", &graph, &platform, &Vector::new(PROFILE_B[3])).unwrap();
        let settings = Settings { runs: 1, generations: 0, population: 2, seeded: false, ..Settings::default() };
        let plan = evolve(&model, &settings, &[], &Budget::effort(None, seed)).plan;
        let schedule = schedule(&model, &plan);
        prop_assert_eq!(schedule.makespan(), makespan(&model, &plan));
        let costs = Costs(&model, &graph, &platform);
        prop_assert_eq!(schedule.violations(&graph, &platform, &costs), vec![]);
        let Mapping::Parallel(allotments) = plan.mapping(&model) else { panic!("parallel") };
        prop_assert_eq!(Plan::new(&model, &allotments, |task| task.to_string()).unwrap(), plan);
    }
}

/// Times and messages in the interface of the checker.
struct Costs<'a>(&'a ParallelModel, &'a Graph, &'a taskgraph::Platform);

impl Costs<'_> {
    fn kind(&self, pes: &[usize]) -> usize {
        self.0.kinds().iter().position(|(kind, _)| *kind == self.2.pes()[pes[0]].kind).unwrap()
    }
}

impl taskgraph::CostModel for Costs<'_> {
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64> {
        let alike = pes.iter().all(|pe| self.2.pes()[*pe].kind == self.2.pes()[pes[0]].kind);
        alike.then(|| self.0.time(task, self.kind(pes), pes.len())).filter(|time| time.is_finite())
    }

    fn delay(&self, edge: usize, from: &[usize], to: &[usize]) -> f64 {
        assert!(edge < self.1.edges().len());
        self.0.message(edge, self.kind(from), self.kind(to))
    }
}
