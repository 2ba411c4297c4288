//! File limits that are violated already: actors may stay, none may be added, and as many as possible move away.

use std::collections::BTreeMap;

use asp::Scale;
use exact::Exhaustive;
use placement::ix::{ActorIx, UnitIx};
use placement::{Budget, Cost, Criterion, Judged, NoPolicy, Snapshot, Strategy, plan};
use portfolio::{Clingo, ClingoJudge, Limits};
use search::{Greedy, Local};
use serde_json::{Value, json};
use testkit::ExceededLimits;
use testkit::line;
use testkit::oracle;

use crate::asp;

/// Feasibility and cost of every assignment match the definition.
#[test]
fn grandfathered_limits_match_their_definition() {
    let (mut passed, mut allowed, mut excused) = (0, 0, 0);
    for seed in 0..150 {
        let file = testkit::over_full(seed);
        let Ok(snapshot) = Snapshot::new(file.clone()) else { continue };
        let before = ExceededLimits::now(&file);
        passed += u32::from(before.is_some());
        assert_eq!(
            !snapshot.problem().suspended_limits.is_empty(),
            before.is_some(),
            "in {}",
            snapshot.write()
        );
        let mut visits = 0;
        oracle::every(&file, &mut |places| {
            visits += 1;
            if visits % 17 != 0 && visits > 60 {
                return;
            }
            let assignment = line::places(places.iter().copied());
            let found = snapshot.violations(&assignment);
            let is_feasible = oracle::feasible_beside(&file, before.as_ref(), places);
            assert_eq!(found.is_empty(), is_feasible, "{found:?} at {places:?} in {}", snapshot.write());
            if is_feasible {
                allowed += 1;
                let cost = Cost { policy: snapshot.penalty(&assignment), ..snapshot.cost(&assignment) };
                assert_eq!(
                    cost.vector(&snapshot),
                    oracle::vector_beside(&file, before.as_ref(), places),
                    "{places:?} in {}",
                    snapshot.write()
                );
                excused += u32::from(cost.of(Criterion::Excused) > 0);
            }
        });
    }
    assert!(passed > 100 && allowed > 2000 && excused > 300, "{passed} {allowed} {excused}");
}

/// Every strategy finds the optimum by definition.
#[test]
fn over_committed_snapshots_are_solved_to_the_optimum_of_all_assignments() {
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    let mut decided: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..60 {
        let file = testkit::over_full(seed);
        if file.actors.len() > 5 || ExceededLimits::now(&file).is_none() {
            continue;
        }
        let Ok(snapshot) = Snapshot::new(file.clone()) else { continue };
        let (best, _) = oracle::optimum(&file);
        for strategy in [&asp() as &dyn Strategy, &clingo, &Exhaustive] {
            let found = plan(&snapshot, strategy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
            let name = strategy.name();
            assert_eq!(found.cost.vector(&snapshot), best, "{name} seed {seed} in {}", snapshot.write());
            assert!(found.optimal, "{name} seed {seed} in {}", snapshot.write());
            assert_eq!(i64::try_from(found.excused.len()).unwrap(), best[1], "{name} seed {seed}");
        }
        let quick = Greedy.solve(&snapshot, &Budget::effort(None, seed)).unwrap().assignment;
        assert!(
            oracle::feasible(&file, &oracle::plain(&quick)),
            "greedy seed {seed} in {}",
            snapshot.write()
        );
        for (what, is_so) in
            [("snapshots", true), ("with grandfathered actors", best[1] > 0), ("without", best[1] == 0)]
        {
            *decided.entry(what).or_default() += u32::from(is_so);
        }
    }
    assert!(decided.values().all(|count| *count >= 5), "{decided:?}");
}

/// One unit on each node, and limits; actors by application, by where they run, and whether they are fixed.
fn shop(nodes: usize, actors: &[(&str, Option<usize>, bool)], more: &Value) -> Snapshot {
    let unit = |n: usize| json!({"id": format!("n{n}/cpu"), "kind": "cpu", "node": format!("n{n}"), "capacity": 100});
    let actor = |(i, (application, current, fixed)): (usize, &(&str, Option<usize>, bool))| {
        let way = json!({"work": 1, "nodeRequires": {"memory": 1}});
        let mut actor = json!({"id": format!("shop/{application}/a-{i}"), "runsOn": {"cpu": way}, "fixed": fixed,
            "labels": {"noise": "high"}});
        if let Some(at) = current {
            actor["current"] = json!(format!("n{at}/cpu"));
        }
        actor
    };
    let nodes: Vec<usize> = (0..nodes).collect();
    let memory = |n: &usize| json!({"id": format!("n{n}"), "provides": {"memory": 9}});
    let mut file = json!({"version": 1, "nodes": nodes.iter().map(memory).collect::<Vec<_>>(),
        "units": nodes.iter().map(|n| unit(*n)).collect::<Vec<_>>(),
        "actors": actors.iter().enumerate().map(actor).collect::<Vec<_>>(), "exchangeCost": {"otherKind": 1}});
    file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Snapshot::read(&file.to_string()).unwrap()
}

fn judge() -> ClingoJudge {
    ClingoJudge::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default(), 2_000)
}

