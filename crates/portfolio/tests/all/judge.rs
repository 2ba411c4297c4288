//! clingo judges finished plans with the shipped programs, over the facts of the planned snapshot.

use std::collections::BTreeMap;

use asp::Scale;
use placement::file::{Others, SnapshotFile};
use placement::ix::{ActorIx, UnitIx};
use placement::{
    Assignment, Budget, Cost, Criterion, Judge as _, JudgeError, Judged, NoPolicy, Plan, PlanError, Snapshot,
    SolveError, Strategy, plan,
};
use portfolio::{Clingo, ClingoJudge, Limits};
use search::{Greedy, Local};
use serde_json::json;
use testkit::{line, oracle};

use crate::asp;

pub fn judge() -> ClingoJudge {
    asked(env!("CARGO_BIN_EXE_portfolio-child"))
}

pub fn asked(executable: &str) -> ClingoJudge {
    ClingoJudge::with_executable(executable, Limits::default(), 2_000)
}

pub fn price(snapshot: &Snapshot, assignment: &Assignment) -> Cost {
    Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) }
}

/// The judgement of an assignment with its correct cost.
pub fn confirmed(snapshot: &Snapshot, assignment: &Assignment) -> Result<Judged, JudgeError> {
    judge().confirm(snapshot, assignment, &price(snapshot, assignment))
}

/// Every criterion and constraint is judged by its program as by its definition.
#[test]
fn the_shipped_programs_match_the_definitions() {
    let (mut feasible, mut infeasible) = (0, 0);
    for seed in 0..30 {
        let file: SnapshotFile = testkit::world(seed);
        let snapshot = Snapshot::new(file.clone()).unwrap();
        let planned = plan(&snapshot, &asp(), &judge(), &Budget::effort(None, 1)).unwrap();
        let fits = Scale::of(&snapshot).is_ok();
        assert_eq!(
            planned.judged,
            if fits { Judged::All } else { Judged::Constraints },
            "in {}",
            snapshot.write()
        );
        if !fits || !Scale::of(&snapshot).unwrap().is_exact() {
            continue;
        }
        let rng = &mut fastrand::Rng::with_seed(seed);
        for _ in 0..2 {
            let mut places = planned.assignment.clone();
            for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
                if rng.u8(..3) == 0 {
                    places[actor] = rng.usize(..=snapshot.units()).checked_sub(1).map(UnitIx::new);
                }
            }
            let verdict = confirmed(&snapshot, &places);
            let runs = |(actor, place): (ActorIx, &Option<UnitIx>)| {
                place.is_none_or(|unit| snapshot.implementation(actor, unit).is_some())
            };
            if places.enumerate().all(runs) && oracle::feasible(&file, &oracle::plain(&places)) {
                feasible += 1;
                assert_eq!(verdict, Ok(Judged::All), "{places:?} in {}", snapshot.write());
            } else {
                infeasible += 1;
                let says = "clingo finds the placement infeasible".to_owned();
                assert_eq!(verdict, Err(JudgeError::Mismatch(says)), "{places:?} in {}", snapshot.write());
            }
        }
    }
    assert!(feasible > 10 && infeasible > 10, "{feasible} {infeasible}");
}

/// Units that no movable actor uses are summarised for the judge: overload by others, the fullest unit, and power.
#[test]
fn unused_units_are_summarised_correctly() {
    let (mut feasible, mut infeasible, mut by) = (0, 0, BTreeMap::<Criterion, usize>::new());
    for seed in 0..30 {
        let (mut file, rng) = (testkit::world(seed), &mut fastrand::Rng::with_seed(seed));
        for number in 0..12 {
            let mut unit = rng.choice(&file.units).unwrap().clone();
            unit.id = format!("more-{number}");
            if rng.bool() {
                unit.node = format!("another-{number}");
            }
            unit.others = (rng.u8(..3) == 0).then(|| Others { work: rng.u64(..8), count: rng.u64(..3) });
            file.units.push(unit);
        }
        let snapshot = Snapshot::new(file).unwrap();
        if !Scale::of(&snapshot).is_ok_and(|scale| scale.is_exact()) {
            continue;
        }
        let mut places = plan(&snapshot, &Greedy, &judge(), &Budget::effort(None, 1)).unwrap().assignment;
        for _ in 0..3 {
            let cost = price(&snapshot, &places);
            if snapshot.violations(&places).is_empty() {
                feasible += 1;
                assert_eq!(
                    confirmed(&snapshot, &places),
                    Ok(Judged::All),
                    "{places:?} in {}",
                    snapshot.write()
                );
                for &criterion in snapshot.objectives().levels().iter().flatten() {
                    let wrong = cost.clone().with(criterion, cost.of(criterion) + 1);
                    let said = judge().confirm(&snapshot, &places, &wrong);
                    assert!(said.is_err(), "{criterion} of {places:?} in {}", snapshot.write());
                    *by.entry(criterion).or_default() += usize::from(cost.of(criterion) > 0);
                }
            } else {
                infeasible += 1;
                assert!(confirmed(&snapshot, &places).is_err(), "{places:?} in {}", snapshot.write());
            }
            for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
                if rng.u8(..3) == 0 {
                    places[actor] = rng.choice(snapshot.candidates(actor)).copied();
                }
            }
        }
    }
    assert!(feasible > 10 && infeasible > 10, "{feasible} {infeasible}");
    assert!(by.len() > 10 && by.values().filter(|count| **count > 0).count() > 8, "{by:?}");
}

