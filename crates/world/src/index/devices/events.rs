//! How events of slices, claims and classes change the devices in the index.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::Instance;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::ResourceExt as _;

use crate::index::devices::published::{PoolKey, name_of, pool_of};
use crate::index::names::Name;
use crate::index::owner::{controller_ref, uid};
use crate::units::dra::published::published_pool;
use crate::units::dra::slices::{DeviceAvailability, DeviceKey, SliceDevice, allocated_devices};
use crate::units::unit::Unit;
use crate::{ApplicationKey, Index};

/// A device of a `ResourceSlice`, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedDevice {
    /// Its name.
    pub key: DeviceKey,
    /// Its model, from the driver's attribute `productName` or `model`, or from the agent.
    pub model: Option<String>,
    /// Its memory in MiB, if the driver publishes it.
    pub memory_mib: Option<u64>,
    /// Its NUMA node, from the driver or the agent.
    pub numa_node: Option<i32>,
    /// What its taints and the state of its pool permit.
    pub availability: DeviceAvailability,
    /// The id of the same device in the node's topology.
    pub described_as: Option<String>,
    /// The claims to which it is allocated, as `namespace/name`.
    pub claims: Vec<String>,
}

/// What of dynamic resource allocation (DRA) a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraSummary {
    /// Whether the API server serves it.
    pub is_served: bool,
    /// The number of `DeviceClass`es.
    pub classes: usize,
    /// The number of devices and of nodes by driver.
    pub drivers: BTreeMap<String, (usize, usize)>,
}

/// The unit for which a claim was made, by its annotation.
pub fn claimed_unit(claim: &ResourceClaim) -> Option<&str> {
    claim.annotations().get(crds::labels::UNIT).map(String::as_str)
}

fn nodes_of(slice: &ResourceSlice) -> impl Iterator<Item = String> {
    let of_devices = slice.spec.devices.iter().flatten().filter_map(|device| device.node_name.clone());
    slice.spec.node_name.iter().cloned().chain(of_devices)
}

impl Index {
    /// Applies the change of an object to the devices of nodes, if it is about devices.
    pub(crate) fn change_devices(
        &mut self,
        (before, after): (Option<&dyn Any>, Option<&dyn Any>),
        change: impl FnOnce(&mut Self),
    ) {
        let both = || before.into_iter().chain(after);
        let slices: Vec<&ResourceSlice> = both().filter_map(|it| it.downcast_ref()).collect();
        if !slices.is_empty() {
            let pools: BTreeSet<PoolKey> = slices.iter().map(|slice| pool_of(slice)).collect();
            let mut nodes: BTreeSet<String> = slices.iter().flat_map(|slice| nodes_of(slice)).collect();
            // Another generation may become the newest one.
            nodes.extend(self.nodes_of_pools(&pools));
            return self.track_withdrawals(Some(&nodes), |index| {
                change(index);
                for key in &pools {
                    index.publish(key);
                }
                for node in nodes.iter().cloned().chain(index.nodes_of_pools(&pools)).collect::<Vec<_>>() {
                    index.node_changed(&node);
                }
                if nodes.is_empty() {
                    // The pool has devices of several nodes only, which the whole offer notes.
                    index.forget_offers();
                }
            });
        }
        let claims: Vec<&ResourceClaim> = both().filter_map(|it| it.downcast_ref()).collect();
        if !claims.is_empty() {
            change(self);
            let [before, after] =
                [before, after].map(|it| it.and_then(|it| it.downcast_ref::<ResourceClaim>()));
            if let Some(claim) = before {
                self.published.remove_claim(claim);
            }
            if let Some(claim) = after {
                self.published.put_claim(claim);
            }
            let devices = claims.iter().flat_map(|claim| allocated_devices(claim));
            let devices = devices.filter_map(|key| self.published.get(&key));
            let nodes: BTreeSet<String> = devices.map(|device| device.node.clone()).collect();
            for node in &nodes {
                self.node_changed(node);
            }
            return;
        }
        if both().any(<dyn Any>::is::<DeviceClass>) {
            return self.track_withdrawals(None, |index| {
                change(index);
                index.forget_offers();
                // Classes serve extended resources.
                index.recount_all();
            });
        }
        change(self);
    }

    /// The nodes for which these pools have devices.
    fn nodes_of_pools(&self, pools: &BTreeSet<PoolKey>) -> BTreeSet<String> {
        let known = pools.iter().filter_map(|key| self.published.pools.get(key));
        known.flat_map(|pool| &pool.devices).map(|device| device.node.clone()).collect()
    }

    /// Reads the pool of a driver from its slices.
    fn publish(&mut self, key: &PoolKey) {
        let slices = self.scheduling.resource_slices.values();
        let pool = published_pool(slices.map(AsRef::as_ref).filter(|slice| pool_of(slice) == *key));
        self.published.set_pool(key, pool);
    }

