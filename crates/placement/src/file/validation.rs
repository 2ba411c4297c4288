//! Validity of snapshot files: existing names, numbers in range, no contradictions.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{SnapshotError, fits};
use crate::evaluation::sums::check_sums;
use crate::file::format::{SnapshotFile, VERSION};
use crate::file::names::Names;
use crate::problem::channels::{self, Channels};
use crate::problem::paths::Paths;
use crate::{Criterion, Objectives, constraints};

/// The maximum number of actors of a snapshot, without fixed ones.
pub const MOST_ACTORS: usize = 20_000;

/// The maximum number of edges (messages, annoyance and interference together) of a snapshot, without those between fixed
/// actors.
pub const MOST_EDGES: usize = 200_000;

/// The number of actors of a cycle that are named.
const MOST_NAMED: usize = 8;

/// Refuses unknown names, numbers out of range, and contradictions.
pub(crate) fn check(
    file: &SnapshotFile,
    objectives: &Objectives,
    channels: &Channels,
) -> Result<(), SnapshotError> {
    if file.version != VERSION {
        let problem = format!("version {} is not known; this program reads version {VERSION}", file.version);
        return Err(SnapshotError::new("version", problem));
    }
    let actors = file.actors.iter().filter(|actor| !actor.fixed).count();
    if actors > MOST_ACTORS {
        let problem = format!("{actors} actors; at most {MOST_ACTORS} can be planned at once");
        return Err(SnapshotError::new("actors", problem));
    }
    let edges = if file.edges() > MOST_EDGES { file.own_edges() } else { 0 };
    if edges > MOST_EDGES {
        let problem = format!("{edges} edges; at most {MOST_EDGES} can be planned at once");
        return Err(SnapshotError::new("messages", problem));
    }
    let mut names = Names::new(file)?;
    check_numbers(file)?;
    check_units_and_actors(file, &names)?;
    check_edges(file, &names)?;
    check_exchange_cost(file, &names)?;
    check_shared_links(file, &names)?;
    constraints::check_names(file, &mut names)?;
    check_sums(file, objectives)?;
    if objectives.names(Criterion::Latency) { check_paths(file, channels) } else { Ok(()) }
}

/// Refuses criteria over pairs of actors if group channels stand for more pairs than are expanded. `latency` does without pairs of
/// fixed actors; `busiest` and `congestion` need them as load of units and links.
pub(crate) fn check_pairs(
    channels: &Channels,
    objectives: &Objectives,
    most_pairs: usize,
) -> Result<(), SnapshotError> {
    let of_single_pairs = [
        (Criterion::Latency, channels.open_pairs),
        (Criterion::Busiest, channels.pairs),
        (Criterion::Congestion, channels.pairs),
    ];
    let mut named = of_single_pairs.into_iter().filter(|(criterion, _)| objectives.names(*criterion));
    let Some((named, pairs)) = named.find(|(_, pairs)| *pairs > most_pairs) else { return Ok(()) };
    let problem = format!(
        "{pairs} pairs of actors, and `{named}` looks at each; at most {most_pairs} then: take `{named}` out of the objectives, or \
         make the groups smaller"
    );
    Err(SnapshotError::new("groupMessages", problem))
}

