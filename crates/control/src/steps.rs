//! The next step of every actor, so that the cluster becomes what was decided: one step per actor at a time.
//!
//! A move stops the actor, waits until it is gone, and starts it at its new place. The state between the steps is the
//! cluster itself, so whoever comes after a crash goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::nouns::{Decision, Id, Instance, Moment, Pod, Seen, State, Wanted};
use crate::refusals::Refused;
use crate::room::Room;
use crate::update::Update;
use crate::wait::Wait;

/// So long the scheduler may say no before that counts: it may make room by a preemption, or wait for a volume.
const GRACE: Duration = Duration::from_secs(30);

/// When it is asked again whether nodes answer by now.
const SILENCE: Duration = Duration::from_secs(5);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the Instance of an actor.
    Create {
        /// The actor.
        actor: String,
    },
    /// Remove an Instance, and with it its pod.
    Remove {
        /// Exactly this one.
        instance: Id,
    },
    /// Start an actor on a unit.
    Start {
        /// The actor.
        actor: String,
        /// The Instance that it runs for.
        instance: Id,
        /// The unit.
        unit: String,
        /// From the newest template; else from the last one that served.
        newest: bool,
    },
    /// Stop a pod.
    Stop {
        /// The actor.
        actor: String,
        /// Exactly this one.
        pod: Id,
        /// In which way.
        end: End,
    },
}

/// How a pod is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By eviction: it could go on, and disruption budgets say when it may be taken.
    Evict,
    /// By deletion: it ended, never began, or is replaced where it is.
    Delete,
    /// At once: nobody will ever confirm that it ended.
    AtOnce,
}

/// Steps, refusals, and what is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Todo {
    /// What to do now.
    pub steps: Vec<Step>,
    /// What was refused, to be remembered before the pods go.
    pub refused: Vec<Refused>,
    /// What actors wait for.
    pub waiting: BTreeMap<String, Wait>,
    /// Actors whose pod ended by itself, and is taken away.
    pub ended: Vec<String>,
    /// When there may be more to do though nothing changes.
    pub next: Option<Moment>,
}

impl Todo {
    fn look_at(&mut self, moment: Moment) {
        self.next = Some(self.next.map_or(moment, |next| next.min(moment)));
    }
}

/// Compares what was decided with what is there.
///
/// `infeasible` names the actors whose decided place may not be taken now ([`infeasible`](crate::infeasible)): they are
/// not started, and those of them that run stay where they are until another place is decided.
pub fn steps(wanted: &Wanted, decision: &Decision, seen: &Seen, infeasible: &BTreeSet<String>) -> Todo {
    let mut todo = Todo::default();
    let names: BTreeSet<&str> = wanted.actors.iter().map(|actor| actor.name.as_str()).collect();
    let unwanted = seen.instances.iter().filter(|(actor, _)| !names.contains(actor.as_str()));
    let surplus = seen.surplus.iter().map(|instance| (&instance.id.name, instance));
    for (actor, instance) in unwanted.chain(surplus) {
        if instance.requested {
            // It stays, and what runs for it goes: it is no actor any more, or never was.
            let is_due = |pod: &&Pod| pod.state != State::Going || left_behind(pod, seen);
            let pod = instance.pod.as_ref().filter(is_due);
            todo.steps.extend(pod.map(|pod| {
                let end = if left_behind(pod, seen) { End::AtOnce } else { End::Delete };
                Step::Stop { actor: actor.clone(), pod: pod.id.clone(), end }
            }));
        } else if !instance.going {
            todo.steps.push(Step::Remove { instance: instance.id.clone() });
        }
    }
    let closed = seen.closed.clone().filter(|closed| seen.now < closed.until);
    let mut room = Room::new(wanted, &seen.left);
    let mut update = Update::new(wanted, decision, seen);
    let mut turns = update.turns(wanted, seen, |actor, pod| {
        let place = decision.places.get(actor);
        // Who serves nobody loses nothing.
        let may_go = !pod.no_return || !pod.serves();
        place.is_some() && pod.unit.as_ref() == place && may_go && !infeasible.contains(actor)
    });
    if let Some(closed) = closed.as_ref().filter(|_| !turns.is_empty()) {
        // Who makes room could not start again.
        todo.look_at(closed.until);
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
            if seen.silent && pod.state != State::Going && is_misplaced(pod, &goal) {
                todo.waiting.insert(name.clone(), Wait::Silence);
                todo.look_at(seen.now + SILENCE);
                goal = Goal::Open;
            } else if let Some(closed) = &closed
                && !matches!(pod.state, State::Going | State::Over)
                && is_misplaced(pod, &goal)
            {
                todo.waiting.insert(name.clone(), Wait::BackOff(closed.why.clone()));
                todo.look_at(closed.until);
                goal = Goal::Open;
            }
            let silent = lost(&mut todo, wanted, name, pod, seen);
            look_after(&mut todo, name, pod, &goal, turns.contains(name), silent, seen);
            continue;
        }
        if let Some(taken) = seen.taken.get(name) {
            todo.waiting.insert(name.clone(), Wait::from(taken));
            continue;
        }
        let Some(instance) = instance else {
            todo.steps.push(Step::Create { actor: name.clone() });
            continue;
        };
        let Some(unit) = place else { continue };
        // A pod is owned by its Instance: one that goes takes it along.
        if instance.going {
            continue;
        }
        let held = seen.held_back.get(name).filter(|held| seen.now < held.until);
        if let Some(held) = held.or(closed.as_ref()) {
            todo.waiting.insert(name.clone(), Wait::BackOff(held.why.clone()));
            todo.look_at(held.until);
            continue;
        }
        let taken =
            if may_start { room.take(actor.group, unit) } else { Err(Wait::Infeasible(unit.to_owned())) };
        match taken {
            Err(wait) => drop(todo.waiting.insert(name.clone(), wait)),
            Ok(()) => todo.steps.push(start(name, instance, unit, update.starts_newest())),
        }
    }
    todo
}

