//! The oracle compared with all possible decisions.

use simulator::config::Config;
use simulator::oracle::foresee;
use simulator::planner::SnapshotModel;
use simulator::run::{Case, allowed};
use simulator::simulation;
use simulator::strategies::planner;
use simulator::trace::{Kind, Phold, Trace};

const UNITS: &str = "
units: [{kind: cpu, count: 1, speed: 1}, {kind: gpu, count: 1, speed: 3}]
taskMilliseconds: 0.1
undoMilliseconds: 0.01
communicationMilliseconds: 0.02
exchangeFactors: {cpu: {cpu: 1, gpu: 5}, gpu: {gpu: 1}}
sameUnitFactor: 0.5
windowMilliseconds: 20
replanEveryWindows: 2
migrationMilliseconds: 1
";

/// Mean throughput of the oracle with this many windows, of hill climbing alone, and of some planners in the same simulation.
fn means(actors: u32, windows: u64, seed: u64) -> (f64, bool, Vec<f64>) {
    let (config, platform) = Config::parse(UNITS).unwrap();
    let kind = Kind::Phold(Phold { actors, end: 4_000, probability: 0.3, seed });
    let trace = Trace::collect(kind.rows().unwrap()).unwrap();
    let allowed = allowed(&config, &platform, trace.actors()).unwrap();
    let start = simulation::start(&config.start, &allowed, &platform).unwrap();
    let case = Case {
        config: &config,
        platform: &platform,
        trace: &trace,
        start: &start,
        allowed: &allowed,
        windows: Some(windows),
        compared: false,
    };
    let others = ["none", "local", "metis", "random", "annealing-standard"].map(|name| {
        let mut planner = planner(name, SnapshotModel::default(), Some(50), seed, None).unwrap();
        let report = case.run(planner.as_deref_mut().map(|planner| planner as _), &mut |_| {}).unwrap();
        report.mean.unwrap()
    });
    let oracle = foresee(&case, &[]).unwrap();
    assert_eq!(foresee(&case, &[]).unwrap(), oracle);
    assert_eq!(oracle.report.windows.len() as u64, windows);
    (oracle.report.mean.unwrap(), oracle.exact, others.to_vec())
}

#[test]
fn no_planner_beats_the_exact_oracle() {
    for seed in 1..4 {
        // Eight assignments, three decisions.
        let (oracle, exact, others) = means(3, 8, seed);
        assert!(exact);
        assert!(others.iter().all(|other| *other <= oracle), "{oracle} {others:?}");
    }
}

#[test]
fn an_inexact_oracle_is_marked_and_not_worse_than_staying() {
    let (oracle, exact, others) = means(8, 8, 1);
    assert!(!exact);
    assert!(oracle >= others[0], "{oracle} {others:?}");
}