/// Every number of the file by its path, for the range check.
fn check_numbers(file: &SnapshotFile) -> Result<(), SnapshotError> {
    let all = |path: &dyn Fn() -> String, quantities: &BTreeMap<String, u64>| {
        quantities.iter().try_for_each(|(name, value)| fits(&|| format!("{}.{name}", path()), *value))
    };
    fits(&|| "windowMicroseconds".to_owned(), file.window_microseconds.unwrap_or(0))?;
    for (i, node) in file.nodes.iter().enumerate() {
        all(&|| format!("nodes[{i}].provides"), &node.provides)?;
        fits(&|| format!("nodes[{i}].licenceCost"), node.licence_cost.unwrap_or(0))?;
    }
    for (i, unit) in file.units.iter().enumerate() {
        fits(&|| format!("units[{i}].capacity"), unit.capacity)?;
        all(&|| format!("units[{i}].provides"), &unit.provides)?;
        let optional =
            [("slots", unit.slots), ("powerWatts", unit.power_watts), ("idleWatts", unit.idle_watts)];
        for (field, value) in optional {
            fits(&|| format!("units[{i}].{field}"), value.unwrap_or(0))?;
        }
    }
    for (i, actor) in file.actors.iter().enumerate() {
        all(&|| format!("actors[{i}].requires"), &actor.requires)?;
        fits(&|| format!("actors[{i}].moveCost"), actor.move_cost)?;
        for (kind, runs_on) in &actor.runs_on {
            fits(&|| format!("actors[{i}].runsOn.{kind}.work"), runs_on.work)?;
            all(&|| format!("actors[{i}].runsOn.{kind}.requires"), &runs_on.requires)?;
            all(&|| format!("actors[{i}].runsOn.{kind}.nodeRequires"), &runs_on.node_requires)?;
        }
    }
    for (i, message) in file.messages.iter().enumerate() {
        fits(&|| format!("messages[{i}].count"), message.count)?;
    }
    for (list, drags) in [("annoyance", &file.annoyance), ("interference", &file.interference)] {
        for (i, pair) in drags.iter().enumerate() {
            fits(&|| format!("{list}[{i}].drag"), pair.drag)?;
        }
    }
    let cost = &file.exchange_cost;
    for (kind, row) in &cost.kinds {
        all(&|| format!("exchangeCost.kinds.{kind}"), row)?;
    }
    let others = [
        ("otherKind", cost.other_kind.unwrap_or(0)),
        ("otherNuma", cost.other_numa),
        ("otherNode", cost.other_node),
        ("otherZone", cost.other_zone),
    ];
    for (name, value) in others {
        fits(&|| format!("exchangeCost.{name}"), value)?;
    }
    for (i, pair) in cost.pairs.iter().enumerate() {
        fits(&|| format!("exchangeCost.pairs[{i}].cost"), pair.cost)?;
    }
    for (i, link) in file.shared_links.iter().enumerate() {
        fits(&|| format!("sharedLinks[{i}].capacity"), link.capacity)?;
    }
    for (i, constraint) in file.constraints.iter().enumerate() {
        if let Some((field, number)) = constraints::numeric_field(constraint) {
            fits(&|| format!("constraints[{i}].{field}"), number)?;
        }
    }
    Ok(())
}

fn check_units_and_actors(file: &SnapshotFile, names: &Names) -> Result<(), SnapshotError> {
    let zones: BTreeMap<&str, &str> =
        file.nodes.iter().filter_map(|node| Some((node.id.as_str(), node.zone.as_deref()?))).collect();
    for (i, unit) in file.units.iter().enumerate() {
        for (field, text) in [("kind", &unit.kind), ("node", &unit.node)] {
            if text.is_empty() {
                return Err(SnapshotError::new(format!("units[{i}].{field}"), "is empty; give it a name"));
            }
        }
        if let (Some(zone), Some(of_node)) = (&unit.zone, zones.get(unit.node.as_str()))
            && zone != of_node
        {
            let problem =
                format!("is `{zone}`, and its node {} is in `{of_node}`; correct one of them", unit.node);
            return Err(SnapshotError::new(format!("units[{i}].zone"), problem));
        }
        if unit.capacity == 0 {
            let problem = "is 0; a unit can do at least 1 in a window, leave out units that can do nothing";
            return Err(SnapshotError::new(format!("units[{i}].capacity"), problem));
        }
    }
    for (i, actor) in file.actors.iter().enumerate() {
        let current = || format!("actors[{i}].current");
        let unit = actor.current.as_ref().map(|id| names.unit(current, id)).transpose()?;
        if !actor.fixed {
            continue;
        }
        let Some(unit) = unit else {
            return Err(SnapshotError::new(
                current(),
                "is absent; a fixed actor needs the unit that it stays on",
            ));
        };
        let kind = &file.units[unit].kind;
        if !actor.runs_on.contains_key(kind) {
            let problem = format!(
                "is a {kind}, and `runsOn` does not list that kind; a fixed actor needs its work there"
            );
            return Err(SnapshotError::new(current(), problem));
        }
    }
    Ok(())
}

fn check_edges(file: &SnapshotFile, names: &Names) -> Result<(), SnapshotError> {
    for (i, message) in file.messages.iter().enumerate() {
        names.actor(|| format!("messages[{i}].from"), &message.from)?;
        names.actor(|| format!("messages[{i}].to"), &message.to)?;
    }
    for (list, drags) in [("annoyance", &file.annoyance), ("interference", &file.interference)] {
        for (i, pair) in drags.iter().enumerate() {
            names.actor(|| format!("{list}[{i}].a"), &pair.a)?;
            names.actor(|| format!("{list}[{i}].b"), &pair.b)?;
        }
    }
    Ok(())
}

