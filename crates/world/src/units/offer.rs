//! What nodes offer, as it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Toleration;

use crate::units::report::PoolReport;
use crate::units::unit::{Unit, Units};

/// What the pools make of all nodes: units by id, and a report on each pool.
#[derive(Debug)]
pub(crate) struct Offer {
    pub units: Units,
    pub reports: BTreeMap<String, PoolReport>,
    /// Tolerations that pods get from their pool.
    pub tolerations: BTreeMap<String, Vec<Toleration>>,
}

/// What one node offers, by id, and what is to be said of pools there.
#[derive(Debug, Default)]
pub(crate) struct AtNode {
    pub units: Vec<Arc<Unit>>,
    pub reports: BTreeMap<String, PoolReport>,
}

/// What all nodes offer, their capacities counted over one window.
#[derive(Debug)]
pub(crate) struct Offers {
    /// Nodes at which something changed since.
    pub changed: BTreeSet<String>,
    /// By node.
    pub of: BTreeMap<String, AtNode>,
    /// All of it, while nothing changes.
    pub whole: Option<Arc<Offer>>,
}
