//! Human-readable output of `status`.

use crate::history::second;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{joined, one_line, provenance, section};

use super::groups::{MAX_PROBLEMS, MAX_ROWS, groups, pools};
use super::state::{ActorStatus, ApplicationStatus, LastDecision};

/// One application; without `all` limited to one screen.
pub fn screen(status: &ApplicationStatus, all: bool, style: Style) -> String {
    let (phase, tone) = phase(status);
    let ApplicationStatus { placed, wanted, running, ready, .. } = status;
    let mut words = vec![format!("{placed} of {wanted} actors placed, {running} running, {ready} ready")];
    words.extend(status.updated.map(|updated| format!("{updated} of {placed} updated")));
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
        units(status, all, style),
        section("Tolerated violations", Tone::Change, &status.excused, style),
        section("Measured load", Tone::Heading, &load(status), style),
        section("Problems", Tone::Bad, &problems(status, all), style),
        section("Left to the scheduler", Tone::Change, &status.left_to_scheduler, style),
        objective_line(status),
    ])
}

/// All applications, one per line, with their first problem.
pub fn overview(all: &[ApplicationStatus], namespace: Option<&str>, style: Style) -> String {
    if all.is_empty() {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        return format!("No applications found{place}. examples/surveillance.yaml is an example.\n");
    }
    let mut table = Table::new(&[
        "APPLICATION",
        "PHASE",
        "ACTORS",
        "PLACED",
        "RUNNING",
        "READY",
        "OBJECTIVE",
        "PROBLEMS",
    ]);
    for status in all {
        let (phase, tone) = phase(status);
        let problems = match status.problems.as_slice() {
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
            (problems, Tone::Bad),
        ]);
    }
    table.render(style)
}

fn problems(status: &ApplicationStatus, all: bool) -> Vec<String> {
    let shown = if all { status.problems.len() } else { MAX_PROBLEMS };
    let lines = status
        .problems
        .iter()
        .take(shown)
        .map(|it| format!("{}\n    -> {}", one_line(&it.text), one_line(&it.to_do)));
    lines.chain(more(status.problems.len(), shown)).collect()
}

/// How much is measured, the mode, the last decision for a gain, and what would move or why nothing would.
fn load(status: &ApplicationStatus) -> Vec<String> {
    let Some(load) = &status.load else { return Vec::new() };
    let of_policy = || {
        let mode = load.policy_mode.map(|mode| format!(" {mode}")).unwrap_or_default();
        let policy = load.policy.as_ref().map(|policy| format!("policy {policy}"));
        format!("mode{mode} of the {}", policy.as_deref().unwrap_or("default policy"))
    };
    let mode = load.mode.map_or_else(of_policy, |mode| format!("mode {mode}"));
    let mut lines = vec![format!("{} of {} actors are measured; {mode}", load.covered, load.wanted)];
    lines.extend(load.last_decision.as_ref().map(|LastDecision { gain, realised_percent }| {
        let realised = realised_percent.map(|percent| format!(", realised {percent} %"));
        let (at, why, expected) = (second(gain.decided_at.0), &gain.why, gain.expected_percent);
        format!("last decision {at} ({why}): expected gain {expected} %{}", realised.unwrap_or_default())
    }));
    lines.push(format!("{}: {}", load.reason, load.message));
    lines
}

/// A note with the number of omitted lines.
fn more(total: usize, shown: usize) -> Option<String> {
    (total > shown).then(|| format!("… and {} more; --all shows them", total - shown))
}

fn phase(status: &ApplicationStatus) -> (&str, Tone) {
    let tone = match status.phase.as_str() {
        "Running" if status.problems.is_empty() => Tone::Good,
        "Degraded" | "Failed" => Tone::Bad,
        _ => Tone::Change,
    };
    (&status.phase, tone)
}

fn actors(status: &ApplicationStatus, all: bool, style: Style) -> String {
    if all || status.actors.len() <= MAX_ROWS {
        return actor_table(&mut status.actors.iter(), style);
    }
    let mut unhealthy = status.actors.iter().filter(|actor| !actor.is_healthy());
    let shown = actor_table(&mut unhealthy.by_ref().take(MAX_ROWS), style);
    let rest = unhealthy.count();
    let rest = more(MAX_ROWS + rest, MAX_ROWS).map(|line| line + "\n").unwrap_or_default();
    joined(vec![groups(status, style), shown + &rest])
}

fn actor_table(actors: &mut dyn Iterator<Item = &ActorStatus>, style: Style) -> String {
    let mut actors = actors.peekable();
    if actors.peek().is_none() {
        return String::new();
    }
    let mut table = Table::new(&["ACTOR", "UNIT", "KIND", "POD", "STATE"]);
    for actor in actors {
        let plain = |text: &Option<String>| (text.clone().unwrap_or_default(), Tone::Plain);
        let tone = match actor.state.as_str() {
            _ if actor.is_healthy() => Tone::Good,
            "unplaced" | "Failed" | "Running, not ready" => Tone::Bad,
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

fn units(status: &ApplicationStatus, all: bool, style: Style) -> String {
    if status.units.is_empty() {
        return String::new();
    }
    if !all && status.units.len() > MAX_ROWS {
        return pools(&status.units, style);
    }
    let mut table = Table::new(&["UNIT", "KIND", "DEVICES", "ACTORS", "OTHER ACTORS"]);
    for unit in &status.units {
        let others = if unit.others == 0 { String::new() } else { unit.others.to_string() };
        let cells =
            [unit.unit.clone(), unit.kind.clone(), unit.devices.join(", "), unit.actors.join(", "), others];
        table.row(cells.map(|cell| (cell, Tone::Plain)));
    }
    table.render(style)
}

fn objective_line(status: &ApplicationStatus) -> String {
    if status.levels.is_empty() {
        return String::new();
    }
    let proof = match status.optimal {
        Some(true) if status.left_to_scheduler.is_empty() => ", proven optimal",
        Some(true) => ", proven optimal under the rules that Cairn models",
        _ => "",
    };
    let [found, proven, judged] = [&status.found_by, &status.proven_by, &status.judged].map(Option::as_deref);
    let provenance = provenance(found, proven, judged);
    let provenance = if provenance.is_empty() { provenance } else { format!(" ({provenance})") };
    format!("{}{proof}{provenance}\n", objective(status))
}

/// The levels of the objective, highest priority first.
fn objective(status: &ApplicationStatus) -> String {
    let value = |criterion: &str| status.objective.get(criterion).copied().unwrap_or(0);
    let value = |level: &String| format!("{level} {}", level.split('+').map(value).sum::<i64>());
    status.levels.iter().map(value).collect::<Vec<_>>().join(" · ")
}
