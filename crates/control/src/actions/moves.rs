//! Elective moves: how far they are, and which may begin.

use std::collections::BTreeSet;

use crate::actions::blocked_on::{BlockedOn, TurnLimit};
use crate::actions::room::RoomTracker;
use crate::actions::stuck::is_in_the_way;
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, DesiredState, Instance, ObservedState, Pod, PodPhase};

/// How far a move is, as the actor's pod shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveState {
    /// The pod still runs elsewhere.
    Decided,
    /// The pod elsewhere is being stopped.
    Stopping,
    /// There is no pod.
    Stopped,
    /// The pod on the new unit is not ready.
    Starting,
    /// The pod on the new unit is ready.
    Running,
}

impl MoveState {
    /// The state of a move to this unit.
    pub fn of(to: &str, instance: Option<&Instance>) -> Self {
        let Some(pod) = instance.and_then(|instance| instance.pod.as_ref()) else { return Self::Stopped };
        match () {
            () if pod.unit.as_deref() == Some(to) && pod.is_serving() => Self::Running,
            () if pod.unit.as_deref() == Some(to) => Self::Starting,
            () if pod.phase == PodPhase::Terminating => Self::Stopping,
            () => Self::Decided,
        }
    }

    /// Whether the actor is stopped for the move.
    pub fn is_stopped(self) -> bool {
        matches!(self, Self::Stopping | Self::Stopped | Self::Starting)
    }
}

/// The number of actors of an application that are stopped for elective moves.
pub fn stopped_for_gain(decision: &Decision, observed: &ObservedState) -> usize {
    let state = |actor: &String| {
        let to = decision.places.get(actor)?;
        Some(MoveState::of(to, observed.instances.get(actor)))
    };
    decision.elective.keys().filter_map(state).filter(|state| state.is_stopped()).count()
}

/// The elective moves of an application.
pub(crate) struct ElectiveTurns<'a> {
    /// Actors that wait for their turn.
    waiting: BTreeSet<&'a str>,
    /// What they wait for.
    pub limit: TurnLimit,
}

impl<'a> ElectiveTurns<'a> {
    /// Determines which elective moves may begin now.
    ///
    /// At most [`MoveLimits::at_once`](crate::MoveLimits) actors are stopped at the same time. A move begins if there is room for
    /// the actor on its new unit, so in a chain the last move comes first. A cycle through full units begins with any actor;
    /// each further one is stopped once the stopped actor needs its place. Nothing begins during a rollout.
    pub fn new(
        desired: &DesiredState,
        decision: &'a Decision,
        observed: &ObservedState,
        room: &RoomTracker,
    ) -> Self {
        let mut turns = Self { waiting: BTreeSet::new(), limit: TurnLimit::AtOnce };
        let mut room = room.clone();
        let pod = |actor: &str| observed.instances.get(actor).and_then(|instance| instance.pod.as_ref());
        let mut candidates: Vec<(&'a str, usize, &'a str, &Pod)> = Vec::new();
        // What stopped actors wait for, and pods that make room already.
        let (mut needed, mut leaving): (Vec<BlockedOn>, Vec<&Pod>) = (Vec::new(), Vec::new());
        let mut stopped = 0;
        for actor in &desired.actors {
            let Some((name, _)) = decision.elective.get_key_value(&actor.name) else { continue };
            let Some(to) = decision.places.get(name) else { continue };
            let state = MoveState::of(to, observed.instances.get(name));
            stopped += usize::from(state.is_stopped());
            match (state, pod(name)) {
                (MoveState::Decided, Some(pod)) => candidates.push((name, actor.group, to, pod)),
                (MoveState::Stopping, Some(pod)) => leaving.push(pod),
                (MoveState::Stopped, _) => needed.extend(room.take(actor.group, to).err()),
                _ => {}
            }
        }
        turns.waiting = candidates.iter().map(|(name, ..)| *name).collect();
        // With 0 nothing is replaced. An actor that moves starts with its newest template elsewhere.
        let is_replaced = |(actor, instance): (&String, &Instance)| {
            let pod = instance.pod.as_ref().filter(|pod| pod.outdated && !pod.restart_blocked);
            pod.is_some_and(|pod| pod.unit.as_ref() == decision.places.get(actor))
        };
        if desired.max_unavailable > 0 && observed.instances.iter().any(is_replaced) {
            turns.limit = TurnLimit::Rollout;
            return turns;
        }
        for wait in needed.iter().filter(|wait| !leaving.iter().any(|pod| is_in_the_way(pod, wait))) {
            let holder = candidates.iter().find(|(_, _, _, pod)| is_in_the_way(pod, wait));
            if let Some((name, ..)) = holder {
                turns.begin(name);
            }
        }
        let limits = observed.move_limits;
        let left = limits.at_once.saturating_sub(stopped);
        if left > limits.left_in_cluster && !turns.waiting.is_empty() {
            turns.limit = TurnLimit::Cluster;
        }
        let left = left.min(limits.left_in_cluster);
        let waits: Vec<_> = candidates.iter().map(|it| (it.0, room.take(it.1, it.2).err())).collect();
        let can_start = waits.iter().filter(|(_, wait)| wait.is_none()).map(|(name, _)| *name);
        let begin: Vec<&str> = can_start.filter(|name| turns.waiting.contains(name)).take(left).collect();
        if begin.is_empty() && stopped == 0 && left > 0 {
            // A cycle: the place that an actor goes to is held by another of these actors.
            let is_cycle = |wait: &Option<BlockedOn>| {
                wait.as_ref().is_some_and(|wait| candidates.iter().any(|it| is_in_the_way(it.3, wait)))
            };
            let first = waits.iter().find(|(_, wait)| is_cycle(wait));
            if let Some((name, _)) = first {
                turns.begin(name);
            }
        }
        for name in begin {
            turns.begin(name);
        }
        turns
    }

    fn begin(&mut self, actor: &str) {
        self.waiting.remove(actor);
    }

    /// Whether this actor has to wait before it is stopped.
    pub fn waits(&self, actor: &str) -> bool {
        self.waiting.contains(actor)
    }
}

/// An elective move that has to be withdrawn, as a refusal of the new unit: the pod there was not ready in time.
pub(crate) fn never_ready(
    actor: &str,
    pod: &Pod,
    decision: &Decision,
    observed: &ObservedState,
) -> Option<RefusedPod> {
    let (to, since) = (decision.places.get(actor)?, decision.elective.get(actor)?.starting_since?);
    let give_up = observed.move_limits.give_up;
    if pod.unit.as_ref() != Some(to) || pod.is_serving() || observed.now < since + give_up {
        return None;
    }
    refused(actor, to, format!("not ready within {} s after the move", give_up.as_secs()))
}

/// The same of an actor whose eviction was refused all the time.
pub(crate) fn never_evicted(
    actor: &str,
    decision: &Decision,
    observed: &ObservedState,
) -> Option<RefusedPod> {
    let (since, why) = observed.not_evicted.get(actor).filter(|_| decision.elective.contains_key(actor))?;
    let give_up = observed.move_limits.give_up;
    if observed.now < *since + give_up {
        return None;
    }
    let reason = format!("the pod could not be evicted for {} s: {why}", give_up.as_secs());
    refused(actor, decision.places.get(actor)?, reason)
}

fn refused(actor: &str, unit: &str, reason: String) -> Option<RefusedPod> {
    let (node, _) = unit.rsplit_once('/')?;
    Some(RefusedPod { actor: actor.to_owned(), unit: unit.to_owned(), node: node.to_owned(), reason })
}
