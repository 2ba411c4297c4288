//! A policy's ground rules as a circuit, compared with a naive evaluation.

use std::collections::BTreeSet;

use fastrand::Rng;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, GroundConstraint, GroundRule, RuleEvaluator, Rules};
use proptest::prelude::*;

use testkit::line::{RULED_ACTORS, RULED_UNITS, at_most_two, inputs, on};

/// Random acyclic rules: plain bodies and weighted sums over lower atoms.
fn ground(rng: &mut Rng) -> Vec<GroundRule> {
    let first = i32::try_from(on(RULED_ACTORS - 1, RULED_UNITS - 1)).unwrap() + 1;
    let mut rules = Vec::new();
    for head in first..first + 8 {
        for _ in 0..rng.usize(..3) {
            let mut body: Vec<(i32, i64)> = Vec::new();
            for _ in 0..rng.usize(..5) {
                let atom = rng.i32(1..head);
                body.push((if rng.u8(..3) == 0 { -atom } else { atom }, rng.i64(1..4)));
            }
            let sum: i64 = body.iter().map(|(_, weight)| weight).sum();
            let lower = if rng.bool() { sum } else { rng.i64(0..=sum) };
            rules.push(GroundRule { head: head.unsigned_abs(), lower, body, any: false });
        }
    }
    rng.shuffle(&mut rules);
    rules
}

/// The true atoms, by evaluating all rules in the order of their heads.
fn holds(rules: &[GroundRule], assignment: &Assignment) -> BTreeSet<u32> {
    let mut true_atoms: BTreeSet<u32> =
        assignment.enumerate().filter_map(|(actor, place)| Some(on(actor.at(), (*place)?.at()))).collect();
    let mut sorted: Vec<&GroundRule> = rules.iter().collect();
    sorted.sort_by_key(|rule| rule.head);
    for rule in sorted {
        let of = |(literal, weight): &(i32, i64)| {
            if true_atoms.contains(&literal.unsigned_abs()) == (*literal > 0) { *weight } else { 0 }
        };
        if rule.body.iter().map(of).sum::<i64>() >= rule.lower {
            true_atoms.insert(rule.head);
        }
    }
    true_atoms
}

proptest! {
    /// After any moves, the incremental circuit equals a naive evaluation and a circuit built at once.
    #[test]
    fn the_circuit_equals_a_naive_evaluation(seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        let ground = ground(rng);
        let last = on(RULED_ACTORS - 1, RULED_UNITS - 1) + 8;
        let demands: Vec<GroundConstraint> =
            (last - 3..last).map(|atom| GroundConstraint { atom, rule: "policy p line 1".into(), says: atom.to_string(), limit: None }).collect();
        let penalties: Vec<(u32, i64)> = (last - 6..last).map(|atom| (atom, i64::from(atom) % 5)).collect();
        let rules = Rules::new(RULED_ACTORS, ground.clone(), &inputs(), demands.clone(), penalties.clone()).unwrap();
        let mut evaluator = RuleEvaluator::new(&rules);
        let mut assignment = Assignment::of(None, RULED_ACTORS);
        for _ in 0..20 {
            let actor = ActorIx::new(rng.usize(..RULED_ACTORS));
            if let Some(unit) = assignment[actor] {
                evaluator.take(actor, unit);
            }
            assignment[actor] = if rng.u8(..4) == 0 { None } else { Some(UnitIx::new(rng.usize(..RULED_UNITS))) };
            if let Some(unit) = assignment[actor] {
                evaluator.put(actor, unit);
            }
            let holds = holds(&ground, &assignment);
            let broken: Vec<String> =
                demands.iter().filter(|d| holds.contains(&d.atom)).map(|d| d.says.clone()).collect();
            let penalty: i64 = penalties.iter().filter(|(atom, _)| holds.contains(atom)).map(|(_, w)| w).sum();
            prop_assert_eq!(rules.violations(&assignment), broken.clone());
            prop_assert_eq!(rules.penalty(&assignment), penalty);
            prop_assert_eq!(evaluator.penalty(), penalty);
            prop_assert!(evaluator.degree() >= i64::try_from(broken.len()).unwrap());
            prop_assert_eq!(evaluator.degree() == 0, broken.is_empty());
            prop_assert_eq!(RuleEvaluator::of(&rules, &assignment).degree(), evaluator.degree());
        }
    }
}

