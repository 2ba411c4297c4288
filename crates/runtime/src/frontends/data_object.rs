//! Data objects: large data, sent now and then, without a ring made beforehand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    hicr::MemorySpace,
    model::{CommunicationManager, Error, GlobalSlot, LocalSlot, Memcpy, MemoryManager},
};

/// Which object; sent to whoever is to get it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId(Vec<u8>);

/// What is needed to get an object.
pub struct Handle(GlobalSlot);

impl Handle {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.0.size()
    }
}

/// Publishes objects, and gets those of others.
pub struct DataObjects<'a> {
    memory: &'a dyn MemoryManager,
    communication: &'a dyn CommunicationManager,
    published: BTreeMap<ObjectId, (LocalSlot, GlobalSlot)>,
}

impl<'a> DataObjects<'a> {
    /// With nothing published.
    pub fn new(memory: &'a dyn MemoryManager, communication: &'a dyn CommunicationManager) -> Self {
        Self { memory, communication, published: BTreeMap::new() }
    }

    /// Makes what is in a slot an object, which others can get until it is destroyed.
    pub fn publish(&mut self, slot: LocalSlot) -> Result<ObjectId, Error> {
        let global = self.communication.promote(&slot)?;
        let id = ObjectId(self.communication.to_bytes(&global)?);
        self.published.insert(id.clone(), (slot, global));
        Ok(id)
    }

    /// The handle of an object, here or elsewhere; one that was destroyed is [`Error::Gone`].
    pub fn get_handle(&self, id: &ObjectId) -> Result<Handle, Error> {
        self.communication.from_bytes(&id.0).map(Handle)
    }

    /// Begins to copy an object into a slot of its own. It is there when a fence of that slot has received 1.
    pub fn get(&self, handle: &Handle, space: &MemorySpace) -> Result<LocalSlot, Error> {
        let slot = self.memory.allocate(space, handle.size())?;
        self.communication.memcpy(&slot, 0, &handle.0, 0, handle.size())?;
        Ok(slot)
    }

    /// Ends an object of this Instance, and gives its slot back.
    pub fn destroy(&mut self, id: &ObjectId) -> Result<LocalSlot, Error> {
        let published = self.published.remove(id);
        let (slot, global) = published.ok_or_else(|| Error::Gone("the data object".into()))?;
        self.communication.destroy(global)?;
        Ok(slot)
    }
}
