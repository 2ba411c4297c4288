//! Claims without a volume, and the classes and volumes that can serve them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec,
    TopologySelectorLabelRequirement, TopologySelectorTerm, Volume,
};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::Index;
use crate::constraints::nodes::selectors::{labels_match, selects};
use crate::index::names::{Name, namespace_of};
use crate::numbers::{Exact, quantity};

/// Annotations of the class of claims that name none.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// Annotation of a claim with the node for which its volume is being provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim that is bound to the volume it names.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of volumes that an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels by which a volume names its zones and regions, each with the label of nodes that lack it.
const ZONES: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Names of the claims that a pod refers to.
pub(crate) fn claims_of(spec: &PodSpec) -> impl Iterator<Item = String> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
}

/// Ephemeral volumes with the claims that are made for them.
pub(crate) fn ephemeral(spec: &PodSpec) -> impl Iterator<Item = (&str, &PersistentVolumeClaimSpec)> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some((volume.name.as_str(), &template.spec))
    })
}

/// The volume that a claim is bound to.
pub(crate) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.spec.as_ref()?.volume_name.as_ref().filter(|name| !name.is_empty())
}

/// Whether a claim names a volume that is bound to, or reserved for, another claim.
pub(crate) fn names_volume_of_another(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let key = (namespace_of(claim), claim.name_any());
    !claim.annotations().contains_key(BIND_COMPLETED)
        && claimed_by(volume).is_some_and(|by| !refers_to(by, &key, claim.uid().as_ref()))
}

/// Whether the reference of a volume is to the claim with this key and uid.
fn refers_to(by: &ObjectReference, key: &Name, uid: Option<&String>) -> bool {
    let of = by.uid.as_ref().filter(|uid| !uid.is_empty());
    key_of(by).as_ref() == Some(key) && of.is_none_or(|of| uid == Some(of))
}

/// The class of a claim. Claims that name none get the newest default class.
pub(crate) fn class_of<'a>(
    index: &'a Index,
    spec: &PersistentVolumeClaimSpec,
) -> Option<&'a Arc<StorageClass>> {
    let classes = &index.scheduling.storage_classes;
    let is_default = |class: &&Arc<StorageClass>| {
        DEFAULT_CLASS.iter().any(|name| class.annotations().get(*name).is_some_and(|it| it == "true"))
    };
    match &spec.storage_class_name {
        Some(class) => classes.get(class),
        None => classes.values().filter(is_default).min_by_key(|class| Reverse(class.creation_timestamp())),
    }
}

/// Whether volumes of the class exist before their claims.
pub(crate) fn is_static(class: &StorageClass) -> bool {
    class.provisioner == NO_PROVISIONER
}

/// Whether the class can provision volumes for pods on a node.
pub(crate) fn can_provision(class: &StorageClass, node: &Node) -> bool {
    let is_in = |term: &TopologySelectorTerm| {
        let labels = term.match_label_expressions.as_deref().unwrap_or_default();
        let is_met = |of: &TopologySelectorLabelRequirement| {
            node.labels().get(&of.key).is_some_and(|value| of.values.contains(value))
        };
        // As in kube-scheduler, a term without requirements selects nothing.
        !labels.is_empty() && labels.iter().all(is_met)
    };
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    !is_static(class) && (topologies.is_empty() || topologies.iter().any(is_in))
}

/// Whether a node can use a volume that has no claim yet, by its node affinity.
pub(crate) fn allows(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    affinity.is_none_or(|required| selects(required, node))
}

/// Whether a node can use a bound volume, by its node affinity and its labels of zones.
pub(crate) fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let has_zones = ZONES.iter().any(|(label, _)| node.labels().contains_key(*label));
    let by_zone = ZONES.iter().all(|(label, instead)| match volume.labels().get(*label) {
        // Several zones are joined by two underscores.
        Some(zones) if has_zones => {
            let at = node.labels().get(*label).or_else(|| node.labels().get(*instead));
            at.is_some_and(|zone| zones.split("__").any(|it| it == zone))
        }
        _ => true,
    });
    by_zone && allows(volume, node)
}

