//! Devices that kube-scheduler must allocate for a pod: by its claims, or by extended resources that a `DeviceClass` serves.

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec};
use k8s_openapi::api::resource::v1::{DeviceRequest, DeviceSelector, ResourceClaimSpec};
use kube::ResourceExt as _;

use crate::Index;
use crate::demand::pods::requests;
use crate::index::names::Name;
use crate::numbers::{Exact, ceil};

/// Allocation of each device that is selected.
pub(crate) const ALL: &str = "All";
/// More devices than a node has. A device that several claims may share counts as so many.
pub(crate) const MANY: u64 = 1 << 32;

/// What a device must satisfy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selection {
    /// The `DeviceClass`.
    pub class: String,
    /// CEL expressions beside those of the class.
    pub selectors: Vec<String>,
    /// Whether devices that are allocated to other claims will do: access for administration.
    pub is_admin: bool,
}

/// Least number of devices that satisfy a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceNeed {
    pub of: Selection,
    pub count: u64,
}

/// A request of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRequest {
    /// The claim, if other pods may use it, too.
    pub shared: Option<Name>,
    /// The extended resource; it needs devices where a class serves it.
    pub resource: Option<String>,
    /// One of these is enough.
    pub any_of: Vec<DeviceNeed>,
}

impl PodRequest {
    /// Whether it needs devices of a node.
    pub fn applies_on(&self, index: &Index, node: &str) -> bool {
        let is_served = |resource| index.room(node).is_some_and(|room| room.served.contains(resource));
        self.resource.as_ref().is_none_or(is_served)
    }
}

/// All requests of a pod whose devices are not allocated yet.
pub(crate) fn device_requests(index: &Index, namespace: &str, spec: &PodSpec) -> Vec<PodRequest> {
    let mut found = Vec::new();
    for claim in spec.resource_claims.iter().flatten() {
        let shared = claim.resource_claim_name.as_ref().map(|name| (namespace.to_owned(), name.clone()));
        let devices = unallocated(index, namespace, claim).and_then(|spec| spec.devices.as_ref());
        let requests = devices.and_then(|devices| devices.requests.as_ref());
        let requests = requests.into_iter().flatten().map(|request| PodRequest {
            shared: shared.clone(),
            resource: None,
            any_of: any_of(request),
        });
        found.extend(requests.filter(|request| !request.any_of.is_empty()));
    }
    found.extend(of_resources(index, spec));
    found
}

/// The devices that the scheduler must allocate for a claim.
pub(crate) fn unallocated<'a>(
    index: &'a Index,
    namespace: &str,
    claim: &PodResourceClaim,
) -> Option<&'a ResourceClaimSpec> {
    let key = |name: &String| (namespace.to_owned(), name.clone());
    if let Some(name) = &claim.resource_claim_name {
        let claim = index.scheduling.resource_claims.get(&key(name))?;
        let is_allocated = claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
        return (!is_allocated).then_some(&claim.spec);
    }
    let name = claim.resource_claim_template_name.as_ref()?;
    Some(&index.scheduling.resource_claim_templates.get(&key(name))?.spec.spec)
}

fn any_of(request: &DeviceRequest) -> Vec<DeviceNeed> {
    let devices =
        |class: &String, selectors: Option<&Vec<DeviceSelector>>, mode: Option<&str>, count: i64| {
            let texts =
                selectors.into_iter().flatten().filter_map(|it| Some(it.cel.as_ref()?.expression.clone()));
            let count = if mode == Some(ALL) { 1 } else { count };
            DeviceNeed {
                of: Selection { class: class.clone(), selectors: texts.collect(), is_admin: false },
                count: u64::try_from(count).unwrap_or(1).clamp(1, MANY),
            }
        };
    let exactly = request.exactly.iter().map(|it| {
        let mode = it.allocation_mode.as_deref();
        let mut all = devices(&it.device_class_name, it.selectors.as_ref(), mode, it.count.unwrap_or(1));
        all.of.is_admin = it.admin_access == Some(true);
        all
    });
    let alternatives = request.first_available.iter().flatten().map(|it| {
        let mode = it.allocation_mode.as_deref();
        devices(&it.device_class_name, it.selectors.as_ref(), mode, it.count.unwrap_or(1))
    });
    exactly.chain(alternatives).collect()
}

/// Extended resources that a class serves, if nodes do not offer them.
fn of_resources(index: &Index, spec: &PodSpec) -> Vec<PodRequest> {
    if index.scheduling.device_classes.is_empty() {
        return Vec::new();
    }
    // Invalid quantities are reported with the requests.
    let requests = requests(spec).unwrap_or_default().into_iter();
    let request = |(resource, amount): (String, Exact)| {
        let class = index.scheduling.class_serving(&resource)?.name_any();
        let of = Selection { class, selectors: Vec::new(), is_admin: false };
        let any_of = vec![DeviceNeed { of, count: ceil(amount).min(MANY) }];
        Some(PodRequest { shared: None, resource: Some(resource), any_of })
    };
    requests.filter_map(request).collect()
}
