//! Pools and what agents found, in the index: what nodes offer is made of them.

use std::sync::Arc;

use crds::{DevicePool, NodeTopology};
use kube::ResourceExt;

use crate::Index;

impl Index {
    /// What an agent found.
    pub fn put_topology(&mut self, topology: Arc<NodeTopology>) {
        let name = topology.name_any();
        // Which pod holds what matters where a device is lost.
        let offers_the_same = |known: &NodeTopology| {
            known.spec == topology.spec && (!known.spec.has_lost() || known.status == topology.status)
        };
        if let Some(known) = self.topologies.get_mut(&name).filter(|known| offers_the_same(known)) {
            *known = topology;
            return;
        }
        self.with_grace(Some(&name), |index| {
            index.topologies.insert(name.clone(), topology);
            index.node_changed(&name);
        });
    }

    /// What an agent found is gone.
    pub fn remove_topology(&mut self, name: &str) {
        self.with_grace(Some(name), |index| {
            index.topologies.remove(name);
            index.node_changed(name);
        });
    }

    /// A pool that came or changed.
    pub fn put_pool(&mut self, pool: Arc<DevicePool>) {
        let name = pool.name_any();
        // Its status is what is told of it.
        if let Some(known) = self.pools.get_mut(&name).filter(|known| known.spec == pool.spec) {
            *known = pool;
            return;
        }
        self.with_grace(None, |index| drop(index.pools.insert(name, pool)));
        self.forget_loads();
        self.forget_offers();
    }

    /// A pool that is gone.
    pub fn remove_pool(&mut self, name: &str) {
        self.with_grace(None, |index| drop(index.pools.remove(name)));
        self.forget_loads();
        self.forget_offers();
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Arc<DevicePool>> {
        self.pools.get(name)
    }

    /// The pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<DevicePool>> {
        self.pools.values()
    }

    /// What the agent of this node found.
    pub fn topology(&self, node: &str) -> Option<&Arc<NodeTopology>> {
        self.topologies.get(node)
    }
}
