//! Volumes of a driver on a node, up to the limit of its `CSINode`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use placement::file::Constraint;

use crate::Index;
use crate::constraints::pods::pod_templates::PodRules;
use crate::constraints::volumes::volume_claims::{claim_name, claims_of, class_of, ephemeral, volume_of};
use crate::constraints::volumes::volume_rooms::{Need, Room, limit_rooms};
use crate::index::names::Name;

/// Provisioners and disks of Kubernetes itself, each with the CSI driver that serves them.
const MIGRATED: [(&str, &str); 5] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// Constraints by the limits of nodes: one set for each driver, over all templates.
pub(crate) fn volume_limits(of: &PodRules) -> Vec<Constraint> {
    let index = of.index;
    if index.scheduling.csi_nodes.is_empty() {
        return Vec::new();
    }
    // By driver: what each template needs.
    let mut needs: BTreeMap<String, Vec<Need>> = BTreeMap::new();
    let none = vec![Need::default(); of.templates.len()];
    for (position, template) in of.templates.iter().enumerate() {
        for name in claims_of(&template.spec) {
            let key = (of.namespace.to_owned(), name);
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
    // By node and driver: the volumes that are attached.
    let mut attached: BTreeMap<(&str, String), BTreeSet<Name>> = BTreeMap::new();
    for pod in of.existing {
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
    let limit_of = |node: &str, driver: &str| -> Option<u64> {
        let drivers = &index.scheduling.csi_nodes.get(node)?.spec.drivers;
        let count = drivers.iter().find(|it| it.name == driver)?.allocatable.as_ref()?.count?;
        u64::try_from(count).ok()
    };
    let hosts: BTreeSet<&str> = of.offer.units.iter().map(|unit| unit.node.as_str()).collect();
    let rules = needs.into_iter().flat_map(|(driver, needs)| {
        let room = |node: &&str| {
            Some(Room {
                nodes: vec![(*node).to_owned()],
                total: limit_of(node, &driver)?,
                taken: attached.get(&(*node, driver.clone())).cloned().unwrap_or_default(),
            })
        };
        let rooms: Vec<Room> = hosts.iter().filter_map(room).collect();
        limit_rooms(of, &needs, &rooms, &format!("the node has no room for more volumes of {driver}"))
    });
    rules.collect()
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
