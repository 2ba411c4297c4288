//! Whether a plan may be committed: plans are computed concurrently and committed one at a time.

pub(crate) mod keep_running;
pub(crate) mod place_one;
pub(crate) mod repair;
pub(crate) mod start;

use std::collections::BTreeSet;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Cost, Criterion, Judged, Plan, Snapshot, Unplaced, Violation};

use crate::model::{Decision, ObservedState};

/// Reason of an actor whose unit was taken while it was being planned.
const UNIT_TAKEN: &str = "the unit was taken during planning; re-planning";

/// Result of revalidating a plan against the latest snapshot.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The whole plan is valid; it refers to the latest snapshot.
    Valid(Box<Plan>),
    /// The plan conflicted with other commits; the conflicting actors were placed again.
    Repaired(Box<Plan>),
    /// Only this part is valid: the conflicting actors stay unplaced or where they are.
    Partial(Box<Plan>),
    /// The plan has to be computed again.
    Stale,
}

/// Revalidates a plan against the latest snapshot before it is committed.
///
/// `newest` includes the constraints that the policy derives. A conflicting plan is stale unless `keep_partial` is set: then
/// its valid part is kept, so that repeated conflicts cannot starve an application. Unplaced actors do not block the
/// others. The caller renews the reasons of moves.
pub fn revalidate_plan(planned: &Snapshot, plan: &Plan, newest: &Snapshot, keep_partial: bool) -> Verdict {
    let places = transfer(planned, plan, newest);
    let incumbent = newest.incumbent();
    let lost = |actor: &ActorIx| {
        let before = planned.actor(newest.actor_id(*actor));
        places[*actor].is_none() && before.is_none_or(|before| plan.assignment[before].is_some())
    };
    let all_there = !ActorIx::first(newest.actors()).any(|actor| !newest.is_fixed(actor) && lost(&actor));
    if all_there && newest.violations(&places).is_empty() {
        let cost = full_cost(newest, &places);
        let crowded = cost.of(Criterion::Overload) > plan.cost.of(Criterion::Overload)
            || cost.unplaced > plan.cost.unplaced;
        let worse = newest.violations(&incumbent).is_empty()
            && cost.vector(newest) > full_cost(newest, &incumbent).vector(newest);
        if !worse && (keep_partial || !crowded) {
            return Verdict::Valid(Box::new(rebase_plan(planned, plan, newest, places)));
        }
    }
    if !keep_partial {
        return Verdict::Stale;
    }
    // Running actors stay, and new ones are added as far as there is room.
    let newcomers = ActorIx::first(newest.actors())
        .filter(|&a| incumbent[a].is_none())
        .filter_map(|a| Some((a, places[a]?)));
    let newcomers: Vec<(ActorIx, UnitIx)> = newcomers.collect();
    let (assignment, _) = insert_feasible(newest, incumbent.clone(), &newcomers, &|| false);
    if assignment == incumbent {
        return Verdict::Stale;
    }
    Verdict::Partial(Box::new(rebase_plan(planned, plan, newest, assignment)))
}

/// Actors of the application whose decided placement is no longer feasible, by short name.
///
/// Actors that run where they were decided are counted first, and are feasible as long as their unit exists.
pub fn infeasible(snapshot: &Snapshot, decision: &Decision, observed: &ObservedState) -> BTreeSet<String> {
    let own = || ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
    let name = |actor: ActorIx| short_name(snapshot.actor_id(actor));
    let decided = |actor: ActorIx| decision.places.get(name(actor));
    let incumbent = snapshot.incumbent();
    let is_at = |actor: ActorIx| incumbent[actor].map(|unit| snapshot.unit_id(unit));
    let nowhere = own().filter(|&actor| decided(actor).is_some_and(|unit| is_at(actor) != Some(unit)));
    let mut found: BTreeSet<String> = nowhere.map(|actor| name(actor).to_owned()).collect();
    let is_there = |actor: ActorIx| {
        let runs = snapshot.running(actor).is_some();
        let pod = observed.instances.get(name(actor)).and_then(|instance| instance.pod.as_ref());
        runs && pod.is_some_and(|pod| pod.unit.as_ref() == decided(actor))
    };
    let is_new = |actor: &ActorIx| incumbent[*actor].is_some() && !is_there(*actor);
    let newcomers: Vec<(ActorIx, UnitIx)> =
        own().filter(is_new).filter_map(|actor| Some((actor, incumbent[actor]?))).collect();
    let mut start = incumbent.clone();
    for &(actor, _) in &newcomers {
        start[actor] = None;
    }
    // Decided actors that do not run yet do not grandfather violations.
    let before = start.clone();
    let broken = |places: &Assignment| sentences(snapshot.violations_after(&before, places));
    let (_, refused) = insert_without_new_violations(&broken, start, &newcomers, &|| false);
    found.extend(refused.into_iter().map(|actor| name(actor).to_owned()));
    found
}

/// Name of an actor within its application.
pub(crate) fn short_name(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Adds actors at their units as long as this violates nothing new; returns the assignment and the actors left out.
///
/// Bisects the list, so few conflicts need few checks. `stop` is asked before each check; the remaining actors are left
/// out.
pub(crate) fn insert_feasible(
    snapshot: &Snapshot,
    start: Assignment,
    newcomers: &[(ActorIx, UnitIx)],
    stop: &dyn Fn() -> bool,
) -> (Assignment, Vec<ActorIx>) {
    insert_without_new_violations(&|places| sentences(snapshot.violations(places)), start, newcomers, stop)
}

fn insert_without_new_violations(
    broken: &dyn Fn(&Assignment) -> BTreeSet<String>,
    start: Assignment,
    newcomers: &[(ActorIx, UnitIx)],
    stop: &dyn Fn() -> bool,
) -> (Assignment, Vec<ActorIx>) {
    let before = broken(&start);
    let (mut assignment, mut refused) = (start, Vec::new());
    let mut parts = vec![newcomers];
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

/// The same units in another snapshot; `None` where a unit no longer exists.
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

/// The plan with this assignment, in terms of the latest snapshot.
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
        None => Unplaced { actor, reasons: vec![UNIT_TAKEN.to_owned()], holds: None },
    });
    let excused = newest.excused(&assignment);
    let mut rebased = Plan { unplaced: unplaced.collect(), excused, ..plan.clone() };
    if !same {
        // Proofs hold for the former snapshot only.
        (rebased.optimal, rebased.proven_by) = (false, None);
        rebased.bound.clear();
        rebased.judged = Judged::None;
        rebased.moves = newest.moves(&assignment);
        rebased.cost = full_cost(newest, &assignment);
    }
    rebased.assignment = assignment;
    rebased
}
