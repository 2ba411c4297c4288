//! Devices of `ResourceSlice`s and the claims that hold them, by node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::ResourceExt as _;

use crate::index::names::{Name, namespace_of, remove_from_set};
use crate::index::owner::controller_ref;
use crate::numbers::Exact;
use crate::units::dra::published::PublishedPool;
use crate::units::dra::slices::{CounterKey, DeviceKey, SliceDevice, allocated_devices};

/// A pool of a driver: the names of both.
pub(crate) type PoolKey = (String, String);

/// Published devices and their holders.
#[derive(Debug, Default)]
pub(crate) struct PublishedDevices {
    pub pools: BTreeMap<PoolKey, PublishedPool>,
    /// Pools with devices on a node.
    by_node: BTreeMap<String, BTreeSet<PoolKey>>,
    /// Claims to which a device is allocated; at most one, unless an allocation is outdated.
    pub holders: BTreeMap<DeviceKey, BTreeSet<Name>>,
    /// Claims by the uid of the Instance that controls them.
    pub by_instance: BTreeMap<String, BTreeSet<Name>>,
}

impl PublishedDevices {
    /// The devices of a node by name.
    pub fn on_node<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a SliceDevice> {
        let pools = self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pools.get(key));
        pools.flat_map(|pool| &pool.devices).filter(move |device| device.node == node)
    }

    /// All devices.
    pub fn all(&self) -> impl Iterator<Item = &SliceDevice> {
        self.pools.values().flat_map(|pool| &pool.devices)
    }

    /// The amount of a counter, by driver, pool, counter set and name.
    pub fn counter(&self, (driver, pool, set, name): &CounterKey) -> Exact {
        let pool = self.pools.get(&(driver.clone(), pool.clone()));
        pool.and_then(|pool| pool.counters.get(&(set.clone(), name.clone()))).copied().unwrap_or_default()
    }

    /// Claims to which a device is allocated.
    pub fn holders(&self, device: &DeviceKey) -> impl Iterator<Item = &Name> {
        self.holders.get(device).into_iter().flatten()
    }

    /// The device with this name.
    pub fn get(&self, key: &DeviceKey) -> Option<&SliceDevice> {
        let pool = self.pools.get(&(key.driver.clone(), key.pool.clone()))?;
        let found = pool.devices.binary_search_by(|device| device.key.cmp(key));
        found.ok().map(|at| &pool.devices[at])
    }

    pub fn set_pool(&mut self, key: &PoolKey, pool: PublishedPool) {
        for node in self.pools.remove(key).iter().flat_map(|old| &old.devices).map(|device| &device.node) {
            if let Some(pools) = self.by_node.get_mut(node) {
                pools.remove(key);
            }
        }
        self.by_node.retain(|_, pools| !pools.is_empty());
        for device in &pool.devices {
            self.by_node.entry(device.node.clone()).or_default().insert(key.clone());
        }
        if pool != PublishedPool::default() {
            self.pools.insert(key.clone(), pool);
        }
    }

    pub fn put_claim(&mut self, claim: &ResourceClaim) {
        for device in allocated_devices(claim) {
            self.holders.entry(device).or_default().insert(name_of(claim));
        }
        if let Some(owner) = controller_ref(claim, "Instance") {
            self.by_instance.entry(owner.uid.clone()).or_default().insert(name_of(claim));
        }
    }

    pub fn remove_claim(&mut self, claim: &ResourceClaim) {
        let name = name_of(claim);
        for device in allocated_devices(claim) {
            if let Some(holders) = self.holders.get_mut(&device) {
                holders.remove(&name);
                if holders.is_empty() {
                    self.holders.remove(&device);
                }
            }
        }
        if let Some(owner) = controller_ref(claim, "Instance") {
            remove_from_set(&mut self.by_instance, &owner.uid, &name);
        }
    }
}

pub(crate) fn name_of(claim: &ResourceClaim) -> Name {
    (namespace_of(claim), claim.name_any())
}

pub(crate) fn pool_of(slice: &ResourceSlice) -> PoolKey {
    (slice.spec.driver.clone(), slice.spec.pool.name.clone())
}
