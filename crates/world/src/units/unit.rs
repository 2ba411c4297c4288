//! Computing units.

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

use crate::units::dra::slices::DeviceKey;

/// Why a unit is cordoned: running actors stay and no new ones are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum CordonReason {
    /// More is in use than is offered.
    #[strum(
        to_string = "more devices are in use than offered; running actors stay and no new ones are placed"
    )]
    Overcommitted,
    /// The agent's lease expired, so its topology may be outdated.
    #[strum(
        to_string = "the lease of the node's agent expired; running actors stay and no new ones are placed"
    )]
    StaleAgent,
    /// Its device has a taint of effect `NoSchedule`, or works with errors.
    #[strum(
        to_string = "the device has a taint of effect NoSchedule or works with errors; running actors stay and no new ones are placed"
    )]
    DeviceTainted,
    /// Its driver's pool of devices is incomplete or invalid, so kube-scheduler allocates none of them.
    #[strum(
        to_string = "the driver's pool of devices is incomplete or invalid; running actors stay and no new ones are placed"
    )]
    DeviceWithheld,
    /// Claims cannot tell its device apart from others any more.
    #[strum(
        to_string = "no unique attribute identifies the device any more; running actors stay and no new ones are placed"
    )]
    NotPinnable,
    /// The class or the selectors of its pool cannot be evaluated, or an older CRD dropped them.
    #[strum(
        to_string = "unknown whether the pool still has the device; running actors stay and no new ones are placed"
    )]
    UnknownPool,
    /// It was withdrawn, and its grace period runs.
    #[strum(
        to_string = "the unit is no longer offered; running actors stay for a grace period and no new ones are placed"
    )]
    Withdrawn,
}

/// The resource claim of an actor, which requests one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceClaim {
    /// The class of the device.
    pub class: String,
    /// CEL expressions that select the device, or any device of the pool if its devices cannot be told apart.
    pub selectors: Vec<String>,
    /// The device, if the selectors select it alone.
    pub device: Option<DeviceKey>,
    /// Devices with shared counters among which kube-scheduler chooses.
    pub choices: Arc<[DeviceKey]>,
}

/// A computing unit, and how a pod requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `node/pool-index`, or `node/pool-device` for a device that a claim selects.
    pub id: String,
    /// Device kind.
    pub kind: String,
    /// Its node.
    pub node: String,
    /// The node's zone.
    pub zone: Option<String>,
    /// The NUMA domain, if it is known and can be requested.
    pub numa: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Work in microseconds per window.
    pub capacity: u64,
    /// Maximum work of one actor, which handles one message at a time.
    pub capacity_per_actor: u64,
    /// Memory in MiB, if known; of several devices, that of the smallest.
    pub memory_mib: Option<u64>,
    /// Maximum number of actors.
    pub slots: Option<u64>,
    /// Extended resource of which a pod requests one.
    pub resource: Option<String>,
    /// Claim by which a pod requests its device.
    pub claim: Option<DeviceClaim>,
    /// Id of its device in the node's topology, if it is known which device a pod gets.
    pub device: Option<String>,
    /// Set if running actors stay and no new ones are placed.
    pub cordoned: Option<CordonReason>,
}

/// Pool in a unit's id: the longest of these names that is followed by an index or a device.
///
/// Names of pools and devices may contain dashes.
pub(crate) fn pool_of<'a, T>(id: &'a str, pools: &BTreeMap<String, T>) -> Option<&'a str> {
    let (_, unit) = id.rsplit_once('/')?;
    let ends = unit.rmatch_indices('-').map(|(at, _)| &unit[..at]);
    let mut found = ends.clone().filter(|name| pools.contains_key(*name));
    // The pool of a deleted unit may be deleted, too.
    found.next().or_else(|| ends.clone().next())
}

/// Units sorted by id. Cheap to clone: snapshots share unchanged units.
#[derive(Clone, Debug, Default)]
pub struct Units(Arc<Vec<Arc<Unit>>>);

impl Units {
    /// The unit with this id.
    pub fn get(&self, id: &str) -> Option<&Unit> {
        let found = self.0.binary_search_by(|unit| (*unit.id).cmp(id));
        found.ok().map(|at| &*self.0[at])
    }

    /// All units by id.
    pub fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Arc<Unit>> for Units {
    fn from_iter<T: IntoIterator<Item = Arc<Unit>>>(units: T) -> Self {
        let mut units: Vec<Arc<Unit>> = units.into_iter().collect();
        units.sort_by(|a, b| a.id.cmp(&b.id));
        Self(Arc::new(units))
    }
}

impl Index<&str> for Units {
    type Output = Unit;

    /// The unit with this id, which must exist.
    fn index(&self, id: &str) -> &Unit {
        self.get(id).expect("ids come from the same snapshot")
    }
}
