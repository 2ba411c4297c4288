//! Nodes and units as a snapshot's file lists them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use placement::file::{Node, Others, SnapshotFile, Unit as FileUnit};

use crate::loads::Sum;
use crate::offer::Offer;
use crate::unit::Unit;
use crate::units::FreeNode;

/// The label of a Node that says what it costs while it hosts anything: a whole number, in any unit that all share.
const LICENCE_COST: &str = "cairn.dev/licence-cost";

/// Whether the policy's program could read a fact: labels that nobody reads would only make plans stale.
pub(crate) fn speaks_of(file: &SnapshotFile, word: &str) -> bool {
    let program = file.policy.as_ref().and_then(|policy| policy.program.as_deref());
    program.is_some_and(|program| program.contains(word))
}

/// Nodes that have units, with what is left of every resource that some actor asks for, and the three usual ones.
///
/// Others that are summed up by unit have what they ask for already.
pub(crate) fn file_nodes(
    nodes: &[FreeNode],
    offer: &Offer,
    file: &SnapshotFile,
    others: &BTreeMap<String, Sum>,
) -> Vec<Node> {
    let labelled = speaks_of(file, "node_label");
    let zones: BTreeMap<&str, Option<&String>> =
        offer.units.iter().map(|unit| (unit.node.as_str(), unit.zone.as_ref())).collect();
    let asked =
        file.actors.iter().flat_map(|actor| actor.runs_on.values()).flat_map(|r| r.node_requires.keys());
    let told: BTreeSet<&str> = asked.map(String::as_str).chain(["cpuMilli", "memoryMiB", "pods"]).collect();
    let mut taken: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for unit in offer.units.iter() {
        for (resource, amount) in others.get(&unit.id).into_iter().flat_map(|others| &others.asks) {
            let total = taken.entry(&unit.node).or_default().entry(resource).or_default();
            *total = total.saturating_add(*amount);
        }
    }
    let node = |node: &FreeNode| {
        let told = node.room.provides.iter().filter(|(name, _)| told.contains(name.as_str()));
        let taken = taken.get(node.name);
        let provides = told.map(|(name, amount)| {
            let of_others = taken.and_then(|taken| taken.get(name.as_str()));
            (name.clone(), amount.saturating_sub(of_others.copied().unwrap_or(0)))
        });
        Node {
            id: node.name.to_owned(),
            zone: zones[node.name].cloned(),
            labels: if labelled { node.node.labels().clone() } else { BTreeMap::new() },
            provides: provides.collect(),
            licence_cost: node.node.labels().get(LICENCE_COST).and_then(|cost| cost.parse().ok()),
        }
    };
    nodes.iter().filter(|free| zones.contains_key(free.name)).map(node).collect()
}

/// A unit, with whoever else is there summed up; what they ask of the node is off what it provides.
pub(crate) fn file_unit(unit: &Unit, others: Option<&Sum>) -> FileUnit {
    FileUnit {
        id: unit.id.clone(),
        kind: unit.kind.clone(),
        node: unit.node.clone(),
        zone: unit.zone.clone(),
        numa: unit.numa.clone(),
        pool: Some(unit.pool.clone()),
        capacity: unit.capacity,
        slots: unit.slots,
        others: others.map(|others| Others { work: others.work, count: others.count }),
        ..FileUnit::default()
    }
}
