//! Progress of a Placement. Pure.

use std::collections::BTreeMap;

use control::BlockedOn;
use crds::{
    Assignment, Instance, InstancePhase, InstanceStatus, MoveProgress, Placement, PlacementPhase,
    PlacementStatus,
};
use jiff::Timestamp;

use crate::status::report::{Finding, conditions};

/// Progress of a placed actor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Actor {
    /// Running on its unit.
    There,
    /// Stopping, starting or ended.
    UnderWay,
    /// Without a pod, or still running elsewhere.
    AsBefore,
}

impl Actor {
    fn of(place: &Assignment, status: Option<&InstanceStatus>) -> Self {
        let is_there = status.is_some_and(|status| status.unit.as_ref() == Some(&place.unit));
        match status.and_then(|status| status.phase) {
            Some(InstancePhase::Running) if is_there => Self::There,
            None | Some(InstancePhase::Pending | InstancePhase::Running) => Self::AsBefore,
            Some(_) => Self::UnderWay,
        }
    }
}

/// The status of a Placement: `Planned` before the first action, `Applied` when all placed actors run on their units, `Failed`
/// when all others cannot be started, else `Applying`.
pub fn placement_status(
    decision: &Placement,
    (instances, waiting): (&BTreeMap<String, &Instance>, &BTreeMap<String, BlockedOn>),
    (refusals, progress): (Vec<crds::Refusal>, Vec<MoveProgress>),
    now: Timestamp,
) -> PlacementStatus {
    let before = decision.status.clone().unwrap_or_default();
    let generation = decision.metadata.generation;
    let statuses: BTreeMap<String, &InstanceStatus> = (instances.values())
        .filter_map(|instance| Some((*instance, instance.status.as_ref()?)))
        .flat_map(|(instance, status)| {
            world::actors_of_instance(instance).into_iter().map(move |actor| (actor.short(), status))
        })
        .collect();
    let places = &decision.spec.assignments;
    let far: BTreeMap<&str, Actor> = places
        .iter()
        .map(|place| (place.actor.as_str(), Actor::of(place, statuses.get(&place.actor).copied())))
        .collect();
    let missing: Vec<&str> =
        far.iter().filter(|(_, far)| **far != Actor::There).map(|(actor, _)| *actor).collect();
    let is_stuck = |actor: &&str| {
        matches!(waiting.get(*actor), Some(BlockedOn::Backoff(_) | BlockedOn::NameConflict(_)))
    };
    // A moved actor that arrived or is on its way shows progress, as does the phase reported before.
    let moved = |actor: &str| decision.spec.moves.iter().any(|it| it.actor == actor);
    let is_begun = |(actor, far): (&&str, &Actor)| match far {
        Actor::There => moved(actor),
        Actor::UnderWay => true,
        Actor::AsBefore => false,
    };
    let was_begun = before.observed_generation == generation
        && before.phase.is_some_and(|phase| phase != PlacementPhase::Planned);
    let phase = match () {
        () if missing.is_empty() => PlacementPhase::Applied,
        () if missing.iter().all(is_stuck) => PlacementPhase::Failed,
        () if was_begun || far.iter().any(is_begun) => PlacementPhase::Applying,
        () => PlacementPhase::Planned,
    };
    let waits = missing.iter().find_map(|actor| Some(format!("; {actor} waits: {}", waiting.get(*actor)?)));
    let message = format!(
        "{} of {} placed actors run{}",
        places.len() - missing.len(),
        places.len(),
        waits.unwrap_or_default()
    );
    let holds = phase == PlacementPhase::Applied;
    let finding = Finding { type_: "Ready", holds, reason: phase.into(), message };
    PlacementStatus {
        observed_generation: generation,
        phase: Some(phase),
        moves: progress,
        refusals,
        conditions: conditions(&before.conditions, vec![finding], generation, now),
    }
}

