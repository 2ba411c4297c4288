//! Why pods of a template are rejected by admission or never scheduled.

use std::collections::BTreeSet;
use std::fmt::Display;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PersistentVolumeClaim, PodResourceClaim, PodSpec, ServiceAccount, Toleration,
    Volume,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceRequest, ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::Index;
use crate::constraints::admission::priorities::{is_system_class, named_class, priority_of};
use crate::constraints::admission::resource_limits::resource_obstacle;
use crate::constraints::devices::device_requests::unallocated;
use crate::demand::pods::amounts_differ;
use crate::index::named;

/// The controller manager creates it in each namespace.
const DEFAULT_ACCOUNT: &str = "default";

/// Why pods with this spec, as after admission, start on no node.
pub(crate) fn obstacle(index: &Index, namespace: &str, spec: &PodSpec) -> Option<String> {
    let gates: Vec<&str> = spec.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
    match gates.as_slice() {
        [] => {}
        [gate] => return Some(format!("the template has the scheduling gate {gate}; remove it")),
        _ => return Some(format!("the template has the scheduling gates {}; remove them", gates.join(", "))),
    }
    let claims = || spec.resource_claims.iter().flatten();
    namespace_obstacle(index, namespace)
        .or_else(|| spec.tolerations.iter().flatten().find_map(toleration_obstacle))
        .or_else(|| port_obstacle(spec))
        .or_else(|| runtime_class_obstacle(index, spec))
        .or_else(|| resource_obstacle(index, namespace, spec))
        .or_else(|| priority_obstacle(index, spec))
        .or_else(|| account_obstacle(index, namespace, spec))
        .or_else(|| spec.volumes.iter().flatten().find_map(|it| volume_obstacle(index, namespace, it)))
        .or_else(|| claims().find_map(|it| claim_obstacle(index, namespace, it)))
}

fn missing(kind: &str, name: &str) -> String {
    format!("{kind} {name} of the template does not exist; create it or correct the name")
}

/// The admission plugin `NamespaceLifecycle`.
fn namespace_obstacle(index: &Index, namespace: &str) -> Option<String> {
    let is_terminating = index.namespaces.terminating.contains(namespace);
    is_terminating.then(|| format!("namespace {namespace} is being deleted, no pods can be created in it"))
}

/// `ValidateTolerations`. A `tolerationSeconds` without the effect `NoExecute` is left to admission.
fn toleration_obstacle(toleration: &Toleration) -> Option<String> {
    let key = toleration.key.as_deref().unwrap_or_default();
    let has_value = toleration.value.as_ref().is_some_and(|value| !value.is_empty());
    let problem = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" if key.is_empty() => {
            return Some("a toleration has no key; set one, or the operator Exists".to_owned());
        }
        "Exists" if has_value => "has the operator Exists and a value; remove one of them".to_owned(),
        "" | "Equal" | "Exists" => return None,
        other => format!("has the operator {other}; use Equal or Exists"),
    };
    Some(format!("the toleration of {key} {problem}"))
}

/// `validatePodHostNetworkDeps` and `checkHostPortConflicts`: init containers run one by one.
fn port_obstacle(spec: &PodSpec) -> Option<String> {
    let on_host = spec.host_network == Some(true);
    let ports = |container: &Container| container.ports.clone().unwrap_or_default();
    let together: Vec<ContainerPort> = spec.containers.iter().flat_map(ports).collect();
    let differs =
        |port: &&ContainerPort| port.host_port.is_some_and(|it| it != 0 && it != port.container_port);
    if let Some(port) = together.iter().find(differs).filter(|_| on_host) {
        let (host, own) = (port.host_port.unwrap_or_default(), port.container_port);
        return Some(format!(
            "hostPort {host} of the template is not its containerPort {own}, as hostNetwork needs; leave out hostPort"
        ));
    }
    let host_port = |port: &ContainerPort| match port.host_port.unwrap_or(0) {
        0 if on_host => port.container_port,
        number => number,
    };
    let key = |port: &ContainerPort| {
        let protocol = port.protocol.as_deref().filter(|it| !it.is_empty()).unwrap_or("TCP");
        (protocol.to_owned(), port.host_ip.clone().unwrap_or_default(), host_port(port))
    };
    let alone = spec.init_containers.iter().flatten().map(ports);
    alone.chain([together]).find_map(|ports| {
        let mut used = BTreeSet::new();
        let twice = ports.iter().filter(|port| host_port(port) != 0).find(|port| !used.insert(key(port)))?;
        Some(format!("hostPort {} of the template is used twice; change one of them", host_port(twice)))
    })
}

