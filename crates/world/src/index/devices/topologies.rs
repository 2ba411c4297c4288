//! Pools and topologies in the index; the nodes' offers are made from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::{DevicePool, NodeTopology};
use kube::ResourceExt;

use crate::Index;

impl Index {
    /// Adds or updates a topology.
    pub fn put_topology(&mut self, topology: Arc<NodeTopology>) {
        let name = topology.name_any();
        // Allocations matter only for lost devices.
        let offers_the_same = |known: &NodeTopology| {
            known.spec == topology.spec && (!known.spec.has_lost() || known.status == topology.status)
        };
        if let Some(known) = self.topologies.get_mut(&name).filter(|known| offers_the_same(known)) {
            *known = topology;
            return;
        }
        self.track_withdrawals(Some(&BTreeSet::from([name.clone()])), |index| {
            index.topologies.insert(name.clone(), topology);
            index.node_changed(&name);
        });
    }

    /// Removes a topology.
    pub fn remove_topology(&mut self, name: &str) {
        self.track_withdrawals(Some(&BTreeSet::from([name.to_owned()])), |index| {
            index.topologies.remove(name);
            index.node_changed(name);
        });
    }

    /// Adds or updates a pool.
    pub fn put_pool(&mut self, pool: Arc<DevicePool>) {
        let name = pool.name_any();
        // The status is an output.
        if let Some(known) = self.pools.get_mut(&name).filter(|known| known.spec == pool.spec) {
            *known = pool;
            return;
        }
        self.track_withdrawals(None, |index| drop(index.pools.insert(name, pool)));
        self.forget_loads();
        self.forget_offers();
    }

    /// Removes a pool.
    pub fn remove_pool(&mut self, name: &str) {
        self.track_withdrawals(None, |index| drop(index.pools.remove(name)));
        self.forget_loads();
        self.forget_offers();
    }

    /// The pool with this name.
    pub fn pool(&self, name: &str) -> Option<&Arc<DevicePool>> {
        self.pools.get(name)
    }

    /// All pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<DevicePool>> {
        self.pools.values()
    }

    /// The topology of a node.
    pub fn topology(&self, node: &str) -> Option<&Arc<NodeTopology>> {
        self.topologies.get(node)
    }
}
