//! Copies between slots, their counters and fences, and global slots.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use raw::Header;
use serde::{Deserialize, Serialize};

use super::{
    capability::Capability,
    error::Error,
    id::InstanceId,
    memory::{Bytes, LocalSlot, SlotCore, Tally},
    wait::Wait,
};

/// Identifies an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag(pub u64);

/// Identifies a slot within an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub u64);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Total numbers of completed copies at a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies out of the slot: their source bytes may be overwritten.
    pub sent: u64,
    /// Copies into the slot: their bytes have arrived.
    pub received: u64,
}

/// State shared by the global slots of one exchange.
pub(crate) struct Group {
    pub tag: Option<Tag>,
    pub members: Vec<InstanceId>,
    pub slots: Mutex<BTreeMap<Key, Arc<GlobalCore>>>,
    /// Slots to destroy at the next fence.
    pub doomed: Mutex<BTreeSet<Key>>,
    /// Number of completed fences of the tag.
    pub round: Mutex<u64>,
}

/// The shared part of a global slot.
pub(crate) struct GlobalCore {
    pub key: Key,
    pub owner: InstanceId,
    /// The underlying slot, local or mapped from its owner.
    pub target: Arc<SlotCore>,
    pub secret: [u64; 2],
    pub own: bool,
    pub gone: AtomicBool,
    /// Counts of this Instance's own copies.
    pub header: Header,
    pub tally: Tally,
    pub group: Arc<Group>,
    /// The descriptor that later Instances need, if the slot is promoted.
    pub bytes: Option<Vec<u8>>,
}

/// A slot of some Instance of the group that every member can reach (hicr.txt 3.1.4).
pub struct GlobalSlot {
    pub(crate) core: Arc<GlobalCore>,
}

impl fmt::Display for GlobalCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.tag {
            Some(tag) => write!(f, "global slot {} of tag {tag}", self.key),
            None => write!(f, "promoted slot {}", self.key),
        }
    }
}

impl fmt::Debug for GlobalSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of Instance {}", self.core, self.core.owner)
    }
}

impl GlobalSlot {
    /// The Instance that owns the memory.
    pub fn owner(&self) -> InstanceId {
        self.core.owner
    }

    /// The key of the slot in its exchange.
    pub fn key(&self) -> Key {
        self.core.key
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.core.target.check(0, 0).map_or(0, |()| self.core.size())
    }
}

impl GlobalSlot {
    /// Hint that copies to this slot are imminent.
    pub(crate) fn prefetch_counter(&self) {
        if let Bytes::Host(memory) = &self.core.target.bytes {
            memory.prefetch_counter();
        }
    }

    /// Hint that a copy to `offset` and the following bytes is imminent.
    pub(crate) fn prefetch_bytes(&self, offset: usize) {
        if let Bytes::Host(memory) = &self.core.target.bytes {
            memory.prefetch_bytes(offset);
        }
    }
}

impl GlobalCore {
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.target.header().size.load(SeqCst)).unwrap_or(usize::MAX)
    }

    /// Fails if the slot was destroyed, here or at its owner.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        let revoked = self.group.tag.is_none() && !self.target.header().has_secret(self.secret);
        if self.gone.load(SeqCst) || revoked { Err(Error::Gone(self.to_string())) } else { Ok(()) }
    }
}

/// A local or global slot.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// A slot of this Instance.
    Local(&'a LocalSlot),
    /// A slot of any Instance.
    Global(&'a GlobalSlot),
}

impl Slot<'_> {
    /// The counters in the slot's header.
    #[inline]
    pub(crate) fn counts(self) -> Counts {
        let header = match self {
            Slot::Local(slot) => slot.core.header(),
            Slot::Global(slot) if slot.core.own => slot.core.target.header(),
            Slot::Global(slot) => &slot.core.header,
        };
        Counts { sent: header.sent.0.load(SeqCst), received: header.received.load(SeqCst) }
    }
}

impl<'a> From<&'a LocalSlot> for Slot<'a> {
    fn from(slot: &'a LocalSlot) -> Self {
        Self::Local(slot)
    }
}

impl<'a> From<&'a GlobalSlot> for Slot<'a> {
    fn from(slot: &'a GlobalSlot) -> Self {
        Self::Global(slot)
    }
}

/// Holds the lock of a global slot; dropping it releases the lock.
pub struct LockGuard {
    pub(crate) core: Arc<GlobalCore>,
    pub(crate) me: InstanceId,
    /// Releases the lock remotely if this process does not map the slot.
    pub(crate) far: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(give_back) = self.far.take() {
            give_back();
            return;
        }
        let lock = &self.core.target.header().lock;
        // Release only our own lock: if we were considered lost, another Instance may hold it now.
        let _ = lock.compare_exchange(self.me.0, 0, SeqCst, SeqCst);
    }
}

