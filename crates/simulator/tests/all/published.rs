//! The optimistic simulation reproduces numbers published by the authors of the APO paper, digit for digit.

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
