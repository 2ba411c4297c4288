//! What a policy derives from a snapshot, and the judge's verdict on an assignment, compared with clingo.

use std::fmt::Write as _;

use asp::{ClingoJudge, Limits};
use placement::file::Constraint;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, Derived, Judge, JudgeError, Judged, RuleEvaluator, Snapshot};

fn judge() -> ClingoJudge {
    ClingoJudge::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits::default(), 2_000)
}

/// Two zones of two nodes each with a CPU and a GPU; two groups of three actors that run on both.
fn world(program: &str) -> Snapshot {
    let unit = |node: usize, kind: &str| {
        serde_json::json!({"id": format!("n{node}/{kind}"), "kind": kind, "node": format!("n{node}"),
            "zone": format!("z{}", node / 2), "capacity": 10, "provides": {"memory": 8}})
    };
    let units: Vec<_> = (0..4).flat_map(|node| [unit(node, "cpu"), unit(node, "gpu")]).collect();
    let actor = |group: &str, number: usize| {
        serde_json::json!({"id": format!("shop/app/{group}-{number}"), "group": group,
            "labels": {"tier": if group == "a" { "batch" } else { "live" }}, "runsOn": {"cpu": 2, "gpu": 1}})
    };
    let actors: Vec<_> = ["a", "b"].iter().flat_map(|group| (0..3).map(|i| actor(group, i))).collect();
    let json = serde_json::json!({"version": 1, "nodes": (0..4).map(|n| serde_json::json!({"id": format!("n{n}"),
        "zone": format!("z{}", n / 2)})).collect::<Vec<_>>(), "units": units, "actors": actors,
        "exchangeCost": {"otherKind": 5}, "policy": {"name": "test", "program": program}});
    Snapshot::read(&json.to_string()).unwrap()
}

fn derive(program: &str) -> Result<Derived, JudgeError> {
    judge().derive(&world(program))
}

#[test]
fn conclusions_from_facts_become_constraints_with_their_line() {
    let derived = derive(
        "% batch stays off accelerators\n\
         forbid(A,U) :- actor_label(A,\"tier\",\"batch\"), cu_kind(U,\"gpu\").\n\
         apart(A,B,node) :- group(A,\"b\"), group(B,\"b\"), A < B.\n\
         pin(a(\"shop\",\"app\",\"b-0\"),\"n3/gpu\").\n\
         prefer(A,\"n0/cpu\",5) :- group(A,\"b\"), A != a(\"shop\",\"app\",\"b-0\").\n\
         reserve(U,\"memory\",2) :- cu_zone(U,\"z0\"), cu_kind(U,\"cpu\").",
    )
    .unwrap();
    insta::assert_snapshot!(serde_json::to_string(&derived.constraints).unwrap().replace("},{", "},\n{"));
    assert_eq!(derived.rules, None);
}

/// Units that a policy forbids are no candidates any more, although its rules were grounded while they were: clingo gets the same
/// candidates.
#[test]
fn policies_read_the_candidates_without_their_own_constraints() {
    let snapshot = world(
        "forbid(A,\"n0/cpu\") :- group(A,\"a\").\n\
         :~ run_on(A,U), runnable_on(A,\"n0/cpu\"). [3,A]\n\
         :- run_on(A,\"n1/cpu\"), workload(A,\"n0/cpu\",W), W > 1.",
    );
    let snapshot = snapshot.with_derived(judge().derive(&snapshot).unwrap()).unwrap();
    for (unit, broken) in [(1, 0), (2, 1)] {
        let one_there: Assignment = (0..6).map(|actor| (actor == 0).then_some(UnitIx::new(unit))).collect();
        let judgement = judge().judge(&snapshot, &one_there).unwrap();
        assert_eq!((judgement.penalty, judgement.violations.len()), (3, broken));
        assert_eq!((snapshot.penalty(&one_there), snapshot.violations(&one_there).len()), (3, broken));
    }
}

/// A tuple of several weak constraints is paid for once.
#[test]
fn weak_constraints_share_their_tuples() {
    // On the GPU of n0 both constraints apply, on its CPU only the second.
    for (first, second, by_both, by_one) in [
        ("[10,A]", "[10,A]", 10, 10),
        ("[10]", "[10]", 10, 10),
        ("[10,A]", "[11,A]", 21, 11),
        ("[10,A]", "[10,A,here]", 20, 10),
        ("[10,A]", "[10,U]", 20, 10),
    ] {
        let program = format!(
            ":~ run_on(A,U), cu_kind(U,\"gpu\"). {first}\n:~ run_on(A,U), cu_node(U,\"n0\"). {second}"
        );
        let snapshot = world(&program);
        let snapshot = snapshot.with_derived(judge().derive(&snapshot).unwrap()).unwrap();
        for (unit, penalty) in [(1, by_both), (0, by_one)] {
            let one_there: Assignment =
                (0..6).map(|actor| (actor == 0).then_some(UnitIx::new(unit))).collect();
            let judged = judge().judge(&snapshot, &one_there).unwrap().penalty;
            assert_eq!([judged, snapshot.penalty(&one_there)], [penalty; 2], "{program}");
        }
    }
}

