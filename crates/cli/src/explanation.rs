//! Renders explanations: alternatives of actors with their cost, and limiting capacities and rules.

use std::collections::BTreeSet;

use explain::{Alternative, Explanation, LimitCost, Outcome, PlacedActor, REASONS_EFFORT, Rebuild};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Objectives, Snapshot};
use serde::Serialize;

use crate::ordered::OrderedMap;
use crate::search::SearchResult;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{grouped, section};

/// Up to this many actors, the table lists more alternatives.
const FEW_ACTORS: usize = 12;
/// Above this many actors, the table lists only the `MAX_ACTORS` that cost least to move.
const MANY_ACTORS: usize = 60;
const MAX_ACTORS: usize = 40;
/// The most alternatives per actor in the table, for few and for more actors.
const MAX_ALTERNATIVES: (usize, usize) = (8, 3);
/// The most lines of a section.
const MAX_LINES: usize = 12;
/// The most names of equivalent units in machine-readable output.
const MAX_NAMES: usize = 3;

/// An explanation with its snapshot, including the constraints derived by the policy.
#[derive(Debug)]
pub struct ExplainedPlan {
    world: Snapshot,
    explanation: Explanation,
    remedies: Vec<Remedy>,
}

/// Minimal changes that would allow placing some unplaced actors.
#[derive(Debug)]
struct Remedy {
    /// One actor of a group, or all unplaced actors.
    actors: Vec<ActorIx>,
    /// Alternative changes.
    changes: Vec<String>,
}

impl ExplainedPlan {
    /// Explains the assignment of one actor, or of all actors of the application.
    ///
    /// `in_part` is the partial assignment of an `AllOrNothing` application that cannot be placed completely.
    pub fn new(
        world: Snapshot,
        origin: Rebuild,
        assignment: &Assignment,
        in_part: Option<&Assignment>,
        only: Option<ActorIx>,
    ) -> Self {
        let own: Vec<ActorIx> =
            ActorIx::first(world.actors()).filter(|&actor| !world.is_fixed(actor)).collect();
        let subjects = only.map_or_else(|| own.clone(), |actor| vec![actor]);
        let explanation = explain::explain(&world, assignment, &subjects);
        let targets = match in_part {
            // With `AllOrNothing`, a remedy must place all actors.
            Some(partial) => vec![unplaced_of(&own, partial)],
            None => remedy_targets(&world, &unplaced_of(&subjects, assignment)),
        };
        let effort = REASONS_EFFORT / (targets.len().max(1) as u64);
        let base = in_part.unwrap_or(assignment);
        let remedy = |actors: Vec<ActorIx>| {
            let changes = explain::remedies(&world, origin, &actors, base, effort);
            Remedy { actors, changes: changes.iter().map(|change| change.describe(&world)).collect() }
        };
        let remedies = targets.into_iter().map(remedy).filter(|remedy| !remedy.changes.is_empty()).collect();
        Self { world, explanation, remedies }
    }

    /// Explains the result of a search.
    pub fn of(snapshot: &Snapshot, result: &SearchResult, only: Option<ActorIx>) -> Self {
        let (world, plan) = (result.plan.world(snapshot).into_owned(), &result.plan);
        let origin = Rebuild { bare: snapshot, judge: &result.judge };
        Self::new(world, origin, &plan.assignment, result.in_part.as_ref(), only)
    }

    /// The sections of the human-readable output.
    pub fn render(&self, style: Style) -> Vec<String> {
        let Self { world, explanation, remedies } = self;
        let reliefs = explanation.binding.reliefs.iter().map(|relief| limiting_rule(world, relief));
        let remedies = remedies.iter().map(|Remedy { actors, changes }| match actors.as_slice() {
            [actor] => format!("{}: {}", world.short_name(*actor), changes.join("; or ")),
            all => format!("all {} actors together: {}", all.len(), changes.join("; or ")),
        });
        vec![
            alternatives(world, &explanation.placed, style),
            section("Full units", Tone::Heading, &shortened(&explanation.binding.full), style),
            section("Congested links", Tone::Heading, &shortened(&explanation.binding.congested), style),
            section(
                "Rules that prevent a better plan",
                Tone::Change,
                &shortened(&reliefs.collect::<Vec<_>>()),
                style,
            ),
            section(
                "Changes that allow placing unplaced actors",
                Tone::Change,
                &shortened(&remedies.collect::<Vec<_>>()),
                style,
            ),
        ]
    }
}

