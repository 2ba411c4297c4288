//! The optimistic simulation reproduces numbers published by the authors of the APO paper, digit for digit.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::{
    AnnoyanceScale, Collector, CounterSeries, GroupProfile, LoadScale, Roster, RosterApplication,
    RunningActor, Sample, WindowChoice, Windows,
};
use simulator::config::{Config, Paradigm};
use simulator::mean::mean;
use simulator::simulation::Simulation;
use simulator::trace::{Kind, Trace};

/// The units of scenarios A and B and of the chain.
const UNITS: &str = "
units: [{kind: cpu, count: 2, speed: 1.0}, {kind: fpga, count: 1, speed: 1.0}, {kind: gpu, count: 1, speed: 1.0}]
taskMilliseconds: 0.040
undoMilliseconds: 0.100
communicationMilliseconds: 0.020
exchangeFactors: {cpu: {cpu: 1, fpga: 3, gpu: 3}, fpga: {fpga: 1, gpu: 5}, gpu: {gpu: 1}}
sameUnitFactor: 0.5
windowMilliseconds: 500
replanEveryWindows: 5
start: round-robin
";

fn first_windows(kind: Kind, start: &[usize], windows: usize) -> Vec<f64> {
    let (_, platform) = Config::parse(UNITS).unwrap();
    let trace = Trace::collect(kind.rows().unwrap()).unwrap();
    let mut simulation = Simulation::new(Paradigm::Optimistic, &platform, &trace, start);
    (0..windows).map(|_| simulation.window().unwrap().unwrap().throughput()).collect()
}

#[test]
fn best_static_assignments_match_published_throughput() {
    // Long enough for four windows; longer traces give the same values.
    let (actors, end) = (8, 24_000);
    let cases = [
        (Kind::Ring { actors, end }, [0, 2, 2, 1, 1, 3, 3, 0], 4, 82.24),
        (Kind::Chain { actors, end }, [0, 2, 2, 1, 1, 3, 3, 0], 4, 88.884),
        (Kind::NonConnected { actors, end }, [0, 1, 2, 3, 0, 1, 2, 3], 4, 79.996),
    ];
    for (kind, start, windows, expected) in cases {
        assert_eq!(mean(&first_windows(kind, &start, windows)), Some(expected), "{kind:?}");
    }
}

#[test]
fn round_robin_on_the_ring_matches_published_throughput() {
    let windows = first_windows(Kind::Ring { actors: 8, end: 24_000 }, &[0, 1, 2, 3, 0, 1, 2, 3], 4);
    // 0.839 of the best in the last windows of the authors' run.
    assert_eq!(windows, [69.004, 68.982, 69.018, 68.986]);
    assert!((mean(&windows).unwrap() / 82.24 - 0.839).abs() < 0.0005);
}

/// The counters of a window of the run above, reported as actors do, give its messages and the annoyance of section III-C.
#[test]
fn counters_of_the_ring_give_its_messages_and_annoyance() {
    let (_, platform) = Config::parse(UNITS).unwrap();
    let trace = Trace::collect(Kind::Ring { actors: 8, end: 24_000 }.rows().unwrap()).unwrap();
    let mut simulation = Simulation::new(Paradigm::Optimistic, &platform, &trace, &[0, 1, 2, 3, 0, 1, 2, 3]);
    let counted = simulation.window().unwrap().unwrap();

    let names: Vec<String> = (0..8).map(|at| format!("a-{at}")).collect();
    let peers: Vec<String> = names.iter().map(|name| format!("n/ring/{name}")).collect();
    let pairs = || (0..8).flat_map(|actor| (0..8).map(move |peer| (actor, peer))).filter(|(a, b)| a != b);
    let running = |name: &String| RunningActor {
        name: name.clone(),
        group: "a".to_owned(),
        pod: name.clone(),
        kind: "cpu".to_owned(),
        speed: 1.0,
        service_microseconds: 40.0,
    };
    let (namespace, name) = ("n".to_owned(), "ring".to_owned());
    let application = RosterApplication { namespace, name, actors: names.iter().map(running).collect() };
    let mut collector = Collector::new(Arc::new(Roster::new(vec![application])));
    let mut add = |series, value: &dyn Fn(usize, usize) -> f64| {
        let sample = |(actor, peer): (usize, usize)| Sample {
            namespace: "n",
            pod: &names[actor],
            actor: &names[actor],
            peer: &peers[peer],
            value: value(actor, peer),
        };
        collector.add(series, pairs().map(sample).filter(|sample| sample.value > 0.0));
    };
    // A message is counted by its sender, and a rollback by the delayed actor.
    add(CounterSeries::Messages, &|actor, peer| f64::from(counted.messages.get(peer, actor)));
    add(CounterSeries::Rollbacks, &|actor, peer| f64::from(counted.late.get(actor, peer)));

    let scale = LoadScale { window_seconds: 0.5, message_quantum: 1.0, annoyance: AnnoyanceScale::default() };
    let mut windows = Windows::new(scale);
    windows.add(0.5, &collector.finish().windows[0], true);
    let profile =
        GroupProfile { actors: names.clone(), receivers: vec!["a".to_owned()], kinds: BTreeMap::new() };
    let measured = windows.measure(&BTreeMap::from([("a".to_owned(), profile)]), WindowChoice::All);

    let of_pairs = |value: &dyn Fn(usize, usize) -> u64| -> BTreeMap<(String, String), u64> {
        let all = pairs().map(|(a, b)| ((names[a].clone(), names[b].clone()), value(a, b)));
        all.filter(|(_, value)| *value > 0).collect()
    };
    let messages = of_pairs(&|actor, peer| u64::from(counted.messages.get(peer, actor)));
    assert_eq!(messages.len(), 8, "each actor sends to the next one");
    assert_eq!(measured.pairs, messages);
    // Table II: a task and a rollback take 100 µs. No actor waits, so nothing else counts.
    let rollbacks = of_pairs(&|actor, peer| u64::from(counted.late.get(actor, peer)));
    assert_eq!(measured.annoyance, rollbacks);
}
