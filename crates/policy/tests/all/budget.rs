//! What a policy reads and computes stays within its budget.

use placement::Snapshot;
use policy::{GroundBudget, Policy};

/// A world with a program: any of the actors may be on any of the units.
pub fn world(actors: usize, units: usize, program: &str) -> Snapshot {
    let unit = |at| format!(r#"{{"id":"u{at}","kind":"cpu","node":"n","capacity":9}}"#);
    let actor = |at| format!(r#"{{"id":"shop/app/a{at}","runsOn":{{"cpu":1}}}}"#);
    let text = format!(
        r#"{{"version":1,"units":[{}],"actors":[{}],"exchangeCost":{{"otherKind":1}},
            "policy":{{"name":"p","program":"{program}"}}}}"#,
        (0..units).map(unit).collect::<Vec<_>>().join(","),
        (0..actors).map(actor).collect::<Vec<_>>().join(",")
    );
    Snapshot::read(&text).unwrap()
}

pub fn problem(snapshot: &Snapshot, budget: GroundBudget) -> String {
    Policy::of(snapshot).unwrap().unwrap().derive(budget).unwrap_err().to_string()
}

#[test]
fn facts_count_towards_the_memory_of_a_policy() {
    let world = world(50, 40, ":- run_on(A,U), not runnable_on(A,U).");
    let budget = |kept| GroundBudget { steps: 1_000_000, kept };
    let derived = Policy::of(&world).unwrap().unwrap().derive(budget(1_000_000)).unwrap();
    let size = derived.1.kept;
    assert!(size >= 2 * 50 * 40, "each fact is stored twice: {size}");
    assert_eq!(
        problem(&world, budget(2 * 50 * 40 - 1)),
        "policy p: the facts that it reads of 50 actors and 40 units, such as `runnable_on`, take too much memory; read \
         fewer predicates, or give the policy a larger budget"
    );
}

/// Terms that double in each round would take 2^50 characters to print.
#[test]
fn computed_terms_do_not_grow_without_limit() {
    let budget = GroundBudget::of(3_600_000, 1_024);
    for program in ["n(0). n(f(X,X)) :- n(X).", "n(0). n(f(X)) :- n(X).", "n(0). n((X,1,X)) :- n(X)."] {
        assert_eq!(
            problem(&world(1, 1, program), budget),
            "policy p line 1: computes a term of more than 1,000 parts; nest fewer terms inside each other"
        );
    }
}
