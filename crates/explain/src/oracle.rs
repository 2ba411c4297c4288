//! Decides whether more actors can be placed beside those that have a place, all of which may move.
//!
//! From cheap to expensive: a free unit; a chain of moves that ends at one; proofs of infeasibility by the relaxations of
//! [`super::relaxations`]; and finally a complete search of everything that the placements can depend on. Answers are exact;
//! if the effort ends first, the answer is unknown.

use std::collections::BTreeSet;

use crate::feasibility::{Effort, Feasibility};
use crate::kept_rules::{KeptRules, PartialAssignment};
use crate::relaxations::Relaxations;
use crate::rule_caps;
use crate::search::CompleteSearch;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, Snapshot};

/// Whether all of `unplaced` can join those that `base`, a feasible assignment without them, places. The snapshot has no other
/// actors.
pub(crate) fn ask(
    world: &Snapshot,
    kept: &KeptRules,
    unplaced: &[ActorIx],
    base: &Assignment,
    effort: &mut Effort,
) -> Feasibility {
    if let Some(found) = one_by_one(world, kept, unplaced, base, effort) {
        return Feasibility::Fits(found);
    }
    let relaxations = Relaxations::new(world, kept, unplaced, base);
    effort.spend(world.units() + world.actors());
    if relaxations.refute() || rule_caps::refute(&relaxations) {
        return Feasibility::Never;
    }
    CompleteSearch::new(&relaxations).run(effort)
}

/// Places one actor after the other, moving others if necessary; `None` if that fails for one of them.
fn one_by_one(
    world: &Snapshot,
    kept: &KeptRules,
    unplaced: &[ActorIx],
    base: &Assignment,
    effort: &mut Effort,
) -> Option<Assignment> {
    let most = effort.left;
    let mut partial = PartialAssignment::of(world, kept, base);
    for &actor in unplaced {
        effort.spend(world.candidates(actor).len());
        if let Some(&unit) = world.candidates(actor).iter().find(|unit| partial.can_host(actor, **unit)) {
            partial.put(actor, unit);
            continue;
        }
        let found = effort.lend(most / 8, |effort| chain(world, actor, &mut partial, effort))?;
        partial = PartialAssignment::of(world, kept, &found);
    }
    Some(partial.state.assignment)
}

/// An actor without a place, and the step that displaced it.
struct Displaced {
    actor: ActorIx,
    /// Its former unit, and the step whose actor takes it.
    displaced: Option<(UnitIx, usize)>,
}

/// Breadth-first search for moves, each of which displaces at most one other actor, until all are placed; each actor is
/// displaced at most once. The state is restored.
fn chain(
    world: &Snapshot,
    actor: ActorIx,
    partial: &mut PartialAssignment,
    effort: &mut Effort,
) -> Option<Assignment> {
    let mut hosted: IxVec<UnitIx, Vec<ActorIx>> = IxVec::of(Vec::new(), world.units());
    for (other, place) in partial.state.assignment.enumerate().filter(|(other, _)| !world.is_fixed(*other)) {
        if let Some(unit) = *place {
            hosted[unit].push(other);
        }
    }
    let mut seen = BTreeSet::from([actor]);
    let mut queue = vec![Displaced { actor, displaced: None }];
    let mut next = 0;
    while next < queue.len() {
        let steps = steps(&queue, next);
        for &(mover, _) in &steps {
            partial.take(mover);
        }
        let displaced = queue[next].actor;
        partial.take(displaced);
        for &(mover, to) in &steps {
            partial.put(mover, to);
        }
        let mut found = None;
        for &unit in world.candidates(displaced) {
            if !effort.spend(1) {
                break;
            }
            if partial.can_host(displaced, unit) {
                partial.put(displaced, unit);
                found = Some(partial.state.assignment.clone());
                partial.take(displaced);
                break;
            }
            for &other in &hosted[unit] {
                if seen.contains(&other) || partial.state.assignment[other] != Some(unit) {
                    continue;
                }
                effort.spend(1);
                partial.take(other);
                if partial.admits(displaced, unit) {
                    seen.insert(other);
                    queue.push(Displaced { actor: other, displaced: Some((unit, next)) });
                }
                partial.put(other, unit);
            }
        }
        // Undo the steps, the latest first.
        for &(mover, _) in &steps {
            partial.take(mover);
        }
        for displaced in ancestors(&queue, next) {
            if let Some((unit, _)) = queue[displaced].displaced {
                partial.put(queue[displaced].actor, unit);
            }
        }
        if found.is_some() || effort.left == 0 {
            return found;
        }
        next += 1;
    }
    None
}

/// The entry and its predecessors.
fn ancestors(queue: &[Displaced], from: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |&entry| queue[entry].displaced.map(|(_, parent)| parent)).collect()
}

/// The moves that displace the entry's actor.
fn steps(queue: &[Displaced], entry: usize) -> Vec<(ActorIx, UnitIx)> {
    let displaced = ancestors(queue, entry).into_iter().filter_map(|entry| queue[entry].displaced);
    displaced.map(|(unit, parent)| (queue[parent].actor, unit)).collect()
}
