//! Volumes of a driver on a node, up to the limit of its `CSINode`.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Constraint;

use crate::Index;
use crate::constraints::pod_templates::PodRules;
use crate::constraints::volume_claims::{claim_name, claims_of, class_of, ephemeral, volume_of};
use crate::constraints::volume_rooms::{Need, Room, limit_rooms};
use crate::index::names::Name;

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
            if let Some(driver) = driver_of(index, &key) {
                needs.entry(driver).or_insert_with(|| none.clone())[position].shared.insert(key);
            }
        }
        for (_, spec) in ephemeral(&template.spec) {
            if let Some(class) = class_of(index, spec) {
                let driver = class.provisioner.clone();
                needs.entry(driver).or_insert_with(|| none.clone())[position].each += 1;
            }
        }
    }
    // By node and driver: the claims that are attached.
    let mut attached: BTreeMap<(&str, String), BTreeSet<Name>> = BTreeMap::new();
    for pod in of.existing {
        let key = |name: String| (pod.namespace.to_owned(), name);
        let named = claims_of(&pod.spec).map(key).map(|key| (driver_of(index, &key), key));
        let generated = ephemeral(&pod.spec).map(|(volume, spec)| {
            let key = key(claim_name(pod.short_name(), volume));
            let of_class = || Some(class_of(index, spec)?.provisioner.clone());
            (driver_of(index, &key).or_else(of_class), key)
        });
        for (driver, key) in named.chain(generated) {
            if let Some(driver) = driver {
                attached.entry((pod.node, driver)).or_default().insert(key);
            }
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

/// The CSI driver of a claim's volume, or of the class that will make it.
fn driver_of(index: &Index, key: &Name) -> Option<String> {
    let claim = index.scheduling.claims.get(key)?;
    let volume = volume_of(claim).and_then(|name| index.scheduling.volumes.get(name));
    if let Some(volume) = volume {
        return Some(volume.spec.as_ref()?.csi.as_ref()?.driver.clone());
    }
    Some(class_of(index, claim.spec.as_ref()?)?.provisioner.clone())
}
