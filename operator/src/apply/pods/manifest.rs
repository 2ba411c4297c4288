//! The pod and the Instance of an actor. Pure.

use std::collections::BTreeMap;

use crds::{ActorApplication, DevicePool, Instance, InstanceOrigin, InstanceSpec, InstanceTemplate, labels};
use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodResourceClaim, PodSpec, ResourceClaim,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use world::{ActorName, Unit, object_name};

use crate::apply::owned::ownership::owner;
use crate::apply::owned::revisions::hash;
use crate::apply::pods::identity::introduce;

/// Labels of all objects of an actor.
pub fn labels_of(actor: &ActorName) -> BTreeMap<String, String> {
    [
        (labels::APPLICATION, actor.application.name.clone()),
        (labels::ACTOR_GROUP, actor.group.clone()),
        (labels::ACTOR, actor.short()),
        (labels::INSTANCE, object_name(actor)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Labels of an Instance that hosts these actors: those that all of them share.
pub fn labels_of_host(actors: &[ActorName]) -> BTreeMap<String, String> {
    let mut each = actors.iter().map(labels_of);
    let mut labels = each.next().unwrap_or_default();
    for other in each {
        labels.retain(|label, value| other.get(label) == Some(value));
    }
    labels
}

/// The Instance of an actor.
pub fn instance(application: &ActorApplication, actor: &ActorName) -> Instance {
    let spec = InstanceSpec {
        application_name: actor.application.name.clone(),
        origin: InstanceOrigin::Spec,
        actor_group: Some(actor.group.clone()),
        actor: Some(actor.short()),
        template: InstanceTemplate::default(),
    };
    let mut instance = Instance::new(&object_name(actor), spec);
    instance.metadata.namespace = Some(actor.application.namespace.clone());
    instance.metadata.labels = Some(labels_of(actor));
    instance.metadata.owner_references = owner(application);
    instance
}

/// The name of the device in a pod's `resourceClaims`, and of the request in the claim.
pub const DEVICE: &str = "cairn-device";

/// The name of an actor's claim of a unit's device. Claims are immutable, so it differs when the pool requests the device
/// otherwise.
pub fn claim_name(instance: &str, unit: &Unit) -> Option<String> {
    let claim = unit.claim.as_ref()?;
    Some(format!("{instance}-{}", hash(&(&unit.id, &claim.class, &claim.selectors))))
}

/// The pod of an actor on a unit: the template of its group, pinned to the node and requesting the pool's resource.
///
/// `has_peers` says that the application owns the peers file.
///
/// `None` if the manifest no longer has the group or an implementation for the unit's kind.
pub fn pod(
    application: &ActorApplication,
    actor: &ActorName,
    instance: &Instance,
    unit: &Unit,
    pool: Option<&DevicePool>,
    is_root: bool,
    has_peers: bool,
) -> Option<Pod> {
    let group = application.spec.actors.iter().find(|group| group.name == actor.group)?;
    let implementation =
        group.implementations.iter().find(|implementation| implementation.kind == unit.kind)?;
    let template = implementation.template.clone();
    let mut spec = template.spec?;
    pin(&mut spec, &unit.node);
    let defaults = pool.and_then(|pool| pool.spec.pod_defaults.as_ref());
    if let Some(defaults) = defaults {
        spec.tolerations.get_or_insert_default().extend(defaults.tolerations.iter().cloned());
        if spec.runtime_class_name.is_none() {
            spec.runtime_class_name.clone_from(&defaults.runtime_class_name);
        }
    }
    let container = device_container(&mut spec)?;
    if let Some(resource) = &unit.resource {
        ask_for(container, resource);
    }
    let claim = claim_name(&object_name(actor), unit);
    if claim.is_some() {
        let used = ResourceClaim { name: DEVICE.to_owned(), request: None };
        container.resources.get_or_insert_default().claims.get_or_insert_default().push(used);
    }
    for variable in defaults.iter().flat_map(|defaults| &defaults.env) {
        let set = container.env.get_or_insert_default();
        if !set.iter().any(|own| own.name == variable.name) {
            set.push(variable.clone());
        }
    }
    if let Some(name) = claim {
        let (name, resource_claim_name) = (DEVICE.to_owned(), Some(name));
        let claim = PodResourceClaim { name, resource_claim_name, ..PodResourceClaim::default() };
        spec.resource_claims.get_or_insert_default().push(claim);
    }
    introduce(&mut spec, application, actor, &unit.kind, is_root, has_peers);
    let given = template.metadata.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    labels.extend(labels_of(actor));
    labels.insert(labels::TEMPLATE_HASH.to_owned(), hash(&implementation.template));
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.insert(labels::UNIT.to_owned(), unit.id.clone());
    Some(Pod {
        metadata: ObjectMeta {
            name: Some(object_name(actor)),
            namespace: Some(actor.application.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: owner(instance),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    })
}

/// A pod of a group and kind for a dry run.
pub fn trial(application: &ActorApplication, actor: &ActorName, kind: &str) -> Option<Pod> {
    let unit = Unit {
        id: "trial/trial-0".to_owned(),
        kind: kind.to_owned(),
        node: "trial".to_owned(),
        zone: None,
        numa: None,
        pool: String::new(),
        capacity: 1,
        capacity_per_actor: 1,
        memory_mib: None,
        slots: None,
        resource: None,
        claim: None,
        device: None,
        cordoned: None,
    };
    let mut pod = pod(application, actor, &instance(application, actor), &unit, None, false, true)?;
    pod.metadata.name = Some(format!("{}-trial", object_name(actor)));
    Some(pod)
}

/// Adds the node to every term: terms are alternatives, so each of them must pin the pod.
fn pin(spec: &mut PodSpec, node: &str) {
    let here = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let of_nodes = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = of_nodes
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields.get_or_insert_default().push(here.clone());
    }
    // The scheduler counts only nodes that the pod selects, so a pinned pod never has several domains. The plan has counted all.
    for spread in spec.topology_spread_constraints.iter_mut().flatten() {
        spread.min_domains = None;
    }
}

/// The container that gets the device: the one named `actor`, else the only one.
fn device_container(spec: &mut PodSpec) -> Option<&mut Container> {
    let named = spec.containers.iter().position(|container| container.name == "actor");
    let position = named.or_else(|| (spec.containers.len() == 1).then_some(0))?;
    spec.containers.get_mut(position)
}

/// Requests one of a resource; extended resources need the limit and an equal request.
fn ask_for(container: &mut Container, resource: &str) {
    let resources = container.resources.get_or_insert_default();
    for amounts in [&mut resources.limits, &mut resources.requests] {
        amounts.get_or_insert_default().insert(resource.to_owned(), Quantity("1".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application(template: &serde_json::Value) -> ActorApplication {
        let spec = json!({"actors": [{"name": "cam", "implementations": [
            {"kind": "gpu", "serviceTime": "1ms", "template": template}]}]});
        let mut application = ActorApplication::new("app", serde_json::from_value(spec).unwrap());
        application.metadata.namespace = Some("ns".into());
        application.metadata.uid = Some("1".into());
        application
    }

    fn made(template: &serde_json::Value, pool: &serde_json::Value) -> serde_json::Value {
        let application = application(template);
        let actor = world::manifest_actors(&application).remove(0);
        let mut instance = instance(&application, &actor);
        instance.metadata.uid = Some("2".into());
        let pool = DevicePool::new("gpus", serde_json::from_value(pool.clone()).unwrap());
        let unit = Unit {
            id: "node-0/gpus-0".into(),
            kind: "gpu".into(),
            node: "node-0".into(),
            zone: None,
            numa: None,
            pool: "gpus".into(),
            capacity: 1,
            capacity_per_actor: 1,
            memory_mib: None,
            slots: Some(1),
            resource: Some("nvidia.com/gpu".into()),
            claim: None,
            device: None,
            cordoned: None,
        };
        serde_json::to_value(pod(&application, &actor, &instance, &unit, Some(&pool), true, true).unwrap())
            .unwrap()
    }

    #[test]
    fn a_pod_is_pinned_labelled_owned_and_requests_its_device() {
        let template = json!({"metadata": {"labels": {"tier": "front"}},
            "spec": {"containers": [{"name": "main", "image": "i"}]}});
        let pod = made(&template, &json!({"kind": "gpu", "resource": {"devicePlugin": "nvidia.com/gpu"}}));
        insta::assert_snapshot!(serde_json::to_string_pretty(&pod).unwrap());
    }

    #[test]
    fn every_term_of_an_affinity_is_pinned_and_the_container_named_actor_gets_the_device() {
        let terms = json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]}]);
        let template = json!({"spec": {"containers": [{"name": "side"}, {"name": "actor", "env": [{"name": "A", "value": "own"}]}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        let pool = json!({"kind": "gpu", "resource": {"devicePlugin": "nvidia.com/gpu"}, "podDefaults": {
            "runtimeClassName": "nvidia", "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "env": [{"name": "A", "value": "pool"}, {"name": "B", "value": "pool"}]}});
        let pod = made(&template, &pool);
        let spec = &pod["spec"];
        let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let here = json!({"key": "metadata.name", "operator": "In", "values": ["node-0"]});
        assert_eq!(terms[0]["matchFields"], json!([here]));
        assert_eq!(terms[1]["matchFields"][1], here);
        assert_eq!(spec["containers"][0].get("resources"), None);
        assert_eq!(spec["containers"][1]["resources"]["limits"], json!({"nvidia.com/gpu": "1"}));
        let env = spec["containers"][1]["env"].as_array().unwrap();
        let env_of_pool = env.iter().filter(|it| !it["name"].as_str().unwrap().starts_with("CAIRN_"));
        let env_of_pool: Vec<_> = env_of_pool.cloned().collect();
        assert_eq!(
            env_of_pool,
            [json!({"name": "A", "value": "own"}), json!({"name": "B", "value": "pool"})]
        );
        assert_eq!(spec["runtimeClassName"], "nvidia");
        assert_eq!(spec["tolerations"][0]["key"], "gpu");
    }

    #[test]
    fn an_instance_is_labelled_by_what_holds_for_each_actor_in_it() {
        let mut manifest = application(&json!({"spec": {"containers": [{"name": "actor"}]}}));
        manifest.spec.actors[0].replicas = 2;
        let mut actors = world::manifest_actors(&manifest);
        assert_eq!(labels_of_host(&actors[..1]), labels_of(&actors[0]));
        let all = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
        };
        let (application, group) = ((labels::APPLICATION, "app"), (labels::ACTOR_GROUP, "cam"));
        assert_eq!(labels_of_host(&actors), all(&[application, group]));
        actors[1].group = "crop".into();
        assert_eq!(labels_of_host(&actors), all(&[application]));
        assert_eq!(labels_of_host(&[]), all(&[]));
    }
}
