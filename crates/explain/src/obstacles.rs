//! Sentences: why an actor moves, and what keeps an unplaced one off the units.

use std::collections::BTreeMap;

use crate::limit::resource_name;
use crate::moves::Moves;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, Move, Objectives, Snapshot, State};

/// What keeps an unplaced actor off the units: one line per cause, with the number of units.
pub fn obstacles(snapshot: &Snapshot, actor: ActorIx, assignment: &Assignment) -> Vec<String> {
    obstacles_of(snapshot, actor, &State::of(snapshot, assignment))
}

fn obstacles_of(snapshot: &Snapshot, actor: ActorIx, state: &State) -> Vec<String> {
    let kinds: Vec<&str> = snapshot.file().actors[actor.at()].runs_on.keys().map(String::as_str).collect();
    let mut lines: Vec<String> = kinds
        .iter()
        .filter(|kind| !snapshot.file().units.iter().any(|unit| unit.kind == **kind))
        .map(|kind| format!("there is no unit of kind {kind}"))
        .collect();
    if kinds.is_empty() {
        lines.push("no implementation".to_owned());
    }
    let mut causes: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for unit in UnitIx::first(snapshot.units()) {
        let given = &snapshot.file().units[unit.at()];
        if snapshot.implementation(actor, unit).is_some() {
            let cause = obstacle(snapshot, actor, unit, state);
            causes.entry((&given.kind, cause)).or_default().push(&given.id);
        }
    }
    lines.extend(causes.into_iter().map(|((kind, cause), units)| match units.as_slice() {
        [unit] => format!("{unit}: {cause}"),
        many => format!("{} units of kind {kind}: {cause}", many.len()),
    }));
    lines
}

/// The first obstacle of an actor on a unit whose kind it supports.
fn obstacle(snapshot: &Snapshot, actor: ActorIx, unit: UnitIx, state: &State) -> String {
    let problem = snapshot.problem();
    let broken = problem.rules_of[actor].iter().map(|&rule| &problem.rules[rule]);
    if let Some(rule) = broken.into_iter().find(|rule| !problem.obeys(actor, unit, rule)) {
        return snapshot.says(rule.constraint);
    }
    if let Some(relation) = state.broken_relation(actor, unit) {
        return snapshot.says(problem.relations[relation].constraint);
    }
    if let Some(constraint) = state.passed_limits(actor, unit).next() {
        return snapshot.says(constraint);
    }
    if let Some(slots) = snapshot.file().units[unit.at()].slots
        && !state.has_slot(unit)
    {
        return if slots == 1 { "in use".to_owned() } else { format!("all {slots} slots are taken") };
    }
    match state.missing(actor, unit) {
        Some((of_node, resource, needed, left)) => {
            let of = if of_node { "node" } else { "unit" };
            let (left, resource) = (left.max(0), resource_name(resource));
            format!("the {of} has {left} {resource} left, {needed} needed")
        }
        None => "used by actors with a lower cost there".to_owned(),
    }
}

/// The moves from the current placement to `assignment`, by position of the actor, each with its reason.
pub fn moves(snapshot: &Snapshot, assignment: &Assignment) -> Vec<Move> {
    let mut steps = snapshot.moves(assignment);
    if !steps.is_empty() {
        let mut moves = Moves::new(snapshot, assignment);
        for step in &mut steps {
            step.reason = why_moved(snapshot, step.actor, (step.from, step.to), &mut moves);
        }
    }
    steps
}

/// Why an actor leaves a unit: it may not stay, or staying would cost more. The state is restored.
fn why_moved(snapshot: &Snapshot, actor: ActorIx, (from, to): (UnitIx, UnitIx), moves: &mut Moves) -> String {
    if snapshot.implementation(actor, from).is_none() {
        return format!("no implementation for {} any more", snapshot.file().units[from.at()].kind);
    }
    moves.take(actor);
    let reason = if !moves.state.admits(actor, from) {
        if snapshot.candidates(actor).contains(&from) {
            format!("not enough room beside the other actors on {}", snapshot.unit_id(from))
        } else {
            let obstacle = obstacle(snapshot, actor, from, &moves.state);
            format!("cannot stay on {}: {obstacle}", snapshot.unit_id(from))
        }
    } else if let Some(rule) = newly_violated_rule(snapshot, actor, (from, to), moves) {
        format!("cannot stay on {}: {rule}", snapshot.unit_id(from))
    } else {
        let (stay, go) = (moves.price(actor, from), moves.price(actor, to));
        gain_of_moving(snapshot, &stay, &go, || {
            grandfathered_rule(snapshot, actor, (from, to), &moves.state.assignment)
        })
    };
    moves.put(actor, to);
    reason
}

/// The first rule, of the policy or of an already violated limit, that the actor would violate on one unit and not on the
/// other.
fn newly_violated_rule<'a>(
    snapshot: &'a Snapshot,
    actor: ActorIx,
    (from, to): (UnitIx, UnitIx),
    moves: &mut Moves,
) -> Option<&'a str> {
    let here = moves.broken_cases(actor, from);
    if here.is_empty() {
        return None;
    }
    // A violation that the plan keeps is no reason to leave.
    let there = moves.broken_cases(actor, to);
    let case = here.into_iter().find(|case| there.binary_search(case).is_err())?;
    Some(snapshot.rules()?.cases()[case].says.as_str())
}

/// A rule that the current placement violates already, and that the move mends.
fn grandfathered_rule(
    snapshot: &Snapshot,
    actor: ActorIx,
    (from, to): (UnitIx, UnitIx),
    others: &Assignment,
) -> Option<String> {
    let violated = |unit: UnitIx| {
        let mut assignment = others.clone();
        assignment[actor] = Some(unit);
        snapshot.excused(&assignment)
    };
    let kept = violated(to);
    let is_kept = |actor: ActorIx, reason: &String| {
        kept.iter().any(|it| it.actor == actor && it.reasons.contains(reason))
    };
    let stays = violated(from);
    stays.into_iter().find_map(|it| it.reasons.into_iter().find(|reason| !is_kept(it.actor, reason)))
}

fn gain_of_moving(
    snapshot: &Snapshot,
    stay: &[i64],
    go: &[i64],
    grandfathered: impl FnOnce() -> Option<String>,
) -> String {
    let mut levels = snapshot.objectives().levels().iter().zip(stay.iter().zip(go));
    match levels.find(|(_, (stay, go))| stay != go) {
        Some((level, (stay, go))) if stay > go => {
            if level.contains(&Criterion::Excused)
                && let Some(rule) = grandfathered()
            {
                return format!("staying would keep violating {rule}");
            }
            format!("staying would raise {} by {}", Objectives::key(level), stay - go)
        }
        _ => "frees room for other actors".to_owned(),
    }
}
