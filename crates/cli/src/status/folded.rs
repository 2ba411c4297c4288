//! Large applications on one screen: groups and pools in place of actors and slots, and those actors that are not well.

use std::collections::{BTreeMap, BTreeSet};

use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::grouped;

use super::state::{Actor, Slot, Status};

/// How many rows a screen has for the actors, and for the slots.
pub const ROWS: usize = 30;
/// How many of the things that are wrong.
pub const WRONG: usize = 12;

fn count(number: usize) -> (String, Tone) {
    (grouped(i64::try_from(number).unwrap_or(i64::MAX)), Tone::Plain)
}

fn node(unit: &str) -> &str {
    unit.split_once('/').map_or(unit, |(node, _)| node)
}

/// The pool that a unit is of: `node/pool-k`.
fn pool(unit: &str) -> &str {
    let name = unit.split_once('/').map_or(unit, |(_, name)| name);
    name.rsplit_once('-').map_or(name, |(pool, _)| pool)
}

/// How many actors of each group are on each kind, how many run, on how many nodes.
pub fn groups(status: &Status, style: Style) -> String {
    let mut groups: BTreeMap<(usize, &str, &str), Vec<&Actor>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for actor in &status.actors {
        let known = order.iter().position(|group| *group == actor.group);
        let place = known.unwrap_or_else(|| {
            order.push(&actor.group);
            order.len() - 1
        });
        let kind = actor.kind.as_deref().unwrap_or("no place");
        groups.entry((place, &actor.group, kind)).or_default().push(actor);
    }
    let mut table = Table::new(&["GROUP", "KIND", "ACTORS", "WELL", "NODES"]);
    for ((_, group, kind), actors) in groups {
        let nodes: BTreeSet<&str> =
            actors.iter().filter_map(|actor| Some(node(actor.unit.as_deref()?))).collect();
        let well = actors.iter().filter(|actor| actor.is_well()).count();
        let tone = if well == actors.len() { Tone::Good } else { Tone::Bad };
        table.row([
            (group.to_owned(), Tone::Plain),
            (kind.to_owned(), Tone::Plain),
            count(actors.len()),
            (count(well).0, tone),
            count(nodes.len()),
        ]);
    }
    table.render(style)
}

/// How many slots of each pool it is on, on how many nodes, with how many actors of its own and of others.
pub fn pools(slots: &[Slot], style: Style) -> String {
    let mut pools: BTreeMap<(&str, &str), Vec<&Slot>> = BTreeMap::new();
    for slot in slots {
        pools.entry((pool(&slot.unit), &slot.kind)).or_default().push(slot);
    }
    let mut table = Table::new(&["POOL", "KIND", "SLOTS", "NODES", "ACTORS", "OF OTHERS"]);
    for ((pool, kind), slots) in pools {
        let nodes: BTreeSet<&str> = slots.iter().map(|slot| node(&slot.unit)).collect();
        let others = slots.iter().map(|slot| slot.others).sum();
        table.row([
            (pool.to_owned(), Tone::Plain),
            (kind.to_owned(), Tone::Plain),
            count(slots.len()),
            count(nodes.len()),
            count(slots.iter().map(|slot| slot.actors.len()).sum()),
            if others == 0 { (String::new(), Tone::Plain) } else { count(others) },
        ]);
    }
    table.render(style)
}