#[test]
fn the_degree_is_the_distance_from_the_bound() {
    let rules = at_most_two();
    let mut evaluator = RuleEvaluator::new(&rules);
    let degrees: Vec<i64> = ActorIx::first(RULED_ACTORS)
        .map(|actor| {
            evaluator.put(actor, UnitIx::new(0));
            evaluator.degree()
        })
        .collect();
    assert_eq!(degrees, [0, 0, 1, 2]);
    // Negating the count demands at least three.
    let mut ground = rules.ground().to_vec();
    ground[1].body[0].0 = -20;
    let demands = vec![GroundConstraint {
        atom: 21,
        rule: "policy p line 1".into(),
        says: "fewer than three on u".into(),
        limit: None,
    }];
    let rules = Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap();
    let mut evaluator = RuleEvaluator::new(&rules);
    assert_eq!(evaluator.degree(), 3);
    evaluator.put(ActorIx::new(0), UnitIx::new(0));
    assert_eq!(evaluator.degree(), 2);
}

/// One true alternative violates the constraint; further ones do not increase its degree.
#[test]
fn further_true_alternatives_do_not_increase_the_degree() {
    let mut ground = at_most_two().ground().to_vec();
    ground[0] = GroundRule { lower: 1, any: true, ..ground[0].clone() };
    let demands = at_most_two().cases().to_vec();
    let rules = Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap();
    let mut evaluator = RuleEvaluator::new(&rules);
    let mut degrees = vec![evaluator.degree()];
    for actor in ActorIx::first(RULED_ACTORS) {
        evaluator.put(actor, UnitIx::new(0));
        degrees.push(evaluator.degree());
    }
    assert_eq!(degrees, [0, 1, 1, 1, 1]);
}

/// An actor has one unit, so the weights of all placements may sum up to more than an `i64` holds.
#[test]
fn sums_over_placements_may_exceed_64_bits() {
    let place = |actor: usize, unit: usize| (i32::try_from(on(actor, unit)).unwrap(), 1 << 61);
    let body = (0..2).flat_map(|actor| (0..RULED_UNITS).map(move |unit| place(actor, unit))).collect();
    let mut ground = at_most_two().ground().to_vec();
    ground[0] = GroundRule { lower: (1 << 61) + 1, body, ..ground[0].clone() };
    let demands = at_most_two().cases().to_vec();
    let rules = Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap();
    let mut evaluator = RuleEvaluator::new(&rules);
    let degrees = [0, 1].map(|actor| {
        evaluator.put(ActorIx::new(actor), UnitIx::new(actor));
        evaluator.degree()
    });
    assert_eq!(degrees, [0, 1 << 61]);
}

#[test]
fn duplicate_rules_are_merged() {
    let mut ground = at_most_two().ground().to_vec();
    // A copy of the count with another head, a rule that uses it, and a copy of the violated rule.
    let count = GroundRule { head: 30, ..ground[0].clone() };
    let follows = GroundRule { body: vec![(30, 1)], ..ground[1].clone() };
    ground.extend([count, follows, ground[1].clone()]);
    let demands = at_most_two().cases().to_vec();
    assert_eq!(Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap(), at_most_two());
}

#[test]
fn cyclic_rules_are_rejected() {
    let rule = |head, body| GroundRule { head, lower: 1, body: vec![(body, 1)], any: false };
    let cycle = vec![rule(20, 21), rule(21, 20)];
    let refused = Rules::new(RULED_ACTORS, cycle, &inputs(), vec![], vec![]).unwrap_err();
    assert_eq!(refused, "the rules conclude something from itself");
    let unknown = Rules::new(1, vec![], &inputs(), vec![], vec![]).unwrap_err();
    assert_eq!(unknown, "there is no actor at position 1");
}
