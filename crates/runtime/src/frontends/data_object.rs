//! Data objects: large, occasional transfers that need no channel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    hicr::MemorySpace,
    model::{CommunicationManager, Error, GlobalSlot, LocalSlot, Memcpy, MemoryManager},
};

/// The serialized identifier of an object, to be sent to its readers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId(Vec<u8>);

/// A reference through which an object can be read.
pub struct Handle(GlobalSlot);

impl Handle {
    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.0.size()
    }
}

/// Publishes objects and reads those of peers.
pub struct DataObjects<'a> {
    memory: &'a dyn MemoryManager,
    communication: &'a dyn CommunicationManager,
    published: BTreeMap<ObjectId, (LocalSlot, GlobalSlot)>,
}

impl<'a> DataObjects<'a> {
    /// A new set without published objects.
    pub fn new(memory: &'a dyn MemoryManager, communication: &'a dyn CommunicationManager) -> Self {
        Self { memory, communication, published: BTreeMap::new() }
    }

    /// Publishes the contents of a slot, readable until the object is destroyed.
    pub fn publish(&mut self, slot: LocalSlot) -> Result<ObjectId, Error> {
        let global = self.communication.promote(&slot)?;
        let id = ObjectId(self.communication.to_bytes(&global)?);
        self.published.insert(id.clone(), (slot, global));
        Ok(id)
    }

    /// The handle of a local or remote object; a destroyed one is [`Error::Gone`].
    pub fn get_handle(&self, id: &ObjectId) -> Result<Handle, Error> {
        self.communication.from_bytes(&id.0).map(Handle)
    }

    /// Starts copying an object into a new slot. A fence of that slot for 1 received copy awaits completion.
    pub fn get(&self, handle: &Handle, space: &MemorySpace) -> Result<LocalSlot, Error> {
        let slot = self.memory.allocate(space, handle.size())?;
        self.communication.memcpy(&slot, 0, &handle.0, 0, handle.size())?;
        Ok(slot)
    }

    /// Destroys an object of this Instance and returns its slot.
    pub fn destroy(&mut self, id: &ObjectId) -> Result<LocalSlot, Error> {
        let published = self.published.remove(id);
        let (slot, global) = published.ok_or_else(|| Error::Gone("the data object".into()))?;
        self.communication.destroy(global)?;
        Ok(slot)
    }
}
