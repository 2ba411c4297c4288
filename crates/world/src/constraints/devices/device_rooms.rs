//! Devices that actors of an application compete for, or share by a claim.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use placement::file::{Constraint, Domain};

use crate::constraints::devices::claimable_devices::ClaimableDevices;
use crate::constraints::devices::device_demand::{DeviceDemand, ScopeDemand, need};
use crate::constraints::devices::device_quotas::unit_limits;
use crate::constraints::devices::device_requests::{DeviceNeed, PodRequest};
use crate::constraints::pods::pod_templates::PodRules;
use crate::constraints::volumes::static_volumes::{overlapping, share_one_domain};
use crate::constraints::volumes::volume_rooms::{Need, Room, limit_rooms};
use crate::index::names::Name;

/// Constraints on actors that need devices of the same nodes.
pub(crate) fn device_constraints(of: &PodRules, devices: &ClaimableDevices) -> Vec<Constraint> {
    let demand = if devices.are_known() { DeviceDemand::of(of, devices) } else { None };
    let Some(demand) = demand else { return Vec::new() };
    let distinct = demand.distinct();
    let mut rules = Vec::new();
    for scope in devices.scopes(&distinct).iter() {
        let inside = scope.requests.iter().map(|at| distinct[*at].selections()).collect();
        let of_scope = ScopeDemand { devices: &scope.devices, inside };
        rules.extend(limits(&demand, &of_scope));
        rules.extend(unit_limits(&demand, &of_scope));
    }
    rules.extend(shared_claims(&demand));
    rules
}

/// Limits the actors of each node by its devices.
fn limits(demand: &DeviceDemand, scope: &ScopeDemand) -> Vec<Constraint> {
    let index = demand.of.index;
    let requests = demand.own.iter().flatten().filter(|request| scope.has(request));
    let resources: BTreeSet<&String> = requests.filter_map(|it| it.resource.as_ref()).collect();
    // Requests of extended resources count only where a class serves them.
    let mut alike: BTreeMap<Vec<bool>, Vec<(&Node, Room)>> = BTreeMap::new();
    for (name, node) in &demand.hosts {
        let is_served = |it: &&String| index.room(name).is_some_and(|room| room.served.contains(*it));
        if let Some(room) = demand.room(scope, node) {
            alike.entry(resources.iter().map(is_served).collect()).or_default().push((*node, room));
        }
    }
    let mut rules = Vec::new();
    for mut rooms in alike.into_values() {
        let name = rooms[0].0.name_any();
        let of_template = |all: &Vec<PodRequest>| {
            need(demand.here(scope, all, &name).map(|request| (request, request.least())))
        };
        let needs: Vec<Need> = demand.own.iter().map(of_template).collect();
        let least = needs.iter().map(Need::claims).filter(|claims| *claims > 0).min();
        let Some(least) = least else { continue };
        // Nodes with fewer devices than a pod needs are excluded already.
        rooms.retain(|(node, _)| scope.devices.free.on(node) >= least);
        let rooms: Vec<Room> = rooms.into_iter().map(|(_, room)| room).collect();
        rules.extend(limit_rooms(demand.of, &needs, &rooms, &scope.reason()));
    }
    rules
}

/// The first pod of a claim gets its devices, so all its actors are placed where these can be used.
fn shared_claims(demand: &DeviceDemand) -> Vec<Constraint> {
    let (of, devices) = (demand.of, demand.devices);
    let mut users: BTreeMap<(&Name, &[DeviceNeed]), BTreeSet<String>> = BTreeMap::new();
    for (template, requests) in of.templates.iter().zip(&demand.own) {
        for request in requests {
            if let Some(claim) = &request.shared {
                let actors = users.entry((claim, request.any_of.as_slice())).or_default();
                actors.extend(template.ids.iter().cloned());
            }
        }
    }
    let mut rules = Vec::new();
    for ((claim, any_of), actors) in users {
        let uses_claim = |node: &str| {
            let there = of.existing.iter().filter(|pod| pod.node == node && pod.namespace == claim.0);
            let claims = there.flat_map(|pod| pod.spec.resource_claims.iter().flatten());
            claims.filter(|it| it.resource_claim_name.as_ref() == Some(&claim.1)).map(|_| 1).sum::<u64>()
        };
        let nodes = any_of.iter().flat_map(|it| devices.selected(&it.of).free.nodes(&demand.hosts));
        let domain = |nodes: &BTreeSet<&str>| Domain {
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            others: nodes.iter().map(|node| uses_claim(node)).sum(),
        };
        let domains: Vec<Domain> = overlapping(nodes).iter().map(domain).collect();
        let reason = format!("the devices of ResourceClaim {} are usable only on some nodes", claim.1);
        let rule = share_one_domain(actors, domains, reason);
        // Requests of one claim often select devices of the same nodes.
        rules.extend(rule.filter(|rule| !rules.contains(rule)));
    }
    rules
}
