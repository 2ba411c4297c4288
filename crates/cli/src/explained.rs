//! An explanation for people and for programs: what it would cost to be elsewhere, and what binds.

use std::collections::BTreeSet;

use explain::{Alternative, Explanation, Origin, Outcome, REASONS_EFFORT, Relief, Whereabouts};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Objectives, Snapshot};
use serde::Serialize;

use crate::decide::Found;
use crate::in_order::InOrder;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{grouped, section};

/// Up to so many actors are told of at length.
const FEW_ACTORS: usize = 12;
/// More than so many are not all told of to people: those that cost least to move are, and so many of them.
const MANY_ACTORS: usize = 60;
const MOST_ACTORS: usize = 40;
/// Alternatives of one actor that are told to people, where there are few actors, and where there are many.
const MOST_ALTERNATIVES: (usize, usize) = (8, 3);
/// Lines that a section has for people.
const MOST_LINES: usize = 12;
/// Units that are named to programs where several are alike.
const MOST_NAMES: usize = 3;

/// An explanation and the world that it is about: the one that was planned, with what the policy derived from it.
#[derive(Debug)]
pub struct Explained {
    world: Snapshot,
    explanation: Explanation,
    room: Vec<Room>,
}

/// The smallest changes that would make room for some actors without a place, each in words.
#[derive(Debug)]
struct Room {
    /// One of a group, or all that have no place.
    actors: Vec<ActorIx>,
    ways: Vec<String>,
}

impl Explained {
    /// Explains the places of actors: of one that is asked about, else of all that belong to the application.
    ///
    /// `in_part` is what was found for an application of which nobody has a place before all have one.
    pub fn new(
        world: Snapshot,
        origin: Origin,
        assignment: &Assignment,
        in_part: Option<&Assignment>,
        only: Option<ActorIx>,
    ) -> Self {
        let own: Vec<ActorIx> =
            ActorIx::first(world.actors()).filter(|&actor| !world.is_fixed(actor)).collect();
        let whom = only.map_or_else(|| own.clone(), |actor| vec![actor]);
        let explanation = explain::explain(&world, assignment, &whom);
        let questions = match in_part {
            // Nobody is helped before all are.
            Some(found) => vec![homeless(&own, found)],
            None => questions(&world, &homeless(&whom, assignment)),
        };
        let effort = REASONS_EFFORT / (questions.len().max(1) as u64);
        let beside = in_part.unwrap_or(assignment);
        let ask = |actors: Vec<ActorIx>| {
            let ways = explain::remedies(&world, origin, &actors, beside, effort);
            Room { actors, ways: ways.iter().map(|way| way.tell(&world)).collect() }
        };
        let room = questions.into_iter().map(ask).filter(|room| !room.ways.is_empty()).collect();
        Self { world, explanation, room }
    }

    /// Explains what was found for a snapshot.
    pub fn of(snapshot: &Snapshot, found: &Found, only: Option<ActorIx>) -> Self {
        let (world, plan) = (found.plan.world(snapshot).into_owned(), &found.plan);
        let origin = Origin { bare: snapshot, judge: &found.judge };
        Self::new(world, origin, &plan.assignment, found.in_part.as_ref(), only)
    }

    /// For people: a table of alternatives, what is full, what is in the way.
    pub fn render(&self, style: Style) -> Vec<String> {
        let Self { world, explanation, room } = self;
        let reliefs = explanation.binding.reliefs.iter().map(|relief| in_the_way(world, relief));
        let room = room.iter().map(|Room { actors, ways }| match actors.as_slice() {
            [actor] => format!("{}: {}", world.short_name(*actor), ways.join("; or ")),
            all => format!("for all {} at once: {}", all.len(), ways.join("; or ")),
        });
        vec![
            alternatives(world, &explanation.placed, style),
            section("Full", Tone::Heading, &shortened(&explanation.binding.full), style),
            section(
                "In the way of a better plan",
                Tone::Change,
                &shortened(&reliefs.collect::<Vec<_>>()),
                style,
            ),
            section("Would make room", Tone::Change, &shortened(&room.collect::<Vec<_>>()), style),
        ]
    }
}

fn homeless(whom: &[ActorIx], assignment: &Assignment) -> Vec<ActorIx> {
    whom.iter().copied().filter(|&actor| assignment[actor].is_none()).collect()
}