/// Unplaced, moved and grandfathered actors, equal for all strategies; judged by clingo.
fn planned(snapshot: &Snapshot) -> (i64, usize, usize) {
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    let all = [&asp() as &dyn Strategy, &clingo, &Exhaustive].map(|strategy| {
        let plan = plan(snapshot, strategy, &judge(), &Budget::effort(Some(2_000), 1)).unwrap();
        assert_eq!(plan.judged, Judged::All, "{}", strategy.name());
        (plan.cost.unplaced, plan.moves.len(), plan.excused.len())
    });
    assert_eq!((all[0], all[1]), (all[1], all[2]));
    all[0]
}

#[test]
fn lowered_limits_keep_running_actors_and_admit_no_new_ones() {
    let ids = |actors: &[usize]| actors.iter().map(|i| format!("shop/app/a-{i}")).collect::<Vec<_>>();
    let three = [("app", Some(0), false); 3];
    let quota =
        |max: u64| json!({"constraints": [{"type": "quota", "actors": ids(&[0, 1, 2, 3]), "max": max}]});
    let and_one = [three.as_slice(), &[("app", None, false)]].concat();
    assert_eq!(planned(&shop(1, &and_one, &quota(4))), (0, 0, 0));
    // A quota of pods anywhere: moves cannot repair it, and no actor is added.
    assert_eq!(planned(&shop(2, &and_one, &quota(2))), (1, 0, 3));
    // Memory of a node: actors beyond it move where there is room, and new actors go there too.
    let memory = |n: u64, of: u64| json!({"id": format!("n{n}"), "provides": {"memory": of}});
    let shrunk = json!({"nodes": [memory(0, 2), memory(1, 9)]});
    assert_eq!(planned(&shop(2, &and_one, &shrunk)), (0, 1, 0));
    let shrunk = json!({"nodes": [memory(0, 2), memory(1, 0)]});
    assert_eq!(planned(&shop(2, &and_one, &shrunk)), (1, 0, 3));
}

/// A policy rule and a limit violated by the same actors: both are grandfathered, and an actor in both counts once.
#[test]
fn a_rule_and_a_limit_are_grandfathered_side_by_side() {
    let rule =
        ":- cu_node(_,N), #count { A : actor_label(A,\"noise\",\"high\"), run_on(A,U), cu_node(U,N) } > 2.\n";
    let policy = json!({"name": "quiet", "program": rule});
    let memory = |n: u64, of: u64| json!({"id": format!("n{n}"), "provides": {"memory": of}});
    let four = [("app", Some(0), false); 4];
    let of =
        |first: u64, second: u64| json!({"policy": policy, "nodes": [memory(0, first), memory(1, second)]});
    assert_eq!(planned(&shop(2, &four, &of(3, 0))), (0, 0, 4));
    // One may move, which repairs the limit but not the rule.
    assert_eq!(planned(&shop(2, &four, &of(3, 1))), (0, 1, 3));
    assert_eq!(planned(&shop(2, &four, &of(3, 2))), (0, 2, 0));
    let and_one = [four.as_slice(), &[("app", None, false)]].concat();
    assert_eq!(planned(&shop(2, &and_one, &of(9, 0))), (1, 0, 4));
}

