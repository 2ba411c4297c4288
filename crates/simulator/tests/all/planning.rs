//! Simulations with a planner.

use simulator::config::Config;
use simulator::planner::{Observed, Planner, PlannerError, Proposal, SnapshotModel};
use simulator::run::{Case, Report, allowed};
use simulator::simulation;
use simulator::strategies::planner;
use simulator::trace::{Hotspot, Kind, Phold, Trace};

const UNITS: &str = "
units: [{kind: cpu, count: 2, speed: 1}, {kind: fpga, count: 1, speed: 2}, {kind: gpu, count: 1, speed: 4}]
taskMilliseconds: 0.1
undoMilliseconds: 0.01
communicationMilliseconds: 0.02
exchangeFactors: {cpu: {cpu: 1, fpga: 10, gpu: 5}, fpga: {fpga: 1, gpu: 20}, gpu: {gpu: 1}}
sameUnitFactor: 0.5
windowMilliseconds: 50
replanEveryWindows: 2
";

fn hotspot() -> Kind {
    Kind::Hotspot(Hotspot {
        actors: 8,
        end: 200.0,
        balanced: 50.0,
        imbalanced: 50.0,
        hot: 0.25,
        rate: 8.0,
        moving: true,
        relayed: false,
        seed: 1,
    })
}

fn run(config: &str, strategy: &str) -> Report {
    run_trace(config, hotspot(), strategy)
}

fn run_trace(config: &str, kind: Kind, strategy: &str) -> Report {
    let mut planner = planner(strategy, SnapshotModel::default(), Some(50), 1, None).unwrap();
    planned_by(config, kind, planner.as_deref_mut().map(|planner| planner as _))
}

fn planned_by(config: &str, kind: Kind, planner: Option<&mut dyn Planner>) -> Report {
    let (config, platform) = Config::parse(config).unwrap();
    let trace = Trace::collect(kind.rows().unwrap()).unwrap();
    let allowed = allowed(&config, &platform, trace.actors()).unwrap();
    let start = simulation::start(&config.start, &allowed, &platform).unwrap();
    let case = Case {
        config: &config,
        platform: &platform,
        trace: &trace,
        start: &start,
        allowed: &allowed,
        windows: None,
        compared: false,
    };
    case.run(planner, &mut |_| {}).unwrap()
}

/// Number of single-window observations, and the sum of the last two.
#[derive(Default)]
struct Shown(Vec<usize>);

impl Planner for Shown {
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError> {
        self.0.push(observed.recent.len());
        let last = &observed.recent[observed.recent.len() - 2..];
        assert_eq!(last.iter().map(|of| of.committed).sum::<u64>(), observed.period.committed);
        Ok(None)
    }
}

#[test]
fn window_counters_are_kept_for_four_plans() {
    let mut shown = Shown::default();
    planned_by(UNITS, hotspot(), Some(&mut shown));
    assert!(shown.0.len() > 6, "{:?}", shown.0);
    assert_eq!(shown.0[..6], [2, 4, 6, 8, 10, 10]);
}

/// `asp` starts the current executable as its solver, which a test program does not support.
const STRATEGIES: [&str; 9] = [
    "local",
    "greedy",
    "round-robin",
    "random",
    "metis",
    "metis-apolike",
    "metis-apolike-published",
    "annealing-next-state",
    "annealing-standard",
];

#[test]
fn equal_seeds_give_equal_runs() {
    for strategy in STRATEGIES {
        let report = run(UNITS, strategy);
        assert_eq!(run(UNITS, strategy), report, "{strategy}");
        assert!(report.windows.len() > 3, "{strategy}");
    }
}

#[test]
fn planning_improves_throughput_on_unequal_units() {
    // With few messages, the work of fast units decides.
    let kind = Kind::Phold(Phold { actors: 8, end: 2000, probability: 0.01, seed: 1 });
    let stays = run_trace(UNITS, kind, "none").mean.unwrap();
    let planned = run_trace(UNITS, kind, "local");
    assert!(planned.mean.unwrap() > 1.1 * stays, "{} over {stays}", planned.mean.unwrap());
    assert!(planned.windows.iter().any(|window| window.moves > 0));
}

#[test]
fn actors_run_only_on_compatible_kinds() {
    let config = format!("{UNITS}actors: [{{actors: [0, 1, 2], runsOn: [cpu, fpga]}}]\n");
    for strategy in STRATEGIES {
        let report = run(&config, strategy);
        assert!(report.assignment[..3].iter().all(|unit| *unit < 3), "{strategy}: {:?}", report.assignment);
    }
}

#[test]
fn planning_works_with_every_synchronization() {
    for world in ["conservative", "forkJoin"] {
        let report = run(&format!("{UNITS}world: {world}\n"), "local");
        assert!(report.mean.unwrap() > 0.0, "{world}");
        assert!(report.windows.iter().all(|window| window.rolled_back == 0), "{world}");
        let nulls: u64 = report.windows.iter().map(|window| window.messages.null).sum();
        assert_eq!(nulls > 0, world == "conservative");
    }
}

#[test]
fn an_unknown_strategy_error_lists_the_valid_names() {
    let error = planner("best", SnapshotModel::default(), None, 1, None).err().unwrap();
    assert!(error.starts_with("unknown strategy best; use one of none, asp, "), "{error}");
}
