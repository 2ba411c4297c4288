//! Which units and nodes can stand in for each other, and which nodes are near each other.

use std::collections::BTreeMap;

use crate::exchange::small;
use placement::Snapshot;

/// The nodes of a world, by what they consist of and by zone.
pub(crate) struct Regions {
    /// Whether there is more than one node.
    pub has_nodes: bool,
    /// Whether there is more than one zone.
    pub has_zones: bool,
    /// By node: its class. Nodes with as many units of each kind are of one class.
    class_of: Vec<u32>,
    /// By class: its nodes.
    alike: Vec<Vec<u32>>,
    /// By node: its zone.
    zone_of: Vec<u32>,
    /// By zone: its nodes.
    nodes_of_zone: Vec<Vec<u32>>,
    /// By zone and class: the nodes.
    alike_in_zone: BTreeMap<(u32, u32), Vec<u32>>,
    /// By unit: its kind and how many of that kind come before it on its node, as a number.
    slot_of: Vec<u32>,
    /// By node: its slots, ascending, and the unit of each.
    units_by_slot: Vec<Vec<(u32, u32)>>,
}

impl Regions {
    pub fn new(snapshot: &Snapshot, units_of_node: &[Vec<u32>]) -> Self {
        let index = snapshot.problem();
        let nodes = units_of_node.len();
        let mut slots: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        let mut slot_of = vec![0; snapshot.units()];
        let mut units_by_slot = Vec::with_capacity(nodes);
        let mut classes: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
        for (node, units) in units_of_node.iter().enumerate() {
            let mut on_node: BTreeMap<usize, usize> = BTreeMap::new();
            for unit in units {
                let kind = index.unit_kind[*unit as usize];
                let before = on_node.entry(kind).or_default();
                let next = small(slots.len());
                slot_of[*unit as usize] = *slots.entry((kind, *before)).or_insert(next);
                *before += 1;
            }
            let mut by_slot: Vec<(u32, u32)> =
                units.iter().map(|unit| (slot_of[*unit as usize], *unit)).collect();
            by_slot.sort_unstable();
            classes.entry(by_slot.iter().map(|(slot, _)| *slot).collect()).or_default().push(small(node));
            units_by_slot.push(by_slot);
        }
        let zone = |units: &Vec<u32>| units.first().map_or(0, |unit| small(index.unit_zone[*unit as usize]));
        let zone_of: Vec<u32> = units_of_node.iter().map(zone).collect();
        let zones = zone_of.iter().max().map_or(0, |zone| *zone as usize + 1);
        let alike: Vec<Vec<u32>> = classes.into_values().collect();
        let mut class_of = vec![0; nodes];
        let mut nodes_of_zone = vec![Vec::new(); zones];
        let mut alike_in_zone: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (class, nodes) in alike.iter().enumerate() {
            for node in nodes {
                let zone = zone_of[*node as usize];
                class_of[*node as usize] = small(class);
                nodes_of_zone[zone as usize].push(*node);
                alike_in_zone.entry((zone, small(class))).or_default().push(*node);
            }
        }
        let has_zones = zone_of.iter().any(|zone| *zone != zone_of[0]);
        Self {
            has_nodes: nodes > 1,
            has_zones,
            class_of,
            alike,
            zone_of,
            nodes_of_zone,
            alike_in_zone,
            slot_of,
            units_by_slot,
        }
    }

    /// The zone of a node.
    #[inline]
    pub fn zone(&self, node: u32) -> u32 {
        self.zone_of[node as usize]
    }

    /// The nodes of a zone.
    #[inline]
    pub fn nodes(&self, zone: u32) -> &[u32] {
        &self.nodes_of_zone[zone as usize]
    }

    /// The nodes that consist of the same as this one, itself among them.
    #[inline]
    pub fn alike(&self, node: u32) -> &[u32] {
        &self.alike[self.class_of[node as usize] as usize]
    }

    /// Those of them that are in a zone.
    #[inline]
    pub fn alike_in(&self, zone: u32, node: u32) -> &[u32] {
        self.alike_in_zone.get(&(zone, self.class_of[node as usize])).map_or(&[], Vec::as_slice)
    }

    /// The unit of a node that is to it what the given one is to its own node, if there is such a unit.
    #[inline]
    pub fn counterpart(&self, unit: u32, node: u32) -> Option<u32> {
        let (units, slot) = (&self.units_by_slot[node as usize], self.slot_of[unit as usize]);
        let found = units.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(units[found].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_the_same_units_stand_in_for_each_other() {
        let unit = |id: &str, kind: &str, node: &str, zone: &str| {
            format!(r#"{{"id":"{id}","kind":"{kind}","node":"{node}","zone":"{zone}","capacity":9}}"#)
        };
        let units = [
            unit("a0", "cpu", "a", "east"),
            unit("a1", "gpu", "a", "east"),
            unit("a2", "cpu", "a", "east"),
            unit("b0", "gpu", "b", "west"),
            unit("b1", "cpu", "b", "west"),
            unit("b2", "cpu", "b", "west"),
            unit("c0", "cpu", "c", "west"),
        ];
        let json = format!(
            r#"{{"version":1,"units":[{}],"actors":[{{"id":"x","runsOn":{{"cpu":1}}}}],"exchangeCost":{{"otherKind":1}},"objectives":["overload"]}}"#,
            units.join(",")
        );
        let snapshot = Snapshot::read(&json).unwrap();
        let regions = Regions::new(&snapshot, &[vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert!(regions.has_nodes && regions.has_zones);
        assert_eq!(regions.alike(0), [0, 1]);
        assert_eq!(regions.alike_in(regions.zone(1), 0), [1]);
        assert_eq!(regions.alike_in(regions.zone(0), 2), [] as [u32; 0]);
        assert_eq!(regions.nodes(regions.zone(2)).len(), 2);
        let counterparts = |units: [u32; 3], node| units.map(|unit| regions.counterpart(unit, node));
        assert_eq!(counterparts([0, 1, 2], 1), [Some(4), Some(3), Some(5)]);
        assert_eq!(counterparts([0, 1, 2], 2), [Some(6), None, None]);
        assert_eq!(counterparts([3, 4, 5], 0), [Some(1), Some(0), Some(2)]);
    }
}
