//! Offers of nodes, as cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::units::report::PoolReport;
use crate::units::unit::{Unit, Units};

/// Units of all pools by id, and a report on each pool.
#[derive(Debug)]
pub(crate) struct Offer {
    pub units: Units,
    pub reports: BTreeMap<String, PoolReport>,
}

/// Units and pool reports of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeUnits {
    pub units: Vec<Arc<Unit>>,
    pub reports: BTreeMap<String, PoolReport>,
}

/// Offers of all nodes, for one window.
#[derive(Debug)]
pub(crate) struct OfferCache {
    /// Nodes whose offer has to be recomputed.
    pub changed: BTreeSet<String>,
    /// By node.
    pub by_node: BTreeMap<String, NodeUnits>,
    /// The combined offer, until a node changes.
    pub whole: Option<Arc<Offer>>,
}
