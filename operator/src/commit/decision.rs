//! From a plan to the spec of a Placement. Pure.

use std::collections::BTreeMap;

use crds::{
    ActorApplication, Assignment, ExcusedActor, Move, Placement, PlacementSpec, StoppedBy, UnplacedActor,
};
use placement::ix::ActorIx;
use placement::{Objectives, Plan, ReasonScope, Unplaced};
use world::{ApplicationKey, AssembledSnapshot, DecidedMove, Index, Policy};

use crate::commit::elective::DecisionMoves;

/// Longest reason, in characters; longer ones are cut.
const MAX_REASON_CHARS: usize = 1000;
/// Most reasons of one actor.
const MAX_REASONS: usize = 16;
/// What reasons begin with that are not proven for every placement of the other actors.
const IN_PLACE: &str = "with the other actors in place";
/// Bytes of all reasons of a Placement: etcd rejects objects above 1.5 MB, and a rejected plan would be searched again and
/// again.
const MAX_REASON_BYTES: usize = 300_000;

/// The spec for a plan; moves are relative to the Placement before, and elective ones in progress are kept.
pub fn spec(
    application: &ActorApplication,
    (world, policy): (&AssembledSnapshot, &Policy),
    (plan, decided): (&Plan, &DecisionMoves),
    before: Option<&Placement>,
    index: &Index,
) -> PlacementSpec {
    let snapshot = &world.snapshot;
    let key = ApplicationKey::of(application);
    let short = |actor: ActorIx| short_name(snapshot.actor_id(actor));
    let own = |actor: &ActorIx| !snapshot.is_fixed(*actor);
    let assignments = ActorIx::first(snapshot.actors()).filter(own).filter_map(|actor| {
        let unit = &world.units[snapshot.unit_id(plan.assignment[actor]?)];
        Some(Assignment {
            actor: short(actor),
            unit: unit.id.clone(),
            node: unit.node.clone(),
            pool: unit.pool.clone(),
        })
    });
    let mut assignments: Vec<Assignment> = assignments.collect();
    assignments.sort();
    let levels: Vec<String> =
        snapshot.objectives().levels().iter().map(|level| Objectives::key(level)).collect();
    let vector = plan.cost.vector(snapshot);
    let reasons_of = |reasons: &[String]| -> Vec<String> {
        reasons.iter().take(MAX_REASONS).map(|it| cut(&policy.attribute_lines(it))).collect()
    };
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut spec = PlacementSpec {
        application: key.name,
        application_generation: application.metadata.generation.unwrap_or(0),
        policy: policy.name.clone(),
        snapshot_digest: world.digest(),
        demand_digest: Some(world.demand()),
        strategy: plan.strategy.to_owned(),
        seed: whole(plan.seed),
        effort: whole(plan.effort),
        stopped_by: Some(match plan.stopped_by {
            placement::StoppedBy::Proof => StoppedBy::Proof,
            placement::StoppedBy::Effort => StoppedBy::Effort,
            placement::StoppedBy::Deadline => StoppedBy::Deadline,
        }),
        window_microseconds: snapshot.file().window_microseconds.map(whole),
        objective: plan.cost.by_name(snapshot),
        own_objective: snapshot.own_part(&plan.assignment, &plan.cost).by_name(snapshot),
        objective_summary: Some(format!("{:?}", &vector[1..])),
        gap_percent: plan.gap_percent(snapshot),
        bound: plan.bound.clone(),
        levels,
        left_to_scheduler: snapshot.file().left_to_scheduler.iter().take(64).cloned().collect(),
        optimal: plan.optimal,
        found_by: Some(plan.found_by.to_string()),
        proven_by: plan.proven_by.map(|by| by.to_string()),
        judged: Some(plan.judged.to_string()),
        judged_digest: None,
        unplaced: plan
            .unplaced
            .iter()
            .map(|left_node| UnplacedActor {
                actor: short(left_node.actor),
                reasons: scoped(left_node, reasons_of(&left_node.reasons)),
            })
            .collect(),
        excused: plan
            .excused
            .iter()
            .filter(|one| own(&one.actor))
            .map(|one| ExcusedActor { actor: short(one.actor), reasons: reasons_of(&one.reasons) })
            .collect(),
        moves: moves((world, policy), (plan, decided), before, &assignments, index),
        gain: decided.gain.clone().or_else(|| before.and_then(|before| before.spec.gain.clone())),
        measured: world::measured_service_times(index, application, policy, before),
        assignments,
    };
    truncate_reasons(&mut spec);
    spec
}

