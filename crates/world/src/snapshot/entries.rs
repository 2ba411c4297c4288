//! Nodes and units of a snapshot file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{DevicePool, UnitPower};
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use kube::ResourceExt;
use placement::LARGEST;
use placement::file::{Node, Others, SnapshotFile, Unit as FileUnit};

use crate::index::load::by_unit::LoadSum;
use crate::units::FreeNode;
use crate::units::offer::Offer;
use crate::units::unit::{Unit, Units};

/// Node label with the cost of hosting anything; an integer in any common unit.
const LICENCE_COST: &str = "cairn.dev/licence-cost";
/// Maximum licence cost: the sum over thousands of nodes stays within a snapshot's limit.
const MAX_LICENCE_COST: u64 = 1 << 40;
/// Maximum work of all other applications: three quarters of 2^53 are left for the planned one.
const MAX_WORK_OF_OTHERS: u64 = LARGEST / 4;

/// Whether the policy's program mentions a fact; unused labels would only make plans stale.
pub(crate) fn program_mentions(file: &SnapshotFile, word: &str) -> bool {
    let program = file.policy.as_ref().and_then(|policy| policy.program.as_deref());
    program.is_some_and(|program| program.contains(word))
}

/// Resources that every node lists.
pub(crate) const ALWAYS_INCLUDED: [&str; 3] = ["cpuMilli", "memoryBytes", "pods"];

/// Nodes with units, and what is left of every requested resource.
///
/// Requests of other applications that are summed per unit are subtracted.
pub(crate) fn file_nodes(
    nodes: &[FreeNode],
    offer: &Offer,
    file: &SnapshotFile,
    others: &BTreeMap<String, LoadSum>,
) -> Vec<Node> {
    let labelled = program_mentions(file, "node_label");
    let zones: BTreeMap<&str, Option<&String>> =
        offer.units.iter().map(|unit| (unit.node.as_str(), unit.zone.as_ref())).collect();
    let asked =
        file.actors.iter().flat_map(|actor| actor.runs_on.values()).flat_map(|r| r.node_requires.keys());
    let included: BTreeSet<&str> = asked.map(String::as_str).chain(ALWAYS_INCLUDED).collect();
    let mut taken: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for unit in offer.units.iter() {
        for (resource, amount) in others.get(&unit.id).into_iter().flat_map(|others| &others.asks) {
            let total = taken.entry(&unit.node).or_default().entry(resource).or_default();
            *total = total.saturating_add(*amount);
        }
    }
    let node = |node: &FreeNode| {
        let included = node.room.provides.iter().filter(|(name, _)| included.contains(name.as_str()));
        let taken = taken.get(node.name);
        let provides = included.map(|(name, amount)| {
            let of_others = taken.and_then(|taken| taken.get(name.as_str()));
            (name.clone(), amount.saturating_sub(of_others.copied().unwrap_or(0)).min(LARGEST))
        });
        Node {
            id: node.name.to_owned(),
            zone: zones[node.name].cloned(),
            labels: if labelled { node.node.labels().clone() } else { BTreeMap::new() },
            provides: provides.collect(),
            licence_cost: licence_cost(node.node),
        }
    };
    nodes.iter().filter(|free| zones.contains_key(free.name)).map(node).collect()
}

fn licence_cost(node: &KubernetesNode) -> Option<u64> {
    let cost: u64 = node.labels().get(LICENCE_COST)?.parse().ok()?;
    Some(cost.min(MAX_LICENCE_COST))
}

/// Units with the load of other applications.
///
/// If that load exceeds its limit, every unit's part is capped.
pub(crate) fn file_units(
    units: &Units,
    others: &BTreeMap<String, LoadSum>,
    pools: &BTreeMap<String, Arc<DevicePool>>,
) -> Vec<FileUnit> {
    let of_others = units.iter().filter_map(|unit| others.get(&unit.id));
    let work = of_others.map(|others| others.work).fold(0, u64::saturating_add);
    let parts = u64::try_from(units.len().max(1)).unwrap_or(u64::MAX);
    let most = if work <= MAX_WORK_OF_OTHERS { work } else { MAX_WORK_OF_OTHERS / parts };
    let power = |unit: &Unit| pools.get(&unit.pool)?.spec.power.as_ref().map(UnitPower::watts);
    units.iter().map(|unit| file_unit(unit, others.get(&unit.id), most, power(unit))).collect()
}

fn file_unit(unit: &Unit, others: Option<&LoadSum>, most: u64, power: Option<(u64, u64)>) -> FileUnit {
    FileUnit {
        id: unit.id.clone(),
        kind: unit.kind.clone(),
        node: unit.node.clone(),
        zone: unit.zone.clone(),
        numa: unit.numa.clone(),
        pool: Some(unit.pool.clone()),
        capacity: unit.capacity,
        slots: unit.slots.map(|slots| slots.min(LARGEST)),
        others: others.map(|others| Others { work: others.work.min(most), count: others.count }),
        idle_watts: power.map(|(idle, _)| idle),
        power_watts: power.map(|(_, busy)| busy),
        ..FileUnit::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(id: &str) -> Arc<Unit> {
        Arc::new(Unit {
            id: id.to_owned(),
            kind: "cpu".to_owned(),
            node: "n".to_owned(),
            zone: None,
            numa: None,
            pool: "p".to_owned(),
            capacity: 1,
            capacity_per_actor: 1,
            memory_mib: None,
            slots: None,
            resource: None,
            claim: None,
            device: None,
            cordoned: None,
        })
    }

    #[test]
    fn load_of_others_is_capped() {
        let units: Units = ["n/p-0", "n/p-1"].map(unit).into_iter().collect();
        let half = MAX_WORK_OF_OTHERS / 2;
        for (work, expected) in [
            ([1, 2], [1, 2]),
            ([0, MAX_WORK_OF_OTHERS], [0, MAX_WORK_OF_OTHERS]),
            ([1, MAX_WORK_OF_OTHERS], [1, half]),
            ([u64::MAX, u64::MAX], [half, half]),
        ] {
            let sum = |work: u64| LoadSum { count: 1, work, ..LoadSum::default() };
            let others =
                BTreeMap::from([("n/p-0".to_owned(), sum(work[0])), ("n/p-1".to_owned(), sum(work[1]))]);
            let included: Vec<u64> = file_units(&units, &others, &BTreeMap::new())
                .into_iter()
                .filter_map(|unit| Some(unit.others?.work))
                .collect();
            assert_eq!(included, expected, "{work:?}");
        }
    }
}
