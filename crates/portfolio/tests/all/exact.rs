//! Compared with exhaustive search.

use std::collections::BTreeMap;

use exact::Exhaustive;
use placement::file::{Constraint, Levels, SnapshotFile};
use placement::{Assignment, Budget, Cost, Criterion, FoundBy, NoPolicy, ProvenBy, Snapshot, Strategy, plan};
use portfolio::{Clingo, Limits};
use proptest::prelude::*;
use search::{Greedy, Local, Random, RoundRobin};

use testkit::{ExceededLimits, line, oracle};

use crate::asp;

/// Number of random snapshots; `CAIRN_EXACT_WORLDS` sets another number, as in `make bench`.
const WORLDS: u64 = 300;

/// The least number, of a thousand snapshots, in which each feature must be decisive.
const DECIDED: u64 = 20;

/// Plans, and compares the plan with all assignments; returns the optimum.
fn check(file: &SnapshotFile) -> Assignment {
    let snapshot = Snapshot::new(file.clone()).unwrap();
    let plan = plan(&snapshot, &asp(), &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let best = optimum(&snapshot);
    assert_eq!(plan.cost.vector(&snapshot), vector(&snapshot, &best), "in {}", snapshot.write());
    assert!(oracle::feasible(file, &oracle::plain(&plan.assignment)), "in {}", snapshot.write());
    assert_eq!(
        plan.cost.vector(&snapshot),
        oracle::vector(file, &oracle::plain(&plan.assignment)),
        "in {}",
        snapshot.write()
    );
    assert!(plan.optimal, "in {}", snapshot.write());
    best
}

/// The best of all assignments.
fn optimum(snapshot: &Snapshot) -> Assignment {
    let answer = Exhaustive.solve(snapshot, &Budget::effort(None, 0)).unwrap();
    assert!(answer.optimal);
    answer.assignment
}

fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) }.vector(snapshot)
}

/// clingo alone, on the shipped programs.
#[test]
fn clingo_alone_finds_and_proves_the_optimum() {
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    let mut found_by_clingo = 0;
    for seed in 0..40 {
        let snapshot = Snapshot::new(testkit::world(seed)).unwrap();
        let plan = plan(&snapshot, &clingo, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        let best = optimum(&snapshot);
        assert_eq!(plan.cost.vector(&snapshot), vector(&snapshot, &best), "in {}", snapshot.write());
        assert_eq!((plan.optimal, plan.proven_by), (true, Some(ProvenBy::Clingo)), "in {}", snapshot.write());
        assert!([FoundBy::Clingo, FoundBy::Incumbent, FoundBy::Construction].contains(&plan.found_by));
        found_by_clingo += u32::from(plan.found_by == FoundBy::Clingo);
    }
    assert!(found_by_clingo > 20, "{found_by_clingo}");
}

/// However early it is interrupted, clingo is no worse than the incumbent, and can prove it optimal.
#[test]
fn clingo_starts_from_the_incumbent() {
    let mut kept = 0;
    for seed in 0..30 {
        let mut file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let best = optimum(&snapshot);
        for (actor, place) in file.actors.iter_mut().zip(&best) {
            actor.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
        }
        let running = Snapshot::new(file).unwrap();
        let incumbent = running.incumbent();
        if !running.violations(&incumbent).is_empty() {
            continue;
        }
        for conflicts in [1, 1000] {
            let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default())
                .with_conflicts(conflicts);
            let answer = clingo.solve(&running, &Budget::effort(Some(1000), 1)).unwrap();
            let (found, now) = (vector(&running, &answer.assignment), vector(&running, &incumbent));
            assert!(found <= now, "{found:?} after {now:?} in {}", running.write());
            kept += u32::from(answer.found_by == FoundBy::Incumbent);
        }
    }
    assert!(kept > 20, "{kept}");
}

/// Where a proof is out of reach, the first model is the incumbent, and the last one is better.
#[test]
fn clingo_improves_the_incumbent_of_a_large_snapshot() {
    let mut file = testkit::several("P-24x6-s1", 2).file().clone();
    let snapshot = Snapshot::new(file.clone()).unwrap();
    let runs = search::Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
    for (actor, place) in file.actors.iter_mut().zip(&runs) {
        actor.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
    }
    let running = Snapshot::new(file).unwrap();
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    let (answer, said) = crate::logged(|| {
        clingo.with_conflicts(3000).solve(&running, &Budget::effort(Some(1000), 1)).unwrap()
    });
    let now = vector(&running, &running.incumbent());
    assert!(vector(&running, &answer.assignment) < now);
    let first = said.lines().find(|line| line.contains(" model vector=")).unwrap();
    assert!(first.contains(&format!("{now:?}")), "{first} from {now:?}");
}