    /// Reads all slices and claims.
    pub(crate) fn publish_all(&mut self) {
        let keys: BTreeSet<PoolKey> =
            self.scheduling.resource_slices.values().map(|slice| pool_of(slice)).collect();
        let gone: Vec<PoolKey> =
            self.published.pools.keys().filter(|key| !keys.contains(*key)).cloned().collect();
        for key in keys.iter().chain(&gone) {
            self.publish(key);
        }
        (self.published.holders, self.published.by_instance) = Default::default();
        for claim in self.scheduling.resource_claims.values() {
            self.published.put_claim(claim);
        }
        self.forget_offers();
    }

    /// Nodes whose devices an object describes: a slice, or a claim by its allocation; as indexed, and as given.
    pub fn nodes_with_devices(&self, object: &dyn Any) -> BTreeSet<String> {
        if let Some(slice) = object.downcast_ref::<ResourceSlice>() {
            let known = self.published.pools.get(&pool_of(slice));
            let known = known.into_iter().flat_map(|pool| &pool.devices).map(|device| device.node.clone());
            return nodes_of(slice).chain(known).collect();
        }
        let Some(claim) = object.downcast_ref::<ResourceClaim>() else { return BTreeSet::new() };
        let known = self.scheduling.resource_claims.get(&name_of(claim)).map(AsRef::as_ref);
        let devices = known.into_iter().chain([claim]).flat_map(allocated_devices);
        devices.filter_map(|key| Some(self.published.get(&key)?.node.clone())).collect()
    }

    /// The published devices of a node.
    pub fn published_devices(&self, node: &str) -> Vec<PublishedDevice> {
        let topology = self.topology(node);
        let published = |device: &SliceDevice| {
            let described = topology.and_then(|topology| device.described(&topology.spec));
            let claims = self.published.holders(&device.key);
            let named = |name: &str| device.string(&format!("{}/{name}", device.key.driver));
            let model = named("productName").or_else(|| named("model")).map(str::to_owned);
            PublishedDevice {
                key: device.key.clone(),
                model: model.or_else(|| described?.model.clone()),
                memory_mib: device.memory_mib,
                numa_node: device.numa_node.or_else(|| described?.numa_node),
                availability: device.availability,
                described_as: described.map(|device| device.id.clone()),
                claims: claims.map(|(namespace, name)| format!("{namespace}/{name}")).collect(),
            }
        };
        self.published.on_node(node).map(published).collect()
    }

    /// What of dynamic resource allocation the cluster has.
    pub fn dra_summary(&self) -> DraSummary {
        let mut drivers = BTreeMap::<String, (usize, BTreeSet<&str>)>::new();
        for device in self.published.all() {
            let (count, nodes) = drivers.entry(device.key.driver.clone()).or_default();
            *count += 1;
            nodes.insert(&device.node);
        }
        DraSummary {
            is_served: !self.scheduling.is_unserved::<ResourceSlice>(),
            classes: self.scheduling.device_classes.len(),
            drivers: drivers
                .into_iter()
                .map(|(driver, (count, nodes))| (driver, (count, nodes.len())))
                .collect(),
        }
    }

    /// The unit for which the operator made a claim: one that an Instance of the namespace controls.
    pub(crate) fn unit_of_claim(&self, name: &Name) -> Option<&str> {
        let claim = self.scheduling.resource_claims.get(name)?;
        let owner = controller_ref(claim.as_ref(), "Instance")?;
        self.instance_by_uid.get(&owner.uid).filter(|instance| instance.0 == name.0)?;
        claimed_unit(claim)
    }

    /// The application for which the operator made a claim.
    pub(crate) fn application_of_claim(&self, name: &Name) -> Option<ApplicationKey> {
        let claim = self.scheduling.resource_claims.get(name)?;
        let owner = controller_ref(claim.as_ref(), "Instance")?;
        self.application_of(&owner.uid).filter(|key| key.namespace == name.0)
    }

    /// The claims that the operator made for an Instance.
    pub fn claims_of(&self, instance: &Instance) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        let names = uid(instance).and_then(|uid| self.published.by_instance.get(uid)).into_iter().flatten();
        let claims = names.filter_map(|name| self.scheduling.resource_claims.get(name));
        claims.filter(|claim| claim.metadata.namespace == instance.metadata.namespace)
    }

    /// The claim with this name.
    pub fn resource_claim(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        self.scheduling.resource_claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Another claim to which the device of a unit is still allocated.
    pub fn held_by_another(&self, unit: &Unit, claim: &str, namespace: &str) -> Option<String> {
        let device = unit.claim.as_ref()?.device.as_ref()?;
        let mut others = self.published.holders(device);
        let other = others.find(|(of, name)| (of.as_str(), name.as_str()) != (namespace, claim))?;
        Some(format!("{device} is still allocated to ResourceClaim {}/{}", other.0, other.1))
    }

    /// Why the device that an Instance's claim holds is not that of its unit.
    pub fn misallocated(&self, instance: &Instance, unit: &Unit) -> Option<String> {
        let wanted = unit.claim.as_ref()?.device.as_ref()?;
        let mut claims = self.claims_of(instance).filter(|claim| claimed_unit(claim) == Some(&unit.id));
        claims.find_map(|claim| {
            let device = allocated_devices(claim).into_iter().find(|device| device != wanted)?;
            Some(format!("ResourceClaim {} was allocated {device}, not {wanted}", claim.name_any()))
        })
    }
}
