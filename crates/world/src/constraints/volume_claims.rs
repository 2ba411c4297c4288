//! Claims without a volume, and the classes and volumes that can serve them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec,
    TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::Index;
use crate::constraints::selectors::{labels_match, selects};
use crate::index::names::Name;
use crate::numbers::{Exact, quantity};

/// Annotation of the class of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
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

/// The class of a claim. Claims that name none get the default class when they are created.
pub(crate) fn class_of<'a>(
    index: &'a Index,
    spec: &PersistentVolumeClaimSpec,
) -> Option<&'a Arc<StorageClass>> {
    let classes = &index.scheduling.storage_classes;
    let is_default =
        |class: &&Arc<StorageClass>| class.annotations().get(DEFAULT_CLASS).is_some_and(|it| it == "true");
    match &spec.storage_class_name {
        Some(class) => classes.get(class),
        None => classes.values().find(is_default),
    }
}

/// Whether volumes of the class exist before their claims.
pub(crate) fn is_static(class: &StorageClass) -> bool {
    class.provisioner == NO_PROVISIONER
}

/// Whether the class can provision volumes for pods on a node.
pub(crate) fn can_provision(class: &StorageClass, node: &Node) -> bool {
    let is_in = |term: &TopologySelectorTerm| {
        let mut labels = term.match_label_expressions.iter().flatten();
        labels.all(|of| node.labels().get(&of.key).is_some_and(|value| of.values.contains(value)))
    };
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    !is_static(class) && (topologies.is_empty() || topologies.iter().any(is_in))
}

/// Whether a node can use a volume, by its node affinity and its labels of zones.
pub(crate) fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let by_affinity = affinity.is_none_or(|required| selects(required, node));
    let has_zones = ZONES.iter().any(|(label, _)| node.labels().contains_key(*label));
    let by_zone = ZONES.iter().all(|(label, instead)| match volume.labels().get(*label) {
        // Several zones are joined by two underscores.
        Some(zones) if has_zones => {
            let at = node.labels().get(*label).or_else(|| node.labels().get(*instead));
            at.is_some_and(|zone| zones.split("__").any(|it| it == zone))
        }
        _ => true,
    });
    by_affinity && by_zone
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
    pub spec: Cow<'a, PersistentVolumeClaimSpec>,
}

impl<'a> UnboundClaim<'a> {
    /// The claims of a pod that can still get a volume. A template has no pod name.
    pub fn of_pod(index: &'a Index, namespace: &str, pod: Option<&str>, spec: &'a PodSpec) -> Vec<Self> {
        let claims = &index.scheduling.claims;
        let by_name: BTreeSet<String> = claims_of(spec).collect();
        let named = by_name.into_iter().filter_map(|name| {
            let key = (namespace.to_owned(), name);
            let claim = claims.get(&key)?;
            let is_lost = claim.status.as_ref().is_some_and(|it| it.phase.as_deref() == Some("Lost"));
            let is_pending =
                !is_lost && claim.metadata.deletion_timestamp.is_none() && volume_of(claim).is_none();
            is_pending.then(|| Self {
                name: key.1.clone(),
                key: Some(key),
                uid: claim.uid(),
                is_ephemeral: false,
                spec: claim.spec.as_ref().map(Cow::Borrowed).unwrap_or_default(),
            })
        });
        let of_volumes = ephemeral(spec).filter_map(|(volume, spec)| {
            let key = pod.map(|pod| (namespace.to_owned(), claim_name(pod, volume)));
            let claim = key.as_ref().and_then(|key| claims.get(key));
            claim.and_then(|claim| volume_of(claim)).is_none().then(|| Self {
                key,
                name: format!("of volume {volume}"),
                uid: claim.and_then(|claim| claim.uid()),
                is_ephemeral: true,
                spec: Cow::Borrowed(spec),
            })
        });
        named.chain(of_volumes).collect()
    }

    /// Its class, if its volume is chosen once there is a pod.
    pub fn waiting_class<'i>(&self, index: &'i Index) -> Option<&'i Arc<StorageClass>> {
        let waits =
            |class: &StorageClass| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        // A class that binds immediately does so once the pod and its claim exist.
        class_of(index, &self.spec).filter(|class| self.is_ephemeral || waits(class))
    }

    /// The volumes that are reserved for it; if there are any, it gets one of them.
    pub fn reserved<'i>(&self, index: &'i Index) -> Vec<&'i PersistentVolume> {
        let is_own = |by: &ObjectReference| {
            let uid = by.uid.as_ref().filter(|uid| !uid.is_empty());
            self.key.is_some()
                && key_of(by) == self.key
                && uid.is_none_or(|uid| self.uid.as_ref() == Some(uid))
        };
        let volumes = index.scheduling.volumes.values().map(Arc::as_ref);
        volumes.filter(|volume| claimed_by(volume).is_some_and(is_own) && self.fits(volume)).collect()
    }

    /// The free volumes of its class that satisfy it, and those that these claims hold.
    pub fn matching<'i>(
        &self,
        index: &'i Index,
        class: &StorageClass,
        held_by: &BTreeSet<Name>,
    ) -> Vec<&'i PersistentVolume> {
        let class = class.name_any();
        let is_free = |volume: &PersistentVolume| {
            if let Some(by) = claimed_by(volume) {
                return key_of(by).is_some_and(|key| held_by.contains(&key));
            }
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            phase.is_none_or(|phase| phase == "Available")
        };
        let serves = |volume: &&PersistentVolume| {
            let Some(spec) = &volume.spec else { return false };
            let modes = spec.access_modes.as_deref().unwrap_or_default();
            spec.storage_class_name.as_ref() == Some(&class)
                && is_free(volume)
                && self.spec.access_modes.iter().flatten().all(|it| modes.contains(it))
                && self.fits(volume)
                && self.spec.selector.as_ref().is_none_or(|it| labels_match(it, volume.labels()))
        };
        index.scheduling.volumes.values().map(Arc::as_ref).filter(serves).collect()
    }

    /// Whether capacity and mode of a volume that stays suffice.
    fn fits(&self, volume: &PersistentVolume) -> bool {
        let Some(spec) = &volume.spec else { return false };
        let storage = |amounts: Option<&BTreeMap<String, _>>| -> Option<Exact> {
            let amount: &Quantity = amounts?.get("storage")?;
            quantity(&amount.0).ok()
        };
        let asked = self.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
        volume.metadata.deletion_timestamp.is_none()
            && mode(&spec.volume_mode) == mode(&self.spec.volume_mode)
            && storage(asked) <= storage(spec.capacity.as_ref())
    }
}

/// Name of the claim that is made for an ephemeral volume of a pod.
pub(crate) fn claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

fn key_of(by: &ObjectReference) -> Option<Name> {
    Some((by.namespace.clone()?, by.name.clone()?))
}