/// Level by level, clingo's bounds do not exceed the optimum, where the levels above are optimal.
#[test]
fn clingos_bounds_do_not_exceed_the_optimum() {
    let (mut open, mut bounded, mut tight) = (0, 0, 0);
    for seed in 0..60 {
        let snapshot = Snapshot::new(testkit::world(seed)).unwrap();
        let best = vector(&snapshot, &optimum(&snapshot));
        for conflicts in [1, 10, 100] {
            let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default())
                .with_conflicts(conflicts);
            let ask = || clingo.solve(&snapshot, &Budget::effort(Some(1000), 1)).unwrap();
            let (answer, again) = (ask(), ask());
            assert_eq!(
                (&answer.bound, answer.optimal),
                (&again.bound, again.optimal),
                "{}",
                snapshot.write()
            );
            let levels = snapshot.objectives().levels().iter().zip(&best[1..]);
            let known = levels.map_while(|(level, best)| {
                answer.bound.get(&placement::Objectives::key(level)).map(|bound| (*bound, *best))
            });
            let known: Vec<(i64, i64)> = known.collect();
            let first_less = known.iter().find(|(bound, best)| bound != best);
            assert!(first_less.is_none_or(|(bound, best)| bound < best), "{known:?} in {}", snapshot.write());
            if answer.optimal {
                assert_eq!(vector(&snapshot, &answer.assignment), best, "in {}", snapshot.write());
                tight += 1;
            } else {
                open += 1;
                bounded += usize::from(!known.is_empty());
            }
        }
    }
    assert!(
        open > 20 && bounded > 10 && tight > 20,
        "{open} open, {bounded} of them with bounds, {tight} proven"
    );
}

/// Whether a constraint is of some type.
type Is = fn(&Constraint) -> bool;

/// Variants of a snapshot, each without one feature.
fn without(file: &SnapshotFile) -> Vec<(String, SnapshotFile)> {
    let mut parts: Vec<(String, SnapshotFile)> = Vec::new();
    let mut part = |name: &str, change: &dyn Fn(&mut SnapshotFile)| {
        let mut changed = file.clone();
        change(&mut changed);
        if changed != *file {
            parts.push((name.to_owned(), changed));
        }
    };
    // Preferences are covered by the criterion `policy`.
    let kinds: [(&str, Is); 9] = [
        ("apart", |c| matches!(c, Constraint::Apart { .. })),
        ("together", |c| matches!(c, Constraint::Together { .. })),
        ("pin", |c| matches!(c, Constraint::Pin { .. })),
        ("only", |c| matches!(c, Constraint::Only { .. })),
        ("never", |c| matches!(c, Constraint::Never { except_current: false, .. })),
        ("never, except current", |c| matches!(c, Constraint::Never { except_current: true, .. })),
        ("reserve", |c| matches!(c, Constraint::Reserve { .. })),
        ("quota", |c| matches!(c, Constraint::Quota { .. })),
        ("powerCap", |c| matches!(c, Constraint::PowerCap { .. })),
    ];
    for (name, is) in kinds {
        part(name, &|file| file.constraints.retain(|constraint| !is(constraint)));
    }
    part("slots", &|file| file.units.iter_mut().for_each(|unit| unit.slots = None));
    part("unit resources", &|file| {
        for unit in &mut file.units {
            unit.provides = BTreeMap::from([("memory".into(), 1000)]);
        }
    });
    part("node resources", &|file| {
        for node in &mut file.nodes {
            node.provides = BTreeMap::from([("cores".into(), 1000), ("pods".into(), 1000)]);
        }
    });
    part("fixed actors", &|file| file.actors.iter_mut().for_each(|actor| actor.fixed = false));
    part("prices of pairs of units", &|file| file.exchange_cost.pairs.clear());
    part("zones", &|file| file.units.iter_mut().for_each(|unit| unit.zone = Some("zone".into())));
    part("domains", &|file| file.units.iter_mut().for_each(|unit| unit.numa = Some("numa".into())));
    part("capacities", &|file| file.units.iter_mut().for_each(|unit| unit.capacity = 1000));
    parts
}

/// The criteria without which another assignment would be optimal.
fn deciding(snapshot: &Snapshot, best: &Assignment) -> Vec<String> {
    let levels = snapshot.objectives().levels();
    let named = levels.iter().flatten().filter(|criterion| {
        let mut file = snapshot.file().clone();
        let rest =
            levels.iter().map(|level| level.iter().copied().filter(|c| c != *criterion).collect::<Vec<_>>());
        file.objectives = Levels::InOrder(rest.filter(|level| !level.is_empty()).collect());
        // Preferences would restore their level.
        file.constraints
            .retain(|c| !matches!(c, Constraint::Prefer { .. }) || criterion.to_string() != "policy");
        let less = Snapshot::new(file).unwrap();
        vector(&less, &optimum(&less)) != vector(&less, best)
    });
    named.map(|criterion| format!("criterion {criterion}")).collect()
}

