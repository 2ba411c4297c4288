//! Which units and nodes are interchangeable, and which nodes share a zone.

use std::collections::BTreeMap;

use placement::Snapshot;
use placement::ix::{IxVec, KindIx, NodeIx, PlaceIx, UnitIx};

/// The nodes of a snapshot by class and by zone.
pub(crate) struct NodeClasses {
    /// Whether there is more than one node.
    pub has_nodes: bool,
    /// Whether there is more than one zone.
    pub has_zones: bool,
    /// By node: its class. Nodes with equally many units of each kind are in one class.
    class_of: IxVec<NodeIx, usize>,
    /// By class: its nodes.
    alike: Vec<Vec<NodeIx>>,
    /// By node: its zone.
    zone_of: IxVec<NodeIx, PlaceIx>,
    /// By zone: its nodes.
    nodes_of_zone: IxVec<PlaceIx, Vec<NodeIx>>,
    /// By zone and class: the nodes.
    class_in_zone: BTreeMap<(PlaceIx, usize), Vec<NodeIx>>,
    /// By unit: its kind and its number among the units of that kind on its node, as one number.
    slot_of: IxVec<UnitIx, u32>,
    /// By node: its slots, ascending, and the unit of each.
    units_by_slot: IxVec<NodeIx, Vec<(u32, UnitIx)>>,
}

impl NodeClasses {
    pub fn new(snapshot: &Snapshot, units_of_node: &IxVec<NodeIx, Vec<UnitIx>>) -> Self {
        let problem = snapshot.problem();
        let nodes = units_of_node.len();
        let mut slots: BTreeMap<(KindIx, usize), u32> = BTreeMap::new();
        let mut slot_of = IxVec::of(0, snapshot.units());
        let mut units_by_slot = IxVec::new();
        let mut classes: BTreeMap<Vec<u32>, Vec<NodeIx>> = BTreeMap::new();
        for (node, units) in units_of_node.enumerate() {
            let mut on_node: BTreeMap<KindIx, usize> = BTreeMap::new();
            for unit in units {
                let kind = problem.unit_kind[*unit];
                let before = on_node.entry(kind).or_default();
                let next = u32::try_from(slots.len()).expect("there are fewer units than 2^32");
                slot_of[*unit] = *slots.entry((kind, *before)).or_insert(next);
                *before += 1;
            }
            let mut by_slot: Vec<(u32, UnitIx)> = units.iter().map(|unit| (slot_of[*unit], *unit)).collect();
            by_slot.sort_unstable();
            classes.entry(by_slot.iter().map(|(slot, _)| *slot).collect()).or_default().push(node);
            units_by_slot.push(by_slot);
        }
        let zone =
            |units: &Vec<UnitIx>| units.first().map_or(PlaceIx::new(0), |unit| problem.unit_zone[*unit]);
        let zone_of: IxVec<NodeIx, PlaceIx> = units_of_node.iter().map(zone).collect();
        let zones = zone_of.iter().max().map_or(0, |zone| zone.at() + 1);
        let alike: Vec<Vec<NodeIx>> = classes.into_values().collect();
        let mut class_of = IxVec::of(0, nodes);
        let mut nodes_of_zone = IxVec::of(Vec::new(), zones);
        let mut class_in_zone: BTreeMap<(PlaceIx, usize), Vec<NodeIx>> = BTreeMap::new();
        for (class, nodes) in alike.iter().enumerate() {
            for node in nodes {
                let zone = zone_of[*node];
                class_of[*node] = class;
                nodes_of_zone[zone].push(*node);
                class_in_zone.entry((zone, class)).or_default().push(*node);
            }
        }
        let has_zones = zone_of.iter().any(|zone| Some(zone) != zone_of.iter().next());
        Self {
            has_nodes: nodes > 1,
            has_zones,
            class_of,
            alike,
            zone_of,
            nodes_of_zone,
            class_in_zone,
            slot_of,
            units_by_slot,
        }
    }

    /// The zone of a node.
    #[inline]
    pub fn zone(&self, node: NodeIx) -> PlaceIx {
        self.zone_of[node]
    }

    /// The nodes of a zone.
    #[inline]
    pub fn nodes(&self, zone: PlaceIx) -> &[NodeIx] {
        &self.nodes_of_zone[zone]
    }

    /// The nodes of this node's class, including itself.
    #[inline]
    pub fn interchangeable(&self, node: NodeIx) -> &[NodeIx] {
        &self.alike[self.class_of[node]]
    }

    /// Those of them that are in a zone.
    #[inline]
    pub fn interchangeable_in(&self, zone: PlaceIx, node: NodeIx) -> &[NodeIx] {
        self.class_in_zone.get(&(zone, self.class_of[node])).map_or(&[], Vec::as_slice)
    }

    /// The unit of `node` that corresponds to `unit` on its own node, if there is one.
    #[inline]
    pub fn counterpart(&self, unit: UnitIx, node: NodeIx) -> Option<UnitIx> {
        let (units, slot) = (&self.units_by_slot[node], self.slot_of[unit]);
        let found = units.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(units[found].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::weighted::Weighted;

    #[test]
    fn nodes_with_the_same_units_are_interchangeable() {
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
        let classes = NodeClasses::new(&snapshot, &Weighted::new(&snapshot).units_of_node);
        assert!(classes.has_nodes && classes.has_zones);
        let [a, b, c] = [0, 1, 2].map(NodeIx::new);
        assert_eq!(classes.interchangeable(a), [a, b]);
        assert_eq!(classes.interchangeable_in(classes.zone(b), a), [b]);
        assert_eq!(classes.interchangeable_in(classes.zone(a), c), []);
        assert_eq!(classes.nodes(classes.zone(c)).len(), 2);
        let counterparts = |units: [usize; 3], node| {
            units.map(|unit| classes.counterpart(UnitIx::new(unit), node).map(UnitIx::at))
        };
        assert_eq!(counterparts([0, 1, 2], b), [Some(4), Some(3), Some(5)]);
        assert_eq!(counterparts([0, 1, 2], c), [Some(6), None, None]);
        assert_eq!(counterparts([3, 4, 5], a), [Some(1), Some(0), Some(2)]);
    }
}
