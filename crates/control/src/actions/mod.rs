//! The next step of every actor, so that the cluster becomes what was decided: one step per actor at a time.
//!
//! A move stops the actor, waits until it is gone, and starts it at its new place. The state between the steps is the
//! cluster itself, so whoever comes after a crash goes on where it was.

pub(crate) mod blocked_on;
pub(crate) mod heal;
pub(crate) mod room;
pub(crate) mod stuck;
pub(crate) mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::actions::blocked_on::BlockedOn;
use crate::actions::room::Room;
use crate::actions::update::Update;
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, DesiredState, Instance, Moment, ObjectId, ObservedState, Pod, PodPhase};

/// So long the scheduler may say no before that counts: it may make room by a preemption, or wait for a volume.
const GRACE: Duration = Duration::from_secs(30);

/// When it is asked again whether nodes answer by now.
const SILENCE: Duration = Duration::from_secs(5);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the Instance of an actor.
    CreateInstance {
        /// The actor.
        actor: String,
    },
    /// Remove an Instance, and with it its pod.
    DeleteInstance {
        /// Exactly this one.
        instance: ObjectId,
    },
    /// Start an actor on a unit.
    StartPod {
        /// The actor.
        actor: String,
        /// The Instance that it runs for.
        instance: ObjectId,
        /// The unit.
        unit: String,
        /// From the newest template; else from the last one that served.
        newest_template: bool,
    },
    /// Stop a pod.
    StopPod {
        /// The actor.
        actor: String,
        /// Exactly this one.
        pod: ObjectId,
        /// In which way.
        mode: StopMode,
    },
}

/// How a pod is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// By eviction: it could go on, and disruption budgets say when it may be taken.
    Evict,
    /// By deletion: it ended, never began, or is replaced where it is.
    Delete,
    /// At once: nobody will ever confirm that it ended.
    Force,
}

/// Steps, refusals, and what is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// What to do now.
    pub actions: Vec<Action>,
    /// What was refused, to be remembered before the pods go.
    pub refused_pods: Vec<RefusedPod>,
    /// What actors wait for.
    pub blocked: BTreeMap<String, BlockedOn>,
    /// Actors whose pod ended by itself, and is taken away.
    pub ended: Vec<String>,
    /// When there may be more to do though nothing changes.
    pub requeue_at: Option<Moment>,
}

impl Actions {
    fn requeue_at_latest(&mut self, moment: Moment) {
        self.requeue_at = Some(self.requeue_at.map_or(moment, |next| next.min(moment)));
    }
}

/// Compares what was decided with what is there.
///
/// `infeasible` names the actors whose decided place may not be taken now ([`infeasible`](crate::infeasible)): they are
/// not started, and those of them that run stay where they are until another place is decided.
pub fn next_actions(
    wanted: &DesiredState,
    decision: &Decision,
    seen: &ObservedState,
    infeasible: &BTreeSet<String>,
) -> Actions {
    let mut todo = Actions::default();
    let names: BTreeSet<&str> = wanted.actors.iter().map(|actor| actor.name.as_str()).collect();
    let unwanted = seen.instances.iter().filter(|(actor, _)| !names.contains(actor.as_str()));
    let surplus = seen.surplus.iter().map(|instance| (&instance.id.name, instance));
    for (actor, instance) in unwanted.chain(surplus) {
        if instance.requested {
            // It stays, and what runs for it goes: it is no actor any more, or never was.
            let is_due = |pod: &&Pod| pod.phase != PodPhase::Terminating || is_node_gone(pod, seen);
            let pod = instance.pod.as_ref().filter(is_due);
            todo.actions.extend(pod.map(|pod| {
                let end = if is_node_gone(pod, seen) { StopMode::Force } else { StopMode::Delete };
                Action::StopPod { actor: actor.clone(), pod: pod.id.clone(), mode: end }
            }));
        } else if !instance.terminating {
            todo.actions.push(Action::DeleteInstance { instance: instance.id.clone() });
        }
    }
    let closed = seen.namespace_backoff.clone().filter(|closed| seen.now < closed.until);
    let mut room = Room::new(wanted, &seen.free);
    let mut update = Update::new(wanted, decision, seen);
    let mut turns = update.turns(wanted, seen, |actor, pod| {
        let place = decision.places.get(actor);
        // Who serves nobody loses nothing.
        let may_go = !pod.restart_blocked || !pod.is_serving();
        place.is_some() && pod.unit.as_ref() == place && may_go && !infeasible.contains(actor)
    });
    if let Some(closed) = closed.as_ref().filter(|_| !turns.is_empty()) {
        // Who makes room could not start again.
        todo.requeue_at_latest(closed.until);
        turns.clear();
    }
    for actor in &wanted.actors {
        let name = &actor.name;
        let place = decision.places.get(name).map(String::as_str);
        let decided = place.is_some() || decision.unplaced.contains(name);
        let may_start = !infeasible.contains(name);
        let instance = seen.instances.get(name);
        if let Some(pod) = instance.and_then(|instance| instance.pod.as_ref()) {
            let mut goal = if decided && may_start { Goal::At(place) } else { Goal::Open };
            if seen.mass_outage && pod.phase != PodPhase::Terminating && is_misplaced(pod, &goal) {
                todo.blocked.insert(name.clone(), BlockedOn::MassOutage);
                todo.requeue_at_latest(seen.now + SILENCE);
                goal = Goal::Open;
            } else if let Some(closed) = &closed
                && !matches!(pod.phase, PodPhase::Terminating | PodPhase::Ended)
                && is_misplaced(pod, &goal)
            {
                todo.blocked.insert(name.clone(), BlockedOn::Backoff(closed.reason.clone()));
                todo.requeue_at_latest(closed.until);
                goal = Goal::Open;
            }
            let silent = lost(&mut todo, wanted, name, pod, seen);
            check_pod(&mut todo, name, pod, &goal, turns.contains(name), silent, seen);
            continue;
        }
        if let Some(taken) = seen.name_conflicts.get(name) {
            todo.blocked.insert(name.clone(), BlockedOn::from(taken));
            continue;
        }
        let Some(instance) = instance else {
            todo.actions.push(Action::CreateInstance { actor: name.clone() });
            continue;
        };
        let Some(unit) = place else { continue };
        // A pod is owned by its Instance: one that goes takes it along.
        if instance.terminating {
            continue;
        }
        let held = seen.backoff.get(name).filter(|held| seen.now < held.until);
        if let Some(held) = held.or(closed.as_ref()) {
            todo.blocked.insert(name.clone(), BlockedOn::Backoff(held.reason.clone()));
            todo.requeue_at_latest(held.until);
            continue;
        }
        let taken = if may_start {
            room.take(actor.group, unit)
        } else {
            Err(BlockedOn::Infeasible(unit.to_owned()))
        };
        match taken {
            Err(wait) => drop(todo.blocked.insert(name.clone(), wait)),
            Ok(()) => todo.actions.push(start(name, instance, unit, update.starts_newest())),
        }
    }
    todo
}