/// The reasons of an unplaced actor, with their scope before the first one, which is the last to be left out.
fn scoped(unplaced: &Unplaced, mut reasons: Vec<String>) -> Vec<String> {
    if unplaced.holds == Some(ReasonScope::WhereOthersAre)
        && let Some(first) = reasons.first_mut()
    {
        *first = cut(&format!("{IN_PLACE}: {first}"));
    }
    reasons
}

/// Drops reasons beyond the limit; the first ones stay.
///
/// Reasons of moves go first, as unplaced actors and exceptions are compared with the next Placement.
fn truncate_reasons(spec: &mut PlacementSpec) {
    let mut left = MAX_REASON_BYTES;
    let mut fits = |reason: &str| {
        let rest = left.checked_sub(reason.len());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    for it in &mut spec.unplaced {
        it.reasons.retain(|reason| fits(reason));
    }
    for it in &mut spec.excused {
        it.reasons.retain(|reason| fits(reason));
    }
    for it in &mut spec.moves {
        if !fits(&it.reason) {
            it.reason.clear();
        }
    }
}

/// The actor's name without namespace and application.
pub fn short_name(id: &str) -> String {
    id.rsplit('/').next().unwrap_or(id).to_owned()
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}

/// Actors whose unit changed, with the reason.
fn moves(
    (world, policy): (&AssembledSnapshot, &Policy),
    (plan, decided): (&Plan, &DecisionMoves),
    before: Option<&Placement>,
    assignments: &[Assignment],
    index: &Index,
) -> Vec<Move> {
    let planned: BTreeMap<String, &str> = plan
        .moves
        .iter()
        .map(|m| (short_name(world.snapshot.actor_id(m.actor)), m.reason.as_str()))
        .collect();
    let was: BTreeMap<&str, &Assignment> =
        before.iter().flat_map(|p| &p.spec.assignments).map(|a| (a.actor.as_str(), a)).collect();
    let moved = |now: &Assignment| {
        let from = was.get(now.actor.as_str()).filter(|was| was.unit != now.unit)?;
        let reason = match planned.get(&now.actor) {
            Some(reason) => policy.attribute_lines(reason),
            None if !index.has_node(&from.node) => {
                format!("node {} is gone", from.node)
            }
            None if world.units.get(&from.unit).is_none() => format!("unit {} is gone", from.unit),
            None => refused(before, &now.actor, &from.node).unwrap_or_else(|| left_node(index, &from.node)),
        };
        Some(Move {
            actor: now.actor.clone(),
            from: Some(from.unit.clone()),
            to: now.unit.clone(),
            reason: cut(&reason),
            gain_percent: decided.gains.get(&now.actor).copied(),
            decided_at: Some(decided.at.clone()),
        })
    };
    let new: Vec<Move> = assignments.iter().filter_map(moved).collect();
    let places: BTreeMap<&str, &str> =
        assignments.iter().map(|it| (it.actor.as_str(), it.unit.as_str())).collect();
    let under_way = before.map(world::moves_in_progress).unwrap_or_default();
    let is_kept = |it: &&Move| {
        let is_it = |of: &DecidedMove| of.actor == it.actor && Some(of.decided_at) == it.decided_at.as_ref();
        under_way.iter().any(is_it) && places.get(it.actor.as_str()) == Some(&it.to.as_str())
    };
    let kept = before.iter().flat_map(|before| &before.spec.moves).filter(is_kept).cloned();
    kept.chain(new).collect()
}

/// Why an actor left a node that did not refuse it.
fn left_node(index: &Index, node: &str) -> String {
    if index.rejects_pods(node) {
        format!("the pod on {node} ended and the node rejects new pods")
    } else {
        format!("the assignment to {node} became infeasible")
    }
}

fn refused(before: Option<&Placement>, actor: &str, node: &str) -> Option<String> {
    let status = before.and_then(|placement| placement.status.as_ref());
    let refusal = status
        .into_iter()
        .flat_map(|s| &s.refusals)
        .find(|r| r.node.as_deref() == Some(node) && concerns(r, actor));
    refusal.map(|r| format!("refused on {node}: {}", r.reason))
}

fn concerns(refusal: &crds::Refusal, actor: &str) -> bool {
    let of_group = actor.rsplit_once('-').map(|(group, _)| group);
    refusal.actor == actor || refusal.group.as_deref().is_some_and(|group| of_group == Some(group))
}

/// Whether the new spec adds nothing to the old one.
pub fn is_unchanged(old: &PlacementSpec, new: &PlacementSpec) -> bool {
    old.assignments == new.assignments
        && old.unplaced == new.unplaced
        && old.excused == new.excused
        && old.application_generation == new.application_generation
        && old.policy == new.policy
        && old.demand_digest == new.demand_digest
        && old.objective == new.objective
        && old.levels == new.levels
        // A new proof is a change; a search that merely ended without one is not.
        && (old.optimal || !new.optimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTORS: usize = 5000;
    const LENGTH: usize = 100;

    fn all<T>(one: impl Fn(String, &str) -> T) -> Vec<T> {
        (0..ACTORS).map(|index| one(format!("camera-{index}"), &format!("node-{index}"))).collect()
    }

    fn reason() -> String {
        "x".repeat(LENGTH)
    }

    fn unplaced() -> Vec<UnplacedActor> {
        all(|actor, _| UnplacedActor { actor, reasons: vec![reason(); MAX_REASONS] })
    }

    fn excused() -> Vec<ExcusedActor> {
        all(|actor, _| ExcusedActor { actor, reasons: vec![reason(); MAX_REASONS] })
    }

    fn moved() -> Vec<Move> {
        all(|actor, node| {
            let (from, to) = (format!("{node}/cpus-0"), format!("{node}/cpus-1"));
            Move { actor, from: Some(from), to, reason: reason(), ..Move::default() }
        })
    }

    fn placed() -> Vec<Assignment> {
        all(|actor, node| {
            let (unit, pool) = (format!("{node}/cpus-1"), format!("{node}-cpus"));
            Assignment { actor, unit, node: node.to_owned(), pool }
        })
    }

    #[test]
    fn a_large_placement_fits_into_etcd() {
        for (what, mut spec, most) in [
            ("unplaced", PlacementSpec { unplaced: unplaced(), ..PlacementSpec::default() }, 1_000_000),
            ("moves", PlacementSpec { moves: moved(), ..PlacementSpec::default() }, 1_000_000),
            // Exceptions and moves concern placed actors.
            (
                "places",
                PlacementSpec {
                    assignments: placed(),
                    excused: excused(),
                    moves: moved(),
                    ..PlacementSpec::default()
                },
                1_500_000,
            ),
        ] {
            truncate_reasons(&mut spec);
            let written = serde_json::to_string(&spec).unwrap().len();
            assert!(written < most, "{what}: {written}");
        }
    }

    #[test]
    fn reasons_that_are_not_proven_for_every_placement_say_so() {
        let first = |holds| {
            let unplaced = Unplaced { actor: ActorIx::new(0), reasons: Vec::new(), holds };
            scoped(&unplaced, vec!["n1 is full".to_owned(), "n2 is full".to_owned()]).join("; ")
        };
        let plain = "n1 is full; n2 is full";
        assert_eq!(
            first(Some(ReasonScope::WhereOthersAre)),
            format!("with the other actors in place: {plain}")
        );
        assert_eq!((first(Some(ReasonScope::Always)), first(None)), (plain.to_owned(), plain.to_owned()));
        let unplaced = Unplaced {
            actor: ActorIx::new(0),
            reasons: Vec::new(),
            holds: Some(ReasonScope::WhereOthersAre),
        };
        let long = scoped(&unplaced, vec!["x".repeat(MAX_REASON_CHARS)]);
        assert_eq!(long[0].chars().count(), MAX_REASON_CHARS);
        assert!(scoped(&unplaced, Vec::new()).is_empty());
    }

    #[test]
    fn the_first_reasons_stay_and_all_actors_are_listed() {
        let mut spec = PlacementSpec { unplaced: unplaced(), moves: moved(), ..PlacementSpec::default() };
        truncate_reasons(&mut spec);
        assert_eq!((spec.unplaced.len(), spec.moves.len()), (ACTORS, ACTORS));
        let reasons_of: Vec<usize> = spec.unplaced.iter().map(|it| it.reasons.len()).collect();
        let whole = MAX_REASON_BYTES / LENGTH / MAX_REASONS;
        assert!(reasons_of.is_sorted_by(|one, other| one >= other), "{reasons_of:?}");
        assert_eq!(
            (reasons_of[whole - 1], reasons_of.iter().sum::<usize>()),
            (MAX_REASONS, MAX_REASON_BYTES / LENGTH)
        );
        assert!(spec.moves.iter().all(|it| it.reason.is_empty()));

        let mut few = PlacementSpec { moves: moved(), ..PlacementSpec::default() };
        few.moves.truncate(MAX_REASON_BYTES / LENGTH);
        let before = few.clone();
        truncate_reasons(&mut few);
        assert_eq!(few, before);
    }
}
