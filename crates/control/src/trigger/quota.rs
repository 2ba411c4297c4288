//! Remaining quota under the incumbent.

use std::collections::{BTreeMap, BTreeSet};

use placement::Snapshot;
use placement::file::{Actor, Constraint, Unit};

/// Quotas with their actors and the remaining amount.
pub(crate) struct Quotas<'a> {
    all: Vec<(BTreeSet<&'a str>, &'a Constraint, u64)>,
}

impl<'a> Quotas<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let file = snapshot.file();
        let units: BTreeMap<&str, &Unit> = file.units.iter().map(|unit| (unit.id.as_str(), unit)).collect();
        let left = |given: &'a Constraint| {
            let Constraint::Quota { actors, max, .. } = given else { return None };
            let names: BTreeSet<&str> = actors.iter().map(String::as_str).collect();
            let placed = file.actors.iter().filter(|actor| names.contains(actor.id.as_str()));
            let used: u64 = placed
                .filter_map(|actor| Some(amount(given, actor, units.get(actor.current.as_deref()?)?)))
                .sum();
            Some((names, given, max.saturating_sub(used)))
        };
        Self { all: file.constraints.iter().filter_map(left).collect() }
    }

    /// Whether every quota admits the actor on the unit.
    pub fn have_room(&self, actor: &Actor, unit: &Unit) -> bool {
        let mut naming = self.all.iter().filter(|(names, ..)| names.contains(actor.id.as_str()));
        naming.all(|(_, given, left)| amount(given, actor, unit) <= *left)
    }
}

/// What a quota counts for an actor on a unit.
fn amount(given: &Constraint, actor: &Actor, unit: &Unit) -> u64 {
    let Constraint::Quota { pool, pools, numa, units, resource, .. } = given else { return 0 };
    let is_in = |pools: &Vec<String>| unit.pool.as_ref().is_some_and(|pool| pools.contains(pool));
    let in_pool = (pool.is_none() || *pool == unit.pool) && pools.as_ref().is_none_or(is_in);
    if !in_pool || (numa.is_some() && *numa != unit.numa) {
        return 0;
    }
    let weight = units.as_ref().map_or(1, |units| units.get(&unit.id).copied().unwrap_or(0));
    let Some(resource) = resource else { return weight };
    let way = actor.runs_on.get(&unit.kind);
    let required = way.map(|way| [&way.requires, &way.node_requires]).into_iter().flatten();
    let once: u64 = required.chain([&actor.requires]).filter_map(|of| of.get(resource)).sum();
    once.saturating_mul(weight)
}
