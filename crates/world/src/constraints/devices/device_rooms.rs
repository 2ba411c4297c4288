//! Devices that actors of an application compete for, or share by a claim.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use placement::file::{Constraint, Domain};

use crate::constraints::devices::claimable_devices::ClaimableDevices;
use crate::constraints::devices::device_requests::{DeviceNeed, PodRequest, Selection, device_requests};
use crate::constraints::pods::pod_templates::PodRules;
use crate::constraints::volumes::static_volumes::{overlapping, share_one_domain};
use crate::constraints::volumes::volume_rooms::{Need, Room, limit_rooms};
use crate::index::names::Name;

/// Requests are counted together if they select the same devices, by claims or by the same extended resource.
type Counted<'a> = (&'a Selection, Option<&'a String>);

/// Constraints on actors that need devices of the same nodes.
pub(crate) fn device_constraints(of: &PodRules, devices: &ClaimableDevices) -> Vec<Constraint> {
    let requests = |spec| device_requests(of.index, of.namespace, spec);
    let own: Vec<Vec<PodRequest>> = of.templates.iter().map(|template| requests(&template.spec)).collect();
    if !devices.are_known() || own.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let hosts: BTreeSet<&str> = of.offer.units.iter().map(|unit| unit.node.as_str()).collect();
    let hosts: BTreeMap<&str, &Node> =
        hosts.into_iter().filter_map(|name| Some((name, of.index.nodes.get(name)?.as_ref()))).collect();
    let mut rules = counted(of, devices, &own, &hosts);
    rules.extend(shared_claims(of, devices, &own, &hosts));
    rules
}

/// Limits the actors of each node by its devices, where it cannot use those of other nodes.
fn counted(
    of: &PodRules,
    devices: &ClaimableDevices,
    own: &[Vec<PodRequest>],
    hosts: &BTreeMap<&str, &Node>,
) -> Vec<Constraint> {
    // One of the requests, and what each template needs.
    let mut needs: BTreeMap<Counted, (&PodRequest, Vec<Need>)> = BTreeMap::new();
    for (position, request) in own.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |it| (at, it)))
    {
        let [only] = request.any_of.as_slice() else { continue };
        let none = || (request, vec![Need::default(); own.len()]);
        let (_, needs) = needs.entry((&only.of, request.resource.as_ref())).or_insert_with(none);
        match &request.shared {
            Some(claim) => drop(needs[position].shared.insert(claim.clone())),
            None => needs[position].each += only.count,
        }
    }
    let mut rules = Vec::new();
    for ((selection, _), (request, needs)) in needs {
        let selected = devices.selected(selection);
        // Nodes with fewer devices than a pod needs are excluded already.
        let least = needs.iter().map(Need::claims).filter(|claims| *claims > 0).min().unwrap_or(0);
        let room = |(name, node): (&&str, &&Node)| {
            let total = selected.only_of(node).filter(|total| *total >= least)?;
            let nodes = vec![(*name).to_owned()];
            request.applies_on(of.index, name).then(|| Room { nodes, total, ..Room::default() })
        };
        let rooms: Vec<Room> = hosts.iter().filter_map(room).collect();
        let reason = format!("the node has no devices of DeviceClass {} for another pod", selection.class);
        rules.extend(limit_rooms(of, &needs, &rooms, &reason));
    }
    rules
}

/// The first pod of a claim gets its devices, so all its actors are placed where these can be used.
fn shared_claims(
    of: &PodRules,
    devices: &ClaimableDevices,
    own: &[Vec<PodRequest>],
    hosts: &BTreeMap<&str, &Node>,
) -> Vec<Constraint> {
    let mut users: BTreeMap<(&Name, &[DeviceNeed]), BTreeSet<String>> = BTreeMap::new();
    for (template, requests) in of.templates.iter().zip(own) {
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
        let nodes = any_of.iter().flat_map(|it| devices.selected(&it.of).nodes(hosts));
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