/// Units, actors and limits; then the expected result.
const CASES: [[&str; 4]; 13] = [
    // Fixed actors alone exceed the slots: no actor is added.
    ["u:cpu:9:slots=1", "f:cpu=1:at=u,fixed g:cpu=1:at=u,fixed a:cpu=1", "", "a nowhere"],
    // A movable actor among them moves where there is room, otherwise it stays.
    ["u:cpu:9:slots=1 v:cpu:9:node=m", "f:cpu=1:at=u,fixed g:cpu=1:at=u,fixed a:cpu=1:at=u", "", "a on v"],
    ["u:cpu:9:slots=1", "f:cpu=1:at=u,fixed a:cpu=1:at=u b:cpu=1", "", "a on u excused, b nowhere"],
    // A unit's memory is over-committed: one actor moves, and both are feasible.
    ["u:cpu:9:mem=3 v:cpu:9:mem=2", "a:cpu=1:at=u,mem=2 b:cpu=1:at=u,mem=2", "", "a on u, b on v"],
    [
        "u:cpu:9:mem=3 v:cpu:9:mem=1",
        "a:cpu=1:at=u,mem=2 b:cpu=1:at=u,mem=2",
        "",
        "a on u excused, b on u excused",
    ],
    // A later reservation is such a limit.
    [
        "u:cpu:9:mem=4",
        "a:cpu=1:at=u,mem=2 b:cpu=1:at=u,mem=2",
        "reserve u mem 1",
        "a on u excused, b on u excused",
    ],
    // A power cap that fixed actors exceed by themselves, and a movable one with them.
    [
        "u:cpu:9:power=9 v:cpu:9:node=m,power=9",
        "f:cpu=5:at=u,fixed a:cpu=2:at=u",
        "powerCap node 4",
        "a on v",
    ],
    // What fixed actors draw alone is allowed; `a` draws nothing more.
    [
        "u:cpu:10:idle=40,power=10 v:cpu:10:node=m",
        "f:cpu=0:at=u,fixed a:cpu=0:at=u b:cpu=5:at=u",
        "powerCap node 32",
        "a on u, b on v",
    ],
    [
        "u:cpu:9:power=9",
        "f:cpu=5:at=u,fixed a:cpu=2:at=u b:cpu=2",
        "powerCap node 4",
        "a on u excused, b nowhere",
    ],
    // Two fixed actors violate `apart`, which concerns no movable one.
    ["u:cpu:9", "f:cpu=1:at=u,fixed g:cpu=1:at=u,fixed a:cpu=1:at=u", "apart node f g", "a on u"],
    [
        "u:cpu:9 v:cpu:9:node=m",
        "f:cpu=1:at=u,fixed a:cpu=1:at=u b:cpu=1:at=u",
        "apart node f a b",
        "a on u excused, b on v",
    ],
    // A quota of two that three actors exceed.
    [
        "u:cpu:9 v:cpu:9",
        "a:cpu=1:at=u b:cpu=1:at=u c:cpu=1:at=v d:cpu=1",
        "quota a,b,c,d 2",
        "a on u excused, b on u excused, c on v excused, d nowhere",
    ],
    [
        "u:cpu:9:pool=p v:cpu:9",
        "f:cpu=1:at=u,fixed a:cpu=1:at=u b:cpu=1",
        "quota f,a,b 1 pool=p",
        "a on v, b on v",
    ],
];

#[test]
fn violated_limits_are_repaired_or_grandfathered_and_admit_no_new_actors() {
    for [units, actors, rules, expected] in CASES {
        let snapshot = line::world(units, actors, rules);
        let found = outcomes(&snapshot);
        assert!(
            found.iter().any(|outcome| outcome == expected),
            "{found:?} and not {expected}, of {units} {actors} {rules}"
        );
        let counts: Vec<[usize; 2]> = found
            .iter()
            .map(|outcome| ["excused", "nowhere"].map(|word| outcome.matches(word).count()))
            .collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{found:?} of {units} {actors} {rules}");
    }
}

