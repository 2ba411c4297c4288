//! Remedies under a policy with rules: each is applied to a copy of the snapshot, on which the policy is derived again, and every
//! assignment is tried there.

use asp::{ClingoJudge, Limits};
use explain::{Change, Rebuild, remedies};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Judge as _, Snapshot};
use serde_json::{Value, json};

fn judge() -> ClingoJudge {
    ClingoJudge::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits::default(), 2_000)
}

/// Two zones of two CPUs with two slots each; the actors run on CPUs.
fn world(program: &str, actors: &[&str], constraints: &Value) -> Snapshot {
    let unit = |i: usize| {
        json!({"id": format!("n{i}/cpu"), "kind": "cpu", "node": format!("n{i}"),
        "zone": format!("z{}", i / 2), "capacity": 10, "slots": 2})
    };
    let units: Vec<Value> = (0..4).map(unit).collect();
    let actor = |name: &&str| {
        let group = name.split('-').next();
        json!({"id": format!("shop/app/{name}"), "group": group, "runsOn": {"cpu": 2}})
    };
    let actors: Vec<Value> = actors.iter().map(actor).collect();
    let json = json!({"version": 1, "for": "shop/app", "units": units, "actors": actors,
        "exchangeCost": {"otherKind": 5}, "constraints": constraints,
        "policy": {"name": "test", "program": program}});
    Snapshot::read(&json.to_string()).unwrap()
}

fn with_policy(bare: &Snapshot) -> Snapshot {
    bare.with_derived(judge().derive(bare).unwrap()).unwrap()
}

/// The bare snapshot after the changes, with what the policy derives from it.
fn changed(ruled: &Snapshot, bare: &Snapshot, changes: &[Change]) -> Snapshot {
    let given = bare.file().constraints.len();
    let is_derived = |change: &&Change| match change {
        Change::LeaveOut { position, .. } | Change::Without { position } => *position >= given,
        _ => false,
    };
    let mut file = bare.file().clone();
    changes.iter().filter(|change| !is_derived(change)).for_each(|change| change.apply(ruled, &mut file));
    let derived = judge().derive(&Snapshot::new(file.clone()).unwrap()).unwrap();
    file.constraints.extend(derived.constraints);
    changes.iter().filter(is_derived).for_each(|change| change.apply(ruled, &mut file));
    Snapshot::new(file).unwrap().with_rules(derived.rules)
}

/// Whether all of them can have a place at once, by trying every assignment; violations of these rules are permanent.
fn fit(world: &Snapshot, actors: &[ActorIx], assignment: &mut Assignment) -> bool {
    if !world.violations(assignment).is_empty() {
        return false;
    }
    let Some((actor, rest)) = actors.split_first() else { return true };
    let found = UnitIx::first(world.units()).any(|unit| {
        assignment[*actor] = Some(unit);
        fit(world, rest, assignment)
    });
    assignment[*actor] = None;
    found
}

/// The remedies for unplaced actors beside the others, the first of which are on the CPUs of these nodes.
fn tell(program: &str, actors: &[&str], constraints: &Value, nodes: &[usize]) -> String {
    let bare = world(program, actors, constraints);
    let ruled = with_policy(&bare);
    let placed = nodes.iter().map(|node| Some(UnitIx::new(*node)));
    let assignment: Assignment = placed.chain(std::iter::repeat(None)).take(actors.len()).collect();
    assert_eq!(ruled.violations(&assignment), []);
    let all: Vec<ActorIx> = ActorIx::first(actors.len()).collect();
    let waiting = &all[nodes.len()..];
    let unplaced = || -> Assignment { actors.iter().map(|_| None).collect() };
    assert!(!fit(&ruled, &all, &mut unplaced()), "{program}: there is room");
    let judge = judge();
    let origin = Rebuild { bare: &bare, judge: &judge };
    let proposed = remedies(&ruled, origin, waiting, &assignment, 20_000_000);
    for remedy in &proposed {
        let text = remedy.describe(&ruled);
        assert!(remedy.is_smallest, "{text}");
        let has_room = |changes: &[Change]| fit(&changed(&ruled, &bare, changes), &all, &mut unplaced());
        assert!(has_room(&remedy.changes), "{program}: {text} is not enough");
        for position in 0..remedy.changes.len() {
            let mut less = remedy.changes.clone();
            match less[position].more() {
                Some(more) if more > 1 => less[position] = less[position].with(more - 1),
                _ => drop(less.remove(position)),
            }
            assert!(!has_room(&less), "{program}: {text} is more than needed");
        }
    }
    proposed.iter().map(|remedy| remedy.describe(&ruled)).collect::<Vec<_>>().join("; or ")
}

