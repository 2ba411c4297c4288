//! Lazily computed offers, cached until their node changes.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use crate::units::offer::{NodeUnits, Offer, OfferCache};
use crate::units::report::PoolReport;
use crate::units::unit::Unit;
use crate::units::{free_node, node_offer, note_pool, pool_problem};
use crate::{Index, Policy};

/// Number of windows that are cached.
const MAX_WINDOWS: usize = 16;

impl OfferCache {
    /// Nothing is computed yet for these nodes.
    fn unknown<'a>(nodes: impl Iterator<Item = &'a String>) -> Self {
        Self { changed: nodes.cloned().collect(), by_node: BTreeMap::new(), whole: None }
    }

    fn changed(&mut self, node: &str) {
        if !self.changed.contains(node) {
            self.changed.insert(node.to_owned());
        }
        self.whole = None;
    }

    /// Recomputes the offer of a node by `of`, which also tells whether the offer is volatile. It is unmarked only afterwards, and
    /// volatile offers stay marked as changed.
    fn compute(&mut self, node: &str, of: impl Fn(&str) -> Option<(NodeUnits, bool)>) {
        let Some((units, is_volatile)) = of(node) else {
            self.by_node.remove(node);
            self.changed.remove(node);
            return;
        };
        self.by_node.insert(node.to_owned(), units);
        if !is_volatile {
            self.changed.remove(node);
        }
    }

    /// Recomputes the offers of all changed nodes.
    fn compute_changed(&mut self, of: impl Fn(&str) -> Option<(NodeUnits, bool)>) {
        for node in self.changed.clone() {
            self.compute(&node, &of);
        }
    }

    /// The units of one node.
    fn at(&mut self, index: &Index, node: &str, policy: &Policy) -> Vec<Arc<Unit>> {
        if self.changed.contains(node) {
            self.compute(node, units_of(index, policy));
        }
        self.by_node.get(node).map(|at| at.units.clone()).unwrap_or_default()
    }

    /// The combined offer.
    fn whole(&mut self, index: &Index, policy: &Policy) -> Arc<Offer> {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        self.compute_changed(units_of(index, policy));
        let mut offer = Offer {
            units: self.by_node.values().flat_map(|at| &at.units).cloned().collect(),
            reports: BTreeMap::new(),
        };
        for (name, pool) in &index.pools {
            let mut report = PoolReport::default();
            if let Some((type_, problem)) = pool_problem(index, pool, policy) {
                report.add_problem(type_, problem);
            }
            note_pool(index, pool, &mut report);
            for more in self.by_node.values().filter_map(|at| at.reports.get(name)) {
                report.add(more);
            }
            report.drop_explained();
            offer.reports.insert(name.clone(), report);
        }
        let offer = Arc::new(offer);
        if self.changed.is_empty() {
            self.whole = Some(offer.clone());
        }
        offer
    }
}

/// Units of a node of the index, and whether they are volatile.
fn units_of(index: &Index, policy: &Policy) -> impl Fn(&str) -> Option<(NodeUnits, bool)> {
    move |node: &str| {
        let free = free_node(index, node)?;
        let offer = node_offer(index, &free, policy);
        let units = offer.units.into_iter().map(Arc::new).collect();
        Some((NodeUnits { units, reports: offer.reports }, free.is_volatile()))
    }
}

impl Index {
    /// The offer of all nodes, over the policy's window.
    pub(crate) fn offer(&self, policy: &Policy) -> Arc<Offer> {
        self.offers(policy, |offers| offers.whole(self, policy))
    }

    /// The units of one node.
    pub(crate) fn offer_at(&self, node: &str, policy: &Policy) -> Vec<Arc<Unit>> {
        self.offers(policy, |offers| offers.at(self, node, policy))
    }

    fn offers<T>(&self, policy: &Policy, ask: impl FnOnce(&mut OfferCache) -> T) -> T {
        let mut all = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MAX_WINDOWS {
            all.clear();
        }
        ask(all.entry(policy.window).or_insert_with(|| OfferCache::unknown(self.nodes.keys())))
    }

    /// Marks a node's offer for recomputation.
    pub(crate) fn node_changed(&mut self, node: &str) {
        let offers = self.offers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for offers in offers.values_mut() {
            offers.changed(node);
        }
    }

    /// Drops all cached offers.
    pub(crate) fn forget_offers(&mut self) {
        self.offers.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use serde_json::json;

    use super::*;
    use crate::Objects;

    /// A node with a GPU of this health, and its pool.
    fn index(health: &str) -> Index {
        let text = r#"
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", acme.com/gpu: "1"}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, spec: {devices: [{id: gpu-0, type: GPU, health: HEALTH}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, resource: {devicePlugin: acme.com/gpu}}}"#;
        let mut objects = Objects::default();
        objects.read("test", &text.replace("HEALTH", health)).unwrap();
        Index::of(&objects)
    }

    #[test]
    fn failed_computations_are_retried() {
        let nodes = ["a", "b", "c"].map(str::to_owned);
        let mut offers = OfferCache::unknown(nodes.iter());
        for (fails, left) in [("b", "bc"), ("a", "c"), ("", "c")] {
            let of = |node: &str| {
                assert_ne!(node, fails, "it cannot be computed");
                Some((NodeUnits::default(), node == "c"))
            };
            let done = catch_unwind(AssertUnwindSafe(|| offers.compute_changed(of)));
            let changed: String = offers.changed.iter().map(String::as_str).collect();
            assert_eq!((done.is_err(), changed.as_str()), (fails == "b", left), "{fails}");
        }
    }

    fn update_pool_status(index: &mut Index) {
        let mut pool = index.pools["gpus"].as_ref().clone();
        pool.status = Some(serde_json::from_value(json!({"allocated": 1})).unwrap());
        index.put_pool(Arc::new(pool));
    }

    fn update_topology_status(index: &mut Index) {
        let mut topology = index.topologies["n0"].as_ref().clone();
        topology.status = Some(serde_json::from_value(json!({"devices": "1 GPU"})).unwrap());
        index.put_topology(Arc::new(topology));
    }

    fn faster(index: &mut Index) {
        let mut pool = index.pools["gpus"].as_ref().clone();
        pool.spec.speed = "2".to_owned();
        index.put_pool(Arc::new(pool));
    }

    /// A status update keeps the cached offer, except for lost devices, whose allocations matter.
    #[test]
    fn status_updates_keep_the_cached_offer() {
        type Change = fn(&mut Index);
        let table: [(&str, &str, Change, bool); 4] = [
            ("the status of a pool", "ok", update_pool_status, true),
            ("the status of a topology", "ok", update_topology_status, true),
            ("the status of a topology with a lost device", "lost", update_topology_status, false),
            ("another pool", "ok", faster, false),
        ];
        for (what, health, change, is_kept) in table {
            let mut index = index(health);
            let policy = Policy::builtin("p");
            let before = index.offer_at("n0", &policy);
            assert!(
                index.offers.get_mut().unwrap().values().all(|offers| offers.by_node.contains_key("n0")),
                "{what}"
            );
            change(&mut index);
            let offers = index.offers.get_mut().unwrap();
            let is_known = |offers: &OfferCache| !offers.changed.contains("n0");
            assert_eq!(!offers.is_empty() && offers.values().all(is_known), is_kept, "{what}");
            let after = index.offer_at("n0", &policy);
            assert_eq!(after.len(), before.len(), "{what}");
        }
        let mut index = index("ok");
        update_pool_status(&mut index);
        update_topology_status(&mut index);
        assert!(index.pools["gpus"].status.is_some() && index.topologies["n0"].status.is_some());
    }
}
