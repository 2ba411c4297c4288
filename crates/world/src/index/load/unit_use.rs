//! How much of its units an application and others use.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::load::by_unit::LoadSum;
use crate::{ApplicationKey, Index, Policy};

/// What uses a unit on which an application has load, over the policy's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitUse {
    /// Work of the application in microseconds.
    pub own: u64,
    /// Work of other applications.
    pub others: u64,
    /// Actors of other applications.
    pub other_actors: u64,
    /// Work that the unit can do.
    pub capacity: u64,
}

impl Index {
    /// What uses the units on which an application has load, without those that are not offered any more.
    pub fn unit_use(&self, key: &ApplicationKey, policy: &Policy) -> BTreeMap<String, UnitUse> {
        let mut used: BTreeMap<String, UnitUse> = self.read_loads(policy, |loads| {
            let of_unit = |(unit, own, all): (&String, &LoadSum, &LoadSum)| {
                let used = UnitUse {
                    own: own.work,
                    others: all.work.saturating_sub(own.work),
                    other_actors: all.count - own.count,
                    capacity: 0,
                };
                (unit.clone(), used)
            };
            loads.own_units(key).map(of_unit).collect()
        });
        let nodes: BTreeSet<String> =
            used.keys().filter_map(|unit| Some(unit.rsplit_once('/')?.0.to_owned())).collect();
        let mut offered = BTreeSet::new();
        for unit in nodes.iter().flat_map(|node| self.offer_at(node, policy)) {
            if let Some(used) = used.get_mut(&unit.id) {
                used.capacity = unit.capacity;
                offered.insert(unit.id.clone());
            }
        }
        used.retain(|unit, _| offered.contains(unit));
        used
    }
}
