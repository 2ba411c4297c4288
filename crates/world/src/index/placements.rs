//! Decided places in the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::{ActorApplication, Placement};
use kube::ResourceExt;

use crate::index::names::namespace_of;
use crate::index::names::remove_from_set;
use crate::{ApplicationKey, Index};

impl Index {
    /// Adds or updates a decision.
    pub fn put_placement(&mut self, placement: Arc<Placement>) {
        let key = ApplicationKey { namespace: namespace_of(placement.as_ref()), name: placement.name_any() };
        self.replace_placement(&key, Some(placement));
    }

    /// Removes a decision.
    pub fn remove_placement(&mut self, key: &ApplicationKey) {
        self.replace_placement(key, None);
    }

    /// Decisions of the other applications, except of those that are being deleted: they start no more pods.
    pub(crate) fn decisions_beside(
        &self,
        key: &ApplicationKey,
    ) -> impl Iterator<Item = (&ApplicationKey, &ActorApplication, &Placement)> {
        let others = self.applications.iter().filter(move |(other, _)| *other != key);
        let others = others.filter(|(_, application)| application.metadata.deletion_timestamp.is_none());
        others.filter_map(|(other, it)| Some((other, it.as_ref(), self.placement(other)?.as_ref())))
    }

    fn replace_placement(&mut self, key: &ApplicationKey, new: Option<Arc<Placement>>) {
        self.load_changed(key);
        let old = self.placements.remove(key);
        let (before, after) = (by_node(old.as_deref()), by_node(new.as_deref()));
        for (node, units) in &before {
            remove_from_set(&mut self.applications_by_node, node, key);
            let Some(decided) = self.decided_by_node.get_mut(*node) else { continue };
            for (unit, count) in units {
                if let Some(all) = decided.get_mut(*unit) {
                    *all -= count;
                }
            }
            decided.retain(|_, count| *count > 0);
            if decided.is_empty() {
                self.decided_by_node.remove(*node);
            }
        }
        for (node, units) in &after {
            self.applications_by_node.entry((*node).to_owned()).or_default().insert(key.clone());
            let decided = self.decided_by_node.entry((*node).to_owned()).or_default();
            for (unit, count) in units {
                *decided.entry((*unit).to_owned()).or_default() += count;
            }
        }
        // A node's offer depends on the places decided there.
        let nodes = before.keys().chain(after.keys().filter(|node| !before.contains_key(*node)));
        for node in nodes.filter(|node| before.get(*node) != after.get(*node)) {
            self.node_changed(node);
        }
        if let Some(new) = new {
            self.placements.insert(key.clone(), new);
        }
    }
}

/// Number of actors decided on each unit, by node.
fn by_node(placement: Option<&Placement>) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut nodes: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for assignment in placement.iter().flat_map(|placement| &placement.spec.assignments) {
        *nodes.entry(&assignment.node).or_default().entry(&assignment.unit).or_default() += 1;
    }
    nodes
}