#[test]
fn ground_rules_over_placements_match_clingo() {
    let program = "zone(A,Z) :- run_on(A,U), cu_zone(U,Z).\n\
        :- group(_,G), cu_zone(_,Z), #count { A : zone(A,Z), group(A,G) } > 2.\n\
        :- zone(A,Z), zone(B,Z), A < B, group(A,\"a\"), group(B,\"b\"), A = a(\"shop\",\"app\",\"a-0\").\n\
        web(A) :- actor(A), A = a(\"shop\",App,Name), Name != App.\n\
        :- web(A), web(B), A < B, run_on(A,\"n0/cpu\"), run_on(B,\"n1/cpu\").\n\
        busy(N) :- run_on(_,U), cu_node(U,N).\n\
        calm(N) :- cu_node(_,N), not busy(N).\n\
        :- calm(\"n3\"), not calm(N) : cu_node(_,N), N != \"n3\".\n\
        :- #max { N : run_on(A,U), cu_capacity(U,C), group(A,\"a\"), N = C-A2, A2 = 3 } > 6, not busy(\"n2\").\n\
        :~ unplaced(A). [7,A]\n\
        :~ run_on(A,U), cu_kind(U,\"gpu\"), group(A,G). [2,A]\n\
        :- #sum { W,A : run_on(A,U), workload(A,U,W) } < 3, cu(U), run_on(_,U), not cu_kind(U,\"cpu\").";
    let snapshot = world(program);
    let derived = judge().derive(&snapshot).unwrap();
    let snapshot = snapshot.with_derived(derived).unwrap();
    let rng = &mut fastrand::Rng::with_seed(7);
    let mut broken = 0;
    for _ in 0..30 {
        let place = |rng: &mut fastrand::Rng| (rng.u8(..5) > 0).then(|| rng.usize(..8));
        let assignment: Assignment = (0..6).map(|_| place(rng).map(UnitIx::new)).collect();
        let judgement = judge().judge(&snapshot, &assignment).unwrap();
        let mut of_rules: Vec<String> =
            snapshot.violations(&assignment).iter().map(ToString::to_string).collect();
        let mut of_clingo = judgement.violations.clone();
        of_rules.sort_unstable();
        of_clingo.sort_unstable();
        assert_eq!(of_rules, of_clingo, "{assignment:?}");
        assert_eq!(judgement.penalty, snapshot.penalty(&assignment));
        broken += of_clingo.len();
    }
    assert!(broken > 20, "{broken}");
}

/// The verdicts of the ground rules and of clingo on an assignment, both sorted.
fn said(program: &str, assignment: &Assignment) -> [Vec<String>; 2] {
    let snapshot = world(program);
    let snapshot = snapshot.with_derived(judge().derive(&snapshot).unwrap()).unwrap();
    let of_rules: Vec<String> = snapshot.violations(assignment).iter().map(ToString::to_string).collect();
    let mut said = [of_rules, judge().judge(&snapshot, assignment).unwrap().violations];
    for said in &mut said {
        said.sort_unstable();
    }
    said
}

#[test]
fn arithmetic_and_term_order_match_clingo() {
    let mut program = String::new();
    for number in [-7, -2, -1, 0, 1, 2, 3, 10] {
        writeln!(program, "n({number}).").unwrap();
    }
    for term in [
        "-3", "5", "b", "ab", "\"b\"", "\"ab\"", "f(1)", "a(2)", "a(1,2)", "(1,2)", "f(1,2)", "f(a)",
        "f(\"a\")",
    ] {
        writeln!(program, "t({term}).").unwrap();
    }
    for operator in ["+", "-", "*", "/", "\\"] {
        writeln!(program, ":- n(A), n(B), X = A{operator}B, run_on(_,\"n0/cpu\").").unwrap();
    }
    program.push_str(":- t(A), t(B), A < B, run_on(_,\"n0/cpu\").");
    let mut assignment = Assignment::of(None, 6);
    assert_eq!(said(&program, &assignment), [vec![], vec![]] as [Vec<String>; 2]);
    assignment[ActorIx::new(0)] = Some(UnitIx::new(0));
    let [of_rules, of_clingo] = said(&program, &assignment);
    assert_eq!(of_rules, of_clingo);
    // Division by 0 is undefined; 13 terms are compared pairwise.
    assert_eq!(of_clingo.len(), 3 * 64 + 2 * 56 + 13 * 12 / 2);
}

