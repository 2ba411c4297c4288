//! Properties of simulations for any trace, platform and migrations.

use proptest::prelude::*;
use simulator::config::{Config, Paradigm};
use simulator::platform::Platform;
use simulator::simulation::{Optimistic, Simulation, Windowed};
use simulator::trace::{Row, Trace};

const PARADIGMS: [Paradigm; 3] = [Paradigm::Optimistic, Paradigm::Conservative, Paradigm::ForkJoin];

fn platform(speed: f64, migration: f64) -> Platform {
    let text = format!(
        "units: [{{kind: cpu, count: 2, speed: 1}}, {{kind: gpu, count: 1, speed: {speed}}}]
taskMilliseconds: 0.04
undoMilliseconds: 0.1
communicationMilliseconds: 0.02
exchangeFactors: {{cpu: {{cpu: 1, gpu: 3}}, gpu: {{gpu: 1}}}}
sameUnitFactor: 0.5
windowMilliseconds: 2
replanEveryWindows: 1
migrationMilliseconds: {migration}
gvt: inFlight
"
    );
    Config::parse(&text).unwrap().1
}

/// Actors with tasks of their own at every whole time, and random messages to others.
fn trace(actors: u32, sends: &[(u32, u32, u32, u8)]) -> Trace {
    const END: u32 = 120;
    let mut rows = Vec::new();
    for time in 1..END {
        for from in 0..actors {
            let at = f64::from(time);
            rows.push(Row { at, from, time: at + 1.0, to: from });
            for (when, sender, to, ahead) in sends {
                if when % END == time && sender % actors == from {
                    let ahead = f64::from(*ahead % 30 + 1) / 10.0;
                    rows.push(Row { at, from, time: at + ahead, to: to % actors });
                }
            }
        }
    }
    Trace::collect(rows).unwrap()
}

fn sends() -> impl Strategy<Value = Vec<(u32, u32, u32, u8)>> {
    proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<u8>()), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn gvt_never_decreases_and_committed_tasks_are_never_rolled_back(
        sends in sends(),
        starts in proptest::collection::vec(0usize..3, 4),
        goals in proptest::collection::vec(proptest::collection::vec(0usize..3, 4), 1..12),
        speed in 1u8..9,
        migration in 0u8..3,
    ) {
        let (platform, trace) = (platform(f64::from(speed), f64::from(migration)), trace(4, &sends));
        let mut simulation = Optimistic::new(&platform, &trace, &starts);
        let (mut gvt, mut now, mut goals) = (0.0, 0.0, goals.into_iter().cycle());
        let mut committed = 0;
        while let Some(counted) = simulation.window().unwrap() {
            prop_assert_eq!(counted.undone_committed, 0);
            prop_assert_eq!(counted.committed, counted.committed_by.iter().sum::<u64>());
            committed += counted.committed;
            prop_assert!(simulation.gvt() >= gvt && simulation.now() > now);
            (gvt, now) = (simulation.gvt(), simulation.now());
            if let Some(goal) = goals.next() {
                simulation.reassign(&goal, 0.5);
            }
        }
        // Rows, plus stragglers that ran as tasks of their own.
        prop_assert!(committed <= 2 * trace.rows() as u64);
    }

    #[test]
    fn every_simulation_runs_all_runnable_tasks_deterministically(
        sends in sends(),
        starts in proptest::collection::vec(0usize..3, 4),
        goals in proptest::collection::vec(proptest::collection::vec(0usize..3, 4), 1..6),
    ) {
        let (platform, trace) = (platform(2.0, 1.0), trace(4, &sends));
        for paradigm in PARADIGMS {
            let run = || {
                let mut simulation = Simulation::new(paradigm, &platform, &trace, &starts);
                let mut seen = Vec::new();
                let mut goals = goals.iter().cycle();
                while let Some(counted) = simulation.window().unwrap() {
                    seen.push(counted.clone());
                    simulation.reassign(goals.next().unwrap(), 0.0);
                }
                seen
            };
            let windows = run();
            prop_assert!(!windows.is_empty());
            prop_assert_eq!(&run(), &windows);
            for counted in &windows {
                let arrived: u64 = pairs(|at, from| counted.messages.get(at, from));
                let nulls: u64 = pairs(|at, from| counted.nulls.get(at, from));
                match paradigm {
                    Paradigm::Optimistic => prop_assert_eq!(counted.null_messages, 0),
                    Paradigm::Conservative => prop_assert_eq!(counted.rolled_back, 0),
                    Paradigm::ForkJoin => prop_assert_eq!((counted.rolled_back, nulls), (0, 0)),
                }
                prop_assert!(arrived > 0 || counted.committed == 0);
            }
            // Every message is delivered once: arrivals equal sends, except those in flight at the end.
            let sent: u64 = windows.iter().map(|counted| counted.sent.iter().sum::<u64>() + counted.anti_messages).sum();
            let arrived: u64 = windows.iter().map(|c| pairs(|at, from| c.messages.get(at, from))).sum();
            let last_rows = 12 * 4;
            prop_assert!(arrived <= sent && sent <= arrived + last_rows, "{paradigm:?}: {sent} sent, {arrived} came");
        }
    }
}

fn pairs(count: impl Fn(usize, usize) -> u32) -> u64 {
    (0..4)
        .flat_map(|at| (0..4).map(move |from| (at, from)))
        .map(|(at, from)| u64::from(count(at, from)))
        .sum()
}

#[test]
fn circular_waits_are_reported_as_deadlock() {
    // Each of two actors first needs the other's message of the same time.
    let rows = [(1.0, 0, 1.0, 1), (1.0, 1, 1.0, 0), (2.0, 0, 3.0, 0), (2.0, 1, 3.0, 1)];
    let trace = Trace::collect(rows.map(|(at, from, time, to)| Row { at, from, time, to })).unwrap();
    let platform = platform(1.0, 0.0);
    let mut simulation = Simulation::new(Paradigm::ForkJoin, &platform, &trace, &[0, 1]);
    assert_eq!(
        simulation.window().unwrap_err().to_string(),
        "at 2 ms the simulation is deadlocked: actor 0 waits at logical time 1 for a message from actor 1"
    );
}
