//! Copies between host and device, and within devices.

use std::{collections::BTreeMap, sync::Arc};

use opencl3::error_codes::ClError;
use runtime::{
    At, Bytes, Capability, CommunicationManager, Error, GlobalSlot, InstanceId, Key, LocalSlot, LockGuard,
    Pending, Slot, Tag, Wait, fence_alone,
};

use crate::device::{NAME, Place, wrong};
use crate::memory::held;

/// Memory managers whose slots are host memory.
const HOSTS: [&str; 3] = ["host", "processes", "tcp"];
/// Bytes of a copy in flight at a time.
const PIECE: usize = 4 << 20;

/// Copies to, from and between devices; complete when `memcpy` returns.
pub struct Copies(Arc<Vec<Place>>);

impl Copies {
    pub(crate) fn new(places: Arc<Vec<Place>>) -> Self {
        Self(places)
    }

    fn alone<T>(&self, what: &str) -> Result<T, Error> {
        let devices = self.0.len();
        let instead =
            format!("it manages {devices} devices and no peers; copy to a host slot and continue from there");
        Err(Error::unsupported(NAME, what, &instead))
    }
}

fn read(from: &Bytes, offset: usize, bytes: &mut [u8]) -> Result<(), ClError> {
    match (from, held(from)) {
        (_, Some(held)) => held.read(offset, bytes),
        (Bytes::Host(memory), None) => memory.read(offset, bytes).map_err(|_| ClError(-30)),
        (Bytes::Device(..), None) => Err(ClError(-38)),
    }
}

fn write(to: &Bytes, offset: usize, bytes: &[u8]) -> Result<(), ClError> {
    match (to, held(to)) {
        (_, Some(held)) => held.write(offset, bytes),
        (Bytes::Host(memory), None) => memory.write(offset, bytes).map_err(|_| ClError(-30)),
        (Bytes::Device(..), None) => Err(ClError(-38)),
    }
}

impl CommunicationManager for Copies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, capability: Capability) -> bool {
        capability == Capability::DeviceCopies
    }

    fn claims(&self, to: &str, from: &str) -> bool {
        let known = |origin| origin == NAME || HOSTS.contains(&origin);
        known(to) && known(from) && (to == NAME || from == NAME)
    }

    fn copy(&self, to: At<'_, LocalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error> {
        if !self.claims(to.slot.origin(), from.slot.origin()) {
            let why = format!(
                "{NAME} copies to, from and between devices; use a manager that claims {:?}",
                to.slot
            );
            return Err(Error::misuse("copy", why));
        }
        let (target, source) =
            (Pending::begin(to.slot, to.offset, size)?, Pending::begin(from.slot, from.offset, size)?);
        let same = std::ptr::eq(target.bytes(), source.bytes());
        if same && size > 0 && to.offset < from.offset + size && from.offset < to.offset + size {
            let why =
                format!("source and destination overlap within {:?}; copy non-overlapping parts", to.slot);
            return Err(Error::misuse("copy", why));
        }
        let mut bytes = vec![0; size.min(PIECE)];
        let mut done = 0;
        while done < size {
            let piece = &mut bytes[..(size - done).min(PIECE)];
            read(source.bytes(), from.offset + done, piece)
                .and_then(|()| write(target.bytes(), to.offset + done, piece))
                .map_err(|error| wrong("copy to or from a device", &error))?;
            done += piece.len();
        }
        source.sent();
        target.received();
        Ok(())
    }

    fn put(&self, _to: At<'_, GlobalSlot>, _from: At<'_, LocalSlot>, _size: usize) -> Result<(), Error> {
        self.alone("copy to a global slot")
    }

    fn get(&self, _to: At<'_, LocalSlot>, _from: At<'_, GlobalSlot>, _size: usize) -> Result<(), Error> {
        self.alone("copy from a global slot")
    }

    fn fence(&self, slot: Slot<'_>, sent: u64, received: u64) -> Result<Wait<()>, Error> {
        match slot {
            Slot::Local(slot) => fence_alone(slot, sent, received),
            Slot::Global(_) => self.alone("fence a global slot"),
        }
    }

    fn fence_tag(&self, _tag: Tag) -> Result<Wait<()>, Error> {
        self.alone("fence a tag")
    }

    fn exchange(
        &self,
        _group: &[InstanceId],
        _tag: Tag,
        _slots: &[(Key, &LocalSlot)],
    ) -> Result<Wait<BTreeMap<Key, GlobalSlot>>, Error> {
        self.alone("exchange slots")
    }

    fn destroy(&self, _slot: GlobalSlot) -> Result<(), Error> {
        self.alone("destroy a global slot")
    }

    fn promote(&self, _slot: &LocalSlot) -> Result<GlobalSlot, Error> {
        self.alone("promote a slot")
    }

    fn to_bytes(&self, _slot: &GlobalSlot) -> Result<Vec<u8>, Error> {
        self.alone("serialize a global slot")
    }

    fn from_bytes(&self, _bytes: &[u8]) -> Result<GlobalSlot, Error> {
        self.alone("deserialize a global slot")
    }

    fn try_lock(&self, _slot: &GlobalSlot) -> Result<Option<LockGuard>, Error> {
        self.alone("lock a global slot")
    }
}