/// The admission plugin `RuntimeClass`.
fn runtime_class_obstacle(index: &Index, spec: &PodSpec) -> Option<String> {
    let Some(name) = &spec.runtime_class_name else {
        let is_set = spec.overhead.is_some();
        return is_set.then(|| "the template sets an overhead without a RuntimeClass; remove it".to_owned());
    };
    if index.scheduling.lacks::<RuntimeClass>(name) {
        return Some(missing("RuntimeClass", name));
    }
    let class = index.scheduling.runtime_classes.get(name)?;
    let overhead = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
    if amounts_differ(spec.overhead.as_ref(), overhead) {
        return Some(format!("the template sets another overhead than RuntimeClass {name}; remove it"));
    }
    let selector = class.scheduling.as_ref().and_then(|scheduling| scheduling.node_selector.as_ref());
    let own = |key: &String| spec.node_selector.as_ref().and_then(|selector| selector.get(key));
    let conflict =
        selector.into_iter().flatten().find(|(key, value)| own(key).is_some_and(|own| own != *value));
    let (key, value) = conflict?;
    Some(format!(
        "RuntimeClass {name} needs nodeSelector {key}={value}, the template has {key}={}; remove one of them",
        own(key)?
    ))
}

/// The admission plugin `Priority`.
fn priority_obstacle(index: &Index, spec: &PodSpec) -> Option<String> {
    if let Some(name) = named_class(spec)
        && !is_system_class(name)
        && index.scheduling.lacks::<PriorityClass>(name)
    {
        return Some(missing("PriorityClass", name));
    }
    let given = priority_of(index, spec)?;
    let other = |field: &str, own: &dyn Display, given_value: &dyn Display| {
        let source = given.class.as_ref().map_or_else(
            || "without a PriorityClass it is".to_owned(),
            |class| format!("PriorityClass {class} gives"),
        );
        format!("the template sets {field} {own}, {source} {given_value}; remove it")
    };
    if let Some(own) = spec.priority.filter(|own| *own != given.value) {
        return Some(other("priority", &own, &given.value));
    }
    let own = spec.preemption_policy.as_ref().filter(|own| **own != given.preemption_policy)?;
    Some(other("preemptionPolicy", own, &given.preemption_policy))
}

fn account_obstacle(index: &Index, namespace: &str, spec: &PodSpec) -> Option<String> {
    let name = spec.service_account_name.as_ref().or(spec.service_account.as_ref())?;
    // Files often hold no ServiceAccount at all.
    let is_known = !named(&index.scheduling.service_accounts, namespace, "").is_empty();
    let key = (namespace.to_owned(), name.clone());
    let is_lacking = is_known
        && !matches!(name.as_str(), "" | DEFAULT_ACCOUNT)
        && index.scheduling.lacks::<ServiceAccount>(&key);
    is_lacking.then(|| missing("ServiceAccount", name))
}

/// A claim of an ephemeral volume is created with the pod.
fn volume_obstacle(index: &Index, namespace: &str, volume: &Volume) -> Option<String> {
    let name = &volume.persistent_volume_claim.as_ref()?.claim_name;
    let key = (namespace.to_owned(), name.clone());
    if index.scheduling.lacks::<PersistentVolumeClaim>(&key) {
        return Some(missing("PersistentVolumeClaim", name));
    }
    let claim = index.scheduling.claims.get(&key)?;
    let is_lost = claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Lost"));
    if is_lost {
        return Some(format!("PersistentVolumeClaim {name} has lost its volume; create it again"));
    }
    let is_going = claim.metadata.deletion_timestamp.is_some();
    is_going.then(|| format!("PersistentVolumeClaim {name} is being deleted; create it again"))
}

fn claim_obstacle(index: &Index, namespace: &str, claim: &PodResourceClaim) -> Option<String> {
    let key = |name: &String| (namespace.to_owned(), name.clone());
    let objects = &index.scheduling;
    if let Some(name) = &claim.resource_claim_name {
        if objects.lacks::<ResourceClaim>(&key(name)) {
            return Some(missing("ResourceClaim", name));
        }
        let is_going = |claim: &ResourceClaim| claim.metadata.deletion_timestamp.is_some();
        if objects.resource_claims.get(&key(name)).is_some_and(|claim| is_going(claim)) {
            return Some(format!("ResourceClaim {name} is being deleted; create it again"));
        }
    } else if let Some(name) = &claim.resource_claim_template_name
        && objects.lacks::<ResourceClaimTemplate>(&key(name))
    {
        return Some(missing("ResourceClaimTemplate", name));
    }
    let request = unallocated(index, namespace, claim)?.devices.as_ref()?.requests.as_ref()?;
    let class = request.iter().flat_map(device_classes).find(|class| objects.lacks::<DeviceClass>(class))?;
    Some(format!("DeviceClass {class} of the resource claims does not exist; create it or correct the name"))
}

fn device_classes(request: &DeviceRequest) -> impl Iterator<Item = &String> {
    let exactly = request.exactly.iter().map(|request| &request.device_class_name);
    let alternatives = request.first_available.iter().flatten().map(|request| &request.device_class_name);
    exactly.chain(alternatives)
}
