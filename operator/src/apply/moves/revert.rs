//! Reverts moves that fail while their application is paused, when no plan is committed.

use std::collections::BTreeMap;

use control::{ObservedState, Refusal, RefusalScope};
use crds::Placement;
use world::{ApplicationKey, DecidedMove, Policy, Unit};

use crate::error::Error;
use crate::runtime::context::Context;

/// Assigns actors that were stopped for a gain and are refused on their new unit to the one that they left, which is reserved.
///
/// # Errors
/// When the write fails, or the lease is lost; it is retried.
pub async fn revert_failed_moves(
    key: &ApplicationKey,
    decision: &mut Placement,
    (observed, units): (&ObservedState, &BTreeMap<String, Unit>),
    refusals: &[Refusal],
    ctx: &Context,
) -> Result<(), Error> {
    let back: BTreeMap<String, Unit> = {
        let (index, plain) = (ctx.caches.index(), Policy::builtin("units"));
        let unit = |it: DecidedMove| {
            let (node, _) = it.from.rsplit_once('/')?;
            Some((it.actor.to_owned(), world::units_at(&index, node, &plain).remove(it.from)?))
        };
        failed_moves(decision, (observed, units), refusals).into_iter().filter_map(unit).collect()
    };
    if back.is_empty() {
        return Ok(());
    }
    let mut changed = decision.clone();
    for place in &mut changed.spec.assignments {
        if let Some(unit) = back.get(&place.actor) {
            (place.unit, place.node, place.pool) = (unit.id.clone(), unit.node.clone(), unit.pool.clone());
        }
    }
    *decision = ctx.writer.write_placement(&changed).await?;
    ctx.caches.record_written(decision.clone());
    // The actors were infeasible on their new units.
    ctx.caches.recheck().add([key.clone()]);
    ctx.caches.enqueue(key);
    Ok(())
}

/// Moves in progress of actors that are stopped and refused on their new unit, unless another move goes to the unit that they left.
fn failed_moves<'a>(
    decision: &'a Placement,
    (observed, units): (&ObservedState, &BTreeMap<String, Unit>),
    refusals: &[Refusal],
) -> Vec<DecidedMove<'a>> {
    let moves = world::moves_in_progress(decision);
    let is_stopped =
        |actor: &str| observed.instances.get(actor).is_some_and(|it| it.pod.is_none() && !it.terminating);
    let is_refused = |actor: &str, to: &str| {
        let group = actor.rsplit_once('-').map_or(actor, |(group, _)| group);
        let node = to.rsplit_once('/').map_or(to, |(node, _)| node);
        let kind = units.get(to).map_or("", |unit| &unit.kind);
        refusals.iter().any(|it| {
            matches!(it.key.scope, RefusalScope::Node(_))
                && it.prevents_restart((actor, group), (node, kind), observed.now)
        })
    };
    let is_reserved = |from: &str| moves.iter().all(|other| other.to != from);
    let failed =
        moves.iter().filter(|it| is_stopped(it.actor) && is_refused(it.actor, it.to) && is_reserved(it.from));
    failed.copied().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control::{Instance, Pod, RefusalKey};
    use crds::{Assignment, MicroTime, Move, PlacementSpec};
    use jiff::Timestamp;

    use super::*;

    /// A decision that moves these actors between units for a gain.
    fn decision(moves: &[(&str, &str, &str)]) -> Placement {
        let assignments = moves.iter().map(|(actor, _, to)| Assignment {
            actor: (*actor).to_owned(),
            unit: (*to).to_owned(),
            ..Assignment::default()
        });
        let elective = moves.iter().map(|(actor, from, to)| Move {
            actor: (*actor).to_owned(),
            from: Some((*from).to_owned()),
            to: (*to).to_owned(),
            gain_percent: Some(9),
            decided_at: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..Move::default()
        });
        let (assignments, moves) = (assignments.collect(), elective.collect());
        Placement::new("app", PlacementSpec { assignments, moves, ..PlacementSpec::default() })
    }

    #[test]
    fn stopped_actors_that_are_refused_go_back_to_a_reserved_unit() {
        let node = |node: &str| RefusalScope::Node(node.to_owned());
        let (one, there) = (("a-0", "n/u-0", "m/u-0"), Instance::default);
        let starts = || Instance { pod: Some(Pod::default()), ..Instance::default() };
        let goes_there = ("b-0", "m/u-0", "n/u-0");
        for (moves, instance, scope, expected) in [
            (vec![one], there(), node("m"), vec!["a-0 to n/u-0"]),
            // Its pod is still there, or its move not refused.
            (vec![one], starts(), node("m"), vec![]),
            (vec![one], Instance { terminating: true, ..there() }, node("m"), vec![]),
            (vec![one], there(), node("n"), vec![]),
            (vec![one], there(), RefusalScope::Template, vec![]),
            // Another actor takes its old unit.
            (vec![one, goes_there], there(), node("m"), vec![]),
        ] {
            let decision = decision(&moves);
            let mut observed = ObservedState { now: Duration::from_secs(5), ..ObservedState::default() };
            observed.instances.insert("a-0".to_owned(), instance);
            let key = RefusalKey { scope, group: "a".to_owned(), kind: String::new() };
            let refusal = Refusal {
                key,
                actor: "a-1".to_owned(),
                reason: "full".to_owned(),
                count: 1,
                until: Duration::from_secs(6),
                cause: None,
            };
            let failed = failed_moves(&decision, (&observed, &BTreeMap::new()), &[refusal]);
            let failed: Vec<_> = failed.iter().map(|it| format!("{} to {}", it.actor, it.from)).collect();
            assert_eq!(failed, expected, "{moves:?}");
        }
    }
}
