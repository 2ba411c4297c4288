//! Branch and bound compared with exhaustive search.

use exact::{Exhaustive, branch};
use placement::file::{Constraint, Levels, SnapshotFile};
use placement::{Budget, Snapshot, Strategy};
use search::Greedy;

/// Number of random snapshots.
const WORLDS: u64 = 5000;

/// The least number of them that branch and bound proves.
const PROVEN: usize = 1900;

/// Levels that branch and bound supports, chosen by seed.
const LEVELS: [&str; 5] = [
    "overload,communication,annoyance",
    "overload,communication+migration,interference",
    "overload,annoyance+interference,policy,communication",
    "communication,migration",
    "overload,policy+communication+annoyance+interference+migration",
];

/// A random snapshot without unsupported constraints.
fn world(seed: u64) -> SnapshotFile {
    let mut file = testkit::world(seed);
    let levels: Levels = LEVELS[usize::try_from(seed).unwrap() % LEVELS.len()].parse().unwrap();
    file.objectives = levels;
    file.constraints.retain(|constraint| {
        !matches!(
            constraint,
            Constraint::PowerCap { .. } | Constraint::Quota { .. } | Constraint::Peers { .. }
        )
    });
    file
}

#[test]
fn proven_assignments_are_optimal() {
    let mut proven = 0;
    for seed in 0..WORLDS {
        let snapshot = Snapshot::new(world(seed)).unwrap();
        let start = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
        let mut best = start.clone();
        let limits = branch::WorkLimits { work: u64::MAX, stop: &|| false };
        let solved = branch::solve(&snapshot, &start, &limits, &mut |better| {
            assert_eq!(snapshot.violations(&better), [], "in {}", snapshot.write());
            assert!(vector(&snapshot, &better) < vector(&snapshot, &best), "in {}", snapshot.write());
            best = better;
            true
        });
        if solved.is_some_and(|solved| solved.status == branch::ProofStatus::Proven) {
            let optimum = Exhaustive.solve(&snapshot, &Budget::effort(None, 0)).unwrap().assignment;
            assert_eq!(vector(&snapshot, &best), vector(&snapshot, &optimum), "in {}", snapshot.write());
            proven += 1;
        }
    }
    assert!(proven >= PROVEN, "{proven} of {WORLDS} worlds were for branch and bound");
}

fn vector(snapshot: &Snapshot, assignment: &placement::Assignment) -> Vec<i64> {
    let cost = placement::Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) };
    cost.vector(snapshot)
}
