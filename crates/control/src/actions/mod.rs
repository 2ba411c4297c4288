//! Computes the next action of every actor towards the decision, at most one per actor.
//!
//! A move stops the pod, waits until it is gone, and starts it at the new unit. The state between these actions is the
//! cluster itself, so a restarted operator continues where it stopped.

pub(crate) mod blocked_on;
pub(crate) mod heal;
pub(crate) mod moves;
pub(crate) mod room;
pub(crate) mod stuck;
pub(crate) mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::actions::blocked_on::{BlockedOn, TurnLimit};
use crate::actions::moves::{ElectiveTurns, never_evicted, never_ready};
use crate::actions::room::RoomTracker;
use crate::actions::update::Update;
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, DesiredState, Instance, Moment, ObjectId, ObservedState, Pod, PodPhase};

/// Time before an unschedulable pod counts as refused: the scheduler may preempt pods or wait for a volume.
const UNSCHEDULABLE_GRACE: Duration = Duration::from_secs(30);

/// Requeue interval during a mass outage.
const OUTAGE_RECHECK: Duration = Duration::from_secs(5);
/// Requeue interval while the actors of other applications are moved first.
const TURN_RECHECK: Duration = Duration::from_secs(2);

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the Instance of an actor.
    CreateInstance {
        /// The actor.
        actor: String,
    },
    /// Delete an Instance, and with it its pod.
    DeleteInstance {
        /// The Instance.
        instance: ObjectId,
    },
    /// Start an actor on a unit.
    StartPod {
        /// The actor.
        actor: String,
        /// The Instance that will own the pod.
        instance: ObjectId,
        /// The unit.
        unit: String,
        /// Whether to use the newest template rather than the last one that became ready.
        newest_template: bool,
    },
    /// Stop a pod.
    StopPod {
        /// The actor.
        actor: String,
        /// The pod.
        pod: ObjectId,
        /// How to stop it.
        mode: StopMode,
    },
}

/// How a pod is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Eviction, which respects disruption budgets: the pod could continue to run.
    Evict,
    /// Deletion: the pod ended, never started, or is replaced in place.
    Delete,
    /// Forced deletion: nothing will ever confirm that the pod ended.
    Force,
}

/// Actions, refusals and blocked actors of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Actions to execute now.
    pub actions: Vec<Action>,
    /// Refusals, to be recorded before the pods are deleted.
    pub refused_pods: Vec<RefusedPod>,
    /// Actors whose pod is never evicted, so that their move is withdrawn.
    pub not_evicted: Vec<RefusedPod>,
    /// Blocked actors.
    pub blocked: BTreeMap<String, BlockedOn>,
    /// Actors whose pod ended by itself and is being deleted.
    pub ended: Vec<String>,
    /// When to reconcile again without an event.
    pub requeue_at: Option<Moment>,
}

impl Actions {
    fn requeue_at_latest(&mut self, moment: Moment) {
        self.requeue_at = Some(self.requeue_at.map_or(moment, |next| next.min(moment)));
    }
}