/// Whether only the number of running actors changed.
pub fn only_counts(before: &PlacementStatus, now: &PlacementStatus) -> bool {
    let rest = |status: &PlacementStatus| {
        let mut status = status.clone();
        status.conditions.iter_mut().for_each(|condition| condition.message.clear());
        status
    };
    rest(before) == rest(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::{InstanceSpec, Move, PlacementSpec};

    /// `actor@decided=PHASE@unit` of each actor, `>` before one that moves, `!why` after one in backoff; `before`: the reported
    /// phase.
    fn describe(before: Option<PlacementPhase>, actors: &str) -> String {
        let mut spec = PlacementSpec { application: "app".to_owned(), ..PlacementSpec::default() };
        let (mut instances, mut waiting) = (Vec::new(), BTreeMap::new());
        for text in actors.split_whitespace() {
            let (text, why) = text.split_once('!').map_or((text, None), |(text, why)| (text, Some(why)));
            let (decided, is) = text.split_once('=').unwrap();
            let (name, unit) = decided.split_once('@').unwrap();
            let (moves, name) = name.strip_prefix('>').map_or((false, name), |name| (true, name));
            let actor = format!("{name}-0");
            spec.assignments.push(Assignment {
                actor: actor.clone(),
                unit: unit.to_owned(),
                ..Assignment::default()
            });
            spec.moves.extend(moves.then(|| Move { actor: actor.clone(), ..Move::default() }));
            waiting.extend(why.map(|why| (actor.clone(), BlockedOn::Backoff(why.to_owned()))));
            let (phase, at) = is.split_once('@').unwrap_or((is, ""));
            let mut instance = Instance::new(
                &format!("app-{actor}"),
                InstanceSpec {
                    application_name: "app".to_owned(),
                    actor_group: Some(name.to_owned()),
                    actor: Some(actor),
                    ..InstanceSpec::default()
                },
            );
            instance.status = Some(InstanceStatus {
                phase: serde_json::from_value(phase.into()).unwrap(),
                unit: (!at.is_empty()).then(|| at.to_owned()),
                ..InstanceStatus::default()
            });
            instances.push(instance);
        }
        let instances: BTreeMap<String, &Instance> =
            instances.iter().map(|it| (it.metadata.name.clone().unwrap(), it)).collect();
        let mut decision = Placement::new("app", spec);
        decision.metadata.generation = Some(2);
        decision.status = before.map(|phase| PlacementStatus {
            observed_generation: Some(2),
            phase: Some(phase),
            ..PlacementStatus::default()
        });
        let status =
            placement_status(&decision, (&instances, &waiting), Default::default(), Timestamp::UNIX_EPOCH);
        format!("{}: {}", status.phase.unwrap(), status.conditions[0].message)
    }

    #[test]
    fn the_number_of_running_actors_is_only_a_count() {
        let status = |phase, message: &str, count| PlacementStatus {
            phase: Some(phase),
            conditions: conditions(
                &[],
                vec![Finding {
                    type_: "Ready",
                    holds: false,
                    reason: "Applying",
                    message: message.to_owned(),
                }],
                Some(1),
                Timestamp::UNIX_EPOCH,
            ),
            observed_generation: Some(count),
            ..PlacementStatus::default()
        };
        let before = status(PlacementPhase::Applying, "1 of 3 placed actors run", 1);
        for (now, expected) in [
            (status(PlacementPhase::Applying, "2 of 3 placed actors run", 1), true),
            (status(PlacementPhase::Applied, "3 of 3 placed actors run", 1), false),
            (status(PlacementPhase::Applying, "1 of 3 placed actors run", 2), false),
        ] {
            assert_eq!(only_counts(&before, &now), expected, "{now:?}");
        }
    }

    #[test]
    fn the_phase_follows_the_actors() {
        use PlacementPhase::{Applied, Applying};
        for (before, actors, expected) in [
            (None, "a@u=Pending b@v=Pending", "Planned: 0 of 2 placed actors run"),
            (None, "a@u=Running@u b@v=Running@v", "Applied: 2 of 2 placed actors run"),
            (None, "", "Applied: 0 of 0 placed actors run"),
            (None, "a@u=Starting@u b@v=Pending", "Applying: 0 of 2 placed actors run"),
            // a move has begun when an actor stops, starts elsewhere, or has arrived
            (None, ">a@u=Running@v b@v=Running@v", "Planned: 1 of 2 placed actors run"),
            (None, ">a@u=Stopping@v b@v=Running@v", "Applying: 1 of 2 placed actors run"),
            (None, ">a@u=Running@u >b@v=Running@w", "Applying: 1 of 2 placed actors run"),
            // the phase does not return to Planned while a pod is replaced
            (Some(Applied), "a@u=Pending b@v=Running@v", "Applying: 1 of 2 placed actors run"),
            (Some(Applying), ">a@u=Pending b@v=Running@v", "Applying: 1 of 2 placed actors run"),
            // Failed when no remaining actor can be started
            (
                Some(Applying),
                "a@u=Pending!quota b@v=Running@v",
                "Failed: 1 of 2 placed actors run; a-0 waits: quota; retrying with backoff",
            ),
            (
                Some(Applying),
                "a@u=Pending!quota b@v=Starting@v",
                "Applying: 0 of 2 placed actors run; a-0 waits: quota; retrying with backoff",
            ),
        ] {
            assert_eq!(describe(before, actors), expected, "{actors}");
        }
    }
}
