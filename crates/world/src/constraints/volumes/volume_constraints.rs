//! Volumes: the plug-ins `VolumeBinding`, `VolumeZone`, `VolumeRestrictions` and `NodeVolumeLimits` of kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use placement::file::Constraint;

use crate::Index;
use crate::constraints::pods::pod_templates::{ExistingPod, PodRules};
use crate::constraints::volumes::static_volumes::static_volumes;
use crate::constraints::volumes::volume_choice::volume_choices;
use crate::constraints::volumes::volume_claims::{
    UnboundClaim, allows, can_provision, claims_of, class_of, is_reachable, is_static,
    names_volume_of_another, volume_of,
};
use crate::constraints::volumes::volume_limits::volume_limits;

/// Constraints by the claims of templates.
pub(crate) fn volume_constraints(of: &PodRules) -> Vec<Constraint> {
    let (index, namespace) = (of.index, of.namespace);
    let mut rules = Vec::new();
    let mut exclusive: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for template in of.templates {
        for name in claims_of(&template.spec) {
            let key = (namespace.to_owned(), name.clone());
            let Some(claim) = index.scheduling.claims.get(&key) else { continue };
            if let Some((reason, nodes)) = unreachable_nodes(index, &name, claim) {
                rules.extend(template.never_on(of.offer, reason, |node| nodes.contains(node)));
            }
            if modes(claim).any(|mode| mode == "ReadWriteOncePod") {
                exclusive.entry(name.clone()).or_default().extend(template.ids.iter().cloned());
                let uses = |pod: &&ExistingPod| {
                    pod.namespace == namespace && claims_of(&pod.spec).any(|other| other == name)
                };
                if let Some(pod) = of.existing.iter().find(uses) {
                    let reason = format!("pod {} uses claim {name}, which is ReadWriteOncePod", pod.name);
                    rules.extend(template.never_on(of.offer, reason, |_| true));
                }
            }
        }
        for claim in UnboundClaim::of_pod(index, namespace, None, &template.spec) {
            for (reason, nodes) in unbound(index, &claim) {
                rules.extend(template.never_on(of.offer, reason, |node| nodes.contains(node)));
            }
        }
    }
    rules.extend(exclusive.into_iter().filter(|(_, actors)| actors.len() > 1).map(|(name, actors)| {
        Constraint::Quota {
            actors: actors.into_iter().collect(),
            pool: None,
            pools: None,
            numa: None,
            units: None,
            resource: None,
            max: 1,
            reason: Some(format!("claim {name} is ReadWriteOncePod")),
        }
    }));
    rules.extend(volume_choices(of));
    rules.extend(static_volumes(of));
    rules.extend(volume_limits(of));
    rules
}

fn modes(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &String> {
    claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten())
}

/// Why some nodes cannot use a claim, and which.
type Excluded = (String, BTreeSet<String>);

/// Nodes on which the volume of a bound claim is not available.
fn unreachable_nodes(index: &Index, name: &str, claim: &PersistentVolumeClaim) -> Option<Excluded> {
    let is_lost = claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Lost"));
    if is_lost || claim.metadata.deletion_timestamp.is_some() {
        // Its pods never start, whatever the node.
        return None;
    }
    let volume = volume_of(claim)?;
    if index.scheduling.lacks::<PersistentVolume>(volume) {
        let reason = format!("volume {volume} of claim {name} does not exist; create the claim again");
        return Some((reason, every_node(index)));
    }
    let found = index.scheduling.volumes.get(volume)?;
    if names_volume_of_another(claim, found) {
        let reason =
            format!("volume {volume} of claim {name} is bound to another claim; create {name} again");
        return Some((reason, every_node(index)));
    }
    let nodes = nodes_where(index, |node| !is_reachable(found, node));
    Some((format!("volume {volume} of claim {name} is not available there"), nodes))
}

/// Nodes on which a claim gets no volume. Its class decides where one can be provisioned.
fn unbound(index: &Index, claim: &UnboundClaim) -> Vec<Excluded> {
    let objects = &index.scheduling;
    if objects.is_unknown::<StorageClass>() || objects.is_unknown::<PersistentVolume>() {
        return Vec::new();
    }
    let name = &claim.name;
    let Some(class) = claim.waiting_class(index) else {
        let of = match (&claim.spec.storage_class_name, class_of(index, &claim.spec)) {
            (Some(class), None) if !class.is_empty() => {
                format!("claim {name} has no volume, and its StorageClass {class} does not exist; create it")
            }
            _ => format!(
                "claim {name} has no volume yet; its StorageClass must bind it before pods are scheduled"
            ),
        };
        return vec![(of, every_node(index))];
    };
    let of_class = format!("StorageClass {}", class.name_any());
    let no_room = format!("no CSIStorageCapacity of {of_class} has room for claim {name} on this node");
    let has_capacity = |node: &Node| claim.has_capacity(index, class, node);
    // A volume that is being provisioned for a node is never one that exists.
    if let Some(selected) = &claim.selected_node {
        let is_other = |node: &Node| node.metadata.name.as_ref() != Some(selected);
        let fails = |node: &Node| !is_other(node) && !can_provision(class, node);
        let is_full = |node: &Node| !is_other(node) && can_provision(class, node) && !has_capacity(node);
        return vec![
            (format!("claim {name} is being provisioned for node {selected}"), nodes_where(index, is_other)),
            (format!("{of_class} cannot provision a volume for claim {name}"), nodes_where(index, fails)),
            (no_room, nodes_where(index, is_full)),
        ];
    }
    let is_on = |volumes: &[&PersistentVolume], node: &Node| volumes.iter().any(|it| allows(it, node));
    let reserved = claim.reserved(index);
    if let Some(volume) = reserved.first() {
        let reason = format!("volume {} reserved for claim {name} is not available there", volume.name_any());
        return vec![(reason, nodes_where(index, |node| !is_on(&reserved, node)))];
    }
    let free = claim.matching(index, class, &BTreeSet::new());
    let nodes = nodes_where(index, |node| !can_provision(class, node) && !is_on(&free, node));
    let is_full = |node: &Node| can_provision(class, node) && !is_on(&free, node) && !has_capacity(node);
    let reason = if is_static(class) {
        no_volume(index, claim, class, free.is_empty())
    } else {
        format!("{of_class} cannot provision a volume for claim {name} on this node")
    };
    vec![(reason, nodes), (no_room, nodes_where(index, is_full))]
}

/// Why no volume of a class without provisioner serves a claim.
fn no_volume(index: &Index, claim: &UnboundClaim, class: &StorageClass, fits_nowhere: bool) -> String {
    let (name, of_class) = (&claim.name, class.name_any());
    if !fits_nowhere {
        return format!("no volume of StorageClass {of_class} that fits claim {name} is available there");
    }
    let why: Vec<&str> = claim.mismatches(index, class).into_iter().collect();
    if why.is_empty() {
        return format!("StorageClass {of_class} has no volume for claim {name}; create one");
    }
    format!("no volume of StorageClass {of_class} fits claim {name}: {}", why.join(", "))
}

fn nodes_where(index: &Index, is_excluded: impl Fn(&Node) -> bool) -> BTreeSet<String> {
    let nodes = index.nodes.iter().filter(|(_, node)| is_excluded(node));
    nodes.map(|(name, _)| name.clone()).collect()
}

fn every_node(index: &Index) -> BTreeSet<String> {
    index.nodes.keys().cloned().collect()
}
