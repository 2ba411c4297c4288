//! Whether what was planned may be written: plans are made side by side and committed one at a time.

pub(crate) mod keep_running;
pub(crate) mod place_one;
pub(crate) mod repair;
pub(crate) mod start;

use std::collections::BTreeSet;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Cost, Criterion, Judged, Plan, Snapshot, Unplaced, Violation};

use crate::model::{Decision, ObservedState};

/// What is said of an actor whose place somebody else took meanwhile.
const OVERTAKEN: &str = "its place was taken while it was planned; another is looked for";

/// What became of a plan in the newest world.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It may be committed as it is, told in the newest snapshot's positions.
    Valid(Box<Plan>),
    /// Others overtook it, and what collided was placed again; the rest stays.
    Repaired(Box<Plan>),
    /// So much of it may be committed: what collided has no place yet, or stays where it is.
    Partial(Box<Plan>),
    /// It is to be made again.
    Stale,
}

/// Looks at a plan again in the newest world, in which it is committed if it stands.
///
/// `newest` has what the policy derives of it. A plan that was overtaken is to be made again, unless `settle`: then what
/// still holds of it is kept, so that somebody who is overtaken again and again comes to a place, and holds up nobody.
/// An actor without a place is no reason to refuse the others theirs. Why who moves is for the caller to tell anew.
pub fn revalidate_plan(planned: &Snapshot, plan: &Plan, newest: &Snapshot, settle: bool) -> Verdict {
    let places = transfer(planned, plan, newest);
    let runs = newest.incumbent();
    let lost = |actor: &ActorIx| {
        let before = planned.actor(newest.actor_id(*actor));
        places[*actor].is_none() && before.is_none_or(|before| plan.assignment[before].is_some())
    };
    let all_there = !ActorIx::first(newest.actors()).any(|actor| !newest.is_fixed(actor) && lost(&actor));
    if all_there && newest.violations(&places).is_empty() {
        let cost = full_cost(newest, &places);
        let crowded = cost.of(Criterion::Overload) > plan.cost.of(Criterion::Overload)
            || cost.unplaced > plan.cost.unplaced;
        let worse = newest.violations(&runs).is_empty()
            && cost.vector(newest) > full_cost(newest, &runs).vector(newest);
        if !worse && (settle || !crowded) {
            return Verdict::Valid(Box::new(rebase_plan(planned, plan, newest, places)));
        }
    }
    if !settle {
        return Verdict::Stale;
    }
    // Whoever has a place keeps it, and of the others come in whom there is room for.
    let comers =
        ActorIx::first(newest.actors()).filter(|&a| runs[a].is_none()).filter_map(|a| Some((a, places[a]?)));
    let comers: Vec<(ActorIx, UnitIx)> = comers.collect();
    let (assignment, _) = insert(newest, runs.clone(), &comers, &|| false);
    if assignment == runs {
        return Verdict::Stale;
    }
    Verdict::Partial(Box::new(rebase_plan(planned, plan, newest, assignment)))
}

/// The actors of the application whose decided place may not be taken now, whoever wrote it: by short name.
///
/// Those who are where they were decided to be are counted first, and nothing is held against them as long as their
/// unit exists.
pub fn infeasible(snapshot: &Snapshot, decision: &Decision, seen: &ObservedState) -> BTreeSet<String> {
    let own = || ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
    let name = |actor: ActorIx| short(snapshot.actor_id(actor));
    let decided = |actor: ActorIx| decision.places.get(name(actor));
    let runs = snapshot.incumbent();
    let is_at = |actor: ActorIx| runs[actor].map(|unit| snapshot.unit_id(unit));
    let nowhere = own().filter(|&actor| decided(actor).is_some_and(|unit| is_at(actor) != Some(unit)));
    let mut found: BTreeSet<String> = nowhere.map(|actor| name(actor).to_owned()).collect();
    let is_there = |actor: ActorIx| {
        let pod = seen.instances.get(name(actor)).and_then(|instance| instance.pod.as_ref());
        pod.is_some_and(|pod| pod.unit.as_ref() == decided(actor))
    };
    let is_new = |actor: &ActorIx| runs[*actor].is_some() && !is_there(*actor);
    let comers: Vec<(ActorIx, UnitIx)> =
        own().filter(is_new).filter_map(|actor| Some((actor, runs[actor]?))).collect();
    let mut start = runs.clone();
    for &(actor, _) in &comers {
        start[actor] = None;
    }
    // What was decided and does not run yet excuses nothing.
    let before = start.clone();
    let broken = |places: &Assignment| sentences(snapshot.violations_after(&before, places));
    let (_, refused) = insert_if(&broken, start, &comers, &|| false);
    found.extend(refused.into_iter().map(|actor| name(actor).to_owned()));
    found
}