/// The places of all movable actors, by every strategy.
pub fn outcomes(snapshot: &Snapshot) -> Vec<String> {
    let clingo = Clingo::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), Limits::default());
    let by = |strategy: &dyn Strategy| {
        let plan = plan(snapshot, strategy, &judge(), &Budget::effort(Some(2_000), 1)).unwrap();
        assert_eq!(plan.judged, Judged::All, "{}", strategy.name());
        assert!(plan.optimal, "{} in {snapshot:?}", strategy.name());
        let one = |(actor, place): (ActorIx, &Option<UnitIx>)| {
            let is_excused = plan.excused.iter().any(|excused| excused.actor == actor);
            let place = place.map_or("nowhere".to_owned(), |unit| format!("on {}", snapshot.unit_id(unit)));
            let excused = if is_excused { " excused" } else { "" };
            (!snapshot.is_fixed(actor)).then(|| format!("{} {place}{excused}", snapshot.actor_id(actor)))
        };
        plan.assignment.enumerate().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    [&asp() as &dyn Strategy, &clingo, &Exhaustive].map(by).to_vec()
}

/// A quota of ten per pool: eleven fixed actors exceed it, and forty movable ones.
#[test]
fn as_many_as_allowed_leave_an_exceeded_quota_and_none_are_added() {
    let of_others = (0..11).map(|i| format!("f{i}:cpu=1:at=u,fixed"));
    let ours = (0..40).map(|i| format!("a{i}:cpu=1:at=u"));
    let actors: Vec<String> = of_others.chain(ours).chain(["new:cpu=1".to_owned()]).collect();
    let names: Vec<&str> = actors.iter().filter_map(|actor| actor.split(':').next()).collect();
    let names = names.join(",");
    let quotas = format!("quota {names} 10 pool=p; quota {names} 10 pool=q");
    let snapshot = line::world("u:cpu:999:pool=p v:cpu:999:node=m,pool=q", &actors.join(" "), &quotas);
    for strategy in [&asp() as &dyn Strategy, &Local] {
        let plan = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap();
        let found = (plan.cost.unplaced, plan.moves.len(), plan.excused.len());
        assert_eq!(found, (0, 9, 31), "{}", strategy.name());
        let v = snapshot.unit("v");
        assert_eq!(plan.assignment[snapshot.actor("new").unwrap()], v, "{}", strategy.name());
    }
}

/// Two applications violate a new limit together: the first one to be planned repairs it, and the other is feasible then.
#[test]
fn applications_that_violate_a_limit_together_repair_it() {
    let ids = ["shop/app/a-0", "shop/other/a-1"];
    let apart = json!({"constraints": [{"type": "apart", "on": "node", "actors": ids}]});
    let of = |own: usize, other: usize| [("app", Some(own), false), ("other", Some(other), true)];
    assert_eq!(planned(&shop(2, &of(0, 0), &apart)), (0, 1, 0));
    assert_eq!(planned(&shop(2, &of(1, 0), &apart)), (0, 0, 0));
    assert_eq!(planned(&shop(1, &of(0, 0), &apart)), (0, 0, 1));
}

/// `count` numbered items.
fn each(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(" ")
}

/// Units, actors and rules, and how many actors are unplaced, moved and grandfathered.
type Case = (String, String, String, (i64, usize, usize));

/// Limits with many members at many places.
#[test]
fn limits_with_many_members_are_repaired_or_grandfathered() {
    let unit = |i: usize| format!("u{i}:cpu:9:node=n{i}");
    let of_two = |i: usize| format!("a{i}:cpu=1:at=u{}", i / 2);
    let staying = |i: usize| format!("f{i}:cpu=1:at=u{},fixed", 40 + i);
    let [ours, theirs] = [("a", 80), ("f", 120)].map(|(name, count)| each(count, |i| format!("{name}{i}")));
    let powered = each(8, |i| format!("u{i}:cpu:2000:node=n,power=300"));
    let spread = each(100, |i| format!("a{i}:cpu=100:at=u{}", i % 8));
    let cases: [Case; 5] = [
        // Five on one unit, which is full, and one elsewhere.
        (
            each(200, |i| format!("u{i}:cpu:9:slots={}", if i == 0 { 5 } else { 1 })),
            each(6, |i| format!("a{i}:cpu=1:at=u{}", i / 5)),
            "together unit a0 a1 a2 a3 a4 a5".to_owned(),
            (0, 0, 6),
        ),
        // Two on each of some nodes, with free nodes and without.
        (each(160, unit), each(80, of_two), format!("apart node {ours}"), (0, 40, 0)),
        (
            each(160, unit),
            format!("{} {} new:cpu=1", each(80, of_two), each(120, staying)),
            format!("apart node {ours} {theirs} new"),
            (1, 0, 80),
        ),
        // Each draws 15 W on the node with the cap.
        (powered.clone(), spread.clone(), "powerCap node 1000".to_owned(), (0, 0, 100)),
        (
            format!("{powered} {}", each(8, |i| format!("v{i}:cpu:2000:node=m"))),
            spread,
            "powerCap node 1000".to_owned(),
            (0, 34, 0),
        ),
    ];
    for (units, actors, rules, expected) in cases {
        let snapshot = line::world(&units, &actors, &rules);
        for strategy in [&asp() as &dyn Strategy, &Local] {
            let plan = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(1_000), 1)).unwrap();
            let found = (plan.cost.unplaced, plan.moves.len(), plan.excused.len());
            assert_eq!((found, plan.judged), (expected, Judged::All), "{} of {rules}", strategy.name());
        }
    }
}