fn start(actor: &str, instance: &Instance, unit: &str, newest: bool) -> Action {
    Action::StartPod {
        actor: actor.to_owned(),
        instance: instance.id.clone(),
        unit: unit.to_owned(),
        newest_template: newest,
    }
}

/// What the silence of a pod's node means for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silent {
    /// Nothing: its node answers, or it has none yet.
    No,
    /// It may live, and is waited for.
    Waits,
    /// It counts as ended.
    Over,
}

/// Whether a pod is lost with its node, and what is waited for where that is not known.
fn lost(todo: &mut Actions, wanted: &DesiredState, actor: &str, pod: &Pod, seen: &ObservedState) -> Silent {
    let Some((node, loss)) = pod.node.as_ref().and_then(|node| seen.unreachable.get_key_value(node)) else {
        return Silent::No;
    };
    if loss.confirmed {
        return Silent::Over;
    }
    let forced_at = wanted.failover_after.filter(|_| !seen.mass_outage && !wanted.paused).zip(loss.since);
    let forced_at = forced_at.map(|(after, since)| since.saturating_add(after));
    if forced_at.is_some_and(|at| seen.now >= at) {
        return Silent::Over;
    }
    if let Some(at) = forced_at {
        todo.requeue_at_latest(at);
    }
    let wait = BlockedOn::NodeLost { node: node.clone(), forced: forced_at.is_some() };
    todo.blocked.insert(actor.to_owned(), wait);
    Silent::Waits
}

/// Where a pod should be.
enum Goal<'a> {
    /// There, or nowhere.
    At(Option<&'a str>),
    /// Not known now: where it is, it stays.
    Open,
}

fn is_misplaced(pod: &Pod, goal: &Goal) -> bool {
    match goal {
        Goal::At(place) => place.is_none() || pod.unit.as_deref() != *place,
        Goal::Open => false,
    }
}

/// Whether the pod's node is gone, and nobody will ever confirm that it stopped.
fn is_node_gone(pod: &Pod, seen: &ObservedState) -> bool {
    pod.node.as_ref().is_some_and(|node| !seen.free.nodes.contains_key(node))
}

/// A pod that is there: refused, misplaced, ended, left behind by its node, of an older template, or just right.
fn check_pod(
    todo: &mut Actions,
    actor: &str,
    pod: &Pod,
    goal: &Goal,
    is_its_turn: bool,
    silent: Silent,
    seen: &ObservedState,
) {
    let node_is_gone = silent == Silent::Over || is_node_gone(pod, seen);
    if pod.phase == PodPhase::Terminating && !node_is_gone {
        return;
    }
    let counts_from = pod.refused_since.map(|since| since + GRACE);
    let refusal = pod.refusal.as_ref().filter(|_| counts_from.is_none_or(|from| seen.now >= from));
    if let Some(from) = counts_from.filter(|_| pod.refusal.is_some() && refusal.is_none()) {
        todo.requeue_at_latest(from);
    }
    if let Some(reason) = refusal
        && let Some(unit) = &pod.unit
        && let Some((node, _)) = unit.rsplit_once('/')
        && !node_is_gone
    {
        let (actor, node, reason) = (actor.to_owned(), node.to_owned(), reason.clone());
        todo.refused_pods.push(RefusedPod { actor, unit: unit.clone(), node, reason });
    }
    let misplaced = is_misplaced(pod, goal);
    let ended = pod.phase == PodPhase::Ended;
    if ended && !node_is_gone && !misplaced && refusal.is_none() {
        todo.ended.push(actor.to_owned());
    }
    if node_is_gone || misplaced || refusal.is_some() || ended || is_its_turn {
        let end = match () {
            () if node_is_gone => StopMode::Force,
            () if misplaced && !ended && refusal.is_none() => StopMode::Evict,
            () => StopMode::Delete,
        };
        todo.actions.push(Action::StopPod { actor: actor.to_owned(), pod: pod.id.clone(), mode: end });
    }
}
