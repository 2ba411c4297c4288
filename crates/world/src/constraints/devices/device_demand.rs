//! What pods need of the devices of each node: those of an application, and those of others that have no devices yet.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use k8s_openapi::api::core::v1::{Node, PodSpec};
use kube::ResourceExt as _;

use crate::ApplicationKey;
use crate::constraints::devices::claimable_devices::{ClaimableDevices, Selected};
use crate::constraints::devices::device_requests::{
    MANY, MOST_OF_CLAIM, PodRequest, Selection, device_requests,
};
use crate::constraints::devices::shared_counters::{is_others, own_units};
use crate::constraints::pods::pod_templates::PodRules;
use crate::constraints::volumes::volume_rooms::{Need, Room};
use crate::index::names::Name;
use crate::units::unit::Unit;

/// Devices, and the requests that no others satisfy.
pub(crate) struct ScopeDemand<'a> {
    pub devices: &'a Selected<'a>,
    pub inside: BTreeSet<Vec<Selection>>,
}

impl ScopeDemand<'_> {
    /// Whether a request must get some of the devices.
    pub fn has(&self, request: &PodRequest) -> bool {
        self.inside.contains(&request.selections())
    }

    pub fn reason(&self) -> String {
        let classes: BTreeSet<&str> = self.inside.iter().flatten().map(|it| it.class.as_str()).collect();
        let classes: Vec<&str> = classes.into_iter().collect();
        format!("the node has no devices of DeviceClass {} for another pod", classes.join(", "))
    }
}

/// A unit, and the free devices among which its actor gets one.
type UnitDevices<'a> = (&'a Unit, Rc<BTreeSet<usize>>);

/// Requests for devices.
pub(crate) struct DeviceDemand<'a, 'd> {
    pub of: &'a PodRules<'a>,
    pub devices: &'a ClaimableDevices<'d>,
    /// Requests of the application by template.
    pub own: Vec<Vec<PodRequest>>,
    /// Requests of pods of others by node.
    others: BTreeMap<&'a str, Vec<PodRequest>>,
    /// The nodes of units.
    pub hosts: BTreeMap<&'a str, &'a Node>,
    /// By node.
    pub units: BTreeMap<&'a str, Vec<UnitDevices<'a>>>,
    /// Numbered units that others have decided and whose devices are not allocated yet.
    decided: BTreeSet<&'a str>,
}

impl<'a, 'd> DeviceDemand<'a, 'd> {
    /// The requests of an application and of others, or `None` if there are none.
    pub fn of(of: &'a PodRules<'a>, devices: &'a ClaimableDevices<'d>) -> Option<Self> {
        let requests = |namespace: &str, spec: &PodSpec| device_requests(of.index, namespace, spec);
        let own: Vec<Vec<PodRequest>> =
            of.templates.iter().map(|template| requests(of.namespace, &template.spec)).collect();
        let mut others = BTreeMap::<&str, Vec<PodRequest>>::new();
        for pod in of.existing {
            let found = of.index.pod(pod.namespace, pod.short_name());
            // The devices of a pod that is bound are allocated.
            let is_bound =
                found.is_some_and(|pod| pod.spec.as_ref().is_some_and(|it| it.node_name.is_some()));
            if !is_bound {
                others.entry(pod.node).or_default().extend(requests(pod.namespace, &pod.spec));
            }
        }
        if own.iter().chain(others.values()).all(Vec::is_empty) {
            return None;
        }
        let hosts = of.offer.units.iter().map(|unit| unit.node.as_str());
        let hosts = hosts.filter_map(|name| Some((name, of.index.nodes.get(name)?.as_ref()))).collect();
        let claims = of.index.published.holders.values().flatten();
        let allocated: BTreeSet<&str> = claims.filter_map(|claim| of.index.unit_of_claim(claim)).collect();
        let own_units = own_units(of.index, &ApplicationKey::of(of.application));
        let mut units = BTreeMap::<&str, Vec<UnitDevices>>::new();
        let mut decided = BTreeSet::new();
        let mut numbered = BTreeMap::<(&str, &str), Rc<BTreeSet<usize>>>::new();
        for unit in of.offer.units.iter() {
            let is_named = unit.claim.as_ref().is_none_or(|claim| claim.device.is_some());
            let found = if is_named {
                Rc::new(devices.of_unit(unit))
            } else {
                let known = numbered.entry((&unit.node, &unit.pool));
                Rc::clone(known.or_insert_with(|| Rc::new(devices.of_unit(unit))))
            };
            if !is_named && is_others(of.index, &own_units, &unit.id) && !allocated.contains(unit.id.as_str())
            {
                decided.insert(unit.id.as_str());
            }
            units.entry(&unit.node).or_default().push((unit, found));
        }
        Some(Self { of, devices, own, others, hosts, units, decided })
    }

    /// One of the requests for each set of selections.
    pub fn distinct(&self) -> Vec<&PodRequest> {
        let all = self.own.iter().chain(self.others.values()).flatten().filter(|request| !request.is_admin());
        let by_selections: BTreeMap<_, _> = all.map(|request| (request.selections(), request)).collect();
        by_selections.into_values().collect()
    }

    /// The requests of a template that must get some of these devices on a node.
    pub fn here<'s>(
        &'s self,
        scope: &'s ScopeDemand,
        requests: &'s [PodRequest],
        node: &'s str,
    ) -> impl Iterator<Item = &'s PodRequest> {
        requests.iter().filter(move |it| scope.has(it) && it.applies_on(self.of.index, node))
    }

    /// The devices that others leave of a node, where it cannot use those of other nodes.
    pub fn room(&self, scope: &ScopeDemand, node: &Node) -> Option<Room> {
        let name = node.name_any();
        let total = scope.devices.free.only_of(node).filter(|total| *total < MANY)?;
        let mut room = Room { nodes: vec![name.clone()], total, taken: BTreeSet::new() };
        let others = self.others.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        for request in self.here(scope, others, &name) {
            let count = self.devices.least_on(request, node);
            match &request.shared {
                Some(claim) => room.taken.extend(names(claim, request, count)),
                None => room.total = room.total.saturating_sub(count),
            }
        }
        let units = self.units.get(name.as_str()).into_iter().flatten();
        let is_decided = |(unit, found): &&UnitDevices| {
            self.decided.contains(unit.id.as_str()) && scope.devices.has_all(found)
        };
        let decided = u64::try_from(units.filter(is_decided).count()).unwrap_or(u64::MAX);
        room.total = room.total.saturating_sub(decided);
        Some(room)
    }
}

/// What requests need.
pub(crate) fn need<'r>(requests: impl Iterator<Item = (&'r PodRequest, u64)>) -> Need {
    let mut need = Need::default();
    for (request, count) in requests {
        match &request.shared {
            Some(claim) => need.shared.extend(names(claim, request, count)),
            None => need.each = need.each.saturating_add(count),
        }
    }
    need
}

/// The devices of a claim that several pods may use.
fn names(claim: &Name, request: &PodRequest, count: u64) -> impl Iterator<Item = Name> {
    let (namespace, name) = (claim.0.clone(), format!("{}/{}", claim.1, request.name));
    (0..count.min(MOST_OF_CLAIM)).map(move |device| (namespace.clone(), format!("{name}/{device}")))
}
