//! What pods ask for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::numbers::{Exact, NumberError, quantity};

/// Amounts by resource, in the resource's own unit (cores, bytes, pieces).
pub(crate) type Amounts = BTreeMap<String, Exact>;

/// Whether the pod has ended and holds nothing any more.
pub fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What kube-scheduler counts a pod for: its containers, or its init containers where they need more, and overhead.
///
/// # Errors
/// A quantity that cannot be read.
pub fn requests(spec: &PodSpec) -> Result<BTreeMap<String, Exact>, NumberError> {
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &of_container(container)?);
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
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

fn of_container(container: &Container) -> Result<Amounts, NumberError> {
    let resources = container.resources.as_ref();
    parse(resources.and_then(|r| r.requests.as_ref()), resources.and_then(|r| r.limits.as_ref()))
}

/// Requests; where there is only a limit, the API server takes it for the request.
fn parse(
    requests: Option<&BTreeMap<String, Quantity>>,
    limits: Option<&BTreeMap<String, Quantity>>,
) -> Result<Amounts, NumberError> {
    let given = limits.into_iter().flatten().chain(requests.into_iter().flatten());
    given.map(|(resource, amount)| Ok((resource.clone(), quantity(&amount.0)?))).collect()
}

pub(crate) fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *total.entry(resource.clone()).or_default() += amount;
    }
}