/// Bits of these watts would exceed the 32 bits of clingo; thresholds do not.
#[test]
fn a_cap_over_large_numbers_is_judged() {
    let units = each(2, |i| format!("u{i}:cpu:1000003:node=n,power=301"));
    let actors = each(20, |i| format!("a{i}:cpu=200000:at=u{}", i % 2));
    let snapshot = line::world(&units, &actors, "powerCap node 1000");
    let plan = plan(&snapshot, &Local, &judge(), &Budget::effort(Some(20), 1)).unwrap();
    let found = (plan.cost.unplaced, plan.moves.len(), plan.excused.len());
    assert_eq!((found, plan.judged), ((0, 0, 20), Judged::Scaled));
}

/// Fixed actors exceed a cap; rounding must not reject an actor that adds less than a watt.
#[test]
fn power_above_a_cap_is_not_rounded_away() {
    let actors = "f:cpu=10000001:at=u,fixed a:cpu=99000";
    let snapshot = line::world("u:cpu:30000000:node=n,power=300", actors, "powerCap node 50");
    let plan = plan(&snapshot, &Local, &judge(), &Budget::effort(Some(20), 1)).unwrap();
    assert_eq!((plan.cost.unplaced, plan.judged), (0, Judged::Scaled));
}

/// A cap that is exceeded already is left to the rules in scaled numbers too.
#[test]
fn an_exceeded_cap_does_not_bind_in_scaled_numbers() {
    let units = "u:cpu:10:node=m,idle=400 v:gpu:10:node=n,idle=500 w:cpu:10:node=o";
    let actors = "f:cpu=1:at=u,fixed a:gpu=1:at=v b:cpu=1";
    let snapshot = line::world(units, actors, "a to b 100000000; powerCap node 300");
    assert!(!Scale::of(&snapshot).unwrap().is_exact());
    for strategy in [&asp() as &dyn Strategy, &Local] {
        let plan = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap();
        let found = (plan.cost.unplaced, plan.moves.len(), plan.excused.len());
        assert_eq!((found, plan.judged), ((0, 0, 1), Judged::Scaled), "{}", strategy.name());
    }
}

/// Relations with too many literals, or too large numbers, are not grandfathered.
#[test]
fn relations_too_large_to_ground_are_not_grandfathered() {
    let all = each(1_000, |i| format!("a{i}"));
    let snapshot = line::world(
        &each(200, |i| format!("u{i}:cpu:9:node=n{i}")),
        &each(1_000, |i| format!("a{i}:cpu=1:at=u{}", i / 5)),
        &format!("apart node {all}"),
    );
    assert!(snapshot.problem().suspended_limits.is_empty());
    assert_eq!(snapshot.violations(&snapshot.incumbent())[0].says, "a0, a1: each on a node of its own");
    // One of them draws half of what both do; work · watts exceeds 64 bits.
    let snapshot = line::world(
        "u:cpu:1000000007:power=1000000000 v:cpu:1000000007:node=m",
        "a:cpu=5000000000:at=u,move=9 b:cpu=5000000000:at=u,move=5",
        "powerCap node 7000000000; objectives migration",
    );
    assert!(snapshot.problem().suspended_limits.is_empty());
    for strategy in [&asp() as &dyn Strategy, &Exhaustive] {
        let plan = plan(&snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap();
        assert_eq!(plan.assignment, line::assignment(&snapshot, "a=u b=v"), "{}", strategy.name());
        assert!(plan.excused.is_empty(), "{}", strategy.name());
    }
}
