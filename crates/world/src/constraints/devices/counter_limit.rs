//! Limits of counters that devices share.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::dra::slices::SliceDevice;
use crate::units::unit::Unit;

/// An upper bound on what actors use of a counter.
pub(crate) struct CounterLimit<'a> {
    /// What an actor on a unit counts.
    pub units: BTreeMap<&'a str, u64>,
    /// The kinds of the units.
    pub kinds: BTreeSet<&'a str>,
    pub max: u64,
    pub reason: String,
}

/// Units of single devices that share counters, each with its device.
pub(crate) type NamedUnits<'a> = Vec<(&'a Unit, &'a SliceDevice)>;
