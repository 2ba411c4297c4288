//! Pools and units that are offered, without a plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::report::PoolReport;
use crate::units::unit::Unit;
use crate::{Index, Policy};

/// Reports on all pools by name, with the number of units that host an actor.
pub fn pools(index: &Index, policy: &Policy) -> BTreeMap<String, (PoolReport, usize)> {
    let offer = index.offer(policy);
    let assigned = index.placements.values().flat_map(|placement| &placement.spec.assignments);
    let used: BTreeSet<&str> = assigned.map(|assignment| assignment.unit.as_str()).collect();
    let mut allocated: BTreeMap<&str, usize> = BTreeMap::new();
    for unit in offer.units.iter().filter(|unit| used.contains(unit.id.as_str())) {
        *allocated.entry(&unit.pool).or_default() += 1;
    }
    let count = |pool: &str| allocated.get(pool).copied().unwrap_or(0);
    offer.reports.iter().map(|(pool, report)| (pool.clone(), (report.clone(), count(pool)))).collect()
}

/// Units of all pools by id, with capacities over the policy's window.
pub fn units(index: &Index, policy: &Policy) -> BTreeMap<String, Unit> {
    index.offer(policy).units.iter().map(|unit| (unit.id.clone(), unit.clone())).collect()
}

/// Units of all pools on these nodes, by id.
pub fn units_on<'a>(
    index: &Index,
    nodes: impl IntoIterator<Item = &'a str>,
    policy: &Policy,
) -> BTreeMap<String, Unit> {
    let units = nodes.into_iter().flat_map(|node| index.offer_at(node, policy));
    units.map(|unit| (unit.id.clone(), unit.as_ref().clone())).collect()
}

/// Units of all pools on one node, by id.
pub fn units_at(index: &Index, node: &str, policy: &Policy) -> BTreeMap<String, Unit> {
    units_on(index, [node], policy)
}
