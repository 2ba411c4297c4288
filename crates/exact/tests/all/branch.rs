//! Branch and bound on published instances, and on snapshots that it does not support.

use exact::branch::{ProofStatus, WorkLimits, solve};
use placement::file::{Actor, Constraint, Levels, SnapshotFile};
use placement::{Assignment, Budget, Snapshot, Strategy};
use search::Greedy;

fn published(name: &str) -> SnapshotFile {
    testkit::published(name).file().clone()
}

/// The status, and the vector of the best assignment found.
fn outcome(file: SnapshotFile, work: u64, stop: &dyn Fn() -> bool) -> String {
    let snapshot = Snapshot::new(file).unwrap();
    let start = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
    let mut best: Option<Assignment> = None;
    let solved = solve(&snapshot, &start, &WorkLimits { work, stop }, &mut |better| {
        best = Some(better);
        true
    });
    let vector = best.map(|best| snapshot.cost(&best).vector(&snapshot));
    format!("{:?} {vector:?}", solved.map(|solved| solved.status))
}

fn ordered(mut file: SnapshotFile, levels: &str) -> SnapshotFile {
    file.objectives = levels.parse::<Levels>().unwrap();
    file
}

const NEVER: &dyn Fn() -> bool = &|| false;

#[test]
fn published_instances_are_solved_to_optimality() {
    for (name, optimum) in [
        ("P-8x4-s1", "[0, 0, 3884, 77]"),
        ("P-16x5-s1", "[0, 0, 6537, 82]"),
        ("P-24x6-s1", "[0, 0, 8014, 160]"),
    ] {
        assert_eq!(
            outcome(published(name), u64::MAX, NEVER),
            format!("Some(Proven) Some({optimum})"),
            "{name}"
        );
    }
}

/// Levels that together exceed 64 bits, without division by common factors.
#[test]
fn levels_above_64_bits_take_as_much_work() {
    let small = work_of(published("P-16x5-s1"), "[0, 0, 6537, 82]");
    for (messages, drags, optimum) in [
        (1 << 20, 1 << 20, "[0, 0, 6854541312, 85983232]"),
        (1 << 32, 1 << 40, "[0, 0, 28076201213952, 90159953477632]"),
    ] {
        let mut file = published("P-16x5-s1");
        file.messages.iter_mut().for_each(|message| message.count *= messages);
        file.annoyance.iter_mut().for_each(|pair| pair.drag *= drags);
        let large = work_of(file, optimum);
        assert!(large < 2 * small, "{large} and {small}");
    }
}

/// The work of a proof of this optimum.
fn work_of(file: SnapshotFile, optimum: &str) -> u64 {
    let snapshot = Snapshot::new(file).unwrap();
    let start = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
    let mut best = start.clone();
    let solved = solve(&snapshot, &start, &WorkLimits { work: u64::MAX, stop: NEVER }, &mut |better| {
        best = better;
        true
    });
    let solved = solved.unwrap();
    assert_eq!(solved.status, ProofStatus::Proven);
    assert_eq!(format!("{:?}", snapshot.cost(&best).vector(&snapshot)), optimum);
    solved.work
}

#[test]
fn a_search_ends_at_its_limits() {
    assert_eq!(outcome(published("P-24x6-s1"), 10, NEVER), format!("Some({:?}) None", ProofStatus::Open));
    assert_eq!(outcome(published("P-24x6-s1"), u64::MAX, &|| true), "Some(Stopped) None");
}

#[test]
fn unsupported_snapshots_are_rejected() {
    let small = || published("P-8x4-s1");
    let mut capped = small();
    capped.constraints.push(Constraint::PowerCap {
        on: placement::file::CapScope::All,
        max: 1000,
        reason: None,
    });
    let mut full = small();
    full.units.iter_mut().for_each(|unit| unit.capacity = 1);
    let mut crowded = small();
    for number in 0..60 {
        let id = format!("bench/app/more-{number}");
        crowded.actors.push(Actor { id, ..crowded.actors[0].clone() });
    }
    for (what, file) in [
        ("a criterion of the whole", ordered(small(), "overload,bottleneck")),
        ("overload after something else", ordered(small(), "communication,overload")),
        ("a cap on power", capped),
        ("more work than room", full),
        ("too many actors", crowded),
    ] {
        assert_eq!(outcome(file, u64::MAX, NEVER), "None None", "{what}");
    }
}

#[test]
fn nothing_is_proven_with_unplaced_actors() {
    let mut file = published("P-8x4-s1");
    // Enough capacity in total, but on the wrong kinds.
    file.units.iter_mut().filter(|unit| unit.kind == "cpu").for_each(|unit| unit.capacity = 1);
    file.units.iter_mut().filter(|unit| unit.kind != "cpu").for_each(|unit| unit.capacity = 10_000);
    assert_eq!(outcome(file, u64::MAX, NEVER), "Some(Open) None");
}