/// Two units of one node and one of another, and actors without restrictions.
pub fn small(actors: usize, program: Option<&str>) -> Snapshot {
    let unit = |id: &str, node: &str| json!({"id": id, "kind": "cpu", "node": node, "capacity": 9});
    let actor = |i: usize| json!({"id": format!("shop/app/a-{i}"), "runsOn": {"cpu": 1}});
    let mut file = json!({"version": 1, "units": [unit("u", "m"), unit("v", "m"), unit("w", "n")],
        "actors": (0..actors).map(actor).collect::<Vec<_>>(), "exchangeCost": {"otherKind": 1},
        "messages": [{"from": "shop/app/a-0", "to": "shop/app/a-1", "count": 3}]});
    if let Some(program) = program {
        file["policy"] = json!({"name": "p", "program": program});
    }
    Snapshot::read(&file.to_string()).unwrap()
}

pub fn places(units: &[usize]) -> Assignment {
    units.iter().map(|unit| Some(UnitIx::new(*unit))).collect()
}

#[test]
fn a_wrong_cost_is_rejected() {
    let (snapshot, apart) = (small(2, None), places(&[0, 1]));
    assert_eq!(confirmed(&snapshot, &apart), Ok(Judged::All));
    let wrong = price(&snapshot, &apart).with(Criterion::Communication, 2);
    assert_eq!(
        judge().confirm(&snapshot, &apart, &wrong).unwrap_err().to_string(),
        "clingo and the planner do not agree: the placement costs [0, 0, 2, 0], but clingo computes [0, 0, 3, 0]; this is a \
         defect, report it with the snapshot"
    );
}

/// Different conclusions of the grounder and clingo are detected even if penalties are equal.
#[test]
fn violations_that_only_one_side_finds_are_a_mismatch() {
    let rule = |unit: &str| format!(":- run_on(A,\"{unit}\"), actor(A).");
    let ground = judge().derive(&small(2, Some(&rule("u")))).unwrap();
    let world = small(2, Some(&rule("v"))).with_derived(ground).unwrap();
    for (at, says) in [(0, "the ground rules have a violation"), (1, "clingo finds a violation")] {
        let refused = judge().judge(&world, &places(&[at, 2])).unwrap_err();
        let is_mismatch = matches!(&refused, JudgeError::Mismatch(problem) if problem.starts_with(says));
        assert!(is_mismatch, "{at}: {refused}");
    }
    let agreed = judge().judge(&world, &places(&[2, 2])).unwrap();
    assert_eq!((agreed.violations.len(), agreed.is_unverified), (0, false));
}

/// Messages keep a unit busy by themselves, even if their sender has no other work.
#[test]
fn sending_alone_keeps_a_unit_busy() {
    let cases = [
        ("a:cpu=0 b:gpu=5", "a to b 2", 1000),
        ("a:cpu=0 b:gpu=5:at=v,fixed", "a to b 2", 1000),
        ("a:cpu=0 b:gpu=5", "b to a 2", 1500),
        ("a:cpu=0 b:gpu=5", "", 500),
    ];
    for (actors, sent, expected) in cases {
        let rules = format!("{sent}; objectives busiest");
        let snapshot = line::world("u:cpu:10 v:gpu:10 w:fpga:10", actors, &rules);
        for strategy in [&asp() as &dyn Strategy, &Local] {
            let planned = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap();
            let found = (planned.cost.vector(&snapshot), planned.judged);
            assert_eq!(found, (vec![0, expected], Judged::All), "{} of {actors}; {sent}", strategy.name());
        }
    }
}

/// Constraints derived from facts alone are judged by clingo too, in case the planner missed them.
#[test]
fn derived_constraints_are_judged() {
    let say = |what: &str| format!("{what} :- actor(A), actor(B), A < B.\n");
    let cases = [
        ("forbid(A,\"u\") :- actor(A).\n".to_owned(), [1, 2], [0, 2], "forbid(a("),
        ("pin(A,\"w\") :- actor(A).\n".to_owned(), [2, 2], [2, 0], "pin(a("),
        (say("apart(A,B,node)"), [0, 2], [0, 1], "apart(a("),
        (say("together(A,B,node)"), [0, 1], [0, 2], "together(a("),
    ];
    for (program, keeps, breaks, says) in cases {
        // The snapshot without the derived constraints.
        let snapshot = small(2, Some(&program));
        assert_eq!(confirmed(&snapshot, &places(&keeps)), Ok(Judged::All), "{program}");
        let refused = confirmed(&snapshot, &places(&breaks)).unwrap_err().to_string();
        assert!(refused.contains("policy p line 1: ") && refused.contains(says), "{refused}");
    }
}

