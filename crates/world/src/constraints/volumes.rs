//! Volumes: the plug-ins `VolumeBinding`, `VolumeZone`, `VolumeRestrictions` and `NodeVolumeLimits` of kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use placement::file::{Constraint, Domain};

use crate::Index;
use crate::constraints::pod_templates::{ExistingPod, PodRules};
use crate::constraints::selectors::{labels_match, selects};
use crate::numbers::{Exact, quantity};

/// Annotation of the class of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The provisioner of volumes that an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels by which a volume names its zones and regions.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Constraints by the claims of templates.
pub(crate) fn volume_constraints(of: &PodRules) -> Vec<Constraint> {
    let (index, namespace) = (of.index, of.namespace);
    let mut rules = Vec::new();
    let mut exclusive: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for template in of.templates {
        for name in claims_of(&template.spec) {
            let key = (namespace.to_owned(), name.clone());
            let Some(claim) = index.scheduling.claims.get(&key) else { continue };
            for (reason, nodes) in excluded_nodes(index, &name, claim) {
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
        for (name, spec) in ephemeral(&template.spec) {
            for (reason, nodes) in unbound(index, &format!("of volume {name}"), spec) {
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
    rules.extend(volume_limits(of));
    rules
}

/// Names of the claims that a pod refers to.
pub(crate) fn claims_of(spec: &PodSpec) -> impl Iterator<Item = String> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
}

/// Ephemeral volumes with the claims that are made for them.
fn ephemeral(spec: &PodSpec) -> impl Iterator<Item = (&str, &PersistentVolumeClaimSpec)> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some((volume.name.as_str(), &template.spec))
    })
}

fn modes(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &String> {
    claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten())
}

/// Why some nodes cannot use a claim, and which.
type Excluded = Vec<(String, BTreeSet<String>)>;

fn excluded_nodes(index: &Index, name: &str, claim: &PersistentVolumeClaim) -> Excluded {
    let is_lost = claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Lost"));
    if is_lost || claim.metadata.deletion_timestamp.is_some() {
        // Its pods never start, whatever the node.
        return Vec::new();
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let volume = spec.volume_name.as_ref().filter(|name| !name.is_empty());
    let Some(volume) = volume else { return unbound(index, name, &spec) };
    if index.scheduling.lacks::<PersistentVolume>(volume) {
        let reason = format!("volume {volume} of claim {name} does not exist; create the claim again");
        return vec![(reason, every_node(index))];
    }
    let Some(found) = index.scheduling.volumes.get(volume) else { return Vec::new() };
    let nodes = index.nodes.iter().filter(|(_, node)| !is_reachable(found, node));
    let nodes: BTreeSet<String> = nodes.map(|(name, _)| name.clone()).collect();
    vec![(format!("volume {volume} of claim {name} is not available there"), nodes)]
}

/// A claim without a volume: its class says where one can be made.
fn unbound(index: &Index, name: &str, spec: &PersistentVolumeClaimSpec) -> Excluded {
    let objects = &index.scheduling;
    if objects.is_unknown::<StorageClass>() || objects.is_unknown::<PersistentVolume>() {
        return Vec::new();
    }
    let classes = &objects.storage_classes;
    let is_default =
        |class: &&Arc<StorageClass>| class.annotations().get(DEFAULT_CLASS).is_some_and(|it| it == "true");
    let class = match &spec.storage_class_name {
        Some(class) => classes.get(class),
        None => classes.values().find(is_default),
    };
    let waits = class.filter(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
    let Some(class) = waits else {
        let of = match (&spec.storage_class_name, class) {
            (Some(class), None) if !class.is_empty() => {
                format!("claim {name} has no volume, and its StorageClass {class} does not exist; create it")
            }
            _ => format!(
                "claim {name} has no volume yet; its StorageClass must bind it before pods are scheduled"
            ),
        };
        return vec![(of, every_node(index))];
    };
    let can_bind = |node: &Node| {
        let volumes = index.scheduling.volumes.values();
        let mut volumes = volumes.filter(|volume| is_free_for(volume, spec, &class.name_any()));
        volumes.any(|volume| is_reachable(volume, node))
    };
    let can_provision = |node: &Node| {
        class.provisioner != NO_PROVISIONER
            && class
                .allowed_topologies
                .as_ref()
                .is_none_or(|terms| terms.is_empty() || terms.iter().any(|term| is_in_topology(term, node)))
    };
    let is_excluded = |(_, node): &(&String, &Arc<Node>)| !(can_bind(node) || can_provision(node));
    let nodes = index.nodes.iter().filter(is_excluded).map(|(name, _)| name.clone()).collect();
    vec![(format!("StorageClass {} makes no volume for claim {name} there", class.name_any()), nodes)]
}

fn every_node(index: &Index) -> BTreeSet<String> {
    index.nodes.keys().cloned().collect()
}

/// Whether a node can use a volume, by its node affinity and its labels of zones.
fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let by_affinity = affinity.is_none_or(|required| selects(required, node));
    let has_zones = ZONES.iter().any(|label| node.labels().contains_key(*label));
    let by_zone = ZONES.iter().all(|label| match volume.labels().get(*label) {
        // Several zones are joined by two underscores.
        Some(zones) if has_zones => {
            node.labels().get(*label).is_some_and(|zone| zones.split("__").any(|it| it == zone))
        }
        _ => true,
    });
    by_affinity && by_zone
}

/// Whether an unclaimed volume satisfies a claim of this class.
fn is_free_for(volume: &PersistentVolume, claim: &PersistentVolumeClaimSpec, class: &str) -> bool {
    let Some(spec) = &volume.spec else { return false };
    let storage = |amounts: Option<&BTreeMap<String, _>>| -> Option<Exact> {
        let amount: &Quantity = amounts?.get("storage")?;
        quantity(&amount.0).ok()
    };
    let asked = storage(claim.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    spec.claim_ref.is_none()
        && spec.storage_class_name.as_deref() == Some(class)
        && claim.access_modes.iter().flatten().all(|it| modes.contains(it))
        && mode(&spec.volume_mode) == mode(&claim.volume_mode)
        && asked <= storage(spec.capacity.as_ref())
        && claim.selector.as_ref().is_none_or(|it| labels_match(it, volume.labels()))
}

fn is_in_topology(term: &TopologySelectorTerm, node: &Node) -> bool {
    term.match_label_expressions
        .iter()
        .flatten()
        .all(|of| node.labels().get(&of.key).is_some_and(|value| of.values.contains(value)))
}

/// Volumes of a driver on a node, up to the limit of its `CSINode`.
fn volume_limits(of: &PodRules) -> Vec<Constraint> {
    let (index, namespace) = (of.index, of.namespace);
    if index.scheduling.csi_nodes.is_empty() {
        return Vec::new();
    }
    let limit_of = |node: &str, driver: &str| -> Option<u64> {
        let drivers = &index.scheduling.csi_nodes.get(node)?.spec.drivers;
        let count = drivers.iter().find(|it| it.name == driver)?.allocatable.as_ref()?.count?;
        u64::try_from(count).ok()
    };
    // By node and driver: the claims that are attached.
    let mut attached: BTreeMap<(&str, String), BTreeSet<String>> = BTreeMap::new();
    for pod in of.existing {
        let name = pod.name.split_once('/').map_or("", |(_, name)| name);
        let generated = ephemeral(&pod.spec).map(|(volume, _)| format!("{name}-{volume}"));
        for claim in claims_of(&pod.spec).chain(generated) {
            let key = (pod.namespace.to_owned(), claim);
            if let Some(driver) = driver_of(index, &key) {
                attached.entry((pod.node, driver)).or_default().insert(format!("{}/{}", key.0, key.1));
            }
        }
    }
    let (mut rules, none) = (Vec::new(), BTreeSet::new());
    for template in of.templates {
        let mut needs: BTreeMap<String, (BTreeSet<String>, u64)> = BTreeMap::new();
        for name in claims_of(&template.spec) {
            if let Some(driver) = driver_of(index, &(namespace.to_owned(), name.clone())) {
                needs.entry(driver).or_default().0.insert(format!("{namespace}/{name}"));
            }
        }
        for (_, spec) in ephemeral(&template.spec) {
            let class = spec.storage_class_name.as_ref();
            if let Some(class) = class.and_then(|class| index.scheduling.storage_classes.get(class)) {
                needs.entry(class.provisioner.clone()).or_default().1 += 1;
            }
        }
        for (driver, (shared, each)) in needs {
            // What is left for volumes of single pods, once the shared ones are attached.
            let left: BTreeMap<&str, u64> = index
                .nodes
                .keys()
                .filter_map(|node| {
                    let used = attached.get(&(node.as_str(), driver.clone())).unwrap_or(&none);
                    let used = used.union(&shared).count();
                    let used = u64::try_from(used).unwrap_or(u64::MAX);
                    Some((node.as_str(), (limit_of(node, &driver)? + 1).saturating_sub(used)))
                })
                .collect();
            let reason = format!("the node has no room for more volumes of {driver}");
            let is_full = |node: &str| left.get(node).is_some_and(|left| *left < 1 + each);
            rules.extend(template.never_on(of.offer, reason.clone(), is_full));
            if each > 0 && template.ids.len() > 1 {
                let hosts: BTreeSet<&str> = of.offer.units.iter().map(|unit| unit.node.as_str()).collect();
                let room = |left: u64| left.saturating_sub(1) / each;
                let most = left.values().map(|left| room(*left)).max().unwrap_or(0);
                let domains = left.iter().filter(|(node, _)| hosts.contains(**node)).map(|(node, left)| {
                    Domain { nodes: vec![(*node).to_owned()], others: most - room(*left) }
                });
                rules.push(Constraint::Peers {
                    actors: template.ids.clone(),
                    peers: template.ids.clone(),
                    domains: domains.collect(),
                    max: Some(most.saturating_sub(1)),
                    skew: None,
                    join: None,
                    reason: Some(reason),
                });
            }
        }
    }
    rules
}

/// The CSI driver of a claim's volume, or of the class that will make it.
fn driver_of(index: &Index, key: &(String, String)) -> Option<String> {
    let spec = index.scheduling.claims.get(key)?.spec.as_ref()?;
    let volume = spec.volume_name.as_ref().and_then(|name| index.scheduling.volumes.get(name));
    if let Some(volume) = volume {
        return Some(volume.spec.as_ref()?.csi.as_ref()?.driver.clone());
    }
    let class = index.scheduling.storage_classes.get(spec.storage_class_name.as_ref()?)?;
    Some(class.provisioner.clone())
}
