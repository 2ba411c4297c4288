//! Capacity accounting: a pod starts only once its unit is free.

use crate::actions::blocked_on::BlockedOn;
use crate::model::{DesiredState, FreeCapacity, ResourceAmounts};

/// Free capacity less the starts of this reconcile.
#[derive(Clone)]
pub(crate) struct RoomTracker<'a> {
    desired: &'a DesiredState,
    left: FreeCapacity,
}

impl<'a> RoomTracker<'a> {
    pub fn new(desired: &'a DesiredState, left: &FreeCapacity) -> Self {
        Self { desired, left: left.clone() }
    }

    /// Reserves capacity for an actor of the group on a unit, or returns what it is blocked on.
    pub fn take(&mut self, group: usize, id: &str) -> Result<(), BlockedOn> {
        let Some(unit) = self.left.units.get_mut(id) else {
            return Err(BlockedOn::NotOffered(id.to_owned()));
        };
        let Some(asks) = self.desired.requests.get(group).and_then(|kinds| kinds.get(&unit.kind)) else {
            return Err(BlockedOn::Infeasible(id.to_owned()));
        };
        if self.left.pools.get(&unit.pool) == Some(&0) {
            return Err(BlockedOn::PoolLimit(unit.pool.clone()));
        }
        if unit.slots == Some(0) {
            return Err(BlockedOn::Unit(id.to_owned()));
        }
        let mut asks: ResourceAmounts = asks.clone();
        if let Some(resource) = &unit.resource {
            asks.insert(resource.clone(), 1);
        }
        let Some(node) = self.left.nodes.get_mut(&unit.node) else {
            return Err(BlockedOn::NotOffered(id.to_owned()));
        };
        let short = asks.iter().find(|(resource, amount)| **amount > *node.get(*resource).unwrap_or(&0));
        if let Some((resource, _)) = short {
            return Err(BlockedOn::Resource { resource: resource.clone(), node: unit.node.clone() });
        }
        for (resource, amount) in &asks {
            if let Some(left) = node.get_mut(resource) {
                *left -= amount;
            }
        }
        if let Some(left) = self.left.pools.get_mut(&unit.pool) {
            *left -= 1;
        }
        if let Some(slots) = &mut unit.slots {
            *slots -= 1;
        }
        Ok(())
    }
}
