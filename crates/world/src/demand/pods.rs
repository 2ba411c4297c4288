//! What pods ask for.

use std::collections::BTreeMap;

use crds::labels;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::numbers::{Exact, NumberError, ceil, quantity};

/// Amounts by resource, in the resource's own unit (cores, bytes, pieces).
pub(crate) type Quantities = BTreeMap<String, Exact>;

/// Whether the pod has ended and holds nothing any more.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The unit that a pod was made for, as its annotation claims: to be believed of an application's own pods alone.
pub fn unit_of(pod: &Pod) -> Option<&str> {
    pod.annotations().get(labels::UNIT).map(String::as_str)
}

/// What kube-scheduler counts a pod for: its containers, or its init containers where they need more, and overhead.
///
/// # Errors
/// A quantity that cannot be read.
pub fn requests(spec: &PodSpec) -> Result<BTreeMap<String, Exact>, NumberError> {
    requests_with(spec, &Quantities::new())
}

/// The same of a pod that admission has not seen yet: a container gets `defaults` of what it says nothing of.
///
/// # Errors
/// A quantity that cannot be read.
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
    // Requests of the pod as a whole stand for those of its containers.
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

/// Requests; where there is only a limit, the API server takes it for the request.
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

/// What a pod with these requests takes of its node, itself included, in a snapshot's amounts.
pub(crate) fn asks(requests: &Quantities) -> BTreeMap<String, u64> {
    let mut asks = BTreeMap::from([("pods".to_owned(), 1)]);
    for (resource, amount) in requests {
        let (name, scale) = resource_unit(resource);
        asks.insert(name, ceil(*amount * scale));
    }
    asks
}

/// The resources of which a pod asks for more than its template says, as where admission puts a container beside the actor's.
pub(crate) fn more_than<'a>(
    pod: &'a Quantities,
    template: &'a Quantities,
) -> impl Iterator<Item = &'a String> {
    let says = move |resource: &String| template.get(resource).copied().unwrap_or_default();
    pod.iter().filter(move |(resource, amount)| **amount > says(resource)).map(|(resource, _)| resource)
}

/// What an actor's pod takes of its node: what its template says, and of everything as much as the pod asks for where one is there.
pub(crate) fn asks_there(template: &Quantities, pod: Option<&Quantities>) -> BTreeMap<String, u64> {
    let mut taken = asks(template);
    let pod = pod.filter(|pod| more_than(pod, template).next().is_some());
    for (resource, amount) in pod.into_iter().flat_map(asks) {
        let most = taken.entry(resource).or_default();
        *most = amount.max(*most);
    }
    taken
}

/// A resource's name in a snapshot, and what its amounts are multiplied by there.
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

/// What a node has to give.
pub(crate) fn allocatable(node: &Node) -> Quantities {
    let amounts = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    // The API server refuses quantities that cannot be read.
    let read = |(name, amount): (&String, &Quantity)| Some((name.clone(), quantity(&amount.0).ok()?));
    amounts.into_iter().flatten().filter_map(read).collect()
}