/// Aggregates and undefined operations: how often each constraint is violated with one actor on one unit.
#[test]
fn aggregates_and_undefined_operations_match_clingo() {
    let mut assignment = Assignment::of(None, 6);
    assignment[ActorIx::new(0)] = Some(UnitIx::new(0));
    let premises = "t(f(4,2)). t(g(f(4,1),2)). zero(0). here :- run_on(_,\"n0/cpu\").\n\
        least(X) :- X = #min { N : cu_slots(_,N) }.\n\
        largest(X) :- X = #max { N : cu_slots(_,N) }.\n";
    for (body, broken) in [
        // No unit has slots: the maximum of the empty set is before every term, its minimum after.
        ("largest(X), run_on(A,_), work(A,\"gpu\",W), W > X", 1),
        ("least(X), X > 5, X > \"z\", X > f(1)", 1),
        ("least(X), X < f(1)", 0),
        ("least(X), largest(Y), Y < X", 1),
        ("least(X), #min { N : cu_slots(_,N) } >= X", 1),
        ("least(X), #min { N : cu_slots(_,N) } != X", 0),
        ("largest(X), #max { A : run_on(A,\"n3/gpu\") } <= X", 1),
        ("largest(X), #max { A : run_on(A,\"n0/cpu\") } <= X", 0),
        ("least(X), #count { A : actor(A) } < X", 1),
        ("largest(X), #sum { 1,A : run_on(A,_) } > X", 1),
        ("least(X), Y = X+1", 0),
        ("least(X), Y = -X", 0),
        // There are 6 actors and 8 units.
        ("not X = #count { A : actor(A) }, X = #count { U : cu(U) }", 1),
        ("not X = #count { A : actor(A) }, X = #count { A : group(A,_) }", 0),
        ("not not X = #count { A : actor(A) }, X = #count { A : group(A,_) }", 1),
        ("not X = #count { A : run_on(A,_) }, X = #count { U : cu(U) }", 1),
        ("X-1 = #count { U : cu(U) }, X = 9", 1),
        ("X+1 = #count { U : cu(U) } = Y, Y > X", 1),
        ("X = #count { U : cu(U) } = Y, Y > X", 0),
        // A term is bound by a neighbouring element.
        ("t(f(X*2,X))", 1),
        ("X > 1, t(f(X*2,X))", 1),
        ("t(g(f(X*2,Y),X)), Y < X", 1),
        ("t(Z), Z = f(X*2,X)", 1),
        ("t(f(X,X*2))", 0),
        // Division by 0 is undefined, and a literal that contains it does not hold, whatever the sign.
        ("zero(X), not work(_,\"cpu\",1/X)", 0),
        ("zero(X), not t(f(_,1/X))", 0),
        ("zero(X), not t(f(_,X))", 1),
        ("zero(X), not cu_slots(_,1/X)", 0),
        ("zero(X), not 9 < #count { A : actor(A) } < 1/X", 0),
        ("not cu_slots(\"n0/cpu\",1/X) : zero(X)", 0),
    ] {
        let program = format!("{premises}:- here; {body}.");
        let [of_rules, of_clingo] = said(&program, &assignment);
        assert_eq!(of_rules, of_clingo, "{body}");
        assert_eq!(of_clingo.len(), broken, "{body}: {of_clingo:?}");
    }
}

/// In clingo the negation of a name is a term of its own, which policies do not have.
#[test]
fn only_numbers_can_be_negated() {
    for rule in ["s(X) :- state(Y), X = -Y.", "s(X) :- state(-X)."] {
        let program = format!("state(ok).\n{rule}\n:- s(_), run_on(_,\"n0/cpu\").");
        assert_eq!(
            derive(&program).unwrap_err().to_string(),
            "policy test line 2: puts `-` before a term that is no number here; only numbers have an opposite"
        );
    }
}

/// The amount by which three actors on a unit exceed each constraint.
#[test]
fn grandfathered_limits_are_measured_by_amount() {
    let three: Assignment = (0..6).map(|actor| (actor < 3).then_some(UnitIx::new(0))).collect();
    for (body, degree) in [
        ("#count { A : run_on(A,\"n0/cpu\") } >= 2", 2),
        ("#sum { 2,A : run_on(A,\"n0/cpu\") } > 3", 3),
        ("#max { W,A : run_on(A,\"n0/cpu\"), work(A,\"cpu\",W) } >= 2", 1),
        ("#min { W,A : run_on(A,\"n0/cpu\"), work(A,\"cpu\",W) } = 2", 1),
        ("#count { N : run_on(_,U), cu_node(U,N) } >= 1", 1),
        ("not not run_on(_,\"n0/cpu\")", 1),
    ] {
        let snapshot = world(&format!(":- {body}."));
        let rules = judge().derive(&snapshot).unwrap().rules.unwrap();
        assert_eq!(RuleEvaluator::of(&rules, &three).degree(), degree, "{body}");
    }
}

