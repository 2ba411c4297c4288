//! The pods of actors, as the operator creates them, with labels of another domain.

use anyhow::{Context as _, Result};
use crds::labels;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec,
};
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use crate::world::World;

/// The pod of an actor: its template with the defaults of the pool, pinned to `node` if there is one.
pub fn pod(world: &World, actor: &str, node: Option<&str>) -> Result<Pod> {
    let template = world.template(actor);
    let text = template.to_string();
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
    let mut all = given.labels.unwrap_or_default();
    let own = [
        (labels::APPLICATION, application),
        (labels::ACTOR_GROUP, text_of(&world.group(actor)["name"])),
        (labels::ACTOR, actor.to_owned()),
        (labels::INSTANCE, name.clone()),
        (labels::TEMPLATE_HASH, hash(&text)),
    ];
    all.extend(own.map(|(label, value)| (label.to_owned(), value)));
    relabelled(&Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(world.namespace().to_owned()),
            labels: Some(all),
            annotations: given.annotations,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    })
}

/// The pod with other labels in place of those that only the operator may set, also in its selectors.
pub fn relabelled(pod: &(impl Serialize + ?Sized)) -> Result<Pod> {
    let text = serde_json::to_string(pod)?.replace("\"cairn.dev/", "\"trial.example.org/");
    serde_json::from_str(&text).context("it is no pod")
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

/// A value that differs between templates, as the operator's does.
fn hash(text: &str) -> String {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))[..10].to_owned()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
