//! The pod spec of a template as the API server stores it: with its defaults and those of admission.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{DevicePool, Implementation};
use k8s_openapi::api::core::v1::{Container, PodSpec, Toleration};
use k8s_openapi::api::node::v1::RuntimeClass;

use crate::demand::pods::{Amounts, Quantities, add_largest, is_huge_page, pod_level_requests, requests};
use crate::numbers::{NumberError, to_quantity};

/// Maximum number of tolerations that are merged.
const MAX_MERGED: usize = 512;

/// Taints of an unreachable node.
pub(crate) const NOT_READY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// How long pods stay on an unreachable node by default.
const UNREACHABLE_SECONDS: i64 = 300;

/// Requests and limits that admission adds to containers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerDefaults {
    pub requests: Amounts,
    pub limits: Amounts,
}

/// What admission adds to the pods of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodAdmission {
    /// Defaults of a container, from `LimitRange`s.
    pub container_defaults: ContainerDefaults,
    pub runtime_classes: BTreeMap<String, Arc<RuntimeClass>>,
    pub pools: Vec<Arc<DevicePool>>,
    pub tolerates_extended_resources: bool,
}

impl PodAdmission {
    /// The spec of a template's pods in a pool, after admission.
    ///
    /// What makes admission reject the pod is left as it is.
    pub fn spec(&self, template: Option<&PodSpec>, pool: Option<&DevicePool>) -> PodSpec {
        let mut spec = template.cloned().unwrap_or_default();
        if let Some(defaults) = pool.and_then(|pool| pool.spec.pod_defaults.as_ref()) {
            spec.tolerations.get_or_insert_default().extend(defaults.tolerations.iter().cloned());
            if spec.runtime_class_name.is_none() {
                spec.runtime_class_name.clone_from(&defaults.runtime_class_name);
            }
        }
        set_defaults(&mut spec);
        tolerate_unreachable_nodes(&mut spec);
        let class = spec.runtime_class_name.as_ref().and_then(|name| self.runtime_classes.get(name));
        if let Some(class) = class {
            add_runtime_class(&mut spec, class);
        }
        for container in containers(&mut spec) {
            let resources = container.resources.get_or_insert_default();
            let ContainerDefaults { requests, limits } = &self.container_defaults;
            add_missing(&mut resources.requests, requests);
            add_missing(&mut resources.limits, limits);
        }
        if self.tolerates_extended_resources {
            tolerate_extended_resources(&mut spec, pool);
        }
        spec
    }

    /// Requests of an implementation's pods: the largest, as the pools of its kind may set different runtime classes.
    ///
    /// # Errors
    /// An invalid quantity.
    pub fn requests(&self, way: &Implementation) -> Result<Quantities, NumberError> {
        let template = way.template.spec.as_ref();
        let mut most = requests(&self.spec(template, None))?;
        let sets_class = |pool: &&Arc<DevicePool>| {
            pool.spec.pod_defaults.as_ref().is_some_and(|defaults| defaults.runtime_class_name.is_some())
        };
        for pool in self.pools.iter().filter(|pool| pool.spec.kind == way.kind).filter(sets_class) {
            add_largest(&mut most, requests(&self.spec(template, Some(pool)))?);
        }
        Ok(most)
    }
}

fn add_missing(own: &mut Option<Amounts>, defaults: &Amounts) {
    let own = own.get_or_insert_default();
    for (resource, amount) in defaults {
        own.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)
}

/// `SetDefaults_Pod`: limits are default requests. The pod as a whole gets its defaults before a `LimitRange` adds others.
fn set_defaults(spec: &mut PodSpec) {
    // Invalid quantities are reported where the requests are read.
    let of_pod = pod_level_requests(spec).unwrap_or_default();
    if let Some(resources) = &mut spec.resources {
        let own = resources.requests.get_or_insert_default();
        for (resource, amount) in of_pod {
            if own.contains_key(&resource) {
                continue;
            }
            // Huge pages cannot be overcommitted, so the pod also gets their limit.
            if is_huge_page(&resource) {
                let limits = resources.limits.get_or_insert_default();
                limits.entry(resource.clone()).or_insert_with(|| to_quantity(amount));
            }
            own.insert(resource, to_quantity(amount));
        }
    }
    for resources in containers(spec).filter_map(|container| container.resources.as_mut()) {
        for (resource, limit) in resources.limits.iter().flatten() {
            let own = resources.requests.get_or_insert_default();
            own.entry(resource.clone()).or_insert_with(|| limit.clone());
        }
    }
}