/// The claim that a volume is bound to, or reserved for.
pub(crate) fn claimed_by(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// A claim that has no volume yet.
pub(crate) struct UnboundClaim<'a> {
    /// Namespace and name; a claim of an ephemeral volume has no name before its pod has one.
    pub key: Option<Name>,
    /// The claim, for users.
    pub name: String,
    uid: Option<String>,
    /// Whether it is created with its pod.
    pub is_ephemeral: bool,
    /// The node for which its volume is being provisioned.
    pub selected_node: Option<String>,
    pub spec: Cow<'a, PersistentVolumeClaimSpec>,
}

impl<'a> UnboundClaim<'a> {
    /// The claims of a pod that can still get a volume, in the order of its volumes. A template has no pod name.
    pub fn of_pod(index: &'a Index, namespace: &str, pod: Option<&str>, spec: &'a PodSpec) -> Vec<Self> {
        let mut seen = BTreeSet::new();
        let volumes = spec.volumes.iter().flatten();
        let claims = volumes.filter_map(|volume| {
            let named = || Self::named(index, namespace, volume);
            Self::ephemeral(index, namespace, pod, volume).or_else(named)
        });
        claims.filter(|claim| claim.is_ephemeral || seen.insert(claim.key.clone())).collect()
    }

    fn named(index: &'a Index, namespace: &str, volume: &Volume) -> Option<Self> {
        let name = volume.persistent_volume_claim.as_ref()?.claim_name.clone();
        let key = (namespace.to_owned(), name);
        let claim = index.scheduling.claims.get(&key)?;
        let is_lost = claim.status.as_ref().is_some_and(|it| it.phase.as_deref() == Some("Lost"));
        let is_pending =
            !is_lost && claim.metadata.deletion_timestamp.is_none() && volume_of(claim).is_none();
        is_pending.then(|| Self {
            name: key.1.clone(),
            key: Some(key),
            uid: claim.uid(),
            is_ephemeral: false,
            selected_node: claim.annotations().get(SELECTED_NODE).cloned(),
            spec: claim.spec.as_ref().map(Cow::Borrowed).unwrap_or_default(),
        })
    }

    fn ephemeral(index: &'a Index, namespace: &str, pod: Option<&str>, volume: &'a Volume) -> Option<Self> {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let key = pod.map(|pod| (namespace.to_owned(), claim_name(pod, &volume.name)));
        let claim = key.as_ref().and_then(|key| index.scheduling.claims.get(key));
        claim.and_then(|claim| volume_of(claim)).is_none().then(|| Self {
            key,
            name: format!("of volume {}", volume.name),
            uid: claim.and_then(|claim| claim.uid()),
            is_ephemeral: true,
            selected_node: claim.and_then(|claim| claim.annotations().get(SELECTED_NODE).cloned()),
            spec: Cow::Borrowed(&template.spec),
        })
    }