fn check_exchange_cost(file: &SnapshotFile, names: &Names) -> Result<(), SnapshotError> {
    let cost = &file.exchange_cost;
    for (a, row) in &cost.kinds {
        for (b, value) in row {
            let other = cost.kinds.get(b).and_then(|row| row.get(a));
            if let Some(other) = other.filter(|other| *other != value) {
                let problem = format!(
                    "{a} to {b} costs {value}, {b} to {a} costs {other}; costs are symmetric, give one"
                );
                return Err(SnapshotError::new(format!("exchangeCost.kinds.{a}.{b}"), problem));
            }
        }
    }
    let kinds: BTreeSet<&str> = file.units.iter().map(|unit| unit.kind.as_str()).collect();
    for a in &kinds {
        for b in kinds.iter().filter(|b| *b >= a) {
            if cost.of_kinds(a, b).is_none() {
                let problem = format!("no cost for {a} to {b}; list the pair or give `otherKind`");
                return Err(SnapshotError::new("exchangeCost.kinds", problem));
            }
        }
    }
    let mut seen = BTreeMap::new();
    for (i, pair) in cost.pairs.iter().enumerate() {
        let a = names.unit(|| format!("exchangeCost.pairs[{i}].a"), &pair.a)?;
        let b = names.unit(|| format!("exchangeCost.pairs[{i}].b"), &pair.b)?;
        let at = format!("exchangeCost.pairs[{i}]");
        if a == b {
            return Err(SnapshotError::new(at, "a unit costs nothing to itself; remove the pair"));
        }
        if seen.insert((a.min(b), a.max(b)), pair.cost).is_some_and(|cost| cost != pair.cost) {
            return Err(SnapshotError::new(at, "the pair was given before with another cost; give one"));
        }
    }
    Ok(())
}

fn check_shared_links(file: &SnapshotFile, names: &Names) -> Result<(), SnapshotError> {
    let mut ids = BTreeSet::new();
    for (i, link) in file.shared_links.iter().enumerate() {
        let at = |field: &str| format!("sharedLinks[{i}].{field}");
        if link.id.is_empty() {
            return Err(SnapshotError::new(at("id"), "is empty; give it a name"));
        }
        if !ids.insert(&link.id) {
            let problem = format!("`{}` is used twice; ids are unique", link.id);
            return Err(SnapshotError::new(at("id"), problem));
        }
        let mut inside = BTreeSet::new();
        for (j, unit) in link.units.iter().enumerate() {
            inside.insert(names.unit(|| at(&format!("units[{j}]")), unit)?);
        }
        for (j, unit) in link.to.iter().flatten().enumerate() {
            if inside.contains(&names.unit(|| at(&format!("to[{j}]")), unit)?) {
                let problem = format!("unit `{unit}` is on both sides; remove it from one");
                return Err(SnapshotError::new(at(&format!("to[{j}]")), problem));
            }
        }
        for (j, (a, b)) in link.direct.iter().enumerate() {
            let path = || at(&format!("direct[{j}]"));
            let ends = [names.unit(path, a)?, names.unit(path, b)?];
            if ends.iter().filter(|unit| inside.contains(unit)).count() != 1 {
                let problem =
                    "needs one of `units` and one other unit; only messages between such cross the link";
                return Err(SnapshotError::new(path(), problem));
            }
        }
    }
    Ok(())
}

/// Refuses cyclic messages, which have no longest path.
fn check_paths(file: &SnapshotFile, channels: &Channels) -> Result<(), SnapshotError> {
    let Err(cycle) = Paths::of(file, channels.enough_pairs()) else { return Ok(()) };
    let mut names: Vec<&str> =
        cycle.iter().chain(cycle.first()).map(|&a| file.actors[a.at()].id.as_str()).collect();
    if names.len() > MOST_NAMED {
        names.drain(MOST_NAMED - 2..names.len() - 1);
        names.insert(MOST_NAMED - 2, "…");
    }
    let (path, what) = if channels::make_cycle(file, &cycle) {
        ("groupMessages", "channels between groups")
    } else {
        ("messages", "messages")
    };
    let problem = format!(
        "`latency` needs messages without a cycle, and these {} actors send to one another: {}; take `latency` out of \
         the objectives, or one of the {what} away",
        cycle.len(),
        names.join(" → ")
    );
    Err(SnapshotError::new(path, problem))
}
