//! Resource requests of pods.

use std::collections::BTreeMap;

use crds::labels;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::numbers::{Exact, NumberError, ceil, quantity};

/// Amounts by resource, in the resource's own unit (cores, bytes, pieces).
pub(crate) type Quantities = BTreeMap<String, Exact>;

/// Whether the pod succeeded or failed, so that it holds nothing.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Unit in the pod's annotation; trust it only for an application's own pods.
pub fn unit_of(pod: &Pod) -> Option<&str> {
    pod.annotations().get(labels::UNIT).map(String::as_str)
}

/// Effective requests as kube-scheduler computes them: the larger of containers and init containers, plus overhead.
///
/// # Errors
/// An invalid quantity.
pub fn requests(spec: &PodSpec) -> Result<BTreeMap<String, Exact>, NumberError> {
    requests_with(spec, &Quantities::new())
}

/// Effective requests before admission: containers get `defaults` for resources that they do not set.
///
/// # Errors
/// An invalid quantity.
pub(crate) fn requests_with(spec: &PodSpec, defaults: &Quantities) -> Result<Quantities, NumberError> {
    let of_container = |container: &Container| {
        let mut own = of_container(container)?;
        for (resource, amount) in defaults {
            own.entry(resource.clone()).or_insert(*amount);
        }
        Ok(own)
    };
    let mut total = Quantities::new();
    for container in &spec.containers {
        add(&mut total, &of_container(container)?);
    }
    let (mut sidecars, mut most) = (Quantities::new(), Quantities::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container)?;
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        for (resource, amount) in at_once {
            let entry = most.entry(resource).or_default();
            *entry = amount.max(*entry);
        }
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &own);
        }
    }
    add(&mut total, &sidecars);
    for (resource, amount) in most {
        let entry = total.entry(resource).or_default();
        *entry = amount.max(*entry);
    }
    // Pod-level requests override those of the containers.
    let of_pod = spec.resources.as_ref();
    let of_pod = parse(of_pod.and_then(|r| r.requests.as_ref()), of_pod.and_then(|r| r.limits.as_ref()))?;
    total.extend(of_pod);
    add(&mut total, &parse(spec.overhead.as_ref(), None)?);
    Ok(total)
}

fn of_container(container: &Container) -> Result<Quantities, NumberError> {
    let resources = container.resources.as_ref();
    parse(resources.and_then(|r| r.requests.as_ref()), resources.and_then(|r| r.limits.as_ref()))
}

/// Requests; a missing one defaults to the limit.
fn parse(
    requests: Option<&BTreeMap<String, Quantity>>,
    limits: Option<&BTreeMap<String, Quantity>>,
) -> Result<Quantities, NumberError> {
    let given = limits.into_iter().flatten().chain(requests.into_iter().flatten());
    given.map(|(resource, amount)| Ok((resource.clone(), quantity(&amount.0)?))).collect()
}

pub(crate) fn add(total: &mut Quantities, more: &Quantities) {
    for (resource, amount) in more {
        *total.entry(resource.clone()).or_default() += amount;
    }
}

/// Node resources of a pod with these requests, in a snapshot's amounts; includes the pod itself.
pub(crate) fn resource_amounts(requests: &Quantities) -> BTreeMap<String, u64> {
    let mut asks = BTreeMap::from([("pods".to_owned(), 1)]);
    for (resource, amount) in requests {
        let (name, scale) = resource_unit(resource);
        asks.insert(name, ceil(*amount * scale));
    }
    asks
}

/// Resources of which a pod requests more than its template, for example after admission injected a sidecar.
pub(crate) fn exceeded_resources<'a>(
    pod: &'a Quantities,
    template: &'a Quantities,
) -> impl Iterator<Item = &'a String> {
    let says = move |resource: &String| template.get(resource).copied().unwrap_or_default();
    pod.iter().filter(move |(resource, amount)| **amount > says(resource)).map(|(resource, _)| resource)
}

/// Node resources of an actor: the larger of its template and its existing pod.
pub(crate) fn amounts_with_pod(template: &Quantities, pod: Option<&Quantities>) -> BTreeMap<String, u64> {
    let mut taken = resource_amounts(template);
    let pod = pod.filter(|pod| exceeded_resources(pod, template).next().is_some());
    for (resource, amount) in pod.into_iter().flat_map(resource_amounts) {
        let most = taken.entry(resource).or_default();
        *most = amount.max(*most);
    }
    taken
}

/// Name of a resource in a snapshot, and the factor of its amounts.
pub(crate) fn resource_unit(resource: &str) -> (String, Exact) {
    let mebibytes = Exact::new(1, 1 << 20);
    match resource {
        "cpu" => ("cpuMilli".to_owned(), Exact::from(1000)),
        "memory" => ("memoryMiB".to_owned(), mebibytes),
        "ephemeral-storage" => ("ephemeralStorageMiB".to_owned(), mebibytes),
        huge if huge.starts_with("hugepages-") => (format!("{huge}MiB"), mebibytes),
        other => (other.to_owned(), Exact::from(1)),
    }
}

/// Allocatable resources of a node.
pub(crate) fn allocatable(node: &Node) -> Quantities {
    let amounts = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    // The API server rejects invalid quantities.
    let read = |(name, amount): (&String, &Quantity)| Some((name.clone(), quantity(&amount.0).ok()?));
    amounts.into_iter().flatten().filter_map(read).collect()
}