/// Compares the decision with the observed state.
///
/// Actors in `infeasible` are not started, and running ones stay where they are until there is another decision; see
/// [`infeasible`](crate::infeasible).
pub fn next_actions(
    desired: &DesiredState,
    decision: &Decision,
    observed: &ObservedState,
    infeasible: &BTreeSet<String>,
) -> Actions {
    let mut result = Actions::default();
    let names: BTreeSet<&str> = desired.actors.iter().map(|actor| actor.name.as_str()).collect();
    let unwanted = observed.instances.iter().filter(|(actor, _)| !names.contains(actor.as_str()));
    let surplus = observed.surplus.iter().map(|instance| (&instance.id.name, instance));
    for (actor, instance) in unwanted.chain(surplus) {
        if instance.requested {
            // Only the runtime deletes the Instance; the operator deletes the pod that no actor needs any more.
            let is_due = |pod: &&Pod| pod.phase != PodPhase::Terminating || is_node_gone(pod, observed);
            let pod = instance.pod.as_ref().filter(is_due);
            result.actions.extend(pod.map(|pod| {
                let end = if is_node_gone(pod, observed) { StopMode::Force } else { StopMode::Delete };
                Action::StopPod { actor: actor.clone(), pod: pod.id.clone(), mode: end }
            }));
        } else if !instance.terminating {
            result.actions.push(Action::DeleteInstance { instance: instance.id.clone() });
        }
    }
    let closed = observed.namespace_backoff.clone().filter(|closed| observed.now < closed.until);
    let mut room = RoomTracker::new(desired, &observed.free);
    let mut update = Update::new(desired, decision, observed);
    let mut turns = update.pods_to_replace(desired, observed, |actor, pod| {
        let place = decision.places.get(actor);
        // A pod that does not serve is no loss.
        let may_go = !pod.restart_blocked || !pod.is_serving();
        place.is_some() && pod.unit.as_ref() == place && may_go && !infeasible.contains(actor)
    });
    if let Some(closed) = closed.as_ref().filter(|_| !turns.is_empty()) {
        // A replaced pod could not start again.
        result.requeue_at_latest(closed.until);
        turns.clear();
    }
    let elective = ElectiveTurns::new(desired, decision, observed, &room);
    if elective.limit == TurnLimit::Cluster {
        result.requeue_at_latest(observed.now + TURN_RECHECK);
    }
    for actor in &desired.actors {
        let name = &actor.name;
        let place = decision.places.get(name).map(String::as_str);
        let decided = place.is_some() || decision.unplaced.contains(name);
        let may_start = !infeasible.contains(name);
        let instance = observed.instances.get(name);
        if let Some(pod) = instance.and_then(|instance| instance.pod.as_ref()) {
            let mut goal = if decided && may_start { Goal::At(place) } else { Goal::Keep };
            if observed.mass_outage && pod.phase != PodPhase::Terminating && is_misplaced(pod, &goal) {
                result.blocked.insert(name.clone(), BlockedOn::MassOutage);
                result.requeue_at_latest(observed.now + OUTAGE_RECHECK);
                goal = Goal::Keep;
            } else if let Some(closed) = &closed
                && !matches!(pod.phase, PodPhase::Terminating | PodPhase::Ended)
                && is_misplaced(pod, &goal)
            {
                result.blocked.insert(name.clone(), BlockedOn::Backoff(closed.reason.clone()));
                result.requeue_at_latest(closed.until);
                goal = Goal::Keep;
            } else if decision.elective.contains_key(name) {
                goal = elective_goal(&mut result, name, pod, goal, (&elective, decision, observed));
            }
            let silent = node_loss(&mut result, desired, name, pod, observed);
            let refusal = never_ready(name, pod, decision, observed).map(|refused| refused.reason);
            check_pod(&mut result, name, (pod, refusal), &goal, turns.contains(name), silent, observed);
            continue;
        }
        if let Some(taken) = observed.name_conflicts.get(name) {
            result.blocked.insert(name.clone(), BlockedOn::from(taken));
            continue;
        }
        let Some(instance) = instance else {
            result.actions.push(Action::CreateInstance { actor: name.clone() });
            continue;
        };
        let Some(unit) = place else { continue };
        // The deletion of an Instance includes its pod.
        if instance.terminating {
            continue;
        }
        let held = observed.backoff.get(name).filter(|held| observed.now < held.until);
        if let Some(held) = held.or(closed.as_ref()) {
            result.blocked.insert(name.clone(), BlockedOn::Backoff(held.reason.clone()));
            result.requeue_at_latest(held.until);
            continue;
        }
        let taken = if may_start {
            room.take(actor.group, unit)
        } else {
            Err(BlockedOn::Infeasible(unit.to_owned()))
        };
        match taken {
            Err(wait) => drop(result.blocked.insert(name.clone(), wait)),
            Ok(()) => result.actions.push(start(name, instance, unit, update.starts_newest())),
        }
    }
    result
}

/// Where an actor that moves for a gain should be now: a move that takes too long is withdrawn.
fn elective_goal<'a>(
    result: &mut Actions,
    actor: &str,
    pod: &Pod,
    goal: Goal<'a>,
    (turns, decision, observed): (&ElectiveTurns, &Decision, &ObservedState),
) -> Goal<'a> {
    let is_at_start = is_misplaced(pod, &goal) && pod.phase != PodPhase::Terminating;
    if is_at_start && turns.waits(actor) {
        result.blocked.insert(actor.to_owned(), BlockedOn::MoveTurn(turns.limit));
        return Goal::Keep;
    }
    if is_at_start && let Some(refused) = never_evicted(actor, decision, observed) {
        result.not_evicted.push(refused);
        return Goal::Keep;
    }
    let give_up = observed.move_limits.give_up;
    let since = decision.elective.get(actor).and_then(|elective| elective.starting_since);
    if let Some(since) = since.filter(|since| observed.now < *since + give_up) {
        result.requeue_at_latest(since + give_up);
    }
    goal
}

