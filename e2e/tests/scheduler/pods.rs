//! The pods of actors, as the operator creates them, without the labels that only the operator may set.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec,
};
use kube::api::ObjectMeta;
use serde_json::Value;

use crate::world::World;

/// The pod of an actor: its template with the defaults of the pool, pinned to `node` if there is one.
pub fn pod(world: &World, actor: &str, node: Option<&str>) -> Result<Pod> {
    let template = world.template(actor);
    let template: PodTemplateSpec =
        serde_json::from_value(template.clone()).context("it is no pod template")?;
    let given = template.metadata.unwrap_or_default();
    let mut spec = template.spec.context("the template has no spec")?;
    let defaults = &world.pool["spec"]["podDefaults"];
    if let Some(tolerations) = defaults.get("tolerations") {
        let more: Vec<_> = serde_json::from_value(tolerations.clone()).context("they are no tolerations")?;
        spec.tolerations.get_or_insert_default().extend(more);
    }
    if let (None, Some(class)) = (&spec.runtime_class_name, defaults["runtimeClassName"].as_str()) {
        spec.runtime_class_name = Some(class.to_owned());
    }
    let application = text_of(&world.application["metadata"]["name"]);
    (spec.hostname, spec.subdomain) = (Some(actor.to_owned()), Some(application.clone()));
    if let Some(node) = node {
        let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
        pin(affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default(), node);
        for spread in spec.topology_spread_constraints.iter_mut().flatten() {
            spread.min_domains = None;
        }
    }
    let name = format!("{application}-{actor}");
    Ok(Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(world.namespace().to_owned()),
            labels: given.labels,
            annotations: given.annotations,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    })
}

/// Adds the node to every term: terms are alternatives, so each of them must pin the pod.
fn pin(required: &mut NodeSelector, node: &str) {
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields.get_or_insert_default().push(NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        });
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