/// Whether a missing judge fails a plan is the policy's decision.
#[test]
fn a_missing_judge_fails_only_plans_that_require_it() {
    let budget = Budget::effort(None, 1);
    let gone = asked("/bin/false");
    for program in [None, Some(":- run_on(A,\"u\"), actor(A)."), Some("forbid(A,\"u\") :- actor(A).")] {
        let snapshot = small(2, program);
        let planned = plan(&snapshot, &asp(), &gone, &budget).unwrap();
        assert_eq!((planned.judged, planned.optimal), (Judged::None, true), "{program:?}");
        let refused = plan(&snapshot, &asp(), &gone.clone().required(true), &budget).unwrap_err();
        let is_refused =
            matches!(refused, PlanError::Judge(JudgeError::Unjudged | JudgeError::Evaluation(_)));
        assert!(is_refused, "{program:?}: {refused}");
        let judged = plan(&snapshot, &asp(), &judge().required(true), &budget).unwrap();
        assert_eq!(judged.judged, Judged::All, "{program:?}");
    }
}

/// A model that the checker rejects is no answer, and a claim about it is an error.
#[test]
fn a_proof_with_an_infeasible_model_is_an_error() {
    let mut file = small(2, None).file().clone();
    file.units[0].slots = Some(1);
    let snapshot = Snapshot::new(file).unwrap();
    let liar = Clingo::with_executable(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dishonest-solver.sh"),
        Limits::default(),
    );
    let refused = plan(&snapshot, &liar, &NoPolicy, &Budget::effort(None, 1)).unwrap_err();
    assert!(matches!(refused, PlanError::Solve { source: SolveError::Proof(_), .. }), "{refused:?}");
    let honest = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    assert!(plan(&snapshot, &honest, &NoPolicy, &Budget::effort(None, 1)).unwrap().optimal);
}

/// A plan that was repaired before its commit is judged again.
#[test]
fn a_changed_plan_is_judged_again() {
    let snapshot = small(3, None);
    let planned = plan(&snapshot, &asp(), &judge(), &Budget::effort(None, 1)).unwrap();
    let changed = |places: &[usize], assignment_of_cost: &[usize]| {
        let cost = price(&snapshot, &self::places(assignment_of_cost));
        Plan { assignment: self::places(places), cost, judged: Judged::None, ..planned.clone() }
    };
    let again = |plan: Plan| plan.judged_again(&snapshot, &judge()).map(|plan| plan.judged);
    assert_eq!(again(changed(&[0, 1, 1], &[0, 1, 1])).unwrap(), Judged::All);
    assert!(matches!(again(changed(&[0, 1, 1], &[0, 0, 1])), Err(PlanError::Judge(JudgeError::Mismatch(_)))));
    // A violation by running actors is kept: there is nothing to confirm.
    let mut file = snapshot.file().clone();
    file.units[0].slots = Some(0);
    let narrower = Snapshot::new(file).unwrap();
    let kept = changed(&[0, 0, 0], &[0, 0, 0]).judged_again(&narrower, &judge()).unwrap();
    assert_eq!(kept.judged, Judged::None);
    // A program is evaluated in full.
    let ruled = small(3, Some(":- run_on(A,\"u\"), actor(A).\n"));
    let derived = ruled.with_derived(judge().derive(&ruled).unwrap()).unwrap();
    let elsewhere = changed(&[1, 1, 2], &[1, 1, 2]);
    assert_eq!(elsewhere.judged_again(&derived, &judge()).unwrap().judged, Judged::All);
}

/// A small snapshot with uneven losses. One actor can run nowhere, so that no answer obeys the policy.
#[test]
fn a_policy_that_cannot_be_obeyed_is_rejected() {
    let unit =
        |i: usize| json!({"id": format!("u{i}"), "kind": "cpu", "node": format!("n{i}"), "capacity": 100});
    let actor = |i: usize| json!({"id": format!("a{i}"), "runsOn": {"cpu": 1}});
    let message = |(i, count): (usize, u64)| {
        let [from, to] = [2 * i, 2 * i + 1].map(|i| format!("a{i}"));
        json!({"from": from, "to": to, "count": count})
    };
    let mut actors: Vec<_> = (0..10).map(actor).collect();
    actors.push(json!({"id": "x", "runsOn": {"npu": 1}}));
    let messages: Vec<_> = [10_000, 1, 1, 1, 1].into_iter().enumerate().map(message).collect();
    let file = json!({"version": 1, "units": (0..4).map(unit).collect::<Vec<_>>(), "actors": actors, "messages": messages,
        "exchangeCost": {"otherKind": 1}, "policy": {"name": "p", "program": ":- unplaced(A)."}});
    let snapshot = Snapshot::read(&file.to_string()).unwrap();
    for strategy in [&asp() as &dyn Strategy, &Local] {
        let refused = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap_err();
        let PlanError::Disobeyed { violations, .. } = &refused else { panic!("{refused}") };
        let says: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(says, ["policy p line 1: A = x"], "{}", strategy.name());
    }
}
