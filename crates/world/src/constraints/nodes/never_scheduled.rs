//! Templates whose pods admission rejects or the scheduler never places: said before a pod is made.

use std::collections::BTreeMap;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kube::ResourceExt;
use placement::file::{Constraint, Places};

use crate::Index;
use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::devices::claimable_devices::ClaimableDevices;
use crate::constraints::nodes::selectors::selects;
use crate::demand::actors::ApplicationActors;
use crate::index::names::namespace_of;
use crate::units::offer::Offer;

/// Units on which pods of a group never start: one constraint for each reason and set of units.
pub(crate) fn never_scheduled(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    specs: &AdmittedSpecs,
    devices: &ClaimableDevices,
    offer: &Offer,
) -> Vec<Constraint> {
    let namespace = namespace_of(application);
    let mut kept_out: BTreeMap<(String, Vec<String>), Vec<String>> = BTreeMap::new();
    for group in &application.spec.actors {
        let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for unit in offer.units.iter() {
            let Some(admitted) = specs.admitted(&group.name, unit) else { continue };
            let on_node = || {
                let node = index.nodes.get(&unit.node)?;
                let elsewhere = || allocated_elsewhere(index, &namespace, &admitted.spec, node);
                other_system(&admitted.spec, node)
                    .or_else(elsewhere)
                    .or_else(|| devices.obstacle(&admitted.devices, node))
            };
            if let Some(reason) = admitted.obstacle.clone().or_else(on_node) {
                units.entry(reason).or_default().push(unit.id.clone());
            }
        }
        for at in units {
            kept_out.entry(at).or_default().extend(actors.ids(&group.name));
        }
    }
    let rule = |((reason, units), actors): ((String, Vec<String>), Vec<String>)| Constraint::Never {
        actors,
        places: Places::Units(units),
        except_current: true,
        reason: Some(reason),
    };
    kept_out.into_iter().filter(|(_, actors)| !actors.is_empty()).map(rule).collect()
}

/// Why the kubelet of a node rejects the pod: it is for another operating system.
fn other_system(spec: &PodSpec, node: &Node) -> Option<String> {
    let needed = &spec.os.as_ref()?.name;
    let has = node.labels().get("kubernetes.io/os").filter(|has| *has != needed)?;
    Some(format!("the template is for {needed}, the node runs {has}"))
}

/// Why the devices that are allocated to a claim of the pod cannot be used on a node.
fn allocated_elsewhere(index: &Index, namespace: &str, spec: &PodSpec, node: &Node) -> Option<String> {
    let mut names =
        spec.resource_claims.iter().flatten().filter_map(|claim| claim.resource_claim_name.as_ref());
    let is_elsewhere = |name: &&String| {
        let claim = index.resource_claim(namespace, name);
        let allocation = claim.and_then(|claim| claim.status.as_ref()?.allocation.as_ref());
        let nodes = allocation.and_then(|allocation| allocation.node_selector.as_ref());
        nodes.is_some_and(|nodes| !selects(nodes, node))
    };
    let name = names.find(is_elsewhere)?;
    Some(format!("ResourceClaim {name} is allocated on other nodes"))
}
