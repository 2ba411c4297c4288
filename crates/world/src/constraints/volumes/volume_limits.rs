//! Volumes of a driver on a node, up to the limit of its `CSINode`.

use std::collections::{BTreeMap, BTreeSet};

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use placement::file::Constraint;

use crate::Index;
use crate::constraints::pods::existing_pods::existing_pods;
use crate::constraints::pods::pod_templates::{ExistingPod, PodRules, PodTemplate};
use crate::constraints::volumes::volume_claims::{claim_name, claims_of, class_of, ephemeral, volume_of};
use crate::constraints::volumes::volume_rooms::{Need, Room, limit_rooms, may_exceed};
use crate::demand::actors::ApplicationActors;
use crate::index::names::{Name, namespace_of};
use crate::units::offer::Offer;

/// Provisioners and disks of Kubernetes itself, each with the CSI driver that serves them.
const MIGRATED: [(&str, &str); 5] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// By driver: the volumes that the pods of each template need.
type VolumeNeeds = BTreeMap<String, Vec<Need>>;

/// By node and driver: the volumes that are attached.
type Attached<'a> = BTreeMap<(&'a str, String), BTreeSet<Name>>;

/// Constraints by the limits of nodes: one set for each driver, over all templates.
pub(crate) fn volume_limits(of: &PodRules) -> Vec<Constraint> {
    let index = of.index;
    if index.scheduling.csi_nodes.is_empty() {
        return Vec::new();
    }
    let attached = attached(index, of.existing);
    let rules = needs(index, of.namespace, of.templates).into_iter().flat_map(|(driver, needs)| {
        let rooms = rooms(index, of.offer, &attached, &driver);
        limit_rooms(of, &needs, &rooms, &format!("the node has no room for more volumes of {driver}"))
    });
    rules.collect()
}

/// What plans do not model of the limits of nodes, each as a sentence.
pub(crate) fn unmodelled_limits(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    templates: &[PodTemplate],
    offer: &Offer,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if index.scheduling.csi_nodes.is_empty() {
        return found;
    }
    let mut known: Option<Attached> = None;
    for (driver, needs) in needs(index, &namespace_of(own.0), templates) {
        let mut rooms = rooms(index, offer, &Attached::new(), &driver);
        if rooms.is_empty() {
            continue;
        }
        let mut left = vec!["volumes still attached to nodes"];
        // Which volumes are attached matters only if actors have different volumes.
        let is_unclear = |rooms: &[Room]| may_exceed(templates, &needs, rooms);
        if is_unclear(&[Room::default()]) {
            let there = known.get_or_insert_with(|| attached(index, &existing_pods(index, own, templates)));
            for room in &mut rooms {
                room.taken = taken(there, &room.nodes[0], &driver);
            }
            left.extend(is_unclear(&rooms).then_some("the limit of nodes on volumes of several groups"));
        }
        let groups = templates.iter().zip(&needs).filter(|(_, need)| need.claims() > 0);
        let groups: BTreeSet<&str> = groups.map(|(template, _)| template.group()).collect();
        found.extend(groups.iter().flat_map(|group| left.iter().map(move |it| format!("{group}: {it}"))));
    }
    found
}

fn needs(index: &Index, namespace: &str, templates: &[PodTemplate]) -> VolumeNeeds {
    let mut needs = VolumeNeeds::new();
    let none = vec![Need::default(); templates.len()];
    for (position, template) in templates.iter().enumerate() {
        for name in claims_of(&template.spec) {
            let key = (namespace.to_owned(), name);
            if let Some((driver, id)) = volume_id(index, key) {
                needs.entry(driver).or_insert_with(|| none.clone())[position].shared.insert(id);
            }
        }
        for (driver, id) in template.spec.volumes.iter().flatten().filter_map(disk_id) {
            needs.entry(driver).or_insert_with(|| none.clone())[position].shared.insert(id);
        }
        for (_, spec) in ephemeral(&template.spec) {
            if let Some(class) = class_of(index, spec) {
                let driver = provisioner(class);
                needs.entry(driver).or_insert_with(|| none.clone())[position].each += 1;
            }
        }
    }
    needs
}