/// The name of an actor within its application.
pub(crate) fn short(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Adds actors at their units as long as nothing is broken that was not broken before; with those that cannot be added.
///
/// By halves: where few collide, the world is checked few times. Before each check `stop` is asked; whoever was not added by then is not.
pub(crate) fn insert(
    snapshot: &Snapshot,
    start: Assignment,
    comers: &[(ActorIx, UnitIx)],
    stop: &dyn Fn() -> bool,
) -> (Assignment, Vec<ActorIx>) {
    insert_if(&|places| sentences(snapshot.violations(places)), start, comers, stop)
}

fn insert_if(
    broken: &dyn Fn(&Assignment) -> BTreeSet<String>,
    start: Assignment,
    comers: &[(ActorIx, UnitIx)],
    stop: &dyn Fn() -> bool,
) -> (Assignment, Vec<ActorIx>) {
    let before = broken(&start);
    let (mut assignment, mut refused) = (start, Vec::new());
    let mut parts = vec![comers];
    while let Some(part) = parts.pop() {
        if stop() {
            let left = parts.into_iter().chain([part]).flatten();
            refused.extend(left.map(|(actor, _)| *actor));
            break;
        }
        let mut tried = assignment.clone();
        for &(actor, unit) in part {
            tried[actor] = Some(unit);
        }
        if broken(&tried).is_subset(&before) {
            assignment = tried;
        } else if let [(actor, _)] = part {
            refused.push(*actor);
        } else {
            let (first, second) = part.split_at(part.len() / 2);
            parts.extend([second, first]);
        }
    }
    (assignment, refused)
}

fn sentences(violations: Vec<Violation>) -> BTreeSet<String> {
    violations.into_iter().map(|violation| violation.says).collect()
}

pub(crate) fn full_cost(snapshot: &Snapshot, assignment: &Assignment) -> Cost {
    Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) }
}

/// The same places by name in another snapshot; nothing where the unit is not there any more.
pub(crate) fn transfer(from: &Snapshot, plan: &Plan, to: &Snapshot) -> Assignment {
    let place = |actor: ActorIx| {
        if to.is_fixed(actor) {
            return to.current(actor);
        }
        let unit = plan.assignment[from.actor(to.actor_id(actor))?]?;
        to.unit(from.unit_id(unit))
    };
    ActorIx::first(to.actors()).map(place).collect()
}

/// The plan in the newest snapshot's positions, with this assignment.
pub(crate) fn rebase_plan(
    planned: &Snapshot,
    plan: &Plan,
    newest: &Snapshot,
    assignment: Assignment,
) -> Plan {
    let same = planned.write() == newest.write();
    let reasons = |actor: ActorIx| {
        let before = planned.actor(newest.actor_id(actor));
        plan.unplaced.iter().find(|unplaced| Some(unplaced.actor) == before)
    };
    let waits = ActorIx::first(newest.actors()).filter(|&a| !newest.is_fixed(a) && assignment[a].is_none());
    let unplaced = waits.map(|actor| match reasons(actor) {
        Some(known) => Unplaced { actor, ..known.clone() },
        None => Unplaced { actor, reasons: vec![OVERTAKEN.to_owned()], holds: None },
    });
    let excused = newest.excused(&assignment);
    let mut told = Plan { unplaced: unplaced.collect(), excused, ..plan.clone() };
    if !same {
        // What was proven, was proven of another world.
        (told.optimal, told.proven_by) = (false, None);
        told.bound.clear();
        told.judged = Judged::None;
        told.moves = newest.moves(&assignment);
        told.cost = full_cost(newest, &assignment);
    }
    told.assignment = assignment;
    told
}
