//! Units without a zone of their own are in that of their node.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::format::{Node, SnapshotFile};

/// Gives these units the zone of their node, and lists them in the file.
pub(crate) fn fill(file: &mut SnapshotFile) {
    let zones = zones_by_node(&file.nodes);
    if zones.is_empty() {
        return;
    }
    for unit in file.units.iter_mut().filter(|unit| unit.zone.is_none()) {
        unit.zone = zones.get(unit.node.as_str()).map(|zone| (*zone).clone());
        if unit.zone.is_some() {
            file.zones_of_nodes.insert(unit.id.clone());
        }
    }
}

/// Removes the filled zones, so that the file is written as it was read.
pub(crate) fn remove(file: &mut SnapshotFile) {
    let filled: BTreeSet<String> = std::mem::take(&mut file.zones_of_nodes);
    let zones = zones_by_node(&file.nodes);
    for unit in file.units.iter_mut().filter(|unit| filled.contains(&unit.id)) {
        let zone = zones.get(unit.node.as_str()).copied();
        unit.zone.take_if(|own| zone == Some(&*own));
    }
}

fn zones_by_node(nodes: &[Node]) -> BTreeMap<&str, &String> {
    nodes.iter().filter_map(|node| Some((node.id.as_str(), node.zone.as_ref()?))).collect()
}