fn unplaced_of(actors: &[ActorIx], assignment: &Assignment) -> Vec<ActorIx> {
    actors.iter().copied().filter(|&actor| assignment[actor].is_none()).collect()
}

/// The most groups with a remedy of their own, because each takes equally long to compute.
const MAX_REMEDIES: usize = 32;

/// The sets of actors to find remedies for: one actor of each group, and all unplaced actors together.
fn remedy_targets(world: &Snapshot, unplaced: &[ActorIx]) -> Vec<Vec<ActorIx>> {
    let mut groups = BTreeSet::new();
    let is_new = |actor: &&ActorIx| match &world.file().actors[actor.at()].group {
        Some(group) => groups.insert(group),
        None => true,
    };
    let one_of_each = unplaced.iter().filter(is_new).take(MAX_REMEDIES).map(|&actor| vec![actor]);
    let all = (unplaced.len() > 1).then(|| unplaced.to_vec());
    one_of_each.collect::<Vec<_>>().into_iter().chain(all).collect()
}

/// The machine-readable explanation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationReport {
    actors: Vec<ActorReport>,
    full: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    congested: Vec<String>,
    #[serde(rename = "inTheWay")]
    limiting_rules: Vec<ReliefReport>,
    #[serde(rename = "wouldMakeRoom", skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<RemedyReport>,
}

/// Alternative changes that allow placing one actor, or several actors together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RemedyReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// Several actors, instead of `actor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actors: Vec<String>,
    any_of: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ActorReport {
    actor: String,
    unit: String,
    alternatives: Vec<AlternativeReport>,
}

