//! After a relist: removes objects that no longer exist.

use std::collections::BTreeSet;

use crate::ApplicationKey;
use crate::index::Index;
use crate::index::names::Name;

impl Index {
    /// Removes the pods that are not among `names`.
    pub fn retain_pods(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<Name> = self.pods.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for (namespace, name) in &gone {
            self.remove_pod(namespace, name);
        }
    }

    /// Removes the Instances that are not among `names`.
    pub fn retain_instances(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<Name> = self.instances.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for (namespace, name) in &gone {
            self.remove_instance(namespace, name);
        }
    }

    /// Removes the applications that are not among `names`.
    pub fn retain_applications(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<ApplicationKey> = missing(self.applications.keys(), names);
        for key in &gone {
            self.remove_application(key);
        }
    }

    /// Removes the decisions that are not among `names`.
    pub fn retain_placements(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<ApplicationKey> = missing(self.placements.keys(), names);
        for key in &gone {
            self.remove_placement(key);
        }
    }

    /// Removes the nodes that are not among `names`.
    pub fn retain_nodes(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<String> = unlisted(self.nodes.keys(), names);
        for name in &gone {
            self.remove_node(name);
        }
    }

    /// Removes the topologies that are not among `names`.
    pub fn retain_topologies(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<String> = unlisted(self.topologies.keys(), names);
        for name in &gone {
            self.remove_topology(name);
        }
    }

    /// Removes the pools that are not among `names`.
    pub fn retain_pools(&mut self, names: &BTreeSet<(String, String)>) {
        let gone: Vec<String> = unlisted(self.pools.keys(), names);
        for name in &gone {
            self.remove_pool(name);
        }
    }
}

fn missing<'a>(
    keys: impl Iterator<Item = &'a ApplicationKey>,
    names: &BTreeSet<(String, String)>,
) -> Vec<ApplicationKey> {
    keys.filter(|key| !names.contains(&(key.namespace.clone(), key.name.clone()))).cloned().collect()
}

fn unlisted<'a>(keys: impl Iterator<Item = &'a String>, names: &BTreeSet<(String, String)>) -> Vec<String> {
    keys.filter(|name| !names.contains(&(String::new(), (*name).clone()))).cloned().collect()
}