/// Random snapshots of up to 7 actors and 4 units with all features of snapshots. For each feature it counts where it is
/// decisive: without it the optimum would be another.
#[test]
fn random_snapshots_are_solved_to_the_optimum_of_all_assignments() {
    let worlds: u64 = std::env::var("CAIRN_EXACT_WORLDS").map_or(WORLDS, |number| number.parse().unwrap());
    let mut decided: BTreeMap<String, u64> = BTreeMap::new();
    let mut with = |what: &str, is_so: bool| *decided.entry(what.to_owned()).or_default() += u64::from(is_so);
    for seed in 0..worlds {
        let file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let best = check(&file);
        let overloads = oracle::overloads(&file, &oracle::plain(&best));
        with("· unplaced actors", best.iter().any(Option::is_none));
        with("· overload", overloads.iter().any(|o| *o > 0));
        with("· no overload", overloads.iter().all(|o| *o == 0));
        with("· overload in every assignment", overloads.len() > 1 && overloads.iter().all(|o| *o > 0));
        with("· adaptive levels", file.objectives == Levels::Adaptive);
        if file.actors.len() > 5 {
            // Each variant costs as much as the original; larger snapshots are only compared above.
            continue;
        }
        for (name, less) in without(&file) {
            // Some features cannot be left out: a node may have kept two pins apart.
            let changed = Snapshot::new(less)
                .is_ok_and(|less| vector(&less, &optimum(&less)) != vector(&snapshot, &best));
            with(&name, changed);
        }
        for criterion in deciding(&snapshot, &best) {
            with(&criterion, true);
        }
    }
    // Rare criteria are searched for in further snapshots, whose levels name them.
    let enough = if worlds < 1000 { 1 } else { worlds * DECIDED / 1000 };
    for criterion in Criterion::named() {
        decided.entry(format!("criterion {criterion}")).or_default();
    }
    for seed in worlds..worlds * 5 {
        let rare = decided.iter().filter(|(what, count)| what.starts_with("criterion") && **count < enough);
        let rare: Vec<&str> = rare.filter_map(|(what, _)| what.split(' ').nth(1)).collect();
        if rare.is_empty() {
            break;
        }
        let file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let levels = snapshot.objectives().to_string();
        if file.actors.len() <= 5 && rare.iter().any(|name| levels.contains(name)) {
            let best = check(&file);
            for criterion in deciding(&snapshot, &best) {
                *decided.entry(criterion).or_default() += 1;
            }
        }
    }
    let table: Vec<String> = decided.iter().map(|(what, worlds)| format!("| {what} | {worlds} |")).collect();
    println!(
        "| feature of {worlds} instances: present (·) or decisive | instances |\n|---|---|\n{}",
        table.join("\n")
    );
    for (what, count) in decided {
        assert!(count >= enough, "{what} decides only {count} of {worlds} instances");
    }
}

/// A literal counted on one level and its complement on another: clasp 3.3.9 enumerated models endlessly without
/// improvement.
#[test]
fn complementary_literals_on_two_levels_terminate() {
    check(Snapshot::read(include_str!("complementary.json")).unwrap().file());
}

proptest! {
    #![proptest_config(crate::seeds(40))]
    #[test]
    fn any_snapshot_is_solved_to_the_optimum_of_all_assignments(seed: u64) {
        check(&testkit::world(seed));
    }

    #[test]
    fn checker_and_cost_agree_with_the_definitions_everywhere(seed: u64) {
        let file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let passed = ExceededLimits::now(&file);
        let mut visits = 0;
        oracle::every(&file, &mut |places| {
            visits += 1;
            if visits % 7 == 0 || visits < 50 {
                let assignment = line::places(places.iter().copied());
                let policy = snapshot.penalty(&assignment);
                let cost = Cost { policy, ..snapshot.cost(&assignment) };
                let is_feasible = oracle::feasible_beside(&file, passed.as_ref(), places);
                assert_eq!(snapshot.violations(&assignment).is_empty(), is_feasible, "{places:?}");
                // Grandfathering is defined where nothing else is violated.
                if is_feasible || passed.is_none() {
                    let vector = oracle::vector_beside(&file, passed.as_ref(), places);
                    assert_eq!(cost.vector(&snapshot), vector, "{places:?}");
                }
            }
        });
    }

    #[test]
    fn the_fast_strategies_are_feasible(seed: u64) {
        let file = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        for strategy in [&Greedy as &dyn Strategy, &Local, &RoundRobin, &Random] {
            let answer = strategy.solve(&snapshot, &Budget::effort(None, seed)).unwrap();
            assert!(oracle::feasible(&file, &oracle::plain(&answer.assignment)), "{}", strategy.name());
        }
    }
}