/// Equivalent units: their number, some names, and either the change of the objective or what forbids them.
#[derive(Debug, Serialize)]
struct AlternativeReport {
    units: usize,
    names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<OrderedMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forbidden: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReliefReport {
    says: String,
    actors: usize,
    actor: String,
    unit: String,
    change: OrderedMap,
}

impl ExplanationReport {
    /// Resolves indices to names.
    pub fn new(ExplainedPlan { world: snapshot, explanation, remedies }: &ExplainedPlan) -> Self {
        let change =
            |change: &[i64]| OrderedMap(levels(snapshot).into_iter().zip(change.iter().copied()).collect());
        let unit = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        let actor = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        let alternative = |other: &Alternative| AlternativeReport {
            units: other.units.len(),
            names: other.units.iter().take(MAX_NAMES).map(|&u| unit(u)).collect(),
            change: if let Outcome::Costs(costs) = &other.outcome { Some(change(costs)) } else { None },
            forbidden: if let Outcome::Forbidden(why) = &other.outcome { Some(why.clone()) } else { None },
        };
        let placed = |placed: &PlacedActor| ActorReport {
            actor: actor(placed.actor),
            unit: unit(placed.unit),
            alternatives: placed.alternatives.iter().map(alternative).collect(),
        };
        let relief = |relief: &LimitCost| ReliefReport {
            says: relief.says.clone(),
            actors: relief.actors,
            actor: actor(relief.best.0),
            unit: unit(relief.best.1),
            change: change(&relief.change),
        };
        let remedy = |Remedy { actors, changes }: &Remedy| {
            let names: Vec<String> = actors.iter().map(|&ix| actor(ix)).collect();
            let (actor, actors) = match <[String; 1]>::try_from(names) {
                Ok([one]) => (Some(one), Vec::new()),
                Err(several) => (None, several),
            };
            RemedyReport { actor, actors, any_of: changes.clone() }
        };
        Self {
            actors: explanation.placed.iter().map(placed).collect(),
            full: explanation.binding.full.clone(),
            congested: explanation.binding.congested.clone(),
            limiting_rules: explanation.binding.reliefs.iter().map(relief).collect(),
            remedies: remedies.iter().map(remedy).collect(),
        }
    }
}

fn levels(snapshot: &Snapshot) -> Vec<String> {
    snapshot.objectives().levels().iter().map(|level| Objectives::key(level)).collect()
}

fn alternatives(snapshot: &Snapshot, placed: &[PlacedActor], style: Style) -> String {
    if placed.is_empty() {
        return String::new();
    }
    let max_alternatives = match placed.len() {
        1 => usize::MAX,
        few if few <= FEW_ACTORS => MAX_ALTERNATIVES.0,
        some if some <= MANY_ACTORS => MAX_ALTERNATIVES.1,
        _ => 1,
    };
    let mut table = Table::new(&["ACTOR", "UNIT", "ALTERNATIVE", "EFFECT"]);
    for placed in shown(placed) {
        let mut first =
            [snapshot.short_name(placed.actor).to_owned(), snapshot.unit_id(placed.unit).to_owned()];
        let mut row = |units: String, effect: (String, Tone)| {
            let [actor, unit] = std::mem::take(&mut first);
            table.row([(actor, Tone::Plain), (unit, Tone::Plain), (units, Tone::Plain), effect]);
        };
        if placed.alternatives.is_empty() {
            row("no other unit".to_owned(), (String::new(), Tone::Plain));
        }
        for alternative in placed.alternatives.iter().take(max_alternatives) {
            let units = units(snapshot, alternative);
            let effect = effect(snapshot, &units, &alternative.outcome);
            row(units, effect);
        }
        let rest = placed.alternatives.get(max_alternatives..).unwrap_or_default();
        if !rest.is_empty() && max_alternatives > 1 {
            let units: usize = rest.iter().map(|other| other.units.len()).sum();
            let is_feasible = rest.iter().any(|other| matches!(other.outcome, Outcome::Costs(_)));
            let effect = if is_feasible { "higher cost, or forbidden" } else { "forbidden" };
            row(format!("{} more", counted(units)), (effect.to_owned(), Tone::Faint));
        }
    }
    let mut text = table.render(style);
    if placed.len() > MANY_ACTORS {
        let rest = placed.len() - MAX_ACTORS;
        let note = format!("{rest} more actors with higher cost; `-o json` prints all\n");
        text.push_str(&style.paint(Tone::Faint, &note));
    }
    text
}

/// The actors to show: all, or the ones of many actors that cost least to move, cheapest first.
fn shown(placed: &[PlacedActor]) -> Vec<&PlacedActor> {
    let mut shown: Vec<&PlacedActor> = placed.iter().collect();
    if shown.len() > MANY_ACTORS {
        shown.sort_by_key(|placed| placed.alternatives.first().map(|other| other.outcome.clone()));
        // Actors without alternatives last; `None` sorts first.
        shown.sort_by_key(|placed| placed.alternatives.is_empty());
        shown.truncate(MAX_ACTORS);
    }
    shown
}

fn counted(units: usize) -> String {
    if units == 1 {
        "1 unit".to_owned()
    } else {
        format!("{} units", grouped(i64::try_from(units).unwrap_or(i64::MAX)))
    }
}

fn units(snapshot: &Snapshot, alternative: &Alternative) -> String {
    match alternative.units.as_slice() {
        [unit] => snapshot.unit_id(*unit).to_owned(),
        many => format!("{} of {}", counted(many.len()), alternative.pool),
    }
}

fn effect(snapshot: &Snapshot, units: &str, outcome: &Outcome) -> (String, Tone) {
    match outcome {
        Outcome::Forbidden(why) => {
            // The row already names the units.
            let why = why.strip_prefix(units).and_then(|why| why.strip_prefix(": ")).unwrap_or(why);
            (format!("forbidden: {why}"), Tone::Faint)
        }
        Outcome::Costs(change) if change.iter().all(|level| *level == 0) => ("none".to_owned(), Tone::Plain),
        Outcome::Costs(change) => {
            let better = change.iter().find(|level| **level != 0).is_some_and(|level| *level < 0);
            (changes(snapshot, change), if better { Tone::Good } else { Tone::Plain })
        }
    }
}

/// The levels that change, highest priority first: `overload +4 · communication −30`.
fn changes(snapshot: &Snapshot, change: &[i64]) -> String {
    let sign = |value: i64| if value > 0 { "+" } else { "" };
    let levels = levels(snapshot).into_iter().zip(change).filter(|(_, value)| **value != 0);
    levels
        .map(|(key, value)| format!("{key} {}{}", sign(*value), grouped(*value)))
        .collect::<Vec<_>>()
        .join(" · ")
}

fn limiting_rule(snapshot: &Snapshot, relief: &LimitCost) -> String {
    let (actor, unit) = (snapshot.short_name(relief.best.0), snapshot.unit_id(relief.best.1));
    let others = match relief.actors {
        0 | 1 => String::new(),
        2 => ", also for 1 more actor".to_owned(),
        many => format!(", also for {} more actors", many - 1),
    };
    format!(
        "{}; without it {actor} could run on {unit}: {}{others}",
        relief.says,
        changes(snapshot, &relief.change)
    )
}

fn shortened(lines: &[String]) -> Vec<String> {
    let mut short: Vec<String> = lines.iter().take(MAX_LINES).cloned().collect();
    if lines.len() > MAX_LINES {
        short.push(format!("and {} more", lines.len() - MAX_LINES));
    }
    short
}
