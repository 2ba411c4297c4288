//! Resource requests of pods.

use std::collections::BTreeMap;

use crds::labels;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Node, Pod, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::numbers::{Exact, NumberError, ceil, quantity};

/// Amounts by resource, in the resource's own unit (cores, bytes, pieces).
pub(crate) type Quantities = BTreeMap<String, Exact>;

/// Amounts by resource, as written.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Whether the pod succeeded or failed, so that it holds nothing.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a terminating pod should have ended: neither quotas nor Cairn wait for it (`QuotaV1Pod` of Kubernetes).
pub(crate) fn is_past_grace(pod: &Pod, now: Timestamp) -> bool {
    let end = || {
        let seconds = pod.metadata.deletion_grace_period_seconds?;
        let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
        deleted.checked_add(SignedDuration::from_secs(seconds)).ok()
    };
    end().is_some_and(|end| now > end)
}

/// The node where kube-scheduler counts a pod: its own, or the one that it is nominated for after it preempted others there.
///
/// A nominated pod keeps its room only from pods with at most its priority. Templates have priority 0 unless they name a class.
pub(crate) fn scheduled_node(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    let nominated = || {
        let node = pod.status.as_ref()?.nominated_node_name.as_deref()?;
        (spec.priority.unwrap_or(0) >= 0 && !node.is_empty()).then_some(node)
    };
    spec.node_name.as_deref().or_else(nominated)
}

/// Unit in the pod's annotation; trust it only for an application's own pods.
pub fn unit_of(pod: &Pod) -> Option<&str> {
    pod.annotations().get(labels::UNIT).map(String::as_str)
}

/// Requests of a pod with this spec, as kube-scheduler counts them before the pod runs.
///
/// # Errors
/// An invalid quantity.
pub fn requests(spec: &PodSpec) -> Result<BTreeMap<String, Exact>, NumberError> {
    total(spec, None)
}

/// Requests of a pod as kube-scheduler counts them: during a resize, the largest of what it wants, holds and uses.
///
/// # Errors
/// An invalid quantity.
pub fn pod_requests(pod: &Pod) -> Result<BTreeMap<String, Exact>, NumberError> {
    pod.spec.as_ref().map_or_else(|| Ok(Quantities::new()), |spec| total(spec, pod.status.as_ref()))
}

/// `PodRequests` of `k8s.io/component-helpers/resource`.
fn total(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Quantities, NumberError> {
    let is_infeasible = status.is_some_and(is_resize_infeasible);
    let effective = |asked: Quantities, used: &ResourceRequirements, allocated: Option<&Amounts>| {
        let mut most = if is_infeasible { Quantities::new() } else { asked };
        add_largest(&mut most, parse(used.requests.as_ref(), None)?);
        add_largest(&mut most, parse(allocated, None)?);
        Ok(most)
    };
    let mut total = aggregate(spec, |container, is_resizable| {
        let asked = requested(container)?;
        let status = status.filter(|_| is_resizable).and_then(|status| status_of(status, &container.name));
        match status.and_then(|status| Some((status, status.resources.as_ref()?))) {
            Some((status, used)) => effective(asked, used, status.allocated_resources.as_ref()),
            None => Ok(asked),
        }
    })?;
    let mut of_pod = pod_level_requests(spec)?;
    if let Some((status, used)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) {
        let effective = effective(of_pod.clone(), used, status.allocated_resources.as_ref())?;
        for (resource, amount) in &mut of_pod {
            *amount = effective.get(resource).copied().unwrap_or_default();
        }
    }
    total.extend(of_pod);
    add(&mut total, &parse(spec.overhead.as_ref(), None)?);
    Ok(total)
}

/// Sum over the containers. Sidecars run all the time, other init containers one after another before the containers.
///
/// `of` also learns whether a running container can be resized.
fn aggregate(
    spec: &PodSpec,
    of: impl Fn(&Container, bool) -> Result<Quantities, NumberError>,
) -> Result<Quantities, NumberError> {
    let mut total = Quantities::new();
    for container in &spec.containers {
        add(&mut total, &of(container, true)?);
    }
    let (mut sidecars, mut most) = (Quantities::new(), Quantities::new());
    for container in spec.init_containers.iter().flatten() {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let own = of(container, is_sidecar)?;
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if is_sidecar {
            add(&mut total, &own);
            sidecars.clone_from(&at_once);
        }
        add_largest(&mut most, at_once);
    }
    add_largest(&mut total, most);
    Ok(total)
}

/// Requests of the pod as a whole, which replace those of its containers, with the API server's defaults.
pub(crate) fn pod_level_requests(spec: &PodSpec) -> Result<Quantities, NumberError> {
    let Some(resources) = &spec.resources else { return Ok(Quantities::new()) };
    let mut requests = parse(resources.requests.as_ref(), None)?;
    let mut limits = parse(resources.limits.as_ref(), None)?;
    if !requests.is_empty() || !limits.is_empty() {
        let of_containers = aggregate(spec, |container, _| {
            parse(container.resources.as_ref().and_then(|it| it.limits.as_ref()), None)
        })?;
        for (resource, amount) in of_containers {
            if is_huge_page(&resource) && !requests.contains_key(&resource) {
                limits.entry(resource).or_insert(amount);
            }
        }
    }
    if !limits.is_empty() {
        let of_containers = aggregate(spec, |container, _| requested(container))?;
        let may_be_exceeded = |resource: &str| matches!(resource, "cpu" | "memory");
        for (resource, amount) in
            of_containers.into_iter().filter(|(it, _)| may_be_exceeded(it)).chain(limits)
        {
            requests.entry(resource).or_insert(amount);
        }
    }
    requests.retain(|resource, _| is_pod_level_resource(resource));
    Ok(requests)
}

/// `IsPodLevelResourcesSet`: whether the pod as a whole requests or limits CPU, memory or huge pages.
pub(crate) fn is_pod_level(resources: &ResourceRequirements) -> bool {
    let all = [&resources.requests, &resources.limits];
    let mut names = all.into_iter().flatten().flat_map(BTreeMap::keys);
    names.any(|name| is_pod_level_resource(name))
}

/// Whether a pod as a whole can request this resource.
pub(crate) fn is_pod_level_resource(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_huge_page(resource)
}

/// Requests or limits of all containers, as `AggregateContainerRequests` counts them.
///
/// # Errors
/// An invalid quantity.
pub(crate) fn container_totals(
    spec: &PodSpec,
    of: impl Fn(&ResourceRequirements) -> Option<&Amounts>,
) -> Result<Quantities, NumberError> {
    aggregate(spec, |container, _| parse(container.resources.as_ref().and_then(&of), None))
}

/// Requests or limits of a pod as `LimitRange`s count them: those of the pod as a whole replace those of its containers.
///
/// # Errors
/// An invalid quantity.
pub(crate) fn pod_totals(
    spec: &PodSpec,
    of: impl Fn(&ResourceRequirements) -> Option<&Amounts>,
) -> Result<Quantities, NumberError> {
    let mut total = container_totals(spec, &of)?;
    let of_pod = parse(spec.resources.as_ref().and_then(&of), None)?;
    total.extend(of_pod.into_iter().filter(|(resource, _)| matches!(resource.as_str(), "cpu" | "memory")));
    Ok(total)
}

pub(crate) fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Whether the kubelet found that the node can never fit the new size.
fn is_resize_infeasible(status: &PodStatus) -> bool {
    let pending = status.conditions.iter().flatten().find(|it| it.type_ == "PodResizePending");
    pending.is_some_and(|it| it.reason.as_deref() == Some("Infeasible"))
}

fn status_of<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.find(|it| it.name == container)
}

