//! How a policy's rules over placements appear in explanations.

use asp::{ClingoJudge, Limits};
use explain::UnplacedCause;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Judge as _, Snapshot};
use serde_json::{Value, json};

fn judge() -> ClingoJudge {
    ClingoJudge::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits::default(), 2_000)
}

/// Two zones of two CPUs with two slots each, and a GPU in the second; `web-0` to `web-2` and `x` run on CPUs.
fn world(program: &str, constraints: &Value) -> Snapshot {
    let unit = |i: usize| {
        json!({"id": format!("n{i}/cpu"), "kind": "cpu", "node": format!("n{i}"),
        "zone": format!("z{}", i / 2), "capacity": 10, "slots": 2})
    };
    let gpu = json!({"id": "n3/gpu", "kind": "gpu", "node": "n3", "zone": "z1", "capacity": 10});
    let units: Vec<Value> = (0..4).map(unit).chain([gpu]).collect();
    let actor = |name: &str| json!({"id": format!("shop/app/{name}"), "group": "web", "runsOn": {"cpu": 2}});
    let actors: Vec<Value> = ["web-0", "web-1", "web-2", "x"].map(actor).into();
    let json = json!({"version": 1, "for": "shop/app", "units": units, "actors": actors,
        "exchangeCost": {"otherKind": 5}, "constraints": constraints,
        "policy": {"name": "test", "program": program}});
    Snapshot::read(&json.to_string()).unwrap()
}

/// Why `x` has no place beside the others, the first of which are on the CPUs of these nodes.
fn describe(program: &str, constraints: &Value, nodes: &[usize]) -> String {
    let bare = world(program, constraints);
    let ruled = bare.with_derived(judge().derive(&bare).unwrap()).unwrap();
    let placed = nodes.iter().map(|node| Some(UnitIx::new(*node)));
    let assignment: Assignment = placed.chain(std::iter::repeat(None)).take(4).collect();
    assert_eq!(ruled.violations(&assignment), []);
    let asked = explain::with_open_rules(&ruled, &bare, &judge(), &assignment);
    assert_eq!(asked.violations(&assignment), []);
    match explain::explain_unplaced(&asked, ActorIx::new(3), &assignment, 10_000_000) {
        UnplacedCause::Blocked(core) => {
            assert!(core.irreducible);
            format!("{}: {}", core.holds, core.lines(&asked, &assignment).join("; "))
        }
        UnplacedCause::Room(moves) => {
            let place = |(actor, unit): &(ActorIx, UnitIx)| {
                format!("{} on {}", asked.short_name(*actor), asked.unit_id(*unit))
            };
            format!("room: {}", moves.iter().map(place).collect::<Vec<_>>().join(", "))
        }
    }
}

const SPREAD: &str = "zone(A,Z) :- run_on(A,U), cu_zone(U,Z).\n\
    :- group(_,G), cu_zone(_,Z), #count { A : zone(A,Z), group(A,G) } > 1.";

#[test]
fn rules_over_placements_are_named_by_policy_and_line() {
    let none = json!([]);
    let alone = ":- run_on(a(\"shop\",\"app\",\"x\"),_).";
    insta::assert_snapshot!(describe(alone, &none, &[0, 1, 2]), @"always: policy test line 1");
    insta::assert_snapshot!(describe(SPREAD, &none, &[0, 2]), @"always: policy test line 2: G = web, Z = z0, and 1 more like it");
    let two = ":- run_on(a(\"shop\",\"app\",\"x\"),U), cu_zone(U,\"z0\").\n\
        :- run_on(A,_), run_on(a(\"shop\",\"app\",\"x\"),_), group(A,\"elsewhere\").\n\
        :- run_on(A,U), run_on(a(\"shop\",\"app\",\"x\"),V), cu_zone(U,Z), cu_zone(V,Z), A != a(\"shop\",\"app\",\"x\").";
    let stays = json!([{"type": "pin", "actor": "shop/app/web-0", "unit": "n3/cpu"}]);
    insta::assert_snapshot!(describe(two, &stays, &[3]), @"always: policy test line 1: U = n0/cpu, and 1 more like it; policy test line 3: A = shop/app/web-0, U = n3/cpu, V = n2/cpu, Z = z1, and 2 more like it; web-0: pinned to n3/cpu");
    // Without its constraint it could use the other zone, where the rule holds.
    let kept = json!([{"type": "only", "actors": ["shop/app/x"], "nodes": ["n0"]},
        {"type": "pin", "actor": "shop/app/web-0", "unit": "n1/cpu"}]);
    insta::assert_snapshot!(describe(SPREAD, &kept, &[1]), @"always: kept to other places by constraints[0]; policy test line 2: G = web, Z = z0; web-0: pinned to n1/cpu");
    // There the rule would be violated too: the constraint is not the reason.
    let full = json!([{"type": "only", "actors": ["shop/app/x"], "nodes": ["n0"]},
        {"type": "pin", "actor": "shop/app/web-0", "unit": "n1/cpu"},
        {"type": "pin", "actor": "shop/app/web-1", "unit": "n2/cpu"}]);
    insta::assert_snapshot!(describe(SPREAD, &full, &[1, 2]), @"always: policy test line 2: G = web, Z = z0, and 1 more like it");
    let wants = ":- #count { A : run_on(A,U), cu_zone(U,\"z1\") } < 2.\n:- run_on(_,\"n2/cpu\").";
    let few = json!([{"type": "never", "actors": ["shop/app/web-0", "shop/app/web-1", "shop/app/web-2"], "units": ["n0/cpu", "n1/cpu"]},
        {"type": "pin", "actor": "shop/app/x", "unit": "n3/cpu"}]);
    insta::assert_snapshot!(describe(wants, &few, &[3, 3]), @"always: pinned to n3/cpu; n3/cpu: 2 of 2 slots taken; policy test line 2; web-0, web-1 and web-2: kept away by constraints[0]");
}