fn start(actor: &str, instance: &Instance, unit: &str, newest: bool) -> Action {
    Action::StartPod {
        actor: actor.to_owned(),
        instance: instance.id.clone(),
        unit: unit.to_owned(),
        newest_template: newest,
    }
}

/// What an outage of its node means for a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeLoss {
    /// The node is reachable, or the pod is unbound.
    None,
    /// The pod may still run.
    Unconfirmed,
    /// The pod counts as ended.
    Ended,
}

/// Whether a pod is lost with its node; if this is unconfirmed, the actor is blocked.
fn node_loss(
    result: &mut Actions,
    desired: &DesiredState,
    actor: &str,
    pod: &Pod,
    observed: &ObservedState,
) -> NodeLoss {
    let Some((node, loss)) = pod.node.as_ref().and_then(|node| observed.unreachable.get_key_value(node))
    else {
        return NodeLoss::None;
    };
    if loss.confirmed {
        return NodeLoss::Ended;
    }
    let forced_at =
        desired.failover_after.filter(|_| !observed.mass_outage && !desired.paused).zip(loss.since);
    let forced_at = forced_at.map(|(after, since)| since.saturating_add(after));
    if forced_at.is_some_and(|at| observed.now >= at) {
        return NodeLoss::Ended;
    }
    if let Some(at) = forced_at {
        result.requeue_at_latest(at);
    }
    let wait = BlockedOn::NodeLost { node: node.clone(), forced: forced_at.is_some() };
    result.blocked.insert(actor.to_owned(), wait);
    NodeLoss::Unconfirmed
}

/// Where a pod should be.
enum Goal<'a> {
    /// On this unit, or on none.
    At(Option<&'a str>),
    /// Undecided: it stays.
    Keep,
}

fn is_misplaced(pod: &Pod, goal: &Goal) -> bool {
    match goal {
        Goal::At(place) => place.is_none() || pod.unit.as_deref() != *place,
        Goal::Keep => false,
    }
}

/// Whether the pod's node was deleted, so that nothing will ever confirm that it stopped.
fn is_node_gone(pod: &Pod, observed: &ObservedState) -> bool {
    pod.node.as_ref().is_some_and(|node| !observed.free.nodes.contains_key(node))
}

/// Stops an existing pod if it is refused, misplaced, ended, outdated, or lost with its node.
fn check_pod(
    result: &mut Actions,
    actor: &str,
    (pod, never_ready): (&Pod, Option<String>),
    goal: &Goal,
    is_its_turn: bool,
    silent: NodeLoss,
    observed: &ObservedState,
) {
    let node_is_gone = silent == NodeLoss::Ended || is_node_gone(pod, observed);
    if pod.phase == PodPhase::Terminating && !node_is_gone {
        return;
    }
    let counts_from = pod.refused_since.map(|since| since + UNSCHEDULABLE_GRACE);
    let refusal = pod.refusal.clone().filter(|_| counts_from.is_none_or(|from| observed.now >= from));
    if let Some(from) = counts_from.filter(|_| pod.refusal.is_some() && refusal.is_none()) {
        result.requeue_at_latest(from);
    }
    let refusal = refusal.or(never_ready);
    if let Some(reason) = &refusal
        && let Some(unit) = &pod.unit
        && let Some((node, _)) = unit.rsplit_once('/')
        && !node_is_gone
    {
        let (actor, node, reason) = (actor.to_owned(), node.to_owned(), reason.clone());
        result.refused_pods.push(RefusedPod { actor, unit: unit.clone(), node, reason });
    }
    let misplaced = is_misplaced(pod, goal);
    let ended = pod.phase == PodPhase::Ended;
    if ended && !node_is_gone && !misplaced && refusal.is_none() {
        result.ended.push(actor.to_owned());
    }
    if node_is_gone || misplaced || refusal.is_some() || ended || is_its_turn {
        let end = match () {
            () if node_is_gone => StopMode::Force,
            () if misplaced && !ended && refusal.is_none() => StopMode::Evict,
            () => StopMode::Delete,
        };
        result.actions.push(Action::StopPod { actor: actor.to_owned(), pod: pod.id.clone(), mode: end });
    }
}
