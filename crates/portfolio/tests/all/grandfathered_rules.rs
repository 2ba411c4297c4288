//! Policy rules that are violated already: actors may stay, none may be added, and as many as possible move away.

use exact::Exhaustive;
use placement::file::Policy;
use placement::ix::UnitIx;
use placement::{Budget, Cost, Criterion, Plan, Snapshot, Strategy, plan};
use portfolio::{Clingo, ClingoJudge, Limits};
use search::Local;
use serde_json::{Value, json};
use testkit::line;

use crate::asp;
use crate::grandfathered_limits::outcomes;

const CHILD: &str = env!("CARGO_BIN_EXE_portfolio-child");

/// At most this many noisy actors per node.
fn at_most(most: u64) -> String {
    format!(
        "noisy(A) :- actor_label(A,\"noise\",\"high\").\n\
         :- cu_node(_,N), #count {{ A : noisy(A), run_on(A,U), cu_node(U,N) }} > {most}.\n"
    )
}

/// One unit on each node; actors by where they run and whether they are fixed.
fn world(nodes: usize, actors: &[(Option<usize>, bool)], program: &str) -> Snapshot {
    let unit = |n: usize| json!({"id": format!("n{n}/cpu"), "kind": "cpu", "node": format!("n{n}"), "capacity": 1000});
    let actor = |(i, (current, fixed)): (usize, &(Option<usize>, bool))| {
        let mut actor = json!({"id": format!("shop/app/a-{i}"), "runsOn": {"cpu": 1}, "labels": {"noise": "high"},
            "moveCost": 5, "fixed": fixed});
        if let Some(at) = current {
            actor["current"] = json!(format!("n{at}/cpu"));
        }
        actor
    };
    let units: Vec<Value> = (0..nodes).map(unit).collect();
    let actors: Vec<Value> = actors.iter().enumerate().map(actor).collect();
    let file = json!({"version": 1, "units": units, "actors": actors, "exchangeCost": {"otherKind": 1},
        "policy": {"name": "quiet", "program": program}});
    Snapshot::read(&file.to_string()).unwrap()
}

fn judge() -> ClingoJudge {
    ClingoJudge::with_executable(CHILD, Limits::default(), 2_000)
}

fn by(strategy: &dyn Strategy, snapshot: &Snapshot) -> Plan {
    plan(snapshot, strategy, &judge(), &Budget::effort(Some(300), 1)).unwrap()
}

fn many(count: usize, actor: (Option<usize>, bool)) -> Vec<(Option<usize>, bool)> {
    vec![actor; count]
}

#[test]
fn as_many_as_allowed_move_away_from_a_rule_that_fixed_actors_violate() {
    let actors = [many(11, (Some(0), true)), many(40, (Some(0), false))].concat();
    let snapshot = world(2, &actors, &at_most(10));
    // There are too many equivalent placements for a proof.
    let clingo = Clingo::with_executable(CHILD, Limits::default()).with_conflicts(500);
    for strategy in [&asp() as &dyn Strategy, &Local, &clingo] {
        let plan = by(strategy, &snapshot);
        let name = strategy.name();
        assert_eq!((plan.cost.unplaced, plan.moves.len(), plan.excused.len()), (0, 10, 30), "{name}");
        assert_eq!(plan.cost.of(Criterion::Excused), 30, "{name}");
        assert_eq!(plan.excused[0].reasons, ["policy quiet line 2: N = n0"], "{name}");
        assert!(!plan.bound.contains_key("excused"), "{name}");
    }
}

#[test]
fn no_actor_is_added_to_a_rule_that_fixed_actors_violate() {
    let actors = [many(11, (Some(0), true)), vec![(None, false)]].concat();
    let plan = by(&asp(), &world(1, &actors, &at_most(10)));
    assert_eq!((plan.cost.unplaced, plan.excused.len(), plan.optimal), (1, 0, true));
    // With room elsewhere, new actors go there first.
    let actors = [many(3, (Some(0), true)), many(4, (Some(0), false)), vec![(None, false)]].concat();
    let plan = by(&asp(), &world(2, &actors, &at_most(2)));
    assert_eq!((plan.cost.unplaced, plan.excused.len(), plan.moves.len(), plan.optimal), (0, 3, 1, true));
}

