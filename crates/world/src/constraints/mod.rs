//! Placement constraints: from the manifest, nodes, quotas and refusals.

pub(crate) mod admission;
pub(crate) mod devices;
pub(crate) mod left_to_scheduler;
pub(crate) mod nodes;
pub(crate) mod pods;
pub(crate) mod volumes;

use std::collections::BTreeMap;

use crds::{ActorApplication, ActorGroup, SpreadLevel};
use jiff::Timestamp;
use placement::file::{Constraint, Places, Scope};

use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::admission::pool_access::denied_pools;
use crate::constraints::admission::quotas::quotas;
use crate::constraints::devices::claimable_devices::ClaimableDevices;
use crate::constraints::devices::device_rooms::device_constraints;
use crate::constraints::devices::shared_counters::shared_counters;
use crate::constraints::nodes::limited_tolerations::limited_tolerations;
use crate::constraints::nodes::never_scheduled::never_scheduled;
use crate::constraints::nodes::refusals::ActiveRefusals;
use crate::constraints::nodes::selectors::{Objection, objection};
use crate::constraints::pods::existing_pods::{existing_pods, outdated_pods};
use crate::constraints::pods::host_ports::host_port_constraints;
use crate::constraints::pods::pod_affinity::pod_affinity;
use crate::constraints::pods::pod_templates::{PodRules, templates};
use crate::constraints::pods::topology_spread::topology_spread;
use crate::constraints::volumes::disks::disk_constraints;
use crate::constraints::volumes::volume_constraints::volume_constraints;
use crate::demand::actors::ApplicationActors;
use crate::index::load::by_unit::BoundPods;
use crate::units::FreeNode;
use crate::units::offer::Offer;
use crate::units::unit::{CordonReason, Unit};
use crate::{ApplicationKey, Index};

/// All constraints on the actors of `application`.
pub(crate) fn constraints(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    nodes: &[FreeNode],
    offer: &Offer,
    (bound, now): (&BoundPods, Timestamp),
) -> Vec<Constraint> {
    let mut rules = Vec::new();
    for group in &application.spec.actors {
        rules.extend(group_constraints((application, actors), group, nodes));
    }
    let specs = AdmittedSpecs::of(index, application);
    let devices = ClaimableDevices::of(index, application, offer);
    rules.extend(never_scheduled(index, (application, actors), &specs, &devices, offer));
    rules.extend(node_constraints((application, actors), &specs, nodes, offer));
    rules.extend(limited_tolerations(index, (application, actors), &specs, offer));
    rules.extend(cordon_constraints(actors, offer));
    rules.extend(memory_constraints(actors, offer));
    rules.extend(denied_pools(index, &ApplicationKey::of(application).namespace, actors, offer));
    rules.extend(quotas(index, (application, actors), now));
    rules.extend(shared_counters(index, (application, actors), offer));
    rules.extend(between_pods(index, (application, actors), &devices, (offer, bound)));
    rules.extend(ActiveRefusals::of(index, application, now).rules(actors, &specs, offer));
    rules
}

fn group_constraints(
    (application, actors): (&ActorApplication, &ApplicationActors),
    group: &ActorGroup,
    nodes: &[FreeNode],
) -> Vec<Constraint> {
    let own = actors.ids(&group.name);
    let find = |name: &String| application.spec.actors.iter().find(|other| other.name == *name);
    let mut rules = Vec::new();
    if let Some(level) = group.spread
        && own.len() > 1
    {
        let on = match level {
            SpreadLevel::Unit => Scope::Unit,
            SpreadLevel::Numa => Scope::Numa,
            SpreadLevel::Node => Scope::Node,
            SpreadLevel::Zone => Scope::Zone,
        };
        let reason = Some(format!("{} spreads over each {level}", group.name));
        rules.push(Constraint::Apart { on, actors: own.clone(), reason });
    }
    for other in group.with.iter().filter_map(find) {
        let mut both = own.clone();
        both.extend(actors.ids(&other.name));
        both.sort_unstable();
        both.dedup();
        let reason = Some(format!("{} runs with {}", group.name, other.name));
        rules.push(Constraint::Together { on: Scope::Node, actors: both, reason });
    }
    for other in group.avoid.iter().filter_map(find) {
        let reason = Some(format!("{} avoids {}", group.name, other.name));
        for a in &own {
            for b in actors.ids(&other.name) {
                rules.push(Constraint::Apart {
                    on: Scope::Node,
                    actors: vec![a.clone(), b],
                    reason: reason.clone(),
                });
            }
        }
    }
    if let Some(pin) = &group.pin_to
        && !own.is_empty()
    {
        let known = nodes.iter().any(|node| node.name == pin.node);
        let absent = if known { "" } else { ", which does not exist" };
        let nodes = if known { vec![pin.node.clone()] } else { Vec::new() };
        let reason = Some(format!("pinTo node {}{absent}", pin.node));
        rules.push(Constraint::Only { actors: own, places: Places::Nodes(nodes), reason });
    }
    rules
}

