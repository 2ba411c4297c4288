//! Refusals as placement constraints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::RefusalKey;
use crds::{ActorApplication, RefusalScope};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::ResourceExt;
use placement::file::{Constraint, Places};
use serde_json::{Value, json};

use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::nodes::selectors::{labels_match, selects};
use crate::constraints::volumes::volume_claims::{allows, claimed_by, claims_of};
use crate::demand::actors::{ApplicationActors, actors_of_instance};
use crate::demand::pods::{is_terminal, unit_of};
use crate::digest::digest;
use crate::index::names::namespace_of;
use crate::snapshot::model::{owned_objects, refusal_key};
use crate::units::offer::Offer;
use crate::units::unit::Unit;
use crate::{ActorName, ApplicationKey, Index};

/// Parts of messages that are about the pods on the node.
const ABOUT_PODS: [&str; 7] = [
    "Insufficient ",
    "Too many pods",
    "free ports",
    "max volume count",
    "available disk",
    "OutOf",
    "UnexpectedAdmissionError",
];
/// Parts of messages whose cause may be pods on other nodes. Plans know these rules, so such a refusal only expires.
const ABOUT_PEERS: [&str; 3] = ["affinity rules", "topology spread constraints", "ReadWriteOncePod"];
/// Parts of messages that are about the volumes that the node can use.
const ABOUT_VOLUMES: [&str; 6] = [
    "persistent volumes to bind",
    "PersistentVolume's node affinity",
    "non-existent pv",
    "free storage",
    "available volume zone",
    "max volume count",
];
/// Parts of messages that are about the devices that the node can use.
const ABOUT_DEVICES: [&str; 3] = ["cannot allocate all claims", "resourceclaim", "resource claim"];

/// Digest of the objects that made a node refuse pods of a group and kind with this message: the node, the template, its claims
/// and, if the message is about them, pods, volumes or devices of the node. `None` if the node does not exist or the cause may be elsewhere.
pub fn refusal_cause(
    index: &Index,
    application: &ActorApplication,
    about: &RefusalKey,
    message: &str,
) -> Option<String> {
    let RefusalKey { scope: control::RefusalScope::Node(node), group, kind } = about else { return None };
    let is_about = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if is_about(&ABOUT_PEERS) {
        return None;
    }
    let refused = index.nodes.get(node)?;
    let group = application.spec.actors.iter().find(|it| it.name == *group);
    let templates =
        group.into_iter().flat_map(|group| &group.implementations).filter(|way| way.kind == *kind);
    let templates: Vec<_> = templates.map(|way| &way.template).collect();
    let namespace = namespace_of(application);
    let specs = templates.iter().filter_map(|template| template.spec.as_ref());
    let claims: Vec<_> = specs
        .flat_map(claims_of)
        .filter_map(|name| index.scheduling.claims.get(&(namespace.clone(), name)))
        .map(|claim| (claim.uid(), claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref())))
        .collect();
    let pools = index.pools().filter(|pool| pool.spec.kind == *kind);
    let defaults: Vec<_> = pools.map(|pool| (pool.name_any(), &pool.spec.pod_defaults)).collect();
    let pods = index.pods_by_node.get(node).into_iter().flatten().filter_map(|name| index.pods.get(name));
    let holds = |pod: &&Arc<Pod>| {
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        is_about(&ABOUT_PODS) && bound == Some(node) && !is_terminal(pod)
    };
    let pods = pods.map(|it| &it.pod).filter(holds).map(|pod| pod.uid());
    let cause = json!({
        "labels": refused.labels(),
        "spec": refused.spec.as_ref().map(|spec| json!([spec.taints, spec.unschedulable])),
        "allocatable": refused.status.as_ref().and_then(|status| status.allocatable.as_ref()),
        "templates": templates,
        "defaults": defaults,
        "claims": claims,
        "pods": pods.collect::<BTreeSet<_>>(),
        "volumes": is_about(&ABOUT_VOLUMES).then(|| volumes(index, refused)),
        "devices": is_about(&ABOUT_DEVICES).then(|| devices(index, refused)),
    });
    Some(digest(&cause.to_string()))
}