fn requested(container: &Container) -> Result<Quantities, NumberError> {
    let resources = container.resources.as_ref();
    parse(resources.and_then(|r| r.requests.as_ref()), resources.and_then(|r| r.limits.as_ref()))
}

/// Requests; a missing one defaults to the limit. The API server rounds up to thousandths.
pub(crate) fn parse(requests: Option<&Amounts>, limits: Option<&Amounts>) -> Result<Quantities, NumberError> {
    let given = limits.into_iter().flatten().chain(requests.into_iter().flatten());
    let milli = Exact::from(1000);
    let rounded = |amount: Exact| if amount.is_integer() { amount } else { (amount * milli).ceil() / milli };
    given.map(|(resource, amount)| Ok((resource.clone(), rounded(quantity(&amount.0)?)))).collect()
}

/// Raises each amount to the larger one.
pub(crate) fn add_largest(total: &mut Quantities, to: Quantities) {
    for (resource, amount) in to {
        let most = total.entry(resource).or_default();
        *most = amount.max(*most);
    }
}

/// Whether amounts differ, however they are written; nothing is no amounts.
pub(crate) fn amounts_differ(one: Option<&Amounts>, other: Option<&Amounts>) -> bool {
    parse(one, None) != parse(other, None)
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

/// End of the names of resources in bytes.
pub(crate) const BYTES: &str = "Bytes";
/// Bytes in a MiB.
pub(crate) const MEBIBYTE: u64 = 1 << 20;

/// An amount of a resource, in MiB if its name says that it is in bytes.
pub(crate) fn in_mebibytes(resource: &str, amount: u64) -> u64 {
    if resource.ends_with(BYTES) { mebibytes_above(amount) } else { amount }
}

/// Bytes in MiB, rounded up.
pub(crate) fn mebibytes_above(bytes: u64) -> u64 {
    bytes.div_ceil(MEBIBYTE)
}

/// Name of a resource in plans, and the factor of its amounts. Snapshots count bytes in MiB where that is exact.
pub(crate) fn resource_unit(resource: &str) -> (String, Exact) {
    let one = Exact::from(1);
    match resource {
        "cpu" => ("cpuMilli".to_owned(), Exact::from(1000)),
        "memory" => ("memoryBytes".to_owned(), one),
        "ephemeral-storage" => ("ephemeralStorageBytes".to_owned(), one),
        huge if is_huge_page(huge) => (format!("{huge}Bytes"), one),
        other => (other.to_owned(), one),
    }
}

/// Allocatable resources of a node; its capacity if a file lacks them, as the API server fills in.
pub(crate) fn allocatable(node: &Node) -> Quantities {
    let status = node.status.as_ref();
    let amounts = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    // The API server rejects invalid quantities.
    let read = |(name, amount): (&String, &Quantity)| Some((name.clone(), quantity(&amount.0).ok()?));
    amounts.into_iter().flatten().filter_map(read).collect()
}
