//! The obstacles of an actor on each unit while all other actors stay.

use std::collections::BTreeSet;

use crate::limit::{Limit, LimitGroup, grouped, numbered, of_case, reserves};
use placement::ix::{ActorIx, ResourceIx, UnitIx};
use placement::{Assignment, RuleEvaluator, Snapshot, State};

/// Limits that together, and none of them alone, keep an actor off a unit.
pub(crate) type Block = Vec<Limit>;

/// All obstacles of an actor, which has no place in `state`, on a unit; empty if there is none.
///
/// On a kind without an implementation the actor is assumed to require what it requires on every kind.
pub(crate) fn blocks(snapshot: &Snapshot, actor: ActorIx, unit: UnitIx, state: &State) -> Vec<Block> {
    let problem = snapshot.problem();
    let mut blocks: Vec<Block> = Vec::new();
    let constraint = |position: usize| vec![Limit::Constraint { position }];
    if snapshot.implementation(actor, unit).is_none() {
        blocks.push(vec![Limit::Kinds { actor }]);
    }
    let broken = problem.rules_of[actor].iter().map(|&rule| &problem.rules[rule]);
    let broken = broken.filter(|rule| !problem.obeys(actor, unit, rule));
    blocks.extend(broken.map(|rule| constraint(rule.constraint)));
    let relations = state.broken_relations(actor, unit);
    blocks.extend(relations.map(|relation| constraint(problem.relations[relation].constraint)));
    blocks.extend(state.passed_limits(actor, unit).map(constraint));
    if !state.has_slot(unit) {
        blocks.push(vec![Limit::Slots { unit }]);
    }
    let mut missing: Vec<(bool, ResourceIx, i64, i64)> = state.all_missing(actor, unit).collect();
    if snapshot.implementation(actor, unit).is_none() {
        let own = snapshot.file().actors[actor.at()].requires.iter().map(|(name, quantity)| {
            let resource = problem.resource(name);
            let needed = i64::try_from(*quantity).expect("numbers above 2^53 are refused on input");
            (false, resource, needed, state.left_on(unit, resource))
        });
        missing.extend(own.filter(|(_, _, needed, left)| *needed > 0 && needed > left));
    }
    for (of_node, resource, needed, left) in missing {
        if of_node {
            blocks.push(vec![Limit::OfNode { node: snapshot.node_of(unit), resource }]);
            continue;
        }
        let mut block = vec![Limit::OfUnit { unit, resource }];
        let reserves = reserves(snapshot, unit, resource);
        if needed <= left + reserves.iter().map(|(_, quantity)| quantity).sum::<i64>() {
            block.extend(reserves.iter().map(|(position, _)| Limit::Constraint { position: *position }));
        }
        blocks.push(block);
    }
    blocks
}

/// By unit: the policy cases that the unplaced actor would violate there.
fn broken_cases<'a>(
    snapshot: &'a Snapshot,
    actor: ActorIx,
    assignment: &Assignment,
) -> impl Iterator<Item = Vec<usize>> + use<'a> {
    let mut evaluator = snapshot.rules().map(|rules| RuleEvaluator::of(rules, assignment));
    UnitIx::first(snapshot.units()).map(move |unit| {
        let Some(evaluator) = &mut evaluator else { return Vec::new() };
        evaluator.put(actor, unit);
        let broken = evaluator.broken().collect();
        evaluator.take(actor, unit);
        broken
    })
}

/// The policy cases that the unplaced actor would violate on any unit.
pub(crate) fn cases(snapshot: &Snapshot, actor: ActorIx, assignment: &Assignment) -> BTreeSet<usize> {
    broken_cases(snapshot, actor, assignment).flatten().collect()
}

/// An irreducible set of groups that keeps the actor off every unit while all other actors stay.
pub(crate) fn core(snapshot: &Snapshot, actor: ActorIx, assignment: &Assignment) -> Vec<LimitGroup> {
    let mut state = State::of(snapshot, assignment);
    state.take(actor);
    let by_unit: Vec<Vec<Block>> = broken_cases(snapshot, actor, &state.assignment)
        .zip(UnitIx::first(snapshot.units()))
        .map(|(cases, unit)| {
            let mut all = blocks(snapshot, actor, unit, &state);
            all.extend(cases.into_iter().map(|demand| of_case(snapshot, demand)));
            all
        })
        .collect();
    let all: BTreeSet<Limit> = by_unit.iter().flatten().flatten().copied().collect();
    let elements = grouped(snapshot, actor, &all);
    let numbers = numbered(&elements);
    // Units with the same obstacles count once.
    let by_unit: BTreeSet<BTreeSet<BTreeSet<usize>>> = by_unit
        .iter()
        .map(|blocks| blocks.iter().map(|block| block.iter().map(|limit| numbers[limit]).collect()).collect())
        .collect();
    let mut kept: BTreeSet<usize> = (0..elements.len()).collect();
    for element in (0..elements.len()).rev() {
        kept.remove(&element);
        if !by_unit.iter().all(|blocks| blocks.iter().any(|block| block.is_subset(&kept))) {
            kept.insert(element);
        }
    }
    kept.into_iter().map(|number| elements[number].clone()).collect()
}
