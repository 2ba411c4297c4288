//! Tables for large applications: groups instead of actors, and pools instead of units.

use std::collections::{BTreeMap, BTreeSet};

use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::grouped;

use super::state::{ActorStatus, ApplicationStatus, UnitStatus};

/// The most rows for actors, and for units, on a screen.
pub const MAX_ROWS: usize = 30;
/// The most problems on a screen.
pub const MAX_PROBLEMS: usize = 12;

fn count(number: usize) -> (String, Tone) {
    (grouped(i64::try_from(number).unwrap_or(i64::MAX)), Tone::Plain)
}

fn node(unit: &str) -> &str {
    unit.split_once('/').map_or(unit, |(node, _)| node)
}

/// The pool of a unit: `node/pool-k`.
fn pool(unit: &str) -> &str {
    let name = unit.split_once('/').map_or(unit, |(_, name)| name);
    name.rsplit_once('-').map_or(name, |(pool, _)| pool)
}

/// By group and kind of device: the numbers of actors, healthy actors and nodes.
pub fn groups(status: &ApplicationStatus, style: Style) -> String {
    let mut groups: BTreeMap<(usize, &str, &str), Vec<&ActorStatus>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for actor in &status.actors {
        let known = order.iter().position(|group| *group == actor.group);
        let position = known.unwrap_or_else(|| {
            order.push(&actor.group);
            order.len() - 1
        });
        let kind = actor.kind.as_deref().unwrap_or("unplaced");
        groups.entry((position, &actor.group, kind)).or_default().push(actor);
    }
    let mut table = Table::new(&["GROUP", "KIND", "ACTORS", "HEALTHY", "NODES"]);
    for ((_, group, kind), actors) in groups {
        let nodes: BTreeSet<&str> =
            actors.iter().filter_map(|actor| Some(node(actor.unit.as_deref()?))).collect();
        let healthy = actors.iter().filter(|actor| actor.is_healthy()).count();
        let tone = if healthy == actors.len() { Tone::Good } else { Tone::Bad };
        table.row([
            (group.to_owned(), Tone::Plain),
            (kind.to_owned(), Tone::Plain),
            count(actors.len()),
            (count(healthy).0, tone),
            count(nodes.len()),
        ]);
    }
    table.render(style)
}

/// By pool: the numbers of used units, nodes, own actors and actors of other applications.
pub fn pools(units: &[UnitStatus], style: Style) -> String {
    let mut pools: BTreeMap<(&str, &str), Vec<&UnitStatus>> = BTreeMap::new();
    for unit in units {
        pools.entry((pool(&unit.unit), &unit.kind)).or_default().push(unit);
    }
    let mut table = Table::new(&["POOL", "KIND", "UNITS", "NODES", "ACTORS", "OTHER ACTORS"]);
    for ((pool, kind), units) in pools {
        let nodes: BTreeSet<&str> = units.iter().map(|unit| node(&unit.unit)).collect();
        let others = units.iter().map(|unit| unit.others).sum();
        table.row([
            (pool.to_owned(), Tone::Plain),
            (kind.to_owned(), Tone::Plain),
            count(units.len()),
            count(nodes.len()),
            count(units.iter().map(|unit| unit.actors.len()).sum()),
            if others == 0 { (String::new(), Tone::Plain) } else { count(others) },
        ]);
    }
    table.render(style)
}
