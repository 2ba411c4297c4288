//! Restarts from a first placement around one hub node.
//!
//! Where a node can hold a large share of all work, most traffic ends up on one such node, and high temperatures decide
//! which. That need not be the best one, and no small move relocates everything later. So one run starts around each node
//! with enough room.

use std::cmp::Reverse;

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};
use placement::weighted::NOWHERE;

use crate::construction::initial_placement::place_remaining;
use crate::evaluation::solution::Solution;
use crate::model::Model;
use crate::stop_clock::{StopClock, TIES_PER_PRICE};

/// A node has enough room if it can take one of so many parts of all work.
const MIN_SHARE: i128 = 4;

/// The most nodes that are tried.
const MAX_HUBS: usize = 16;

/// Nodes that a placement is still to be built around.
pub(crate) struct HubRestarts {
    /// The next one last.
    nodes: Vec<NodeIx>,
    /// Overload that each unit may have.
    overload_allowance: i64,
}

impl HubRestarts {
    /// The nodes with enough room, if there are two: those that admit most items first, and of interchangeable nodes of a
    /// zone only the first. `None` where `stop` ended it.
    pub fn new(model: &Model, overload_allowance: i64, stop: &dyn Fn() -> bool) -> Option<Self> {
        let items = || ItemIx::first(model.free).filter(|item| !model.candidates(*item).is_empty());
        let work = |item: ItemIx| i128::from(model.needs(item, model.candidates(item)[0])[0]);
        let all: i128 = items().map(work).sum();
        let room = |unit: &UnitIx| {
            let left = i128::from(model.unit_left[unit.at() * model.dims]) + i128::from(overload_allowance);
            left.max(0)
        };
        let has_room: IxVec<NodeIx, bool> = model
            .units_of_node
            .iter()
            .map(|units| units.iter().map(room).sum::<i128>() * MIN_SHARE >= all)
            .collect();
        let is_first = |node: &NodeIx| {
            let alike = model.node_classes.interchangeable_in(model.node_classes.zone(*node), *node);
            alike.iter().find(|other| has_room[**other]) == Some(node)
        };
        let nodes = NodeIx::first(has_room.len());
        let mut nodes: Vec<NodeIx> = nodes.filter(|node| has_room[*node] && is_first(node)).collect();
        if nodes.len() < 2 {
            nodes.clear();
        }
        let mut clock = StopClock::new(stop);
        let mut by_items: Vec<(usize, Reverse<NodeIx>)> = Vec::new();
        for node in nodes {
            let units = &model.units_of_node[node];
            let mut admitted = 0;
            for item in items() {
                clock.spend(1 + units.len() / TIES_PER_PRICE).ok()?;
                admitted += usize::from(units.iter().any(|unit| model.allows(item, *unit)));
            }
            by_items.push((admitted, Reverse(node)));
        }
        by_items.sort_unstable();
        by_items.drain(..by_items.len().saturating_sub(MAX_HUBS));
        let nodes = by_items.into_iter().map(|(_, Reverse(node))| node).collect();
        Some(Self { nodes, overload_allowance })
    }

    /// A placement around the next node: the item with the strongest ties that may be there goes there, and all others
    /// follow. `None` where no node is left, or `stop` ended it.
    pub fn next_placement(
        &mut self,
        model: &Model,
        stop: &dyn Fn() -> bool,
    ) -> Option<IxVec<ItemIx, UnitIx>> {
        let node = self.nodes.pop()?;
        let mut solution = Solution::new(model);
        solution.set_overload_allowance(self.overload_allowance);
        let tie_strength =
            |item: &ItemIx| model.ties(*item).iter().map(|tie| i128::from(tie.rate)).sum::<i128>();
        let mut hubs: Vec<ItemIx> = ItemIx::first(model.free).collect();
        hubs.sort_by_cached_key(|item| (Reverse(tie_strength(item)), *item));
        let mut clock = StopClock::new(stop);
        let mut hub = None;
        for item in hubs {
            let mut units = model.units_of_node[node].iter();
            clock.spend(1 + units.len()).ok()?;
            let admits = |unit: &&UnitIx| {
                solution.admits(item, **unit) && solution.adds_no_violation(&[(item, NOWHERE, **unit)])
            };
            if let Some(unit) = units.find(admits) {
                hub = Some((item, *unit));
                break;
            }
        }
        let (hub, unit) = hub?;
        solution.put(hub, unit);
        place_remaining(&mut solution, stop).then_some(solution.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four nodes of two cores each in two zones, the last with a GPU that some of eight actors may use.
    fn hubs_and_nodes(capacity: u32, overload_allowance: i64) -> Vec<(usize, Vec<usize>)> {
        let unit = |at: usize| format!("u{at}:cpu:{capacity}:node=n{},zone=z{}", at / 2, at / 4);
        let units: Vec<String> = (0..8).map(unit).collect();
        let actors: Vec<String> =
            (0..8).map(|at| format!("a{at}:cpu=5{}", if at < 3 { ",gpu=5" } else { "" })).collect();
        let links: Vec<String> = (1..8).map(|at| format!("a{at} to a0 {at}")).collect();
        let units = format!("{} g:gpu:{capacity}:node=n3,zone=z1", units.join(" "));
        let snapshot = testkit::line::world(&units, &actors.join(" "), &links.join("; "));
        let model = Model::new(&snapshot);
        let mut restarts = HubRestarts::new(&model, overload_allowance, &|| false).unwrap();
        let mut tried = Vec::new();
        while let Some(places) = restarts.next_placement(&model, &|| false) {
            tried.push(places.iter().map(|unit| model.node_of[*unit].at()).collect::<Vec<_>>());
        }
        tried.into_iter().map(|nodes| (nodes[0], nodes)).collect()
    }

    #[test]
    fn each_node_with_room_is_tried_once() {
        // All work is 40, and a quarter of it 10: nodes of 8 have no room unless each unit may be overloaded by 2.
        assert_eq!(hubs_and_nodes(4, 0), []);
        let nodes =
            |tried: Vec<(usize, Vec<usize>)>| tried.into_iter().map(|(of_hub, _)| of_hub).collect::<Vec<_>>();
        assert_eq!(
            nodes(hubs_and_nodes(10, 0)),
            [0, 2, 3],
            "where most may be first; the first two consist of the same"
        );
        assert_eq!(nodes(hubs_and_nodes(4, 2)), [0, 2, 3]);
        // The hub is there with the items tied to it.
        for (node, nodes) in hubs_and_nodes(10, 0) {
            assert!(nodes.iter().filter(|at| **at == node).count() >= 4, "{nodes:?}");
        }
    }

    /// Each node of a zone of its own can take everything, so each item is looked up on each.
    #[test]
    fn many_nodes_with_room_check_the_clock() {
        let units: Vec<String> = (0..60).map(|at| format!("u{at}:cpu:999:node=n{at},zone=z{at}")).collect();
        let actors: Vec<String> = (0..120).map(|at| format!("a{at}:cpu=1")).collect();
        let snapshot = testkit::line::world(&units.join(" "), &actors.join(" "), "");
        let model = Model::new(&snapshot);
        assert!(HubRestarts::new(&model, 0, &|| true).is_none());
        assert_eq!(HubRestarts::new(&model, 0, &|| false).unwrap().nodes.len(), MAX_HUBS);
    }
}