const ONE_OF_A_GROUP_ON_A_NODE: &str =
    ":- group(_,G), cu_node(_,N), #count { A : group(A,G), run_on(A,U), cu_node(U,N) } > 1.";
const ONE_OF_A_GROUP_IN_A_ZONE: &str =
    ":- group(_,G), cu_zone(_,Z), #count { A : group(A,G), run_on(A,U), cu_zone(U,Z) } > 1.";
const KNOWN_NODES: &str = "known(\"n0\"). known(\"n1\"). known(\"n2\"). known(\"n3\").\n\
    forbid(A,U) :- actor(A), cu_node(U,N), not known(N).";
const SMALL_UNITS_ARE_FOR_NOBODY: &str = "forbid(A,U) :- actor(A), cu_slots(U,S), S < 4.";
const NOT_TOO_MANY_SLOTS: &str = "forbid(A,U) :- actor(A), cu_slots(U,S), S > 3.";
const WEB_AND_DB_APART: &str = ":- run_on(A,U), run_on(B,U), group(A,\"web\"), group(B,\"db\").";

/// A program, actors, constraints, the placement of the first of them, and the expected remedies.
type Case<'a> = (&'a str, &'a [&'a str], &'a Value, &'a [usize], &'a str);

#[test]
fn remedies_under_a_policy_are_sufficient_and_smallest_after_rederivation() {
    let full = ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7", "web-8"];
    let on_all = [0, 0, 1, 1, 2, 2, 3, 3];
    let none = json!([]);
    let away = json!([{"type": "never", "actors": ["shop/app/web-0", "shop/app/web-1", "shop/app/web-2", "shop/app/web-3"], "nodes": ["n2", "n3"],
        "reason": "n2 is cordoned"}]);
    let cases: [Case; 8] = [
        (ONE_OF_A_GROUP_ON_A_NODE, &full[..5], &none, &[0, 1, 2, 3], "one more node like n0"),
        (ONE_OF_A_GROUP_ON_A_NODE, &full[..6], &none, &[0, 1, 2, 3], "2 more nodes like n0"),
        // A copy of an existing node is in a zone that already has its one.
        (ONE_OF_A_GROUP_IN_A_ZONE, &full[..3], &none, &[0, 2], ""),
        (
            ONE_OF_A_GROUP_ON_A_NODE,
            &full[..4],
            &away,
            &[0, 1],
            "without: n2 is cordoned; or 2 more nodes like n0",
        ),
        // The policy forbids unknown units.
        (KNOWN_NODES, &full, &none, &on_all, "1 more slot on n0/cpu"),
        (SMALL_UNITS_ARE_FOR_NOBODY, &full[..1], &none, &[], "exempt web-0 from: policy test line 1"),
        (NOT_TOO_MANY_SLOTS, &full, &none, &on_all, "1 more slot on n0/cpu; or one more node like n0"),
        (
            WEB_AND_DB_APART,
            &["web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "db-0"],
            &none,
            &[0, 0, 1, 1, 2, 2, 3],
            "1 more slot on n0/cpu; or one more node like n0",
        ),
    ];
    let mut wrong = Vec::new();
    for (program, actors, constraints, nodes, expected) in cases {
        let proposed = tell(program, actors, constraints, nodes);
        if proposed != expected {
            wrong.push(format!("{program} | {} actors\n  {proposed}\n", actors.len()));
        }
    }
    assert!(wrong.is_empty(), "other proposals:\n{}", wrong.concat());
}