/// The idle power of a unit is a fact of the policy language, as its full power is.
#[test]
fn power_that_exceeds_the_range_is_named() {
    for (program, idle, problem) in [
        (
            ":- run_on(_,U), cu_power(U,I,_), I > 5.",
            3_000_000_000,
            "`cu_power(\"n0/cpu\",3000000000,0)` does not fit the 32 bits that clingo computes with; do not read it, or plan \
             with a shorter window",
        ),
        (
            ":- run_on(_,_), #sum { I,U : cu_power(U,I,_) } > 5.",
            1_500_000_000,
            "`cu_power` adds up to 3000000000 here, and clingo sums to 2147483647 only; do not sum it, or plan with a shorter \
             window",
        ),
    ] {
        let mut file = world(program).file().clone();
        for unit in &mut file.units[..2] {
            unit.idle_watts = Some(idle);
        }
        let refused = judge().derive(&Snapshot::new(file).unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), format!("policy test: {problem}"));
    }
}

/// Preferences and reservations cause no violation if they are forgotten: clingo's conclusions are compared with what was derived.
#[test]
fn preferences_and_reservations_match_clingo() {
    let program = "prefer(A,\"n0/cpu\",5) :- group(A,\"b\").\n\
        prefer(a(\"shop\",\"app\",\"b-0\"),\"n0/cpu\",2).\n\
        reserve(U,\"memory\",2) :- cu_zone(U,\"z0\"), cu_kind(U,\"cpu\").";
    let assignment: Assignment = (0..6).map(|unit| Some(UnitIx::new(unit))).collect();
    for placements in ["", "\n:~ run_on(A,\"n3/cpu\"). [1,A]"] {
        let snapshot = world(&format!("{program}{placements}"));
        let derived = judge().derive(&snapshot).unwrap();
        let said = |derived: Derived| {
            let world = snapshot.with_derived(derived).unwrap();
            let judgement = judge().judge(&world, &assignment)?;
            let cost = world.cost(&assignment).with(Criterion::Policy, judgement.penalty);
            judge().confirm(&world, &assignment, &cost)
        };
        assert_eq!(said(derived.clone()).unwrap(), Judged::All, "{placements}");
        for forgotten in 0..derived.constraints.len() {
            let mut derived = derived.clone();
            derived.constraints.remove(forgotten);
            let problem = said(derived).unwrap_err();
            assert!(
                matches!(&problem, JudgeError::Mismatch(why) if why.contains("was not derived")),
                "{problem}"
            );
        }
        let mut more = derived;
        more.constraints.push(more.constraints[0].clone());
        let problem = said(more).unwrap_err().to_string();
        assert!(problem.contains("clingo does not conclude"), "{problem}");
    }
}

/// Equal conclusions of several rules are one conclusion, as in clingo; different numbers are summed.
#[test]
fn duplicate_preferences_and_reservations_count_once() {
    let prefer = "prefer(a(\"shop\",\"app\",\"b-0\"),\"n0/cpu\",";
    let reserve = "reserve(\"n0/cpu\",\"memory\",";
    for (what, one, other, expected) in [
        (prefer, 5, 5, vec![5]),
        (prefer, 5, 2, vec![7]),
        (reserve, 2, 2, vec![2]),
        (reserve, 2, 3, vec![2, 3]),
    ] {
        let program = format!(
            "{what}{one}) :- cu_kind(\"n0/cpu\",\"cpu\").\n{what}{other}) :- cu_zone(\"n0/cpu\",\"z0\")."
        );
        let snapshot = world(&program);
        let derived = judge().derive(&snapshot).unwrap();
        let how_much = |constraint: &Constraint| match constraint {
            Constraint::Prefer { weight, .. } => *weight,
            Constraint::Reserve { quantity, .. } => *quantity,
            other => panic!("{other:?}"),
        };
        let said: Vec<u64> = derived.constraints.iter().map(how_much).collect();
        assert_eq!(said, expected, "{program}");
        let world = snapshot.with_derived(derived).unwrap();
        let assignment: Assignment = (0..6).map(|unit| Some(UnitIx::new(unit))).collect();
        let judgement = judge().judge(&world, &assignment).unwrap();
        let cost = world.cost(&assignment).with(Criterion::Policy, judgement.penalty);
        assert_eq!(judge().confirm(&world, &assignment, &cost), Ok(Judged::All), "{program}");
    }
}