/// Two applications violate a rule together, and each sees the other as fixed: both repair it.
#[test]
fn applications_that_violate_a_rule_together_repair_it() {
    let of_one = |at: usize, fixed: bool| many(6, (Some(at), fixed));
    let first = by(&asp(), &world(3, &[of_one(0, false), of_one(0, true)].concat(), &at_most(5)));
    assert_eq!((first.cost.unplaced, first.excused.len(), first.moves.len()), (0, 0, 6));
    let moved: Vec<(Option<usize>, bool)> =
        first.assignment.iter().take(6).map(|place| (place.map(UnitIx::at), true)).collect();
    let second = by(&asp(), &world(3, &[of_one(0, false), moved].concat(), &at_most(5)));
    assert_eq!((second.cost.unplaced, second.excused.len()), (0, 0));
}

/// Two actors on two units of one node, where one is allowed, and one of them may no longer stay where it runs: it is
/// part of the present violation all the same, and may move to the other unit. An additional actor may not.
#[test]
fn actors_that_may_not_stay_count_in_the_present_violation() {
    let count = ":- cu_node(_,N), #count { A : run_on(A,U), cu_node(U,N) } > 1.";
    let work = ":- cu_node(_,N), #sum { W,A : run_on(A,U), cu_node(U,N), workload(A,U,W) } > 1.";
    let never = json!([{"type": "never", "actors": ["s/p/a"], "units": ["u"]}]);
    let pin = json!([{"type": "pin", "actor": "s/p/a", "unit": "v"}]);
    let closed = [
        ("cpu", never.clone(), "", count),
        ("cpu", never, "", work),
        ("cpu", pin, "", count),
        ("cpu", json!([]), "forbid(a(\"s\",\"p\",\"a\"),\"u\").", count),
        ("cpu", json!([]), "forbid(a(\"s\",\"p\",\"a\"),\"u\").", work),
        ("cpu", json!([]), "pin(a(\"s\",\"p\",\"a\"),\"v\").", count),
        ("fpga", json!([]), "", count),
    ];
    for (kind, constraints, said, rule) in closed {
        for has_new_actor in [false, true] {
            let unit = |id: &str, kind: &str| json!({"id": id, "kind": kind, "node": "n", "capacity": 9});
            let mut actors = vec![
                json!({"id": "s/p/a", "runsOn": {"cpu": 1}, "current": "u"}),
                json!({"id": "s/p/b", "runsOn": {"cpu": 1}, "current": "v"}),
            ];
            if has_new_actor {
                actors.push(json!({"id": "s/p/c", "runsOn": {"cpu": 1}}));
            }
            let file = json!({"version": 1, "units": [unit("u", kind), unit("v", "cpu")], "actors": actors,
                "constraints": constraints, "exchangeCost": {"otherKind": 1},
                "policy": {"name": "quiet", "program": format!("{said}\n{rule}\n")}});
            let snapshot = Snapshot::read(&file.to_string()).unwrap();
            let (asp, clingo) = (asp(), Clingo::with_executable(CHILD, Limits::default()));
            let all: [&dyn Strategy; 4] = [&Exhaustive, &asp, &clingo, &Local];
            // A short search need not find which actor to leave out.
            for strategy in &all[..if has_new_actor { 3 } else { 4 }] {
                let plan = by(*strategy, &snapshot);
                let counts = (plan.cost.unplaced, plan.cost.of(Criterion::Excused), plan.excused.len());
                assert_eq!(counts, (i64::from(has_new_actor), 2, 2), "{} in {snapshot:?}", strategy.name());
            }
        }
    }
}

