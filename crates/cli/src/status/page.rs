//! The words and columns of `status`, for people.

use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{by_whom, joined, section};

use super::folded::{ROWS, WRONG, groups, pools};
use super::state::{Actor, Status};

/// One application on one screen; with `all` as many lines as it takes.
pub fn screen(status: &Status, all: bool, style: Style) -> String {
    let (phase, tone) = phase(status);
    let Status { placed, wanted, running, ready, .. } = status;
    let mut words = vec![format!("{placed} of {wanted} actors placed, {running} running, {ready} ready")];
    words.extend(status.updated.map(|updated| format!("{updated} of {placed} of the newest template")));
    words.extend(status.last_moved.iter().map(|time| format!("last moved {time}")));
    let title = format!(
        "{}  {}  {}\n",
        style.paint(Tone::Heading, &status.application),
        style.paint(tone, phase),
        style.paint(Tone::Faint, &words.join(" · "))
    );
    joined(vec![
        title,
        actors(status, all, style),
        slots(status, all, style),
        section("Excused: a rule is broken already", Tone::Change, &status.excused, style),
        section("What is wrong, and what to do", Tone::Bad, &wrong(status, all), style),
        verdict(status),
    ])
}

/// All applications, a line each, and what is wrong with those that are not well.
pub fn overview(all: &[Status], style: Style) -> String {
    if all.is_empty() {
        return "There is no application; kubectl apply one, as in examples/surveillance.yaml\n".to_owned();
    }
    let mut table =
        Table::new(&["APPLICATION", "PHASE", "ACTORS", "PLACED", "RUNNING", "READY", "OBJECTIVE", "WRONG"]);
    for status in all {
        let (phase, tone) = phase(status);
        let wrong = match status.wrong.as_slice() {
            [] => String::new(),
            [one] => one.text.clone(),
            [first, rest @ ..] => format!("{} (and {} more)", first.text, rest.len()),
        };
        table.row([
            (status.application.clone(), Tone::Plain),
            (phase.to_owned(), tone),
            (status.wanted.to_string(), Tone::Plain),
            (status.placed.to_string(), Tone::Plain),
            (status.running.to_string(), Tone::Plain),
            (status.ready.to_string(), Tone::Plain),
            (objective(status), Tone::Faint),
            (wrong, Tone::Bad),
        ]);
    }
    table.render(style)
}

fn wrong(status: &Status, all: bool) -> Vec<String> {
    let shown = if all { status.wrong.len() } else { WRONG };
    let told = status.wrong.iter().take(shown).map(|wrong| format!("{}\n    -> {}", wrong.text, wrong.to_do));
    told.chain(more(status.wrong.len(), shown)).collect()
}

/// How many are not shown, and what shows them.
fn more(there: usize, shown: usize) -> Option<String> {
    (there > shown).then(|| format!("… and {} more; --all shows them", there - shown))
}

fn phase(status: &Status) -> (&str, Tone) {
    let tone = match status.phase.as_str() {
        "Running" if status.wrong.is_empty() => Tone::Good,
        "Degraded" | "Failed" => Tone::Bad,
        _ => Tone::Change,
    };
    (&status.phase, tone)
}

fn actors(status: &Status, all: bool, style: Style) -> String {
    if all || status.actors.len() <= ROWS {
        return each(&mut status.actors.iter(), style);
    }
    let mut ailing = status.actors.iter().filter(|actor| !actor.is_well());
    let ailing_first = each(&mut ailing.by_ref().take(ROWS), style);
    let rest = ailing.count();
    let rest = more(ROWS + rest, ROWS).map(|line| line + "\n").unwrap_or_default();
    joined(vec![groups(status, style), ailing_first + &rest])
}

/// Actors, a line each.
fn each(actors: &mut dyn Iterator<Item = &Actor>, style: Style) -> String {
    let mut actors = actors.peekable();
    if actors.peek().is_none() {
        return String::new();
    }
    let mut table = Table::new(&["ACTOR", "UNIT", "KIND", "POD", "STATE"]);
    for actor in actors {
        let plain = |text: &Option<String>| (text.clone().unwrap_or_default(), Tone::Plain);
        let tone = match actor.state.as_str() {
            _ if actor.is_well() => Tone::Good,
            "no place" | "Failed" | "Running, not ready" => Tone::Bad,
            _ => Tone::Change,
        };
        let name = (actor.name.clone(), Tone::Plain);
        table.row([
            name,
            plain(&actor.unit),
            plain(&actor.kind),
            plain(&actor.pod),
            (actor.state.clone(), tone),
        ]);
    }
    table.render(style)
}

fn slots(status: &Status, all: bool, style: Style) -> String {
    if status.slots.is_empty() {
        return String::new();
    }
    if !all && status.slots.len() > ROWS {
        return pools(&status.slots, style);
    }
    let mut table = Table::new(&["SLOT", "KIND", "DEVICES", "ACTORS", "OF OTHERS"]);
    for slot in &status.slots {
        let others = if slot.others == 0 { String::new() } else { slot.others.to_string() };
        let cells =
            [slot.unit.clone(), slot.kind.clone(), slot.devices.join(", "), slot.actors.join(", "), others];
        table.row(cells.map(|cell| (cell, Tone::Plain)));
    }
    table.render(style)
}

fn verdict(status: &Status) -> String {
    if status.levels.is_empty() {
        return String::new();
    }
    let proof = match status.optimal {
        Some(true) => ", proven to be the best",
        _ => "",
    };
    let [found, proven, judged] = [&status.found_by, &status.proven_by, &status.judged].map(Option::as_deref);
    let words = by_whom(found, proven, judged);
    let words = if words.is_empty() { words } else { format!(" ({words})") };
    format!("{}{proof}{words}\n", objective(status))
}

/// The criteria that count, the most important first.
fn objective(status: &Status) -> String {
    let value = |criterion: &str| status.objective.get(criterion).copied().unwrap_or(0);
    let value = |level: &String| format!("{level} {}", level.split('+').map(value).sum::<i64>());
    status.levels.iter().map(value).collect::<Vec<_>>().join(" · ")
}
