//! clingo judges finished plans: by the shipped programs, over the facts of the planned snapshot.

use std::collections::BTreeMap;

use asp::Scale;
use placement::file::{Levels, Others, Policy, SnapshotFile};
use placement::ix::{ActorIx, UnitIx};
use placement::{
    Assignment, Budget, Cost, Criterion, Judge as _, JudgeError, Judged, NoPolicy, Plan, PlanError, Snapshot,
    Strategy, plan,
};
use portfolio::{Clingo, ClingoJudge, Limits};
use search::{Greedy, Local};
use serde_json::json;
use testkit::{line, oracle};

use crate::asp;

fn judge() -> ClingoJudge {
    asked(env!("CARGO_BIN_EXE_portfolio-child"))
}

fn asked(executable: &str) -> ClingoJudge {
    ClingoJudge::with_executable(executable, Limits::default(), 2_000)
}

fn price(snapshot: &Snapshot, assignment: &Assignment) -> Cost {
    Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) }
}

/// The judgement of an assignment with its correct cost.
fn confirmed(snapshot: &Snapshot, assignment: &Assignment) -> Result<Judged, JudgeError> {
    judge().confirm(snapshot, assignment, &price(snapshot, assignment))
}

/// Every criterion and constraint is judged by its program as by its definition.
#[test]
fn the_shipped_programs_say_of_any_placement_what_the_definitions_say() {
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
fn units_where_nobody_is_count_for_what_they_are() {
    let (mut feasible, mut infeasible, mut by) = (0, 0, BTreeMap::<Criterion, usize>::new());
    for seed in 0..20 {
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
fn small(actors: usize, program: Option<&str>) -> Snapshot {
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

fn places(units: &[usize]) -> Assignment {
    units.iter().map(|unit| Some(UnitIx::new(*unit))).collect()
}

#[test]
fn a_wrong_price_is_refused() {
    let (snapshot, apart) = (small(2, None), places(&[0, 1]));
    assert_eq!(confirmed(&snapshot, &apart), Ok(Judged::All));
    let wrong = price(&snapshot, &apart).with(Criterion::Communication, 2);
    assert_eq!(
        judge().confirm(&snapshot, &apart, &wrong).unwrap_err().to_string(),
        "clingo and the planner do not agree: the placement costs [0, 0, 2, 0], but clingo computes [0, 0, 3, 0]; this is a \
         defect, report it with the snapshot"
    );
}

#[test]
fn numbers_that_pass_32_bits_are_judged_in_smaller_ones() {
    let mut file = small(3, None).file().clone();
    file.messages[0].count = 1 << 40;
    file.units.iter_mut().for_each(|unit| unit.capacity = (1 << 35) + 1);
    for way in file.actors.iter_mut().flat_map(|actor| actor.runs_on.values_mut()) {
        way.work = 1 << 35;
    }
    let snapshot = Snapshot::new(file).unwrap();
    let planned = plan(&snapshot, &asp(), &judge(), &Budget::effort(None, 1)).unwrap();
    assert_eq!((planned.judged, planned.optimal), (Judged::All, true));
}

/// Quotas are scaled and rounded like the requirements that they count.
#[test]
fn a_quota_of_a_resource_binds_in_smaller_numbers() {
    let fillers =
        "f0:cpu=1:mem=450000001 f1:cpu=1:mem=450000001 f2:cpu=1:mem=450000001 f3:cpu=1:mem=450000001";
    let world = |more: &str, quota: &str| {
        let actors = format!("{fillers} a:cpu=1:mem=100000000 b:cpu=1:mem=100000000 {more}");
        line::world("u:cpu:9:mem=1600000000", &actors, &format!("quota {quota} of=mem"))
    };
    let staying = "x:cpu=1:mem=150000001,at=u,fixed";
    // The last ones: fixed actors may exceed the quota, others may not.
    let cases = [
        ("", "a,b 150000000", "a=u", true),
        ("", "a,b 150000000", "a=u b=u", false),
        ("", "a,b 200000000", "a=u b=u", true),
        (staying, "a,b,x 250000001", "a=u", true),
        (staying, "a,b,x 250000001", "a=u b=u", false),
        (staying, "a,b,x 150000000", "f0=u", true),
        (staying, "a,b,x 150000000", "a=u", false),
    ];
    for (more, quota, places, is_feasible) in cases {
        let snapshot = world(more, quota);
        assert!(!Scale::of(&snapshot).unwrap().is_exact());
        let assignment = line::assignment(&snapshot, places);
        assert_eq!(snapshot.violations(&assignment).is_empty(), is_feasible, "{quota} {more} {places}");
        let said = confirmed(&snapshot, &assignment);
        assert_eq!(said == Ok(Judged::All), is_feasible, "{quota} {more} {places}: {said:?}");
    }
    let snapshot = world("", "a,b 150000000");
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    for strategy in [&asp() as &dyn Strategy, &clingo] {
        let planned = plan(&snapshot, strategy, &judge(), &Budget::effort(None, 1)).unwrap();
        let found = (planned.cost.unplaced, planned.optimal, planned.judged);
        assert_eq!(found, (2, true, Judged::All), "{}", strategy.name());
    }
}

/// Layers of actors, each of which sends to `fan` of the next, under the criterion of the longest path.
fn layers(size: usize, fan: usize) -> Snapshot {
    let units: Vec<_> = (0..12)
        .map(|i| json!({"id": format!("u-{i}"), "kind": "cpu", "node": format!("n-{}", i / 3), "capacity": 900}))
        .collect();
    let actors: Vec<_> =
        (0..3 * size).map(|i| json!({"id": format!("a-{i}"), "runsOn": {"cpu": 10 + i % 40}})).collect();
    let sends = |i: usize| (0..fan).map(move |j| (i, (i / size + 1) * size + (i + 7 * j) % size));
    let message = |(from, to): (usize, usize)| json!({"from": format!("a-{from}"), "to": format!("a-{to}"), "count": 1});
    let file = json!({"version": 1, "units": units, "actors": actors, "exchangeCost": {"otherKind": 1, "otherNode": 1_000},
        "messages": (0..2 * size).flat_map(sends).map(message).collect::<Vec<_>>(), "objectives": ["overload", "latency"]});
    Snapshot::read(&file.to_string()).unwrap()
}

/// The cost of the longest path is verified, not searched for; where that is too much it is left out and reported.
#[test]
fn longest_paths_are_judged_in_worlds_where_finding_them_would_take_long() {
    for (size, fan, judged) in [(40, 5, Judged::All), (60, 8, Judged::All), (90, 90, Judged::Constraints)] {
        let snapshot = layers(size, fan);
        let planned = plan(&snapshot, &Greedy, &judge(), &Budget::effort(Some(1), 1)).unwrap();
        assert_eq!((planned.judged, planned.cost.unplaced), (judged, 0), "{size} {fan}");
        let cost = price(&snapshot, &planned.assignment);
        for wrong in [-1, 1].map(|more| cost.of(Criterion::Latency) + more) {
            let wrong = cost.clone().with(Criterion::Latency, wrong);
            let said = judge().confirm(&snapshot, &planned.assignment, &wrong);
            let is_refused = matches!(said, Err(JudgeError::Mismatch(_)));
            assert_eq!(is_refused, judged == Judged::All, "{size} {fan}: {said:?}");
        }
    }
}

/// Feasibility is judged even where the cost cannot be scaled.
#[test]
fn where_a_criterion_cannot_be_judged_constraints_are() {
    let mut file = layers(100, 10).file().clone();
    file.objectives = Levels::InOrder(vec![vec![Criterion::Overload], vec![Criterion::Busiest]]);
    file.messages.iter_mut().for_each(|message| message.count = 9);
    let snapshot = Snapshot::new(file).unwrap();
    assert!(Scale::of(&snapshot).is_err());
    let planned = plan(&snapshot, &Greedy, &judge(), &Budget::effort(Some(1), 1)).unwrap();
    assert_eq!((planned.judged, planned.cost.unplaced), (Judged::Constraints, 0));
    let nowhere = Assignment::of(None, snapshot.actors());
    let said = judge().confirm(&snapshot, &nowhere, &price(&snapshot, &planned.assignment));
    assert!(matches!(said, Err(JudgeError::Mismatch(_))), "{said:?}");
}

/// Messages keep a unit busy by themselves, even if their sender has no other work.
#[test]
fn a_unit_is_busy_with_what_is_sent_from_it_alone() {
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

/// Where clingo can only evaluate the policy's own rules, the constraints are not judged.
#[test]
fn who_looked_at_the_policy_alone_judged_no_constraints() {
    let units = "u:cpu:9:mem=4294967296 v:cpu:9:mem=4294967296";
    let one = |name: &str| format!("{name}:cpu=1:mem=1073741825,group=g");
    let actors = ["a", "b", "c"].map(one).join(" ");
    for program in [None, Some(":- run_on(A,\"u\"), group(A,\"g\").")] {
        let mut file = line::file(units, &actors, "quota a,b,c 2147483650 of=mem");
        file.policy = program.map(|program| Policy { name: "p".into(), program: Some(program.into()) });
        let snapshot = Snapshot::new(file).unwrap();
        assert!(Scale::of(&snapshot).is_err());
        let planned = plan(&snapshot, &asp(), &judge(), &Budget::effort(None, 1)).unwrap();
        assert_eq!((planned.cost.unplaced, planned.judged), (1, Judged::None), "{program:?}");
        let world = planned.world(&snapshot);
        assert_eq!(planned.judged_again(&world, &judge()).unwrap().judged, Judged::None, "{program:?}");
    }
}

/// Constraints derived from facts alone are judged by clingo too, in case the planner missed them.
#[test]
fn what_a_policy_derives_from_facts_is_judged() {
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

/// Two kinds, all pairs connected, full slots, and an unplaced actor.
fn all_to_all() -> Snapshot {
    let kinds = [("u", "cpu", 2), ("v", "gpu", 2), ("w", "cpu", 1)];
    let unit = |(id, kind, slots): &(&str, &str, u64)| json!({"id": id, "kind": kind, "node": id, "capacity": 2, "slots": slots});
    let actors: Vec<String> = (0..6).map(|i| format!("shop/app/a-{i}")).collect();
    let pairs = || (0..6).flat_map(|a| (0..a).map(move |b| (a, b)));
    let message = |(a, b): (usize, usize)| json!({"from": &actors[a], "to": &actors[b], "count": 3 + a * b});
    let drag = |(a, b): (usize, usize)| json!({"a": &actors[a], "b": &actors[b], "drag": 1 + a + b});
    // No more run on u than it has slots: actors that exceed them are not grandfathered.
    let actor = |(i, id): (usize, &String)| {
        let mut actor = json!({"id": id, "runsOn": {"cpu": 2, "gpu": 1}, "moveCost": 4});
        if i < 2 {
            actor["current"] = json!("u");
        }
        actor
    };
    let file = json!({"version": 1, "units": kinds.iter().map(unit).collect::<Vec<_>>(),
        "actors": actors.iter().enumerate().map(actor).collect::<Vec<_>>(),
        "messages": pairs().map(message).collect::<Vec<_>>(),
        "annoyance": pairs().map(drag).collect::<Vec<_>>(),
        "interference": pairs().map(drag).collect::<Vec<_>>(),
        "exchangeCost": {"kinds": {"cpu": {"gpu": 7}}, "otherKind": 1, "otherNode": 5},
        "objectives": ["overload", ["communication", "migration", "interference"], "annoyance"]});
    Snapshot::read(&file.to_string()).unwrap()
}

#[test]
fn parts_add_up_to_the_whole_and_what_is_wrong_is_found_in_each() {
    let snapshot = all_to_all();
    let found = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
    let cost = price(&snapshot, &found);
    assert_eq!(cost.unplaced, 1);
    let full = found[ActorIx::new(0)];
    let mut crowded = found.clone();
    ActorIx::first(6).for_each(|actor| crowded[actor] = full);
    // With 50 the actors and units alone exceed one run, with 30 a single tie does.
    let sizes = [
        (60_000, Judged::All),
        (200, Judged::Parts),
        (80, Judged::Parts),
        (50, Judged::Parts),
        (30, Judged::Constraints),
    ];
    for (most, expected) in sizes {
        let judge = judge().in_runs_of(most);
        assert_eq!(judge.confirm(&snapshot, &found, &cost), Ok(expected), "{most}");
        for criterion in [Criterion::Communication, Criterion::Annoyance, Criterion::Overload] {
            let wrong = cost.clone().with(criterion, cost.of(criterion) + 1);
            let is_found = judge.confirm(&snapshot, &found, &wrong).is_err();
            assert_eq!(is_found, expected != Judged::Constraints, "{most} {criterion}");
        }
        assert!(judge.confirm(&snapshot, &crowded, &price(&snapshot, &crowded)).is_err(), "{most}");
    }
}

/// At once: everything in small snapshots, the constraints in large ones, never nothing.
#[test]
fn who_waits_has_it_judged_in_one_run() {
    let at_once = |snapshot: &Snapshot, assignment: &Assignment| {
        judge().at_once().confirm(snapshot, assignment, &price(snapshot, assignment))
    };
    let few = small(2, None);
    assert_eq!(at_once(&few, &places(&[0, 1])), Ok(Judged::All));
    let mut file = testkit::all_to_all(&[50, 80, 50], 32, 1).file().clone();
    file.units[0].slots = Some(9);
    let many = Snapshot::new(file).unwrap();
    let found = plan(&many, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap().assignment;
    assert_eq!(at_once(&many, &found), Ok(Judged::Constraints));
    let mut crowded = found;
    crowded.iter_mut().for_each(|place| *place = Some(UnitIx::new(0)));
    assert!(at_once(&many, &crowded).is_err());
}

/// Channels between whole groups are added up by the number of members per unit, without listing pairs. Message counts
/// above 32 bits are supported.
#[test]
fn channels_between_whole_groups_are_judged_in_parts() {
    let mut in_parts = [0, 0];
    for seed in 0..16_u64 {
        let is_large = seed % 2 == 1;
        let mut file = testkit::grouped(seed);
        file.constraints.clear();
        for channel in file.group_messages.iter_mut().filter(|_| is_large) {
            channel.count <<= 24;
        }
        let whole = Snapshot::with_most_pairs(file, 0).unwrap();
        let judge = judge().in_runs_of(if seed % 4 < 2 { 60_000 } else { 400 });
        let found = Greedy.solve(&whole, &Budget::effort(None, 1)).unwrap().assignment;
        let cost = price(&whole, &found);
        let said = judge.confirm(&whole, &found, &cost).unwrap();
        assert!(said >= Judged::Parts, "{said} of {}", whole.write());
        in_parts[usize::from(is_large)] += usize::from(said == Judged::Parts);
        for criterion in [Criterion::Communication, Criterion::Annoyance] {
            for wrong in [-1, 1].map(|more| cost.of(criterion) + more) {
                let wrong = cost.clone().with(criterion, wrong);
                assert!(judge.confirm(&whole, &found, &wrong).is_err(), "{criterion} of {}", whole.write());
            }
        }
    }
    assert!(in_parts[0] > 3 && in_parts[1] > 3, "{in_parts:?}");
}

/// Relations take memory for occupied places only.
#[test]
fn relations_of_a_large_world_are_judged_in_little_memory() {
    const PAIRS: usize = 600;
    let id = |i: usize| format!("shop/app/a-{i}");
    let unit =
        |i: usize| json!({"id": format!("u-{i}"), "kind": "cpu", "node": format!("n-{i}"), "capacity": 9});
    let actor = |i: usize| json!({"id": id(i), "runsOn": {"cpu": 1}});
    let relation = |i: usize| {
        let (kind, on) = if i < PAIRS { ("together", "unit") } else { ("apart", "node") };
        json!({"type": kind, "on": on, "actors": [id(2 * i), id(2 * i + 1)]})
    };
    let file = json!({"version": 1, "exchangeCost": {"otherKind": 1},
        "units": (0..2 * PAIRS).map(unit).collect::<Vec<_>>(),
        "actors": (0..4 * PAIRS).map(actor).collect::<Vec<_>>(),
        "constraints": (0..2 * PAIRS).map(relation).collect::<Vec<_>>()});
    let snapshot = Snapshot::read(&file.to_string()).unwrap();
    let limits = Limits { memory_mib: 160, ..Limits::default() };
    let judge = ClingoJudge::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), limits, 2_000);
    let kept: Vec<usize> =
        (0..4 * PAIRS).map(|i| if i < 2 * PAIRS { i / 2 } else { i - 2 * PAIRS }).collect();
    let judged = |units: &[usize]| {
        let assignment = places(units);
        judge.confirm(&snapshot, &assignment, &price(&snapshot, &assignment))
    };
    assert_eq!(judged(&kept), Ok(Judged::All));
    for (actor, unit) in [(1, 2), (2 * PAIRS + 1, 0)] {
        let mut broken = kept.clone();
        broken[actor] = unit;
        assert!(matches!(judged(&broken), Err(JudgeError::Mismatch(_))), "{actor} on {unit}");
    }
}

/// Without a program to judge, a missing judge does not fail a plan.
#[test]
fn a_judge_that_is_gone_costs_a_plan_only_where_a_program_must_be_judged() {
    let budget = Budget::effort(None, 1);
    let gone = asked("/bin/false");
    let planned = plan(&small(2, None), &asp(), &gone, &budget).unwrap();
    assert_eq!((planned.judged, planned.optimal), (Judged::None, true));
    for program in [":- run_on(A,\"u\"), actor(A).", "forbid(A,\"u\") :- actor(A)."] {
        let refused = plan(&small(2, Some(program)), &asp(), &gone, &budget).unwrap_err();
        assert!(matches!(refused, PlanError::Judge(JudgeError::Evaluation(_))), "{refused}");
    }
}

/// A model that the checker rejects is no answer, and claims about it are no proof.
#[test]
fn what_the_checker_refuses_ends_the_claim_of_a_proof() {
    let mut file = small(2, None).file().clone();
    file.units[0].slots = Some(1);
    let snapshot = Snapshot::new(file).unwrap();
    let liar = Clingo::with_executable(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dishonest-solver.sh"),
        Limits::default(),
    );
    let planned = plan(&snapshot, &liar, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    assert!(snapshot.violations(&planned.assignment).is_empty());
    assert_eq!((planned.optimal, planned.proven_by, planned.cost.unplaced), (false, None, 2));
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
    // A violation of what runs is kept: there is nothing to confirm.
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
fn a_policy_that_cannot_be_obeyed_is_refused_after_any_search() {
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