/// The scheduler's rules between pods, and between pods and volumes or devices.
fn between_pods(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    devices: &ClaimableDevices,
    (offer, bound): (&Offer, &BoundPods),
) -> Vec<Constraint> {
    let namespace = ApplicationKey::of(application).namespace;
    let templates = templates(index, application, actors);
    let existing = existing_pods(index, (application, actors), &templates);
    let outdated = outdated_pods(index, application, &templates);
    let (namespace, templates) = (namespace.as_str(), &templates[..]);
    let (existing, outdated) = (&existing[..], &outdated);
    let of = PodRules { index, application, namespace, templates, existing, bound, outdated, offer };
    let mut rules = pod_affinity(&of);
    rules.extend(topology_spread(&of));
    rules.extend(host_port_constraints(&of));
    rules.extend(disk_constraints(&of));
    rules.extend(volume_constraints(&of));
    rules.extend(device_constraints(&of, devices));
    rules
}

/// Node selectors, affinity and taints: one constraint for each reason and set of units.
fn node_constraints(
    (application, actors): (&ActorApplication, &ApplicationActors),
    specs: &AdmittedSpecs,
    nodes: &[FreeNode],
    offer: &Offer,
) -> Vec<Constraint> {
    let by_name: BTreeMap<&str, &FreeNode> = nodes.iter().map(|node| (node.name, node)).collect();
    let mut kept_out: BTreeMap<(Objection, Vec<String>), Vec<String>> = BTreeMap::new();
    for group in &application.spec.actors {
        let mut units: BTreeMap<Objection, Vec<String>> = BTreeMap::new();
        for unit in offer.units.iter() {
            let (Some(spec), Some(node)) = (specs.spec(&group.name, unit), by_name.get(unit.node.as_str()))
            else {
                continue;
            };
            if let Some(objection) = objection(&spec, node.node) {
                units.entry(objection).or_default().push(unit.id.clone());
            }
        }
        for (objection, units) in units {
            kept_out.entry((objection, units)).or_default().extend(actors.ids(&group.name));
        }
    }
    let rule = |((objection, units), actors): ((Objection, Vec<String>), Vec<String>)| Constraint::Never {
        actors,
        places: Places::Units(units),
        except_current: objection.except_current,
        reason: Some(objection.reason),
    };
    kept_out.into_iter().filter(|(_, actors)| !actors.is_empty()).map(rule).collect()
}

/// Cordoned units: one constraint for each reason.
fn cordon_constraints(actors: &ApplicationActors, offer: &Offer) -> Vec<Constraint> {
    let all: Vec<String> = actors.names.iter().map(ToString::to_string).collect();
    let mut units: BTreeMap<CordonReason, Vec<String>> = BTreeMap::new();
    for (why, unit) in offer.units.iter().filter_map(|unit| Some((unit.cordoned?, unit))) {
        units.entry(why).or_default().push(unit.id.clone());
    }
    let rule = |(why, units): (CordonReason, Vec<String>)| Constraint::Never {
        actors: all.clone(),
        places: Places::Units(units),
        except_current: true,
        reason: Some(why.to_string()),
    };
    units.into_iter().filter(|_| !all.is_empty()).map(rule).collect()
}

/// Memory requirements: one constraint for each size.
fn memory_constraints(actors: &ApplicationActors, offer: &Offer) -> Vec<Constraint> {
    let mut needs: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for name in &actors.names {
        let memory = actors.needs.get(&name.short()).and_then(|needs| needs.memory_mib);
        if let Some(memory) = memory {
            needs.entry(memory).or_default().push(name.to_string());
        }
    }
    let rule = |(memory, actors): (u64, Vec<String>)| {
        let small = |unit: &&Unit| unit.memory_mib.is_none_or(|has| has < memory);
        let units: Vec<String> = offer.units.iter().filter(small).map(|unit| unit.id.clone()).collect();
        let reason = Some(format!("is not known to have {memory} MiB of memory"));
        let except_current = false;
        (!units.is_empty()).then_some(Constraint::Never {
            actors,
            places: Places::Units(units),
            except_current,
            reason,
        })
    };
    needs.into_iter().filter_map(rule).collect()
}
