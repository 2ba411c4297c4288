//! Units of pools with unit `Device`.

use std::collections::BTreeSet;

use crds::{Device, Health};
use k8s_openapi::api::resource::v1::DeviceClass;

use crate::demand::pods::allocatable;
use crate::numbers::{Exact, floor};
use crate::units::plugin::slots::{SlotState, slots};
use crate::units::report::{NO_MATCH, PoolReport};
use crate::units::unit::{CordonReason, Unit};
use crate::units::{PoolClaims, PoolOnNode, memory};

impl PoolOnNode<'_> {
    pub(crate) fn offer_devices(
        &self,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
        units: &mut Vec<Unit>,
    ) {
        let resource = self.resource(0);
        if let Some(class) = self.class_serving(&resource) {
            let problem = format!(
                "{}: no device plugin offers {resource}, DeviceClass {class} serves it; set resource.dra.deviceClassName to {class} \
                 instead of resource.devicePlugin",
                self.node.name
            );
            report.add_problem("Unsupported", problem);
            units.extend(self.slots(0, 1, (None, None), &resource));
            return;
        }
        let candidates = self.candidates(&resource);
        let devices = &candidates.selected;
        let sharing = self.measures.sharing.unwrap_or(1).max(1);
        let left = floor(self.node.left(&resource));
        if devices.is_empty() {
            if left > 0 && self.node.topology.is_none() {
                let problem =
                    format!("{} offers {resource}, but no node agent reports its devices", self.node.name);
                report.add_problem("NoTopology", problem);
            } else if left > 0 {
                let found = self.mismatch(&resource);
                let note = format!(
                    "{} offers {resource}, but the pool selects none of its devices: {found}",
                    self.node.name
                );
                report.add_note(NO_MATCH, note);
            }
            // Without a topology, running actors stay.
            units.extend(self.slots(0, sharing, (None, None), &resource));
            return;
        }
        if self.is_ambiguous(&candidates, &resource) {
            let foreign = match candidates.others.len() {
                1 => "1 device".to_owned(),
                others => format!("{others} devices"),
            };
            let problem = format!(
                "{}: {resource} includes {foreign} that the pool does not select, and the kubelet chooses; use one resource \
                 per model, or select all models",
                self.node.name
            );
            report.add_problem("Ambiguous", problem);
            units.extend(self.slots(0, sharing, (None, None), &resource));
            return;
        }
        if !self.claims_devices(devices, &resource, claims, report) {
            return;
        }
        report.units += devices.len();
        let healthy: Vec<&Device> =
            devices.iter().copied().filter(|device| device.health == Health::Ok).collect();
        let sharing = self.note_replicas((devices.len(), healthy.len()), sharing, &resource, report);
        let offered = left.div_ceil(sharing);
        let usable = healthy.len().min(usize::try_from(offered).unwrap_or(usize::MAX));
        if usable < devices.len() {
            let problem = format!(
                "{}: {} devices, {} healthy, {offered} available as {resource}",
                self.node.name,
                devices.len(),
                healthy.len()
            );
            report.add_problem("Degraded", problem);
        }
        report.healthy += if self.node.is_agent_stale { 0 } else { usable };
        let numa = self.note_mixture(&healthy, &resource, report);
        let mut slots = self.slots(usable, sharing, (numa, memory(&healthy)), &resource);
        self.share(&mut slots, sharing, left);
        if let ([device], []) = (&devices[..], &candidates.others[..])
            && self.is_only_one(&resource)
            && let [unit] = &mut slots[..]
        {
            unit.device = Some(device.id.clone());
        }
        units.extend(slots);
    }

    /// Whether the resource hands out one device, once: then it is known which one a pod gets.
    fn is_only_one(&self, resource: &str) -> bool {
        allocatable(self.node.node).get(resource) == Some(&Exact::from(1))
    }

    /// The class by which dynamic resource allocation serves an extended resource that the node does not offer, with devices
    /// of the node.
    fn class_serving(&self, resource: &str) -> Option<&String> {
        if allocatable(self.node.node).get(resource).is_some_and(|amount| floor(*amount) > 0) {
            return None;
        }
        let serves = |class: &DeviceClass| class.spec.extended_resource_name.as_deref() == Some(resource);
        let mut serving = self.index.scheduling.device_classes.iter().filter(|(_, class)| serves(class));
        serving.find(|(name, _)| self.has_device_of(name)).map(|(name, _)| name)
    }

    /// Notes that the units differ; returns their NUMA domain if it is the same.
    fn note_mixture(&self, healthy: &[&Device], resource: &str, report: &mut PoolReport) -> Option<i32> {
        let models: BTreeSet<_> = healthy.iter().map(|device| &device.model).collect();
        if models.len() > 1 {
            let note = format!(
                "{}: devices of {} models behind {resource}; each unit counts with the smallest memory",
                self.node.name,
                models.len()
            );
            report.add_note("MixedModels", note);
        }
        let domains: BTreeSet<_> = healthy.iter().map(|device| device.numa_node).collect();
        if domains.len() > 1 {
            let note = format!(
                "{}: devices of {} NUMA domains behind {resource}; the domain of a unit is known only once a pod holds its \
                 device",
                self.node.name,
                domains.len()
            );
            report.add_note("MixedLocality", note);
        }
        healthy.first().filter(|_| domains.len() == 1).and_then(|device| device.numa_node)
    }

    /// Notes that the plugin offers each device more or less often than the pool shares it, by time-slicing or MPS; returns how many
    /// actors share a device.
    fn note_replicas(
        &self,
        (devices, healthy): (usize, usize),
        sharing: u64,
        resource: &str,
        report: &mut PoolReport,
    ) -> u64 {
        let [devices, healthy] = [devices, healthy].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        let total = allocatable(self.node.node).get(resource).map_or(0, |amount| floor(*amount));
        if total == 0 || healthy == 0 {
            return sharing;
        }
        let name = self.node.name;
        if total > devices.saturating_mul(sharing) {
            // the plugin may not have noticed yet that a device is not healthy
            let devices = if total.is_multiple_of(healthy) { healthy } else { devices };
            let used = devices.saturating_mul(sharing);
            let replicas = total / devices;
            let note = format!(
                "{name}: the plugin offers {total} replicas of {devices} devices; sharing.maxInstances {sharing} uses {used} of \
                 them; set it to {replicas} to use all"
            );
            report.add_note("UnusedReplicas", note);
        }
        let replicas = total.div_ceil(healthy);
        if replicas < sharing {
            let note = format!(
                "{name}: the plugin offers {replicas} of {resource} per device, and sharing.maxInstances is {sharing}; at most \
                 {replicas} actors share a device; raise the replicas in the plugin's configuration, or lower maxInstances"
            );
            report.add_note("MissingReplicas", note);
        }
        replicas.min(sharing)
    }

    /// Gives the units as many slots together as are left of the resource: first to actors that run, then to decided ones.
    fn share(&self, units: &mut Vec<Unit>, sharing: u64, left: u64) {
        let is_crowded = |unit: &Unit| unit.cordoned == Some(CordonReason::Overcommitted);
        if units.iter().any(is_crowded) {
            return;
        }
        let most = self.measures.sharing.unwrap_or(1).max(1);
        let decided = |unit: &Unit| self.node.decided.and_then(|decided| decided.get(&unit.id)).copied();
        // running actors keep their slots even if less is left
        let mut slots: Vec<u64> =
            units.iter().map(|unit| self.node.room.pods_on(&unit.id).min(most)).collect();
        let mut rest = left.saturating_sub(slots.iter().sum());
        let decided: Vec<u64> = units.iter().map(|unit| decided(unit).unwrap_or(0)).collect();
        for wanted in [decided, vec![sharing; units.len()]] {
            for (slots, wanted) in slots.iter_mut().zip(wanted) {
                let more = wanted.min(sharing).saturating_sub(*slots).min(rest);
                *slots += more;
                rest -= more;
            }
        }
        for (unit, slots) in units.iter_mut().zip(slots) {
            unit.slots = Some(slots);
        }
        units.retain(|unit| unit.slots != Some(0));
    }

    /// Slots of the pool on the node; `usable` is the capacity.
    fn slots(
        &self,
        usable: usize,
        sharing: u64,
        (numa, memory_mib): (Option<i32>, Option<u64>),
        resource: &str,
    ) -> Vec<Unit> {
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let unit = |(index, state): (usize, SlotState)| {
            let unit = self.unit(index, lanes, Some(sharing), numa, Some(resource.to_owned()));
            let crowded = Some(CordonReason::Overcommitted).filter(|_| state == SlotState::Cordoned);
            Unit { cordoned: unit.cordoned.or(crowded), memory_mib, ..unit }
        };
        slots(&self.node.claims(self.name), usable).into_iter().map(unit).collect()
    }

    /// Claims devices and their resource; false if another pool has them.
    fn claims_devices(
        &self,
        devices: &[&Device],
        resource: &str,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
    ) -> bool {
        let (node, kind) = (self.node.name, &self.pool.spec.kind);
        let keys: Vec<_> = devices.iter().map(|device| (kind.clone(), device.id.clone())).collect();
        if let Some((owner, id)) = keys.iter().find_map(|key| Some((claims.devices.get(key)?, &key.1))) {
            let problem =
                format!("pool {owner} already claims {id} of {node}; narrow devices or nodeSelector");
            report.add_problem("Overlap", problem);
            return false;
        }
        if let Some(owner) = claims.resources.get(resource) {
            let problem = format!(
                "pool {owner} also requests {resource} on {node}, and the kubelet chooses the device; give each pool its own resource"
            );
            report.add_problem("Ambiguous", problem);
            return false;
        }
        claims.resources.insert(resource.to_owned(), self.name.to_owned());
        claims.devices.extend(keys.into_iter().map(|key| (key, self.name.to_owned())));
        true
    }
}