#[test]
fn all_strategies_agree_on_grandfathered_actors() {
    let mut excused = 0;
    for seed in 0..25 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let actors: Vec<(Option<usize>, bool)> = (0..7)
            .map(|i| {
                let current = Some(rng.usize(..2)).filter(|_| i < 3 || rng.u8(..4) > 0);
                (current, current.is_some() && i < 3)
            })
            .collect();
        let mut program = at_most(rng.u64(1..4));
        if rng.bool() {
            program.push_str(":- noisy(A), noisy(B), A < B, run_on(A,\"n0/cpu\"), run_on(B,\"n0/cpu\").\n");
        }
        let snapshot = world(3, &actors, &program);
        let truth = plan(&snapshot, &Exhaustive, &judge(), &Budget::effort(None, 1)).unwrap();
        let world = truth.world(&snapshot);
        let clingo = Clingo::with_executable(CHILD, Limits::default());
        for strategy in [&asp() as &dyn Strategy, &clingo] {
            let found = plan(&snapshot, strategy, &judge(), &Budget::effort(None, 1)).unwrap();
            let values = [&found, &truth].map(|plan| plan.cost.vector(&world));
            assert_eq!(values[0], values[1], "{} seed {seed} in {snapshot:?}", strategy.name());
            assert!(found.optimal, "{} seed {seed} in {snapshot:?}", strategy.name());
        }
        excused += usize::from(!truth.excused.is_empty());
        held_agree(&world);
    }
    assert!(excused > 5, "{excused}");
}

/// With running actors fixed, under the same rules, all strategies agree on where the others go and which actors
/// are grandfathered.
fn held_agree(world: &Snapshot) {
    let mut file = world.file().clone();
    for actor in file.actors.iter_mut().filter(|actor| actor.current.is_some()) {
        actor.fixed = true;
    }
    let held = world.in_numbers(file, world.rules().cloned()).unwrap();
    if held.problem().movable.is_empty() {
        return;
    }
    let clingo = Clingo::with_executable(CHILD, Limits::default());
    let [truth, by_asp, by_clingo] = [&Exhaustive as &dyn Strategy, &asp(), &clingo].map(|strategy| {
        let found = strategy.solve(&held, &Budget::effort(None, 1)).unwrap().assignment;
        assert_eq!(held.violations(&found), vec![], "{} in {held:?}", strategy.name());
        Cost { policy: held.penalty(&found), ..held.cost(&found) }.vector(&held)
    });
    assert_eq!([&by_asp, &by_clingo], [&truth; 2], "in {held:?}");
}

/// Constraints derived from facts alone, such as `apart`, are grandfathered as well.
#[test]
fn inseparable_noisy_neighbours_are_grandfathered() {
    let program = include_str!("../../../../policies/examples/noisy-neighbour.lp");
    let one = (Some(0), false);
    let by_asp = |nodes: usize, actors: &[(Option<usize>, bool)]| by(&asp(), &world(nodes, actors, program));
    let counts = |plan: &Plan| (plan.cost.unplaced, plan.moves.len(), plan.excused.len());
    let stuck = by_asp(1, &[one, one]);
    assert_eq!(counts(&stuck), (0, 0, 2));
    assert_eq!(stuck.excused[0].reasons, ["shop/app/a-0, shop/app/a-1: policy quiet line 12"]);
    assert_eq!(counts(&by_asp(2, &[one, one])), (0, 1, 0));
    assert_eq!(counts(&by_asp(1, &[one, (Some(0), true)])), (0, 0, 1));
    assert_eq!(counts(&by_asp(1, &[one, one, (None, false)])), (1, 0, 2));
    assert_eq!(counts(&by_asp(2, &[one, one, one, (Some(1), false)])), (0, 0, 3));
}

