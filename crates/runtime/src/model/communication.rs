//! Copies between slots, what counts and awaits them, and slots that peers reach.

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

/// Which exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag(pub u64);

/// Which slot of an exchange.
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

/// How many copies have finished at a slot, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that took bytes from it: it is free to be overwritten.
    pub sent: u64,
    /// Those that brought bytes: they are there.
    pub received: u64,
}

/// What global slots of one exchange have in common.
pub(crate) struct Group {
    pub tag: Option<Tag>,
    pub members: Vec<InstanceId>,
    pub slots: Mutex<BTreeMap<Key, Arc<GlobalCore>>>,
    /// What is destroyed at the next fence.
    pub doomed: Mutex<BTreeSet<Key>>,
    /// How many fences of the tag there were.
    pub round: Mutex<u64>,
}

/// A global slot itself.
pub(crate) struct GlobalCore {
    pub key: Key,
    pub owner: InstanceId,
    /// The slot, here or mapped from its owner.
    pub target: Arc<SlotCore>,
    pub secret: [u64; 2],
    pub own: bool,
    pub gone: AtomicBool,
    /// What this Instance's copies have done to it.
    pub header: Header,
    pub tally: Tally,
    pub group: Arc<Group>,
    /// What a later Instance needs to reach it, where it was promoted.
    pub bytes: Option<Vec<u8>>,
}

/// A slot of some Instance of the group, reached by all of it (hicr.txt 3.1.4).
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
    /// The Instance whose memory it is.
    pub fn owner(&self) -> InstanceId {
        self.core.owner
    }

    /// Its key in its exchange.
    pub fn key(&self) -> Key {
        self.core.key
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.core.target.check(0, 0).map_or(0, |()| self.core.size())
    }
}

impl GlobalSlot {
    /// Says that copies come here soon; a hint.
    pub(crate) fn soon_counted(&self) {
        if let Bytes::Host(memory) = &self.core.target.bytes {
            memory.soon_counted();
        }
    }

    /// Says that a copy comes here soon, to `offset` and what follows; a hint.
    pub(crate) fn soon_written(&self, offset: usize) {
        if let Bytes::Host(memory) = &self.core.target.bytes {
            memory.soon_written(offset);
        }
    }
}

impl GlobalCore {
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.target.header().size.load(SeqCst)).unwrap_or(usize::MAX)
    }

    /// Refused when it was destroyed, here or at its owner's.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        let revoked = self.group.tag.is_none() && !self.target.header().has_secret(self.secret);
        if self.gone.load(SeqCst) || revoked { Err(Error::Gone(self.to_string())) } else { Ok(()) }
    }
}

/// A slot of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// Of this Instance.
    Local(&'a LocalSlot),
    /// Of any.
    Global(&'a GlobalSlot),
}

impl Slot<'_> {
    /// What its header says.
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

/// The lock of a global slot; dropped, it is free.
pub struct LockGuard {
    pub(crate) core: Arc<GlobalCore>,
    pub(crate) me: InstanceId,
    /// Gives it back where this process does not reach the slot itself.
    pub(crate) far: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(give_back) = self.far.take() {
            give_back();
            return;
        }
        let lock = &self.core.target.header().lock;
        // Only ours: had we been taken for lost, somebody else may hold it.
        let _ = lock.compare_exchange(self.me.0, 0, SeqCst, SeqCst);
    }
}

/// Copies, fences, exchanges (hicr.txt 3.1.4).
pub trait CommunicationManager: Send + Sync {
    /// Its name, as errors have it.
    fn name(&self) -> &'static str;
    /// Whether it can do this.
    fn supports(&self, capability: Capability) -> bool;
    /// Whether it copies between slots of these two managers.
    fn claims(&self, to: &str, from: &str) -> bool;
    /// Copies within the Instance. Made by [`memcpy`](Memcpy::memcpy), like the next two.
    fn copy(&self, to: At<'_, LocalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error>;
    /// Copies to a global slot.
    fn put(&self, to: At<'_, GlobalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error>;
    /// A copy of size 0 to a global slot, which is counted as any other, and which nobody waits for: it may travel with
    /// the next one that somebody does.
    fn tell(&self, to: &GlobalSlot, from: &LocalSlot) -> Result<(), Error> {
        self.put(At { slot: to, offset: 0 }, At { slot: from, offset: 0 }, 0)
    }
    /// Copies from a global slot.
    fn get(&self, to: At<'_, LocalSlot>, from: At<'_, GlobalSlot>, size: usize) -> Result<(), Error>;
    /// How many copies have finished at a slot.
    fn counts(&self, slot: Slot<'_>) -> Counts {
        slot.counts()
    }
    /// Waits until that many more copies have finished than earlier fences of the slot took, and takes them.
    ///
    /// A time-out, or a lost holder of the slot, which is told once, takes nothing. One at a time for each slot.
    fn fence(&self, slot: Slot<'_>, sent: u64, received: u64) -> Result<Wait<()>, Error>;
    /// Waits until every member of the tag's group is here: copies begun before have arrived, and slots that any of
    /// them destroyed are gone.
    fn fence_tag(&self, tag: Tag) -> Result<Wait<()>, Error>;
    /// Makes slots reachable for a group, which is sorted and of which this Instance is one. All members take part;
    /// each brings slots or none, and gets the union. Whatever does not agree is the same error for all.
    fn exchange(
        &self,
        group: &[InstanceId],
        tag: Tag,
        slots: &[(Key, &LocalSlot)],
    ) -> Result<Wait<BTreeMap<Key, GlobalSlot>>, Error>;
    /// Ends a global slot: at the tag's next fence, or at once where it was promoted or a member is lost.
    fn destroy(&self, slot: GlobalSlot) -> Result<(), Error>;
    /// Makes a slot reachable for whoever is given its bytes, later Instances too.
    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error>;
    /// What another Instance needs to reach a promoted slot.
    fn to_bytes(&self, slot: &GlobalSlot) -> Result<Vec<u8>, Error>;
    /// The promoted slot of these bytes; stale or forged ones are [`Error::Gone`].
    #[expect(clippy::wrong_self_convention, reason = "the manager reads what another one wrote")]
    fn from_bytes(&self, bytes: &[u8]) -> Result<GlobalSlot, Error>;
    /// Locks a global slot for this Instance; none when another one, or this one, holds it. A lost holder's is freed.
    fn try_lock(&self, slot: &GlobalSlot) -> Result<Option<LockGuard>, Error>;
}

/// A slot and a byte of it.
#[derive(Debug)]
pub struct At<'a, S> {
    /// The slot.
    pub slot: &'a S,
    /// How many bytes from its beginning.
    pub offset: usize,
}

/// What can be copied to, from a slot of kind `S`. Between two global slots there is no such thing: neither end would
/// be this Instance's (hicr.txt 3.1.4).
///
/// ```compile_fail
/// # use runtime::{CommunicationManager, Memcpy, GlobalSlot};
/// fn both_global(communication: &dyn CommunicationManager, a: &GlobalSlot, b: &GlobalSlot) {
///     communication.memcpy(a, 0, b, 0, 8);
/// }
/// ```
pub trait CopyFrom<S>: Sized {
    /// Has `manager` copy.
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

/// The copy in all its directions.
pub trait Memcpy: CommunicationManager {
    /// Copies `size` bytes between slots: Local→Local, Local→Global (put), Global→Local (get).
    ///
    /// Bounds, overlap and spaces are checked at once; the copy completes when a [fence](CommunicationManager::fence)
    /// says so. Size 0 is a copy, and is counted. Copies of this Instance to and from one global slot take effect in
    /// the order in which they were begun.
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