/// Who is asked for one by one at most: nobody reads more, and each takes as long as the first.
const MOST_QUESTIONS: usize = 32;

/// For whom room is looked for: one of each group, as the others are like it, and all at once.
fn questions(world: &Snapshot, homeless: &[ActorIx]) -> Vec<Vec<ActorIx>> {
    let mut groups = BTreeSet::new();
    let is_new = |actor: &&ActorIx| match &world.file().actors[actor.at()].group {
        Some(group) => groups.insert(group),
        None => true,
    };
    let one_of_each = homeless.iter().filter(is_new).take(MOST_QUESTIONS).map(|&actor| vec![actor]);
    let all = (homeless.len() > 1).then(|| homeless.to_vec());
    one_of_each.collect::<Vec<_>>().into_iter().chain(all).collect()
}

/// The explanation as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationReport {
    actors: Vec<ActorReport>,
    full: Vec<String>,
    in_the_way: Vec<ReliefReport>,
    /// Of actors without a place, one of each group, and all of them at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_make_room: Vec<RoomReport>,
}

/// Changes any of which would make room for an actor, or for several at once.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RoomReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// Instead of one actor: all of these at once.
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

/// Units that are alike: how many, the first few by name, and either what would change or what forbids it.
#[derive(Debug, Serialize)]
struct AlternativeReport {
    units: usize,
    names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<InOrder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forbidden: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReliefReport {
    says: String,
    actors: usize,
    actor: String,
    unit: String,
    change: InOrder,
}

impl ExplanationReport {
    /// Names in place of positions.
    pub fn new(Explained { world: snapshot, explanation, room }: &Explained) -> Self {
        let change =
            |change: &[i64]| InOrder(levels(snapshot).into_iter().zip(change.iter().copied()).collect());
        let unit = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        let actor = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        let alternative = |other: &Alternative| AlternativeReport {
            units: other.units.len(),
            names: other.units.iter().take(MOST_NAMES).map(|&u| unit(u)).collect(),
            change: if let Outcome::Costs(costs) = &other.outcome { Some(change(costs)) } else { None },
            forbidden: if let Outcome::Forbidden(why) = &other.outcome { Some(why.clone()) } else { None },
        };
        let whereabouts = |there: &Whereabouts| ActorReport {
            actor: actor(there.actor),
            unit: unit(there.unit),
            alternatives: there.alternatives.iter().map(alternative).collect(),
        };
        let relief = |relief: &Relief| ReliefReport {
            says: relief.says.clone(),
            actors: relief.actors,
            actor: actor(relief.best.0),
            unit: unit(relief.best.1),
            change: change(&relief.change),
        };
        let room_for = |Room { actors, ways }: &Room| {
            let names: Vec<String> = actors.iter().map(|&who| actor(who)).collect();
            let (actor, actors) = match <[String; 1]>::try_from(names) {
                Ok([one]) => (Some(one), Vec::new()),
                Err(several) => (None, several),
            };
            RoomReport { actor, actors, any_of: ways.clone() }
        };
        Self {
            actors: explanation.placed.iter().map(whereabouts).collect(),
            full: explanation.binding.full.clone(),
            in_the_way: explanation.binding.reliefs.iter().map(relief).collect(),
            would_make_room: room.iter().map(room_for).collect(),
        }
    }
}

fn levels(snapshot: &Snapshot) -> Vec<String> {
    snapshot.objectives().levels().iter().map(|level| Objectives::key(level)).collect()
}

fn alternatives(snapshot: &Snapshot, placed: &[Whereabouts], style: Style) -> String {
    if placed.is_empty() {
        return String::new();
    }
    let most = match placed.len() {
        1 => usize::MAX,
        few if few <= FEW_ACTORS => MOST_ALTERNATIVES.0,
        some if some <= MANY_ACTORS => MOST_ALTERNATIVES.1,
        _ => 1,
    };
    let mut table = Table::new(&["ACTOR", "IS ON", "ELSEWHERE", "WOULD CHANGE"]);
    for there in told_of(placed) {
        let mut first =
            [snapshot.short_name(there.actor).to_owned(), snapshot.unit_id(there.unit).to_owned()];
        let mut row = |place: String, outcome: (String, Tone)| {
            let [actor, unit] = std::mem::take(&mut first);
            table.row([(actor, Tone::Plain), (unit, Tone::Plain), (place, Tone::Plain), outcome]);
        };
        if there.alternatives.is_empty() {
            row("there is no other unit".to_owned(), (String::new(), Tone::Plain));
        }
        for other in there.alternatives.iter().take(most) {
            let place = place(snapshot, other);
            let outcome = outcome(snapshot, &place, &other.outcome);
            row(place, outcome);
        }
        let rest = there.alternatives.get(most..).unwrap_or_default();
        if !rest.is_empty() && most > 1 {
            let units: usize = rest.iter().map(|other| other.units.len()).sum();
            let open = rest.iter().any(|other| matches!(other.outcome, Outcome::Costs(_)));
            let says = if open { "more than these, or forbidden" } else { "forbidden" };
            row(format!("{} more", counted(units)), (says.to_owned(), Tone::Faint));
        }
    }
    let mut text = table.render(style);
    if placed.len() > MANY_ACTORS {
        let left = placed.len() - MOST_ACTORS;
        let says = format!("{left} more actors, which cost more to move; `-o json` tells of all of them\n");
        text.push_str(&style.paint(Tone::Faint, &says));
    }
    text
}

/// All of them, or those of many that it costs least to move, the cheapest first.
fn told_of(placed: &[Whereabouts]) -> Vec<&Whereabouts> {
    let mut told: Vec<&Whereabouts> = placed.iter().collect();
    if told.len() > MANY_ACTORS {
        told.sort_by_key(|there| there.alternatives.first().map(|other| other.outcome.clone()));
        // Those without any other unit would come first.
        told.sort_by_key(|there| there.alternatives.is_empty());
        told.truncate(MOST_ACTORS);
    }
    told
}

fn counted(units: usize) -> String {
    if units == 1 {
        "1 unit".to_owned()
    } else {
        format!("{} units", grouped(i64::try_from(units).unwrap_or(i64::MAX)))
    }
}

fn place(snapshot: &Snapshot, other: &Alternative) -> String {
    match other.units.as_slice() {
        [unit] => snapshot.unit_id(*unit).to_owned(),
        many => format!("{} of {}", counted(many.len()), other.pool),
    }
}

fn outcome(snapshot: &Snapshot, place: &str, outcome: &Outcome) -> (String, Tone) {
    match outcome {
        Outcome::Forbidden(why) => {
            // The row has named the place.
            let why = why.strip_prefix(place).and_then(|why| why.strip_prefix(": ")).unwrap_or(why);
            (format!("forbidden: {why}"), Tone::Faint)
        }
        Outcome::Costs(change) if change.iter().all(|level| *level == 0) => {
            ("nothing".to_owned(), Tone::Plain)
        }
        Outcome::Costs(change) => {
            let better = change.iter().find(|level| **level != 0).is_some_and(|level| *level < 0);
            (changes(snapshot, change), if better { Tone::Good } else { Tone::Plain })
        }
    }
}

/// The levels that change, the most important first: `overload +4 · communication −30`.
fn changes(snapshot: &Snapshot, change: &[i64]) -> String {
    let sign = |value: i64| if value > 0 { "+" } else { "" };
    let levels = levels(snapshot).into_iter().zip(change).filter(|(_, value)| **value != 0);
    levels
        .map(|(key, value)| format!("{key} {}{}", sign(*value), grouped(*value)))
        .collect::<Vec<_>>()
        .join(" · ")
}

fn in_the_way(snapshot: &Snapshot, relief: &Relief) -> String {
    let (actor, unit) = (snapshot.short_name(relief.best.0), snapshot.unit_id(relief.best.1));
    let others = match relief.actors {
        0 | 1 => String::new(),
        2 => ", one more actor too".to_owned(),
        many => format!(", {} more actors too", many - 1),
    };
    format!(
        "{}; without it {actor} could go to {unit}: {}{others}",
        relief.says,
        changes(snapshot, &relief.change)
    )
}

fn shortened(lines: &[String]) -> Vec<String> {
    let mut short: Vec<String> = lines.iter().take(MOST_LINES).cloned().collect();
    if lines.len() > MOST_LINES {
        short.push(format!("and {} more", lines.len() - MOST_LINES));
    }
    short
}