/// Copies, fences and exchanges (hicr.txt 3.1.4).
pub trait CommunicationManager: Send + Sync {
    /// The manager's name in error messages.
    fn name(&self) -> &'static str;
    /// Whether the manager supports this capability.
    fn supports(&self, capability: Capability) -> bool;
    /// Whether the manager copies between slots of these two memory managers.
    fn claims(&self, to: &str, from: &str) -> bool;
    /// Copies within the Instance. [`memcpy`](Memcpy::memcpy) calls this and the next two.
    fn copy(&self, to: At<'_, LocalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error>;
    /// Copies to a global slot.
    fn put(&self, to: At<'_, GlobalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error>;
    /// Counts a copy of size 0 at a global slot. No fence waits for it, so it may be delayed and sent together with
    /// the next copy that needs one.
    fn signal(&self, to: &GlobalSlot, from: &LocalSlot) -> Result<(), Error> {
        self.put(At { slot: to, offset: 0 }, At { slot: from, offset: 0 }, 0)
    }
    /// Copies from a global slot.
    fn get(&self, to: At<'_, LocalSlot>, from: At<'_, GlobalSlot>, size: usize) -> Result<(), Error>;
    /// Total numbers of completed copies at a slot.
    fn counts(&self, slot: Slot<'_>) -> Counts {
        slot.counts()
    }
    /// Waits for `sent` and `received` further completed copies and consumes these counts.
    ///
    /// A time-out, or the loss of a peer (reported once), consumes nothing. One fence at a time per slot.
    fn fence(&self, slot: Slot<'_>, sent: u64, received: u64) -> Result<Wait<()>, Error>;
    /// Waits until every member of the tag's group has called it. Earlier copies have then completed, and slots
    /// destroyed by any member are released.
    fn fence_tag(&self, tag: Tag) -> Result<Wait<()>, Error>;
    /// Collective: makes slots reachable for a sorted group that includes this Instance. Each member contributes any
    /// number of slots and gets the union. Inconsistent arguments are the same error for all members.
    fn exchange(
        &self,
        group: &[InstanceId],
        tag: Tag,
        slots: &[(Key, &LocalSlot)],
    ) -> Result<Wait<BTreeMap<Key, GlobalSlot>>, Error>;
    /// Destroys a global slot at the tag's next fence, or at once if it is promoted or a member is lost.
    fn destroy(&self, slot: GlobalSlot) -> Result<(), Error>;
    /// Makes a slot reachable for every Instance that has its descriptor, including Instances created later.
    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error>;
    /// The descriptor of a promoted slot.
    fn to_bytes(&self, slot: &GlobalSlot) -> Result<Vec<u8>, Error>;
    /// Opens a promoted slot by its descriptor; stale or forged descriptors are [`Error::Gone`].
    #[expect(clippy::wrong_self_convention, reason = "a method of the manager, not a constructor")]
    fn from_bytes(&self, bytes: &[u8]) -> Result<GlobalSlot, Error>;
    /// Locks a global slot for this Instance; `None` while it is locked. The lock of a lost Instance is released.
    fn try_lock(&self, slot: &GlobalSlot) -> Result<Option<LockGuard>, Error>;
}

/// A slot and an offset into it.
#[derive(Debug)]
pub struct At<'a, S> {
    /// The slot.
    pub slot: &'a S,
    /// Offset in bytes.
    pub offset: usize,
}

/// A destination of copies from a slot of kind `S`. Copies between two global slots do not compile: one end must
/// belong to this Instance (hicr.txt 3.1.4).
///
/// ```compile_fail
/// # use runtime::{CommunicationManager, Memcpy, GlobalSlot};
/// fn both_global(communication: &dyn CommunicationManager, a: &GlobalSlot, b: &GlobalSlot) {
///     communication.memcpy(a, 0, b, 0, 8);
/// }
/// ```
pub trait CopyFrom<S>: Sized {
    /// Copies with `manager`.
    fn copy_from<M: CommunicationManager + ?Sized>(
        manager: &M,
        to: At<'_, Self>,
        from: At<'_, S>,
        size: usize,
    ) -> Result<(), Error>;
}

impl CopyFrom<Self> for LocalSlot {
    fn copy_from<M: CommunicationManager + ?Sized>(
        manager: &M,
        to: At<'_, Self>,
        from: At<'_, Self>,
        size: usize,
    ) -> Result<(), Error> {
        manager.copy(to, from, size)
    }
}

impl CopyFrom<LocalSlot> for GlobalSlot {
    fn copy_from<M: CommunicationManager + ?Sized>(
        manager: &M,
        to: At<'_, Self>,
        from: At<'_, LocalSlot>,
        size: usize,
    ) -> Result<(), Error> {
        manager.put(to, from, size)
    }
}

impl CopyFrom<GlobalSlot> for LocalSlot {
    fn copy_from<M: CommunicationManager + ?Sized>(
        manager: &M,
        to: At<'_, Self>,
        from: At<'_, GlobalSlot>,
        size: usize,
    ) -> Result<(), Error> {
        manager.get(to, from, size)
    }
}

/// Copies in every allowed direction.
pub trait Memcpy: CommunicationManager {
    /// Copies `size` bytes between slots: Local→Local, Local→Global (put), Global→Local (get).
    ///
    /// Bounds, overlap and memory spaces are checked immediately; a [fence](CommunicationManager::fence) waits for
    /// completion. A copy of size 0 is counted too. Copies of this Instance to and from one global slot take effect in
    /// program order.
    fn memcpy<D: CopyFrom<S>, S>(
        &self,
        to: &D,
        to_offset: usize,
        from: &S,
        from_offset: usize,
        size: usize,
    ) -> Result<(), Error> {
        D::copy_from(self, At { slot: to, offset: to_offset }, At { slot: from, offset: from_offset }, size)
    }
}

impl<M: CommunicationManager + ?Sized> Memcpy for M {}
