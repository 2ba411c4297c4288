//! clingo judges plans of large snapshots and large numbers: in parts, or with scaled numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asp::Scale;
use placement::file::{Levels, Policy};
use placement::ix::{ActorIx, UnitIx};
use placement::{
    Assignment, Budget, Criterion, Judge as _, JudgeError, Judged, NoPolicy, Snapshot, Strategy, plan,
};
use portfolio::{Clingo, ClingoJudge, Limits};
use search::Greedy;
use serde_json::json;
use testkit::line;

use crate::asp;
use crate::judge::{confirmed, judge, places, price, small};

#[test]
fn numbers_above_32_bits_are_scaled() {
    let mut file = small(3, None).file().clone();
    file.messages[0].count = 1 << 40;
    file.units.iter_mut().for_each(|unit| unit.capacity = (1 << 35) + 1);
    for way in file.actors.iter_mut().flat_map(|actor| actor.runs_on.values_mut()) {
        way.work = 1 << 35;
    }
    let snapshot = Snapshot::new(file).unwrap();
    let planned = plan(&snapshot, &asp(), &judge(), &Budget::effort(None, 1)).unwrap();
    assert_eq!((planned.judged, planned.optimal), (Judged::Scaled, true));
}

/// Quotas are scaled and rounded like the requirements that they count.
#[test]
fn a_resource_quota_binds_in_scaled_numbers() {
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
        assert_eq!(said == Ok(Judged::Scaled), is_feasible, "{quota} {more} {places}: {said:?}");
    }
    let snapshot = world("", "a,b 150000000");
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    for strategy in [&asp() as &dyn Strategy, &clingo] {
        let planned = plan(&snapshot, strategy, &judge(), &Budget::effort(None, 1)).unwrap();
        let found = (planned.cost.unplaced, planned.optimal, planned.judged);
        assert_eq!(found, (2, true, Judged::Scaled), "{}", strategy.name());
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
fn longest_paths_are_verified_in_large_snapshots() {
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
fn constraints_are_judged_where_a_criterion_cannot_be() {
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

/// Where clingo can only evaluate the policy's own rules, the constraints are not judged.
#[test]
fn judging_the_policy_alone_is_no_judgement_of_constraints() {
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
fn judging_in_parts_finds_every_wrong_sum() {
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

/// Checks that cannot end before the deadline are skipped, and the verdict reports this.
#[test]
fn a_deadline_limits_what_is_judged() {
    let snapshot = all_to_all();
    let found = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap().assignment;
    let cost = price(&snapshot, &found);
    // A run may be late by minutes, so that the outcome does not depend on the machine.
    let executable = env!("CARGO_BIN_EXE_portfolio-child");
    let patient = || ClingoJudge::with_executable(executable, Limits::default(), 3_600_000);
    let until = |most_facts, left| patient().in_runs_of(most_facts).until(Arc::new(move || left));
    let hour = Duration::from_hours(1);
    for (most_facts, left, expected) in [
        (60_000, hour, Judged::All),
        (60_000, Duration::ZERO, Judged::Constraints),
        (80, hour, Judged::Parts),
        (80, Duration::from_millis(50), Judged::Constraints),
        (80, Duration::ZERO, Judged::Constraints),
    ] {
        let said = until(most_facts, left).confirm(&snapshot, &found, &cost);
        assert_eq!(said, Ok(expected), "{most_facts} facts, {left:?}");
    }
    // The deadline passes while the batches are judged.
    let readings = AtomicU64::new(0);
    let passes = move || if readings.fetch_add(1, Ordering::Relaxed) < 4 { hour } else { Duration::ZERO };
    let judge = patient().in_runs_of(80).until(Arc::new(passes));
    assert_eq!(judge.confirm(&snapshot, &found, &cost), Ok(Judged::Constraints));
}

/// A search leaves time for the constraints at least, and for everything if that is a small part.
#[test]
fn the_time_to_judge_grows_with_the_snapshot() {
    let time = |snapshot: &Snapshot, most: Duration| judge().time_to_confirm(snapshot, most);
    let (few, dense) = (small(2, None), testkit::all_to_all(&[200, 300, 200], 192, 1));
    let second = Duration::from_secs(1);
    assert!(time(&few, second) < second / 10, "{:?}", time(&few, second));
    let (constraints, all) = (time(&dense, second / 2), time(&dense, 60 * second));
    assert!(constraints < second / 2 && all > second, "{constraints:?} {all:?}");
    assert_eq!(time(&dense, second / 100), second / 100, "never more than that");
}

/// At once: everything in small snapshots, the constraints in large ones, never nothing.
#[test]
fn judging_at_once_takes_one_run() {
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
fn relations_of_a_large_snapshot_are_judged_in_little_memory() {
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