    /// Its class, if its volume is chosen once there is a pod.
    pub fn waiting_class<'i>(&self, index: &'i Index) -> Option<&'i Arc<StorageClass>> {
        // A class that binds immediately does so once the pod and its claim exist.
        class_of(index, &self.spec).filter(|class| self.is_ephemeral || waits(class))
    }

    /// Whether its volume is made or chosen as soon as its pod exists, wherever the pod is placed.
    pub fn is_bound_at_once(&self, index: &Index) -> bool {
        self.is_ephemeral && class_of(index, &self.spec).is_some_and(|class| !waits(class))
    }

    /// Whether the driver of a class has room for its volume near a node, if the driver publishes that.
    pub fn has_capacity(&self, index: &Index, class: &StorageClass, node: &Node) -> bool {
        let objects = &index.scheduling;
        let driver = objects.csi_drivers.get(&class.provisioner);
        let publishes = driver.is_some_and(|driver| driver.spec.storage_capacity == Some(true));
        let Some(size) = self.size().filter(|_| publishes && waits(class)) else { return true };
        let has_room = |capacity: &Arc<CSIStorageCapacity>| {
            let most = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
            Some(&capacity.storage_class_name) == class.metadata.name.as_ref()
                && most.and_then(|most| quantity(&most.0).ok()).is_some_and(|most| most >= size)
                && capacity.node_topology.as_ref().is_some_and(|nodes| labels_match(nodes, node.labels()))
        };
        objects.is_unknown::<CSIDriver>()
            || objects.is_unknown::<CSIStorageCapacity>()
            || objects.storage_capacities.values().any(has_room)
    }

    /// The size that it requests.
    pub fn size(&self) -> Option<Exact> {
        let resources = self.spec.resources.as_ref()?;
        storage(resources.requests.as_ref())
    }

    /// The volumes that are reserved for it; if there are any, it gets one of them.
    pub fn reserved<'i>(&self, index: &'i Index) -> Vec<&'i PersistentVolume> {
        let Some(key) = &self.key else { return Vec::new() };
        let is_own = |by: &ObjectReference| refers_to(by, key, self.uid.as_ref());
        let volumes = index.scheduling.volumes.values().map(Arc::as_ref);
        volumes
            .filter(|volume| claimed_by(volume).is_some_and(is_own) && self.misfit(volume).is_none())
            .collect()
    }

    /// The free volumes of its class that satisfy it, and those that these claims hold.
    pub fn matching<'i>(
        &self,
        index: &'i Index,
        class: &'i StorageClass,
        held_by: &BTreeSet<Name>,
    ) -> Vec<&'i PersistentVolume> {
        volumes_of(index, class).filter(|volume| self.mismatch(volume, held_by).is_none()).collect()
    }

    /// Why no volume of its class satisfies it: what is wrong with them.
    pub fn mismatches(&self, index: &Index, class: &StorageClass) -> BTreeSet<&'static str> {
        let none = BTreeSet::new();
        volumes_of(index, class).filter_map(|volume| self.mismatch(volume, &none)).collect()
    }

    /// Why a volume of its class is not for it.
    fn mismatch(&self, volume: &PersistentVolume, held_by: &BTreeSet<Name>) -> Option<&'static str> {
        match claimed_by(volume) {
            Some(by) if key_of(by).is_none_or(|key| !held_by.contains(&key)) => {
                return Some("bound to other claims");
            }
            Some(_) => {}
            None => {
                let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
                if phase.is_some_and(|phase| phase != "Available") {
                    return Some("not Available");
                }
            }
        }
        let modes = volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
        let modes: BTreeSet<&String> = modes.collect();
        if !self.spec.access_modes.iter().flatten().all(|mode| modes.contains(mode)) {
            return Some("wrong access modes");
        }
        let is_selected = self.spec.selector.as_ref().is_none_or(|it| labels_match(it, volume.labels()));
        if is_selected { self.misfit(volume) } else { Some("not selected by the claim") }
    }

    /// Why a volume does not suffice, even if it is reserved.
    fn misfit(&self, volume: &PersistentVolume) -> Option<&'static str> {
        let spec = volume.spec.as_ref();
        let mode = |mode: Option<&String>| mode.cloned().unwrap_or_else(|| "Filesystem".to_owned());
        let attributes = |class: Option<&String>| class.filter(|class| !class.is_empty()).cloned();
        if volume.metadata.deletion_timestamp.is_some() {
            Some("being deleted")
        } else if mode(spec.and_then(|of| of.volume_mode.as_ref())) != mode(self.spec.volume_mode.as_ref()) {
            Some("wrong volumeMode")
        } else if attributes(spec.and_then(|of| of.volume_attributes_class_name.as_ref()))
            != attributes(self.spec.volume_attributes_class_name.as_ref())
        {
            Some("wrong volumeAttributesClassName")
        } else {
            (self.size() > capacity(volume)).then_some("too small")
        }
    }
}

fn waits(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

fn volumes_of<'i>(index: &'i Index, class: &'i StorageClass) -> impl Iterator<Item = &'i PersistentVolume> {
    let is_of_class = |volume: &&PersistentVolume| {
        let spec = volume.spec.as_ref();
        spec.and_then(|spec| spec.storage_class_name.as_ref()) == class.metadata.name.as_ref()
    };
    index.scheduling.volumes.values().map(Arc::as_ref).filter(is_of_class)
}

/// The size of a volume.
pub(crate) fn capacity(volume: &PersistentVolume) -> Option<Exact> {
    storage(volume.spec.as_ref()?.capacity.as_ref())
}

fn storage(amounts: Option<&BTreeMap<String, Quantity>>) -> Option<Exact> {
    quantity(&amounts?.get("storage")?.0).ok()
}

/// Name of the claim that is made for an ephemeral volume of a pod.
pub(crate) fn claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

fn key_of(by: &ObjectReference) -> Option<Name> {
    Some((by.namespace.clone()?, by.name.clone()?))
}
