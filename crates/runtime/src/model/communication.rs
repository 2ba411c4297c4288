//! Copies between slots, what counts and awaits them, and slots that peers reach.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::Waker,
    time::Instant,
};

use raw::Header;
use serde::{Deserialize, Serialize};

use super::{
    capability::Capability,
    error::Error,
    id::InstanceId,
    memory::{LocalSlot, SlotCore, Tally},
    wait::{Source, Wait, lock},
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

/// What counts copies: a local slot, or what this Instance's copies have done to a peer's.
#[derive(Clone)]
pub(crate) enum Counted {
    Local(Arc<SlotCore>),
    Global(Arc<GlobalCore>),
}

impl Counted {
    pub(crate) fn of(slot: Slot<'_>) -> Self {
        match slot {
            Slot::Local(slot) => Self::Local(Arc::clone(&slot.core)),
            Slot::Global(slot) if slot.core.own => Self::Local(Arc::clone(&slot.core.target)),
            Slot::Global(slot) => Self::Global(Arc::clone(&slot.core)),
        }
    }

    fn header(&self) -> &Header {
        match self {
            Self::Local(core) => core.header(),
            Self::Global(core) => &core.header,
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Local(core) => &core.tally,
            Self::Global(core) => &core.tally,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let header = self.header();
        Counts { sent: header.sent.0.load(SeqCst), received: header.received.load(SeqCst) }
    }

    fn name(&self) -> String {
        match self {
            Self::Local(core) => core.to_string(),
            Self::Global(core) => core.to_string(),
        }
    }
}

/// Who is lost, and what must look again when somebody is.
#[derive(Default)]
pub(crate) struct Losses {
    lost: Mutex<BTreeSet<InstanceId>>,
    count: AtomicUsize,
    waiting: Mutex<Vec<Watched>>,
}

enum Watched {
    Local(Weak<SlotCore>),
    Global(Weak<GlobalCore>),
}

impl Losses {
    pub(crate) fn is_lost(&self, id: InstanceId) -> bool {
        self.count.load(SeqCst) != 0 && lock(&self.lost).contains(&id)
    }

    pub(crate) fn lose(&self, id: InstanceId) {
        if lock(&self.lost).insert(id) {
            self.count.fetch_add(1, SeqCst);
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for watched in waiting {
            match watched {
                Watched::Local(core) => core.upgrade().iter().for_each(|core| core.header().kick()),
                Watched::Global(core) => core.upgrade().iter().for_each(|core| core.header.kick()),
            }
        }
    }

    /// Has a slot that was exchanged look again when somebody is lost.
    fn watch(&self, counted: &Counted) {
        let watched = match counted {
            // Never a slot that may still be lent: a weak reference would stand in the way.
            Counted::Local(core) if !core.was_exposed.load(SeqCst) => return,
            Counted::Local(core) => Watched::Local(Arc::downgrade(core)),
            Counted::Global(core) => Watched::Global(Arc::downgrade(core)),
        };
        let mut waiting = lock(&self.waiting);
        waiting.retain(|watched| match watched {
            Watched::Local(core) => core.strong_count() > 0,
            Watched::Global(core) => core.strong_count() > 0,
        });
        waiting.push(watched);
    }

    /// The first peer of the slot that is lost and of which no fence has told.
    fn news(&self, tally: &Tally) -> Option<InstanceId> {
        if self.count.load(SeqCst) == 0 {
            return None;
        }
        let (lost, peers, mut told) = (lock(&self.lost), lock(&tally.peers), lock(&tally.told));
        let news = peers.iter().find(|peer| lost.contains(peer) && !told.contains(peer)).copied();
        told.extend(news);
        news
    }
}

/// A fence of one slot.
pub(crate) struct Fence {
    counted: Counted,
    wanted: (u64, u64),
    losses: Arc<Losses>,
    watched: bool,
    /// Whether a thread waits in our stead, to wake who awaits us.
    helped: Arc<Mutex<Option<Waker>>>,
    ended: Arc<AtomicBool>,
}

impl Fence {
    pub(crate) fn begin(
        slot: Slot<'_>,
        sent: u64,
        received: u64,
        losses: &Arc<Losses>,
    ) -> Result<Self, Error> {
        let counted = Counted::of(slot);
        if counted.tally().waiting.swap(true, SeqCst) {
            let name = counted.name();
            return Err(Error::state(name, "fence it", "being fenced by somebody else", "free of fences"));
        }
        Ok(Self {
            counted,
            wanted: (sent, received),
            losses: Arc::clone(losses),
            watched: false,
            helped: Arc::default(),
            ended: Arc::default(),
        })
    }

    /// Whether the counts are there, without taking them.
    fn there(counted: &Counted, wanted: (u64, u64)) -> bool {
        let (counts, consumed) = (counted.counts(), lock(&counted.tally().consumed));
        counts.sent.wrapping_sub(consumed.0) >= wanted.0
            && counts.received.wrapping_sub(consumed.1) >= wanted.1
    }

    fn look(&self) -> Option<Result<(), Error>> {
        let tally = self.counted.tally();
        if let Some(failure) = lock(&tally.failure).take() {
            return Some(Err(failure));
        }
        if Self::there(&self.counted, self.wanted) {
            let mut consumed = lock(&tally.consumed);
            *consumed = (consumed.0.wrapping_add(self.wanted.0), consumed.1.wrapping_add(self.wanted.1));
            return Some(Ok(()));
        }
        self.losses.news(tally).map(|lost| Err(Error::PeerLost(lost)))
    }

    fn watch(&mut self) {
        if !std::mem::replace(&mut self.watched, true) {
            self.losses.watch(&self.counted);
        }
    }
}

impl Source<()> for Fence {
    fn try_take(&mut self) -> Option<Result<(), Error>> {
        self.look()
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<(), Error>> {
        self.watch();
        self.counted.header().wait(deadline, || self.look())
    }

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), Error>> {
        self.watch();
        let outcome = self.look();
        if outcome.is_none() {
            let already = lock(&self.helped).replace(waker.clone()).is_some();
            if !already {
                // Counts may come from another process, which can wake a thread and nothing else.
                let (counted, wanted) = (self.counted.clone(), self.wanted);
                let (helped, ended) = (Arc::clone(&self.helped), Arc::clone(&self.ended));
                let losses = Arc::clone(&self.losses);
                std::thread::spawn(move || {
                    let lost = losses.count.load(SeqCst);
                    counted.header().wait(None, || {
                        let news = ended.load(SeqCst)
                            || lock(&counted.tally().failure).is_some()
                            || losses.count.load(SeqCst) != lost
                            || Self::there(&counted, wanted);
                        news.then_some(())
                    });
                    lock(&helped).take().into_iter().for_each(Waker::wake);
                });
            }
            // What came between the look and the waker's being there.
            return self.look();
        }
        outcome
    }

    fn what(&self) -> String {
        format!("the fence of {}", self.counted.name())
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.counted.tally().waiting.store(false, SeqCst);
        self.ended.store(true, SeqCst);
        if lock(&self.helped).is_some() {
            self.counted.header().kick();
        }
    }
}

/// For back-ends without peers: a fence of a slot of this Instance.
pub fn fence_alone(slot: &LocalSlot, sent: u64, received: u64) -> Result<Wait<()>, Error> {
    Ok(Wait::new(Fence::begin(slot.into(), sent, received, &Arc::default())?))
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
    /// Copies from a global slot.
    fn get(&self, to: At<'_, LocalSlot>, from: At<'_, GlobalSlot>, size: usize) -> Result<(), Error>;
    /// How many copies have finished at a slot.
    fn counts(&self, slot: Slot<'_>) -> Counts {
        let header = match slot {
            Slot::Local(slot) => slot.core.header(),
            Slot::Global(slot) if slot.core.own => slot.core.target.header(),
            Slot::Global(slot) => &slot.core.header,
        };
        Counts { sent: header.sent.0.load(SeqCst), received: header.received.load(SeqCst) }
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