/// Units, actors, and the derived relation of the group; then the expected result of every strategy.
const DERIVED: [[&str; 4]; 13] = [
    [
        "u:cpu:9",
        "a:cpu=1:at=u,group=g b:cpu=1:at=u,group=g",
        "apart(A,B,unit)",
        "a on u excused, b on u excused",
    ],
    [
        "u:cpu:9 v:cpu:9",
        "a:cpu=1:at=u,group=g,move=2 b:cpu=1:at=u,group=g,move=1",
        "apart(A,B,unit)",
        "a on u, b on v",
    ],
    // A new actor is kept away from one that stays.
    [
        "u:cpu:9 v:cpu:9",
        "f:cpu=1:at=u,group=g,fixed a:cpu=1:at=u,group=g b:cpu=1:group=g",
        "apart(A,B,node)",
        "a on u excused, b nowhere",
    ],
    [
        "u:cpu:9 v:cpu:9:node=m",
        "f:cpu=1:at=u,group=g,fixed a:cpu=1:at=u,group=g",
        "apart(A,B,node)",
        "a on v",
    ],
    // There is room, and an actor with which nothing is violated yet.
    [
        "u:cpu:9 v:cpu:9:node=m",
        "a:cpu=1:at=u,group=g b:cpu=1:at=u,group=g c:cpu=1:at=v,group=g",
        "apart(A,B,node)",
        "a on u excused, b on u excused, c on v",
    ],
    [
        "u:cpu:9:zone=z v:cpu:9:node=m,zone=z",
        "a:cpu=1:at=u,group=g b:cpu=1:at=v,group=g",
        "apart(A,B,zone)",
        "a on u excused, b on v excused",
    ],
    [
        "u:cpu:9:zone=z v:cpu:9:node=m,zone=z w:cpu:9:node=o,zone=y",
        "a:cpu=1:at=u,group=g,move=2 b:cpu=1:at=v,group=g,move=1",
        "apart(A,B,zone)",
        "a on u, b on w",
    ],
    [
        "u:cpu:9:slots=1 v:cpu:9:slots=1",
        "a:cpu=1:at=u,group=g b:cpu=1:at=v,group=g",
        "together(A,B,unit)",
        "a on u excused, b on v excused",
    ],
    [
        "u:cpu:9 v:cpu:9:slots=1",
        "a:cpu=1:at=u,group=g b:cpu=1:at=v,group=g",
        "together(A,B,unit)",
        "a on u, b on u",
    ],
    [
        "u:cpu:9:slots=1 v:cpu:9:node=m",
        "f:cpu=1:at=u,group=g,fixed a:cpu=1:at=v,group=g",
        "together(A,B,node)",
        "a on v excused",
    ],
    // A new actor must be with all of them.
    [
        "u:cpu:9:slots=1 v:cpu:9:node=m",
        "f:cpu=1:at=u,group=g,fixed a:cpu=1:at=v,group=g b:cpu=1:group=g",
        "together(A,B,node)",
        "a on v excused, b nowhere",
    ],
    // Two that are together now stay together, wherever the third is.
    [
        "u:cpu:9:slots=2 v:cpu:9:node=m,slots=1 w:cpu:9:node=o,slots=1",
        "a:cpu=1:at=u,group=g b:cpu=1:at=u,group=g c:cpu=1:at=v,group=g",
        "together(A,B,node)",
        "a on u excused, b on u excused, c on v excused",
    ],
    [
        "u:cpu:9:zone=z,slots=1 v:cpu:9:node=m,zone=z w:cpu:9:node=o,zone=y",
        "a:cpu=1:at=u,group=g,move=2 b:cpu=1:at=w,group=g,move=1",
        "together(A,B,zone)",
        "a on u, b on v",
    ],
];

/// Such a snapshot under a policy.
fn derived(units: &str, actors: &str, relation: &str, more: &str) -> Snapshot {
    let program = format!("{relation} :- group(A,\"g\"), group(B,\"g\"), A < B.\n{more}");
    let mut file = line::file(units, actors, "");
    file.policy = Some(Policy { name: "quiet".into(), program: Some(program) });
    Snapshot::new(file).unwrap()
}

#[test]
fn derived_relations_are_repaired_or_grandfathered_pair_by_pair() {
    for [units, actors, relation, expected] in DERIVED {
        let found = outcomes(&derived(units, actors, relation, ""));
        assert!(found.iter().all(|outcome| outcome == expected), "{found:?} of {units} {actors} {relation}");
    }
}

/// Two that violate a relation together may keep violating it elsewhere, where they have to leave.
#[test]
fn actors_that_have_to_leave_stay_grandfathered() {
    let actors = "a:cpu=1:at=u,group=g b:cpu=1:at=u,group=g";
    let leave = "forbid(A,\"u\") :- group(A,\"g\").\n";
    let snapshot = derived("u:cpu:9 v:cpu:9:node=m", actors, "apart(A,B,node)", leave);
    let expected = "a on v excused, b on v excused";
    let found = outcomes(&snapshot);
    assert!(found.iter().all(|outcome| outcome == expected), "{found:?}");
}
