//! Nodes that do not answer: one is lost, many are rather out of reach.

use std::collections::BTreeMap;

use control::NodeOutage;
use crds::ActorApplication;
use k8s_openapi::api::core::v1::Node;

use crate::constraints::selectors::{is_out_of_service, is_silent, objection, silence, turns_away};
use crate::demand::actors::actors_of_instance;
use crate::demand::pods::{is_terminal, unit_of};
use crate::snapshot::model::owned_objects;
use crate::units::FreeNode;
use crate::units::offer::Offer;
use crate::units::unit::Unit;
use crate::{ActorName, Index};

/// The share of nodes, in percent, above which the way to them is doubted rather than they themselves.
const MOST_SILENT: usize = 30;

impl Index {
    /// Whether so many nodes do not answer that nobody is moved on the strength of what is known.
    pub fn is_mass_outage(&self) -> bool {
        let silent = self.nodes.values().filter(|node| is_silent(node)).count();
        silent * 100 > self.nodes.len() * MOST_SILENT
    }

    /// Whether a node may turn away pods that come: whoever loses its pod there has to go elsewhere.
    pub fn rejects_pods(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| turns_away(node))
    }

    /// The nodes that do not answer.
    pub(crate) fn lost(&self) -> BTreeMap<String, NodeOutage> {
        let silent = self.nodes.iter().filter(|(_, node)| is_silent(node));
        silent.map(|(name, node)| (name.clone(), loss(node))).collect()
    }
}

fn loss(node: &Node) -> NodeOutage {
    let since = |time: &crds::Time| time.0.as_duration().try_into().ok();
    let since = silence(node).filter_map(|taint| since(taint.time_added.as_ref()?)).min();
    NodeOutage { since, confirmed: is_out_of_service(node) }
}

/// Who could not be started again where it was decided to be: its pod there is gone or ends, and the node takes no new one.
///
/// What runs on a node that is cordoned, or does not answer, stays; what is evicted from there is looked after elsewhere.
pub(crate) struct UnschedulablePods<'a> {
    application: &'a ActorApplication,
    offer: &'a Offer,
    /// Nodes that may turn away pods.
    nodes: BTreeMap<&'a str, &'a Node>,
    /// The units of the pods that live, by the actor's short name.
    lives: BTreeMap<String, String>,
}

impl<'a> UnschedulablePods<'a> {
    pub fn of(
        index: &Index,
        application: &'a ActorApplication,
        free: &'a [FreeNode<'a>],
        offer: &'a Offer,
    ) -> Self {
        let nodes = free.iter().filter(|free| turns_away(free.node));
        let nodes: BTreeMap<&str, &Node> = nodes.map(|free| (free.name, free.node)).collect();
        let mut lives = BTreeMap::new();
        if !nodes.is_empty() {
            for (instance, pod) in owned_objects(index, application).values() {
                let pod =
                    pod.as_ref().filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod));
                if let Some(unit) = pod.and_then(|pod| unit_of(pod)) {
                    lives.extend(
                        actors_of_instance(instance).iter().map(|name| (name.short(), unit.to_owned())),
                    );
                }
            }
        }
        Self { application, offer, nodes, lives }
    }

    /// Whether this actor, decided to be on this unit, is one.
    pub fn has(&self, actor: &ActorName, unit: &Unit) -> bool {
        let Some(node) = self.nodes.get(unit.node.as_str()) else { return false };
        if self.lives.get(&actor.short()) == Some(&unit.id) {
            return false;
        }
        let group = self.application.spec.actors.iter().find(|group| group.name == actor.group);
        let mut ways = group.into_iter().flat_map(|group| &group.implementations);
        let template = ways.find(|way| way.kind == unit.kind).map(|way| &way.template);
        let spec = template.and_then(|template| template.spec.clone()).unwrap_or_default();
        let more = self.offer.tolerations.get(&unit.pool).map(Vec::as_slice).unwrap_or_default();
        objection(&spec, more, node).is_some_and(|objection| objection.except_current)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn more_than_three_of_ten_are_too_many() {
        for (silent, of, expected) in
            [(0, 0, false), (3, 10, false), (4, 10, true), (1, 2, true), (1, 4, false)]
        {
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