fn attached<'a>(index: &Index, existing: &[ExistingPod<'a>]) -> Attached<'a> {
    let mut attached = Attached::new();
    for pod in existing {
        let key = |name: String| (pod.namespace.to_owned(), name);
        let named = claims_of(&pod.spec).map(key).filter_map(|key| volume_id(index, key));
        let generated = ephemeral(&pod.spec).filter_map(|(volume, spec)| {
            let key = key(claim_name(pod.short_name(), volume));
            let of_class = || Some((provisioner(class_of(index, spec)?), key.clone()));
            volume_id(index, key.clone()).or_else(of_class)
        });
        let disks = pod.spec.volumes.iter().flatten().filter_map(disk_id);
        for (driver, id) in named.chain(generated).chain(disks) {
            attached.entry((pod.node, driver)).or_default().insert(id);
        }
    }
    attached
}

fn taken(attached: &Attached, node: &str, driver: &str) -> BTreeSet<Name> {
    attached.get(&(node, driver.to_owned())).cloned().unwrap_or_default()
}

/// The nodes with units that limit the volumes of a driver.
fn rooms(index: &Index, offer: &Offer, attached: &Attached, driver: &str) -> Vec<Room> {
    let limit_of = |node: &str| -> Option<u64> {
        let drivers = &index.scheduling.csi_nodes.get(node)?.spec.drivers;
        let count = drivers.iter().find(|it| it.name == driver)?.allocatable.as_ref()?.count?;
        u64::try_from(count).ok()
    };
    let room = |node: &str| {
        let (nodes, total) = (vec![node.to_owned()], limit_of(node)?);
        Some(Room { nodes, total, taken: taken(attached, node, driver) })
    };
    let hosts: BTreeSet<&str> = offer.units.iter().map(|unit| unit.node.as_str()).collect();
    hosts.into_iter().filter_map(room).collect()
}

/// The driver of a claim's volume and what identifies it there: its handle, or the claim that has no volume yet.
fn volume_id(index: &Index, key: Name) -> Option<(String, Name)> {
    let claim = index.scheduling.claims.get(&key)?;
    let volume = volume_of(claim).and_then(|name| index.scheduling.volumes.get(name));
    if let Some(volume) = volume {
        let spec = volume.spec.as_ref()?;
        let of_csi = spec.csi.as_ref().map(|of| (of.driver.clone(), by_handle(&of.volume_handle)));
        return of_csi.or_else(|| migrated(handles_of_volume(spec)));
    }
    Some((provisioner(class_of(index, claim.spec.as_ref()?)?), key))
}

/// A handle among the names of claims, whose namespaces are never empty.
fn by_handle(handle: &str) -> Name {
    (String::new(), handle.to_owned())
}

/// The CSI driver that makes the volumes of a class.
fn provisioner(class: &StorageClass) -> String {
    let own = class.provisioner.as_str();
    MIGRATED.iter().find(|(name, _)| *name == own).map_or(own, |(_, driver)| driver).to_owned()
}

/// A disk in a pod, as a volume of the driver that serves it.
fn disk_id(volume: &Volume) -> Option<(String, Name)> {
    migrated([
        volume.aws_elastic_block_store.as_ref().map(|of| ebs_handle(&of.volume_id)),
        volume.gce_persistent_disk.as_ref().map(|of| of.pd_name.as_str()),
        volume.azure_disk.as_ref().map(|of| of.disk_uri.as_str()),
        volume.cinder.as_ref().map(|of| of.volume_id.as_str()),
        volume.portworx_volume.as_ref().map(|of| of.volume_id.as_str()),
    ])
}

fn handles_of_volume(spec: &PersistentVolumeSpec) -> [Option<&str>; 5] {
    [
        spec.aws_elastic_block_store.as_ref().map(|of| ebs_handle(&of.volume_id)),
        spec.gce_persistent_disk.as_ref().map(|of| of.pd_name.as_str()),
        spec.azure_disk.as_ref().map(|of| of.disk_uri.as_str()),
        spec.cinder.as_ref().map(|of| of.volume_id.as_str()),
        spec.portworx_volume.as_ref().map(|of| of.volume_id.as_str()),
    ]
}

/// The first of these handles, in the order of [`MIGRATED`].
fn migrated(handles: [Option<&str>; 5]) -> Option<(String, Name)> {
    let mut known = handles.into_iter().zip(MIGRATED);
    known.find_map(|(handle, (_, driver))| Some((driver.to_owned(), by_handle(handle?))))
}

/// The handle in `aws://ZONE/HANDLE`.
fn ebs_handle(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}
