//! Devices that kube-scheduler must allocate for a pod: by its claims, or by extended resources that a `DeviceClass` serves.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec};
use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceRequest, DeviceSelector, DeviceTaint, DeviceToleration, ResourceClaimSpec,
};
use kube::ResourceExt as _;

use crate::Index;
use crate::demand::pods::requests;
use crate::index::names::Name;
use crate::numbers::{Exact, ceil};

/// Allocation of each device that is selected.
pub(crate) const ALL: &str = "All";
/// More devices than a node has. A device that several claims may share counts as so many.
pub(crate) const MANY: u64 = 1 << 32;
/// The most devices that are allocated to one claim: `AllocationResultsMaxSize` of `resource.k8s.io`.
pub(crate) const MOST_OF_CLAIM: u64 = 32;

/// What a device must satisfy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selection {
    /// The `DeviceClass`.
    pub class: String,
    /// CEL expressions beside those of the class.
    pub selectors: Vec<String>,
    /// Whether devices that are allocated to other claims will do: access for administration.
    pub is_admin: bool,
    /// Least quantities, by the name that a device gives its capacity.
    pub capacity: BTreeMap<String, String>,
    /// The taints of devices that are accepted.
    pub tolerations: Vec<Toleration>,
}

/// A toleration of taints of devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: String,
    effect: Option<String>,
}

impl Toleration {
    fn of(given: &DeviceToleration) -> Self {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            key: set(&given.key),
            operator: set(&given.operator),
            value: given.value.clone().unwrap_or_default(),
            effect: set(&given.effect),
        }
    }

    /// `ToleratesTaint` of `k8s.io/dynamic-resource-allocation/resourceclaim`.
    fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let is_met = match self.operator.as_deref() {
            None | Some("Equal") => self.value == taint.value.as_deref().unwrap_or_default(),
            Some(operator) => operator == "Exists",
        };
        is_met
            && self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
    }
}

impl Selection {
    /// Whether a device with this taint may be allocated. Unknown effects prevent nothing, as for kube-scheduler.
    pub fn accepts(&self, taint: &DeviceTaint) -> bool {
        !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            || self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }
}

/// Least number of devices that satisfy a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceNeed {
    pub of: Selection,
    pub count: u64,
    /// Whether it needs each device of the node that is selected; `count` is then 1.
    pub is_all: bool,
}

/// A request of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRequest {
    /// The name of the claim in the pod. Extended resources have one claim in common, without a name.
    pub claim: String,
    /// Its name in the claim.
    pub name: String,
    /// The claim, if other pods may use it, too.
    pub shared: Option<Name>,
    /// The extended resource; it needs devices where a class serves it.
    pub resource: Option<String>,
    /// One of these is enough.
    pub any_of: Vec<DeviceNeed>,
}

impl PodRequest {
    /// The devices that it may get.
    pub fn selections(&self) -> Vec<Selection> {
        self.any_of.iter().map(|need| need.of.clone()).collect()
    }

    /// The least number of devices that it gets on any node.
    pub fn least(&self) -> u64 {
        self.any_of.iter().map(|need| need.count).min().unwrap_or(0)
    }

    /// Whether it takes no devices away.
    pub fn is_admin(&self) -> bool {
        self.any_of.iter().all(|need| need.of.is_admin)
    }

    /// Whether it needs devices of a node.
    pub fn applies_on(&self, index: &Index, node: &str) -> bool {
        let is_served = |resource| index.room(node).is_some_and(|room| room.served.contains(resource));
        self.resource.as_ref().is_none_or(is_served)
    }
}

/// All requests of a pod whose devices are not allocated yet.
pub(crate) fn device_requests(index: &Index, namespace: &str, spec: &PodSpec) -> Vec<PodRequest> {
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    // A claim that a pod lists twice is allocated once.
    let is_first = |claim: &&PodResourceClaim| {
        claim.resource_claim_name.as_ref().is_none_or(|name| named.insert(name.clone()))
    };
    for claim in spec.resource_claims.iter().flatten().filter(is_first) {
        let shared = claim.resource_claim_name.as_ref().map(|name| (namespace.to_owned(), name.clone()));
        let devices = unallocated(index, namespace, claim).and_then(|spec| spec.devices.as_ref());
        let requests = devices.and_then(|devices| devices.requests.as_ref());
        let requests = requests.into_iter().flatten().map(|request| PodRequest {
            claim: claim.name.clone(),
            name: request.name.clone(),
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
    let exactly = request.exactly.iter().map(|it| {
        let of = selection(&it.device_class_name, it.selectors.as_ref(), it.capacity.as_ref());
        let of = of.tolerating(it.tolerations.as_ref());
        let of = Selection { is_admin: it.admin_access == Some(true), ..of };
        need(of, it.allocation_mode.as_deref(), it.count)
    });
    let alternatives = request.first_available.iter().flatten().map(|it| {
        let of = selection(&it.device_class_name, it.selectors.as_ref(), it.capacity.as_ref());
        need(of.tolerating(it.tolerations.as_ref()), it.allocation_mode.as_deref(), it.count)
    });
    exactly.chain(alternatives).collect()
}

fn selection(
    class: &str,
    selectors: Option<&Vec<DeviceSelector>>,
    capacity: Option<&CapacityRequirements>,
) -> Selection {
    let texts = selectors.into_iter().flatten().filter_map(|it| Some(it.cel.as_ref()?.expression.clone()));
    let capacity = capacity.and_then(|capacity| capacity.requests.as_ref()).into_iter().flatten();
    Selection {
        class: class.to_owned(),
        selectors: texts.collect(),
        capacity: capacity.map(|(name, amount)| (name.clone(), amount.0.clone())).collect(),
        ..Selection::default()
    }
}

impl Selection {
    fn tolerating(self, tolerations: Option<&Vec<DeviceToleration>>) -> Self {
        Self { tolerations: tolerations.into_iter().flatten().map(Toleration::of).collect(), ..self }
    }
}

fn need(of: Selection, mode: Option<&str>, count: Option<i64>) -> DeviceNeed {
    let is_all = mode == Some(ALL);
    let count = if is_all { 1 } else { count.unwrap_or(1) };
    DeviceNeed { of, count: u64::try_from(count).unwrap_or(1).clamp(1, MANY), is_all }
}

/// Whether a pod has claims, or an extended resource that a class may serve.
pub(crate) fn may_need_devices(index: &Index, spec: &PodSpec) -> bool {
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = || containers().filter_map(|it| it.resources.as_ref()?.limits.as_ref()).flatten();
    let is_served = |name: &String| name.contains('/') && index.scheduling.class_serving(name).is_some();
    spec.resource_claims.is_some()
        || !index.scheduling.device_classes.is_empty() && resources().any(|(name, _)| is_served(name))
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
        let of = Selection { class, ..Selection::default() };
        let count = ceil(amount).min(MANY);
        let any_of = vec![DeviceNeed { of, count, is_all: false }];
        let name = resource.clone();
        let request =
            PodRequest { claim: String::new(), name, shared: None, resource: Some(resource), any_of };
        (count > 0).then_some(request)
    };
    requests.filter_map(request).collect()
}
