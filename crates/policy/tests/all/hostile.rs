//! Short programs that would take gigabytes or minutes.

use std::process::Command;

use policy::{GroundBudget, Policy};

use crate::budget::{problem, world};

/// The address space of the process that grounds them, in KiB.
const MEMORY: &str = "1048576";

/// Set in that process.
const IS_LIMITED: &str = "CAIRN_TEST_MEMORY_IS_LIMITED";

/// Programs that store much in few steps.
const LARGE: [&str; 5] = [
    "p(1..10000,1..10000).",
    "p(1,1..10000) :- #count { 1 : q } > 0. q. p(1..10000,1..10000,1..10000) :- q.",
    ":- X = 1..10000, Y = 1..10000, f(X,Y) = g(X,Y).",
    // Terms of 500 parts that share them are written out in every violation.
    "t(0,0). t(N+1,f(X,X)) :- t(N,X), N < 8. q(1..10000). r(1..100). :- t(8,X), q(Y), r(Z).",
    "t(0,0). t(N+1,f(X,X)) :- t(N,X), N < 8. q(1..10000). r(\\\"u0\\\"). reserve(U,S,Y) :- r(U), q(Y), s(S). s(\\\"LONG\\\").",
];

#[test]
fn large_conclusions_are_stopped_within_memory() {
    if std::env::var_os(IS_LIMITED).is_none() {
        let limited = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "hostile::large_conclusions_are_stopped_within_memory"])
            .env(IS_LIMITED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stdout);
        assert!(limited.status.success() && said.contains("1 passed"), "{limited:?}");
        return;
    }
    // The default budget of a policy.
    let budget = GroundBudget::of(2_000, 1_024);
    for program in LARGE {
        let program = program.replace("LONG", &"x".repeat(60_000));
        let problem = problem(&world(1, 1, &program), budget);
        let expected = "policy p line 1: written out for 1 actors and 1 units it takes too much memory; ";
        assert!(problem.starts_with(expected), "{problem}");
    }
}

/// A function of a function, and so on.
fn nested(name: &str, variable: &str) -> String {
    format!("{}{variable}{}", format!("{name}(").repeat(40), ")".repeat(40))
}

#[test]
fn large_terms_count_as_many_steps() {
    let comparisons: Vec<String> = ["A", "B", "C", "D", "E", "F"]
        .map(|variable| format!("{} != {}", nested("f", variable), nested("g", variable)))
        .into();
    let program = format!("q(1..10). :- q(A), q(B), q(C), q(D), q(E), q(F), {}.", comparisons.join(", "));
    let problem = problem(&world(1, 1, &program), GroundBudget::of(500, 1_024));
    assert!(problem.contains("it takes too many steps"), "{problem}");
}

/// Steps of programs with small terms are the tuples that they visit.
#[test]
fn small_terms_cost_no_extra_steps() {
    for (program, steps) in [
        ("q(1..10). p(X) :- q(X), X+1 > 3.", 21),
        ("forbid(a(\\\"shop\\\",\\\"app\\\",\\\"a0\\\"),U) :- cu(U), cu_kind(U,\\\"cpu\\\").", 10),
        (":- run_on(A,U), run_on(B,U), A < B.", 73),
    ] {
        let world = world(3, 3, program);
        let policy = Policy::of(&world).unwrap().unwrap();
        let (_, size) = policy.derive(GroundBudget::of(2_000, 1_024)).unwrap();
        assert_eq!(size.steps, steps, "{program}");
    }
}
