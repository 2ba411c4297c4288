//! Baselines give feasible answers, and answers of external programs are verified.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use baselines::bench::{Instance, Run, measure};
use baselines::strategies::{Annealing, External, Metis, MetisApolike, Tabu};
use exact::Exhaustive;
use placement::file::Constraint;
use placement::ix::ActorIx;
use placement::{Assignment, Budget, Cost, NoPolicy, Snapshot, Strategy, plan};
use search::Greedy;

use crate::instance;

fn read(name: &str) -> Instance {
    Instance::read(&instance(name)).unwrap()
}

/// A program that always prints `text`.
fn program(folder: &tempfile::TempDir, text: &str) -> External {
    let file = folder.path().join("baseline");
    std::fs::write(&file, format!("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n{text}\nEND\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    External::new("outside", vec![file.to_str().unwrap().to_owned()], Duration::from_secs(1))
}

fn ask(strategy: &dyn Strategy) -> baselines::bench::Record {
    let instance = read("P-8x4-s1.json");
    measure(&Run {
        instance: &instance,
        strategy,
        budget: Duration::from_mins(1),
        by_processor: false,
        seed: 1,
    })
}

fn all() -> [Box<dyn Strategy>; 7] {
    [
        Box::new(Metis),
        Box::new(MetisApolike::Fair),
        Box::new(MetisApolike::Published),
        Box::new(MetisApolike::Capacities),
        Box::new(MetisApolike::Homogeneous),
        Box::new(Annealing::NEXT_STATE),
        Box::new(Annealing::STANDARD),
    ]
}

/// On snapshots small enough for enumeration: feasible, deterministic by seed, and never better than the optimum.
#[test]
fn baselines_are_feasible_and_never_beat_the_optimum() {
    let mut optima = 0;
    for seed in 0..24 {
        let mut file = testkit::world(seed);
        // No baseline has that constraint.
        file.constraints.retain(|constraint| !matches!(constraint, Constraint::Peers { .. }));
        let Ok(snapshot) = Snapshot::new(file) else { continue };
        let best = Exhaustive.solve(&snapshot, &Budget::effort(None, 0)).unwrap();
        let price =
            |of: &Assignment| Cost { policy: snapshot.penalty(of), ..snapshot.cost(of) }.vector(&snapshot);
        let best = price(&best.assignment);
        for baseline in all() {
            let name = baseline.name();
            let solve = || baseline.solve(&snapshot, &Budget::effort(None, seed)).unwrap().assignment;
            let found = solve();
            assert_eq!(snapshot.violations(&found), [], "{name}, world {seed}");
            assert_eq!(found, solve(), "{name}, world {seed}");
            let vector = price(&found);
            assert!(vector >= best, "{name}, world {seed}: {vector:?} below {best:?}");
            optima += usize::from(vector == best);
        }
    }
    // The baselines are serious: they reach the optimum of such snapshots now and then.
    assert!(optima > 20, "{optima}");
}

#[test]
fn metis_is_feasible_and_deterministic() {
    for name in ["P-8x4-s1.json", "P-16x5-s1.json", "P-64x11-s1.json.gz", "C-64x12-s1.json.gz"] {
        let snapshot = read(name).snapshot;
        let solve = |seed| plan(&snapshot, &Metis, &NoPolicy, &Budget::effort(Some(6), seed)).unwrap();
        let found = solve(1);
        assert_eq!(found, solve(1), "{name}");
        assert_eq!(found.unplaced, [], "{name}");
        let greedy = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        let vectors = [&found, &greedy].map(|plan| plan.cost.vector(&snapshot));
        assert!(vectors[0] < vectors[1], "{name}: {vectors:?}");
    }
}

#[test]
fn metis_accepts_snapshots_without_anything_to_cut() {
    let unit = r#"{"id": "n/cpu-0", "kind": "cpu", "node": "n", "capacity": 5}"#;
    let actor = |name: &str| format!(r#"{{"id": "{name}", "runsOn": {{"cpu": 1}}}}"#);
    let both = [actor("a"), actor("b")].join(", ");
    for (units, actors) in [("", both.as_str()), (unit, ""), (unit, &both), ("", "")] {
        let world = format!(
            r#"{{"version": 1, "units": [{units}], "actors": [{actors}], "exchangeCost": {{"otherKind": 1}}}}"#
        );
        let snapshot = Snapshot::read(&world).unwrap();
        let found = plan(&snapshot, &Metis, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        assert_eq!(found.unplaced.len(), if units.is_empty() { snapshot.actors() } else { 0 }, "{world}");
    }
}

#[test]
fn external_answers_are_evaluated_by_the_checker() {
    let snapshot = read("P-8x4-s1.json").snapshot;
    let found = plan(&snapshot, &Metis, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let place = |actor: ActorIx| {
        let unit = snapshot.unit_id(found.assignment[actor].unwrap());
        format!("\"{}\": \"{unit}\"", snapshot.actor_id(actor))
    };
    let assignments: Vec<String> = ActorIx::first(snapshot.actors()).map(place).collect();
    let folder = tempfile::tempdir().unwrap();
    let record = ask(&program(&folder, &format!("{{\"assignments\": {{{}}}}}", assignments.join(", "))));
    assert_eq!(record.problem, None);
    assert_eq!(record.vector, found.cost.vector(&snapshot));
}

#[test]
fn invalid_external_answers_are_reported_as_problems() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |text: &str| ask(&program(&folder, text)).problem.unwrap();
    assert!(problem("certainly").contains("is not a placement"), "{}", problem("certainly"));
    let nowhere = r#"{"assignments": {"bench/app/a-0": "moon/cpu-0"}}"#;
    assert!(problem(nowhere).contains("moon/cpu-0: unknown actor or unit"), "{}", problem(nowhere));
    let absent = External::new("outside", vec!["/nonexistent/solver".to_owned()], Duration::from_secs(1));
    assert!(ask(&absent).problem.unwrap().contains("does not start"));
}

#[test]
fn tabu_search_requires_exclusive_units_and_solves_small_grids() {
    let world = testkit::grid(2, 5, 1);
    let price = |strategy: &dyn Strategy, effort| {
        let plan = plan(&world, strategy, &NoPolicy, &Budget::effort(effort, 1)).unwrap();
        plan.cost.vector(&world)
    };
    assert_eq!(price(&Tabu, Some(2)), price(&Exhaustive, None));
    let found = ask(&Tabu);
    assert!(found.problem.unwrap().contains("each unit takes one actor"), "another world is not for it");
}