/// The volumes that a node can use, the storage near it, and its limits.
fn volumes(index: &Index, node: &Node) -> Value {
    let objects = &index.scheduling;
    let volumes = objects.volumes.iter().filter(|(_, volume)| allows(volume, node)).map(|(name, volume)| {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_ref());
        json!([name, volume.uid(), claimed_by(volume).map(|claim| &claim.uid), phase])
    });
    let is_near = |it: &&Arc<CSIStorageCapacity>| {
        it.node_topology.as_ref().is_some_and(|nodes| labels_match(nodes, node.labels()))
    };
    let capacities = objects.storage_capacities.values().filter(is_near);
    let capacities = capacities.map(|it| json!([it.uid(), it.capacity, it.maximum_volume_size]));
    let limits = objects.csi_nodes.get(&node.name_any()).map(|node| &node.spec.drivers);
    json!([volumes.collect::<Vec<_>>(), capacities.collect::<Vec<_>>(), limits])
}

/// The devices that are published for a node or for several, and the claims that hold devices there.
fn devices(index: &Index, node: &Node) -> Value {
    let objects = &index.scheduling;
    let is_elsewhere =
        |slice: &ResourceSlice| slice.spec.node_name.as_ref().is_some_and(|it| *it != node.name_any());
    let slices = objects.resource_slices.values().filter(|slice| !is_elsewhere(slice));
    let holds = |claim: &&Arc<ResourceClaim>| {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        allocation.is_some_and(|it| it.node_selector.as_ref().is_none_or(|nodes| selects(nodes, node)))
    };
    let claims = objects.resource_claims.values().filter(holds).map(|claim| (claim.uid(), claim.name_any()));
    json!([slices.map(|slice| &slice.spec).collect::<Vec<_>>(), claims.collect::<Vec<_>>()])
}

/// Active refusals of an application.
///
/// A refusal by a node applies to the whole group on devices of that kind there, except for actors that run there. After
/// its expiry it keeps actors that run elsewhere from moving there, as long as its cause is unchanged. A refusal of a
/// template keeps the group off the kind if it has another one. Refusals of the namespace do not constrain placement.
pub(crate) struct ActiveRefusals<'a> {
    active: Vec<&'a crds::Refusal>,
    /// Expired ones with an unchanged cause.
    unchanged: Vec<&'a crds::Refusal>,
    /// Units of the actors that have a pod, by short name.
    running: BTreeMap<String, String>,
    /// Units that actors left for the one they are refused on, by short name.
    origins: BTreeMap<&'a str, &'a str>,
}

