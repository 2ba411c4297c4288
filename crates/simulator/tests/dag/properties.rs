//! Properties of every run.

use std::fmt::Write as _;

use proptest::prelude::*;
use simulator::dag::{Arrival, Record, RuntimeSetting};
use taskgraph::online::SCHEDULERS;
use taskgraph::{CostModel, Graph, Group, Kind, Platform, Schedule, Slot, Streaming, files, overlaps};

use crate::Scenario;

/// A graph of `tasks` tasks (CPU estimate, FFT estimate or 0, actual) with edges from lower to higher numbers.
fn graph(tasks: &[(u32, u32, u32)], edges: &[(usize, usize)], streaming: Streaming) -> Graph {
    let mut text =
        format!("version: 1\nmodel: measured\nname: g\nframes: 3\nstreaming: {streaming}\ntasks:\n");
    for (number, (cpu, fft, actual)) in tasks.iter().enumerate() {
        let fft = if *fft > 0 { format!(", fft: {{expected: {fft}}}") } else { String::new() };
        writeln!(text, "- {{id: t{number:02}, on: {{cpu: {{expected: {cpu}, actual: {actual}}}{fft}}}}}")
            .expect("text can be written to");
    }
    text += "edges:\n";
    let mut ends: Vec<(usize, usize)> = edges
        .iter()
        .map(|(a, b)| (a % tasks.len(), b % tasks.len()))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    ends.sort_unstable();
    ends.dedup();
    for (from, to) in &ends {
        writeln!(text, "- {{from: t{from:02}, to: t{to:02}}}").expect("text can be written to");
    }
    if ends.is_empty() {
        text = text.replace("edges:\n", "");
    }
    files::graph::read(&text).expect("a sound graph")
}

fn any_graph() -> impl Strategy<Value = Graph> {
    let tasks = proptest::collection::vec((0..20_u32, prop_oneof![Just(0), 1..10_u32], 0..20_u32), 1..9);
    let edges = proptest::collection::vec((0..9_usize, 0..9_usize), 0..14);
    let streaming = prop_oneof![3 => Just(Streaming::None), 1 => Just(Streaming::Single), 1 => Just(Streaming::Double), 1 => Just(Streaming::Sequential)];
    (tasks, edges, streaming).prop_map(|(tasks, edges, streaming)| graph(&tasks, &edges, streaming))
}

fn any_platform() -> impl Strategy<Value = Platform> {
    let costs = prop_oneof![
        Just("free"),
        Just("zcu102"),
        Just("{assign: 700, look: 30, compare: 11, dispatch: 900, hostCores: shared}"),
        Just("{look: 5, dispatch: 50, hostCores: own}")
    ];
    (1..4_usize, 0..3_usize, costs).prop_map(|(cores, ffts, costs)| {
        let mut platform =
            Platform::new(&[Group::new(Kind::Cpu, cores), Group::new(Kind::Fft, ffts)]).expect("cores");
        let named =
            files::platform::read(&format!("{{pes: [{{kind: cpu}}], costs: {costs}}}")).expect("sound costs");
        platform.costs = named.costs;
        platform
    })
}

/// Actual times, without communication.
struct Times<'a>(&'a Scenario);

impl CostModel for Times<'_> {
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64> {
        let taskgraph::Cost::Measured(on) = &self.0.graphs[0].tasks()[task].cost else { return None };
        let one = on.get(&self.0.platform.pes()[pes[0]].kind)?;
        u32::try_from(one.actual_ns()).ok().map(f64::from)
    }

    fn delay(&self, _: usize, _: &[usize], _: &[usize]) -> f64 {
        0.0
    }
}

fn slot(record: &Record) -> Slot {
    let time = |ns: u64| f64::from(u32::try_from(ns).expect("short runs"));
    Slot { task: record.task, pes: vec![record.pe], start: time(record.start), end: time(record.end) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn every_run_is_feasible_and_its_measurements_add_up(
        graph in any_graph(), platform in any_platform(), gaps in proptest::collection::vec(0..30_000_u64, 1..6),
        name in proptest::sample::select(&SCHEDULERS[..]), cache in any::<bool>(), queueing in any::<bool>(),
    ) {
        let mut at = 0;
        let arrivals: Vec<Arrival> = gaps.iter().map(|gap| { at += gap; Arrival { at, application: 0 } }).collect();
        let scenario = Scenario::of(platform, vec![graph]);
        let setting = RuntimeSetting { cache, queueing, ..RuntimeSetting::default() };
        let (measures, records) = scenario.run(name, &arrivals, &setting);
        let graph = &scenario.graphs[0];
        let frames = if graph.streaming() == Streaming::None { 1 } else { graph.frames() };
        prop_assert_eq!(measures.applications, arrivals.len() as u64);
        prop_assert_eq!(measures.tasks, arrivals.len() as u64 * u64::from(frames) * graph.tasks().len() as u64);
        // Each frame of each instance is a feasible schedule, and tasks on a processing element do not overlap.
        for (instance, arrival) in arrivals.iter().enumerate() {
            for frame in 0..frames {
                let mine = records.iter().filter(|record| record.instance == instance && record.frame == frame);
                let schedule = Schedule { slots: mine.map(slot).collect() };
                prop_assert_eq!(schedule.violations(graph, &scenario.platform, &Times(&scenario)), vec![]);
            }
            prop_assert!(records.iter().filter(|r| r.instance == instance).all(|r| r.ready >= arrival.at && r.start >= r.ready));
        }
        let slots: Vec<Slot> = records.iter().map(slot).collect();
        prop_assert_eq!(overlaps(&slots, scenario.platform.pes().len()), vec![]);
        prop_assert_eq!(measures.cumulative_ns, records.iter().map(|record| record.end - record.start).sum::<u64>());
        prop_assert_eq!(measures.cumulative_ns, measures.busy_ns.values().sum::<u64>());
        // A repeated run is identical.
        prop_assert_eq!(scenario.run(name, &arrivals, &setting), (measures, records));
    }
}
