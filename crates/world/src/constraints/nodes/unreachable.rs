//! Unreachable nodes.

use std::collections::BTreeMap;

use control::NodeOutage;
use crds::ActorApplication;
use k8s_openapi::api::core::v1::Node;

use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::nodes::selectors::{
    has_repelling_taint, is_not_ready, is_out_of_service, not_ready_taints, objection,
};
use crate::index::load::by_unit::BoundPods;
use crate::units::FreeNode;
use crate::units::unit::Unit;
use crate::{ActorName, Index};

/// Percentage of unreachable nodes above which the network is suspected rather than the nodes.
const MAX_UNREACHABLE_PERCENT: usize = 30;
/// Fewer unreachable nodes are never a matter of the network: one of two nodes may just be off.
const MIN_UNREACHABLE: usize = 3;

impl Index {
    /// Whether so many nodes are unreachable that nothing may move.
    pub fn is_mass_outage(&self) -> bool {
        let silent = self.nodes.values().filter(|node| is_not_ready(node)).count();
        silent >= MIN_UNREACHABLE && silent * 100 > self.nodes.len() * MAX_UNREACHABLE_PERCENT
    }

    /// Whether a node may reject new pods, so that an evicted actor has to go elsewhere.
    pub fn rejects_pods(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| has_repelling_taint(node))
    }

    /// All unreachable nodes.
    pub(crate) fn unreachable_nodes(&self) -> BTreeMap<String, NodeOutage> {
        let silent = self.nodes.iter().filter(|(_, node)| is_not_ready(node));
        silent.map(|(name, node)| (name.clone(), node_outage(node))).collect()
    }
}

fn node_outage(node: &Node) -> NodeOutage {
    let since = |time: &crds::Time| time.0.as_duration().try_into().ok();
    let since = not_ready_taints(node).filter_map(|taint| since(taint.time_added.as_ref()?)).min();
    NodeOutage { since, confirmed: is_out_of_service(node) }
}

/// Actors that could not restart at their decided unit: their pod is gone or ends, and no new one can start there.
///
/// A pod that runs on a cordoned or unreachable node stays; once evicted, its actor is placed elsewhere.
pub(crate) struct UnschedulablePods<'a> {
    specs: AdmittedSpecs<'a>,
    /// Nodes that may reject pods.
    nodes: BTreeMap<&'a str, &'a Node>,
    bound: &'a BoundPods<'a>,
}

impl<'a> UnschedulablePods<'a> {
    pub fn of(
        index: &'a Index,
        application: &'a ActorApplication,
        free: &'a [FreeNode<'a>],
        bound: &'a BoundPods<'a>,
    ) -> Self {
        let nodes = free.iter().filter(|free| has_repelling_taint(free.node));
        let nodes = nodes.map(|free| (free.name, free.node)).collect();
        let specs = AdmittedSpecs::of(index, application);
        Self { specs, nodes, bound }
    }

    /// Whether this actor, decided on this unit, cannot restart there.
    pub fn has(&self, actor: &ActorName, unit: &Unit) -> bool {
        let repels = || {
            let node = self.nodes.get(unit.node.as_str())?;
            objection(&*self.specs.spec(&actor.group, unit)?, node)
        };
        let is_rejected = self.specs.obstacle(&actor.group, unit).is_some()
            || repels().is_some_and(|objection| objection.except_current);
        let pod = || self.bound.get(&actor.short());
        is_rejected && !pod().is_some_and(|pod| !pod.is_terminating && pod.unit == unit.id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn three_nodes_and_more_than_30_percent_are_a_mass_outage() {
        for (silent, of, expected) in [
            (0, 0, false),
            (3, 10, false),
            (4, 10, true),
            (3, 9, true),
            (3, 3, true),
            (2, 3, false),
            (1, 2, false),
        ] {
            let mut index = Index::default();
            for at in 0..of {
                let key = if at < silent { "node.kubernetes.io/unreachable" } else { "cairn.dev/other" };
                let taints = json!([{"key": key, "effect": "NoSchedule"}]);
                let node = json!({"metadata": {"name": format!("node-{at}")}, "spec": {"taints": taints}});
                let node: Node = serde_json::from_value(node).unwrap();
                index.put_node(Arc::new(node));
            }
            assert_eq!(index.is_mass_outage(), expected, "{silent} of {of}");
        }
    }
}