impl<'a> ActiveRefusals<'a> {
    pub fn of(index: &'a Index, application: &'a ActorApplication, now: Timestamp) -> Self {
        let placement = index.placement(&ApplicationKey::of(application));
        let status = placement.and_then(|placement| placement.status.as_ref());
        let all = status.into_iter().flat_map(|status| &status.refusals);
        let (active, expired): (Vec<_>, Vec<_>) = all.partition(|it| it.until.0 > now);
        let active = active.into_iter().filter(|it| match it.scope {
            RefusalScope::Node => true,
            RefusalScope::Template => has_another_kind(application, it),
            RefusalScope::Namespace => false,
        });
        let is_unchanged = |it: &&crds::Refusal| is_cause_unchanged(index, application, it);
        let (active, unchanged): (Vec<_>, Vec<_>) =
            (active.collect(), expired.into_iter().filter(is_unchanged).collect());
        let (mut running, mut origins) = (BTreeMap::new(), BTreeMap::new());
        if !active.is_empty() || !unchanged.is_empty() {
            for (instance, pod) in owned_objects(index, application).values() {
                // Bound, whether it runs yet or not.
                let is_taken = |pod: &&Arc<Pod>| {
                    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                    is_bound && pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod)
                };
                let pod = pod.as_ref().filter(is_taken);
                if let Some(unit) = pod.and_then(|pod| unit_of(pod)) {
                    running.extend(
                        actors_of_instance(instance).iter().map(|name| (name.short(), unit.to_owned())),
                    );
                }
            }
            let is_refused = |actor: &str, unit: &str| {
                let node = unit.rsplit_once('/').map(|(node, _)| node);
                active.iter().any(|it| it.actor == actor && it.node.as_deref() == node)
            };
            let moves = placement.into_iter().flat_map(|placement| &placement.spec.moves);
            origins.extend(
                moves
                    .filter(|it| is_refused(&it.actor, &it.to))
                    // An actor that was not stopped yet stays.
                    .filter(|it| running.get(&it.actor).is_none_or(|at| Some(at) == it.from.as_ref()))
                    .filter_map(|it| Some((it.actor.as_str(), it.from.as_deref()?))),
            );
        }
        Self { active, unchanged, running, origins }
    }

    /// Whether this actor is refused on this unit and does not run there.
    pub fn has(&self, actor: &ActorName, unit: &Unit) -> bool {
        let runs_at = self.running.get(&actor.short());
        let unchanged = self.unchanged.iter().filter(|_| runs_at.is_some());
        let is_refused =
            self.active.iter().chain(unchanged).any(|it| applies_to(it, actor) && covers(it, unit));
        is_refused && runs_at != Some(&unit.id)
    }

    /// One constraint for each reason and set of units.
    ///
    /// An actor that is refused after a move may only go back while that is possible: the other units are as untried as the one
    /// that refused it.
    pub fn rules(&self, actors: &ApplicationActors, specs: &AdmittedSpecs, offer: &Offer) -> Vec<Constraint> {
        let mut rules: BTreeMap<RuleKey, BTreeSet<String>> = BTreeMap::new();
        let (active, unchanged) =
            (self.active.iter().map(|it| (it, false)), self.unchanged.iter().map(|it| (it, true)));
        for (it, only_running) in active.chain(unchanged) {
            let units: Vec<String> =
                offer.units.iter().filter(|unit| covers(it, unit)).map(|unit| unit.id.clone()).collect();
            let at = it.node.as_ref().map_or(String::new(), |node| format!(" on {node}"));
            let reason = format!("refused{at}: {}", it.reason);
            let is_concerned = |name: &&ActorName| {
                applies_to(it, name) && (!only_running || self.running.contains_key(&name.short()))
            };
            let concerned = actors.names.iter().filter(is_concerned).map(ToString::to_string);
            if !units.is_empty() {
                let whole = it.node.as_ref().filter(|_| it.kind.is_none());
                rules.entry((reason, whole, units)).or_default().extend(concerned);
            }
        }
        let rule = |((reason, whole, units), actors): (RuleKey, BTreeSet<String>)| {
            let places = match whole {
                Some(node) => Places::Nodes(vec![node.clone()]),
                None => Places::Units(units),
            };
            let actors = actors.into_iter().collect();
            Constraint::Never { actors, places, except_current: true, reason: Some(reason) }
        };
        let never = rules.into_iter().filter(|(_, actors)| !actors.is_empty()).map(rule);
        never.chain(self.ways_back(actors, specs, offer)).collect()
    }

    fn ways_back(&self, actors: &ApplicationActors, specs: &AdmittedSpecs, offer: &Offer) -> Vec<Constraint> {
        let way_back = |name: &ActorName| {
            let unit = offer.units.get(self.origins.get(name.short().as_str())?)?;
            let accepts =
                unit.cordoned.is_none() && !specs.rejects(&name.group, unit) && !self.has(name, unit);
            accepts.then(|| Constraint::Only {
                actors: vec![name.to_string()],
                places: Places::Units(vec![unit.id.clone()]),
                reason: Some(format!("the pod was refused after the move; {name} returns to {}", unit.id)),
            })
        };
        actors.names.iter().filter_map(way_back).collect()
    }
}

/// Whether what caused a refusal is as it was.
fn is_cause_unchanged(index: &Index, application: &ActorApplication, refusal: &crds::Refusal) -> bool {
    let about = refusal_key(refusal);
    refusal.cause.is_some() && refusal.cause == refusal_cause(index, application, &about, &refusal.reason)
}

/// Reason, node if all of it is refused, and units.
type RuleKey<'a> = (String, Option<&'a String>, Vec<String>);

/// Whether the group has an implementation for another kind.
fn has_another_kind(application: &ActorApplication, refusal: &crds::Refusal) -> bool {
    let group = application.spec.actors.iter().find(|group| Some(&group.name) == refusal.group.as_ref());
    let mut kinds = group.into_iter().flat_map(|group| &group.implementations);
    kinds.any(|implementation| Some(&implementation.kind) != refusal.kind.as_ref())
}

fn applies_to(refusal: &crds::Refusal, actor: &ActorName) -> bool {
    match &refusal.group {
        Some(group) => *group == actor.group,
        None => refusal.actor == actor.short(),
    }
}

fn covers(refusal: &crds::Refusal, unit: &Unit) -> bool {
    refusal.node.as_ref().is_none_or(|node| *node == unit.node)
        && refusal.kind.as_ref().is_none_or(|kind| *kind == unit.kind)
        && (refusal.node.is_some() || refusal.scope == RefusalScope::Template)
}