fn start(actor: &str, instance: &Instance, unit: &str, newest: bool) -> Step {
    Step::Start { actor: actor.to_owned(), instance: instance.id.clone(), unit: unit.to_owned(), newest }
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
fn lost(todo: &mut Todo, wanted: &Wanted, actor: &str, pod: &Pod, seen: &Seen) -> Silent {
    let Some((node, loss)) = pod.node.as_ref().and_then(|node| seen.lost.get_key_value(node)) else {
        return Silent::No;
    };
    if loss.confirmed {
        return Silent::Over;
    }
    let forced_at = wanted.forced_after.filter(|_| !seen.silent && !wanted.paused).zip(loss.since);
    let forced_at = forced_at.map(|(after, since)| since.saturating_add(after));
    if forced_at.is_some_and(|at| seen.now >= at) {
        return Silent::Over;
    }
    if let Some(at) = forced_at {
        todo.look_at(at);
    }
    let wait = Wait::Lost { node: node.clone(), forced: forced_at.is_some() };
    todo.waiting.insert(actor.to_owned(), wait);
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
fn left_behind(pod: &Pod, seen: &Seen) -> bool {
    pod.node.as_ref().is_some_and(|node| !seen.left.nodes.contains_key(node))
}

/// A pod that is there: refused, misplaced, ended, left behind by its node, of an older template, or just right.
fn look_after(
    todo: &mut Todo,
    actor: &str,
    pod: &Pod,
    goal: &Goal,
    is_its_turn: bool,
    silent: Silent,
    seen: &Seen,
) {
    let node_is_gone = silent == Silent::Over || left_behind(pod, seen);
    if pod.state == State::Going && !node_is_gone {
        return;
    }
    let counts_from = pod.refused_since.map(|since| since + GRACE);
    let refusal = pod.refusal.as_ref().filter(|_| counts_from.is_none_or(|from| seen.now >= from));
    if let Some(from) = counts_from.filter(|_| pod.refusal.is_some() && refusal.is_none()) {
        todo.look_at(from);
    }
    if let Some(reason) = refusal
        && let Some(unit) = &pod.unit
        && let Some((node, _)) = unit.rsplit_once('/')
        && !node_is_gone
    {
        let (actor, node, reason) = (actor.to_owned(), node.to_owned(), reason.clone());
        todo.refused.push(Refused { actor, unit: unit.clone(), node, reason });
    }
    let misplaced = is_misplaced(pod, goal);
    let ended = pod.state == State::Over;
    if ended && !node_is_gone && !misplaced && refusal.is_none() {
        todo.ended.push(actor.to_owned());
    }
    if node_is_gone || misplaced || refusal.is_some() || ended || is_its_turn {
        let end = match () {
            () if node_is_gone => End::AtOnce,
            () if misplaced && !ended && refusal.is_none() => End::Evict,
            () => End::Delete,
        };
        todo.steps.push(Step::Stop { actor: actor.to_owned(), pod: pod.id.clone(), end });
    }
}