/// The admission plugin `DefaultTolerationSeconds`: without tolerations of their own, pods leave an unreachable node after five
/// minutes.
fn tolerate_unreachable_nodes(spec: &mut PodSpec) {
    let own = spec.tolerations.get_or_insert_default();
    for key in NOT_READY {
        let covers = |text: &Option<String>, value: &str| {
            text.as_deref().is_none_or(|text| text.is_empty() || text == value)
        };
        if !own.iter().any(|it| covers(&it.key, key) && covers(&it.effect, "NoExecute")) {
            own.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(UNREACHABLE_SECONDS),
                ..Toleration::default()
            });
        }
    }
}

/// The admission plugin `ExtendedResourceToleration`: nodes with devices are tainted with the name of the resource.
fn tolerate_extended_resources(spec: &mut PodSpec, pool: Option<&DevicePool>) {
    let of_containers =
        containers(spec).filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    let mut all: BTreeSet<String> = of_containers.flat_map(BTreeMap::keys).cloned().collect();
    all.extend(pool.and_then(|pool| pool.spec.resource.as_ref()?.device_plugin.clone()));
    all.retain(|name| name.contains('/') && !name.contains("kubernetes.io/"));
    let toleration = |key| Toleration {
        key: Some(key),
        operator: Some("Exists".to_owned()),
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    };
    spec.tolerations.get_or_insert_default().extend(all.into_iter().map(toleration));
}

/// Adds overhead, node selector and tolerations of a `RuntimeClass`.
fn add_runtime_class(spec: &mut PodSpec, class: &RuntimeClass) {
    if let Some(overhead) = &class.overhead
        && spec.overhead.is_none()
    {
        spec.overhead.clone_from(&overhead.pod_fixed);
    }
    let Some(scheduling) = &class.scheduling else { return };
    if let Some(selector) = &scheduling.node_selector {
        let own = spec.node_selector.get_or_insert_default();
        for (key, value) in selector {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let all = spec.tolerations.iter().chain(&scheduling.tolerations).flatten();
    spec.tolerations = Some(merged(&all.cloned().collect::<Vec<_>>()));
}

/// `MergeTolerations`: drops those that another one includes; of equal ones the first is kept.
///
/// Compares each with each: longer lists, which only refused manifests have, stay as they are. They tolerate the same.
fn merged(all: &[Toleration]) -> Vec<Toleration> {
    if all.len() > MAX_MERGED {
        return all.to_vec();
    }
    let mut kept: Vec<Toleration> = Vec::new();
    for (position, toleration) in all.iter().enumerate() {
        let is_included = kept.iter().any(|other| includes(other, toleration))
            || all[position + 1..].iter().any(|other| other != toleration && includes(other, toleration));
        if !is_included {
            kept.push(toleration.clone());
        }
    }
    kept
}

/// Whether a toleration tolerates all that another does, for at least as long.
fn includes(one: &Toleration, other: &Toleration) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let is_exists = text(&one.operator) == "Exists";
    let has_key = text(&one.key) == text(&other.key) || (text(&one.key).is_empty() && is_exists);
    let has_effect = text(&one.effect) == text(&other.effect) || text(&one.effect).is_empty();
    let is_longer = text(&one.effect) != "NoExecute"
        || one.toleration_seconds.is_none_or(|most| other.toleration_seconds.is_some_and(|it| it <= most));
    let has_value = is_exists
        || (matches!(text(&one.operator).as_str(), "" | "Equal")
            && text(&other.operator) == "Equal"
            && text(&one.value) == text(&other.value));
    one == other || (has_key && has_effect && is_longer && has_value)
}
