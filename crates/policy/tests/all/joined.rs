//! Programs of several policies, joined by the operator.

use placement::Snapshot;
use placement::file::Policy as PolicyName;
use policy::{GroundBudget, Policy, Program};

use crate::budget::world;

/// The programs, the first of the policy itself and the others enforced on it.
fn joined(programs: &[String]) -> Result<(), String> {
    let mark = format!("\n{}rules\n", PolicyName::FURTHER_PROGRAM);
    let mut file = world(1, 1, "").file().clone();
    file.policy.as_mut().unwrap().program = Some(programs.join(&mark));
    let snapshot = Snapshot::new(file).unwrap();
    let policy = Policy::of(&snapshot).map_err(|e| e.to_string())?.unwrap();
    policy.derive(GroundBudget::of(2_000, 1_024)).map(drop).map_err(|e| e.to_string())
}

#[test]
fn each_of_several_programs_has_the_limits_of_one() {
    let long = |bytes: usize| format!("% {}\nq(1).", "x".repeat(bytes));
    let rules = |name: &str| format!("{name}. {}", format!("{name} :- {name}.\n").repeat(300));
    let facts = |name: &str| format!("{name}(1).").repeat(3_000);
    for pair in [
        [long(40 << 10), long(30 << 10)],
        [rules("a"), rules("b")],
        [facts("a"), facts("b")],
        [long(65_500), long(65_500)],
    ] {
        for program in &pair {
            assert_eq!(Program::parse(program).err(), None);
        }
        assert_eq!(joined(&pair), Ok(()));
        let one = pair.concat();
        assert!(Program::parse(&one).is_err(), "{} bytes", one.len());
        assert!(joined(&[one]).is_err());
    }
    let refused = joined(&[long(100 << 10), long(50 << 10)]).unwrap_err();
    assert!(refused.starts_with("policy p: line 1 column 1: the text has 153"), "{refused}");
    assert!(refused.ends_with(" bytes; 2 programs have at most 131072"), "{refused}");
}

/// What each of two programs may say, and both together may not.
#[test]
fn conflicting_programs_are_refused_with_their_line() {
    let [one, other] = ["p(1). q(1).\np(2) :- not q(2).", "p(1). q(1).\nq(2) :- p(2)."].map(str::to_owned);
    for program in [&one, &other] {
        assert_eq!(Program::parse(program).err(), None);
    }
    let refused = joined(&[one.clone(), other.clone()]).unwrap_err();
    let cycle = "`p` rests on itself through `not`, a condition or a set, which leaves open what holds; break the cycle";
    assert_eq!(refused, format!("policy p: line 2 column 13: {cycle}"));
    assert_eq!(joined(&[other, one]).unwrap_err(), format!("policy p: line 5 column 13: {cycle}"));
}

/// Every statement reads a dozen others through `not`, and none is on a cycle.
#[test]
fn many_negations_without_a_cycle_are_accepted() {
    let rule = |at: usize| {
        let body: Vec<String> = (1..=12).map(|more| format!("not p{}", at + more)).collect();
        format!("p{at} :- {}.\n", body.join(","))
    };
    let facts = (480..492).map(|at| format!("p{at}.\n"));
    let program: Vec<String> = facts.chain((0..480).map(rule)).collect();
    assert_eq!(Program::parse(&program.concat()).err(), None);
}
