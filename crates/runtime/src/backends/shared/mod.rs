//! Communication through shared memory: within a process, and between processes of a machine.
//!
//! The calling thread makes the copy, which is complete when `memcpy` returns; both ends read the counters in the
//! slot's header. Only agreement goes through the [`Control`].

pub(crate) mod arbiter;
pub(crate) mod frame;
pub(crate) mod hub;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use arbiter::{Agreed, Call};
use raw::Header;
use serde::{Deserialize, Serialize};

use crate::model::{
    At, Capability, CommunicationManager, Counts, Error, GlobalSlot, InstanceId, Key, LocalSlot, LockGuard,
    Slot, Tag, Wait,
    communication::{GlobalCore, Group},
    fence::{Fence, Losses},
    memory::{SlotCore, Tally},
    wait::lock,
};

/// Agreement between Instances, and access to slots of peers.
pub(crate) trait Control: Send + Sync {
    /// This Instance.
    fn me(&self) -> InstanceId;
    /// The lost peers.
    fn losses(&self) -> &Arc<Losses>;
    /// Enters a collective.
    fn gather(&self, call: Call) -> Wait<Agreed>;
    /// Announces that a slot is destroyed without a fence.
    fn release(&self, tag: Tag, key: Key);
    /// The descriptor by which peers reach a slot of this Instance.
    fn describe(&self, core: &Arc<SlotCore>) -> Result<Vec<u8>, Error>;
    /// Opens a slot of a peer.
    fn open(&self, owner: InstanceId, bytes: &[u8]) -> Result<Arc<SlotCore>, Error>;
    /// Opens a promoted slot of a peer if its secret is still valid.
    fn open_promoted(
        &self,
        owner: InstanceId,
        bytes: &[u8],
        secret: [u64; 2],
    ) -> Result<Arc<SlotCore>, Error> {
        let target = self.open(owner, bytes)?;
        if target.header().has_secret(secret) { Ok(target) } else { Err(Error::Gone("the slot".into())) }
    }
    /// Whether all collectives are decided centrally, with a global view of the tags in use.
    fn knows_all_tags(&self) -> bool {
        true
    }
    /// Starts a remote put; `None` if this process maps the slot.
    fn put(&self, _to: Far<'_>, _from: Near<'_>, _size: usize) -> Option<Result<(), Error>> {
        None
    }
    /// Starts a remote copy of size 0 whose delivery may be delayed; `None` if this process maps the slot.
    fn signal(&self, _to: &Arc<GlobalCore>, _from: &Arc<SlotCore>) -> Option<Result<(), Error>> {
        None
    }
    /// Makes progress before counters are read; non-blocking.
    fn progress(&self) {}
    /// Sends acknowledgements of copies that have arrived.
    fn flush(&self) {}
    /// Starts a remote get; `None` if this process maps the slot.
    fn get(&self, _to: Near<'_>, _from: Far<'_>, _size: usize) -> Option<Result<(), Error>> {
        None
    }
    /// Tries to lock a remote slot; `None` if this process maps the slot.
    fn try_lock(&self, _slot: &Arc<GlobalCore>) -> Option<Result<bool, Error>> {
        None
    }
    /// Releases the lock of a remote slot; non-blocking.
    fn unlock(&self, _slot: &GlobalCore) {}
    /// A promoted slot of this Instance was destroyed.
    fn revoke(&self, _core: &Arc<SlotCore>) {}
}

/// A global slot and an offset.
pub(crate) type Far<'a> = (&'a Arc<GlobalCore>, usize);
/// A local slot and an offset.
pub(crate) type Near<'a> = (&'a Arc<SlotCore>, usize);

/// Copies between slots in memory that processors access.
pub struct Communication {
    name: &'static str,
    /// The memory managers whose slots it copies.
    origins: &'static [&'static str],
    inner: Arc<Inner>,
}

struct Inner {
    control: Arc<dyn Control>,
    groups: Mutex<BTreeMap<Tag, Arc<Group>>>,
    promoted: AtomicU64,
}

/// The descriptor of a promoted slot.
#[derive(Serialize, Deserialize)]
struct Promoted {
    owner: InstanceId,
    key: Key,
    secret: [u64; 2],
    place: Vec<u8>,
}

impl Communication {
    pub(crate) fn new(
        name: &'static str,
        origins: &'static [&'static str],
        control: Arc<dyn Control>,
    ) -> Self {
        let inner = Inner { control, groups: Mutex::default(), promoted: AtomicU64::new(1) };
        Self { name, origins, inner: Arc::new(inner) }
    }

    #[inline]
    fn reaches(&self, slot: &SlotCore, origin: &str) -> Result<(), Error> {
        // Usually the same static string, so comparing pointers suffices.
        let same = |known: &&&str| std::ptr::eq(**known, origin);
        if self.origins.iter().any(|known| same(&known)) || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(self.out_of_reach(slot))
    }

    #[cold]
    fn out_of_reach(&self, slot: &SlotCore) -> Error {
        let why = format!("{} cannot access {slot}; use a manager that claims it", self.name);
        Error::misuse("copy", why)
    }

    fn global(&self, slot: &GlobalSlot) -> Result<(), Error> {
        slot.core.alive()?;
        if self.inner.control.losses().is_lost(slot.core.owner) {
            return Err(Error::PeerLost(slot.core.owner));
        }
        Ok(())
    }

    /// Makes a copy and counts it at both ends; `to` and `from` hold this Instance's counters of global slots.
    fn transfer(
        to: (&SlotCore, usize, Option<&Header>),
        from: (&SlotCore, usize, Option<&Header>),
        size: usize,
    ) -> Result<(), Error> {
        to.0.check(to.1, size)?;
        from.0.check(from.1, size)?;
        let (target, source) = (to.0.host("copy")?, from.0.host("copy")?);
        // Fetches both cache lines in parallel.
        target.prefetch_bytes(to.1);
        target.copy_from(to.1, source, from.1, size).map_err(|_| {
            let why = format!("source and destination overlap within {}; copy non-overlapping parts", to.0);
            Error::misuse("copy", why)
        })?;
        // The receiver first: the sender only reuses its buffer.
        to.0.header().count_received();
        to.2.into_iter().for_each(Header::count_received);
        from.0.header().count_sent();
        from.2.into_iter().for_each(Header::count_sent);
        Ok(())
    }
}

/// This Instance's counters of its copies to and from a global slot, beside the slot's own.
fn own_header(core: &GlobalCore) -> Option<&Header> {
    (!core.own).then_some(&core.header)
}

impl Inner {
    fn expose(&self, slot: &LocalSlot) -> Result<Vec<u8>, Error> {
        slot.core.host("exchange")?;
        let place = self.control.describe(&slot.core)?;
        slot.core.exposed.fetch_add(1, SeqCst);
        slot.core.was_exposed.store(true, SeqCst);
        Ok(place)
    }

    fn global(
        &self,
        group: &Arc<Group>,
        key: Key,
        owner: InstanceId,
        target: Arc<SlotCore>,
        secret: [u64; 2],
    ) -> Arc<GlobalCore> {
        let own = owner == self.control.me();
        let header = Header::new(0);
        let tally = Tally { peers: Mutex::new(BTreeSet::from([owner])), ..Tally::default() };
        let group = Arc::clone(group);
        let gone = AtomicBool::new(false);
        Arc::new(GlobalCore { key, owner, target, secret, own, gone, header, tally, group, bytes: None })
    }

    fn agreed(
        &self,
        tag: Tag,
        members: Vec<InstanceId>,
        ours: &BTreeMap<Key, Arc<SlotCore>>,
        agreed: Agreed,
    ) -> Result<BTreeMap<Key, GlobalSlot>, Error> {
        let me = self.control.me();
        let group = Arc::new(Group {
            tag: Some(tag),
            members,
            slots: Mutex::default(),
            doomed: Mutex::default(),
            round: Mutex::default(),
        });
        let mut slots = BTreeMap::new();
        for (key, owner, place) in agreed {
            let target = match ours.get(&key) {
                Some(core) if owner == me => Arc::clone(core),
                // An owner that detected the loss of another member earlier may have freed its slots already.
                _ => self.control.open(owner, &place).map_err(|error| {
                    let mut lost = iter::once(&owner).chain(&group.members);
                    let lost = lost.find(|id| self.control.losses().is_lost(**id));
                    lost.map_or(error, |id| Error::PeerLost(*id))
                })?,
            };
            if owner == me {
                lock(&target.tally.peers).extend(group.members.iter().filter(|id| **id != me));
            }
            slots.insert(key, self.global(&group, key, owner, target, [0; 2]));
        }
        lock(&group.slots).clone_from(&slots);
        if !slots.is_empty() {
            lock(&self.groups).insert(tag, group);
        }
        Ok(slots.into_iter().map(|(key, core)| (key, GlobalSlot { core })).collect())
    }

    /// Destroys slots of a tag.
    fn destroyed(&self, group: &Group, keys: impl IntoIterator<Item = Key>) {
        let mut slots = lock(&group.slots);
        for key in keys {
            if let Some(core) = slots.remove(&key) {
                core.gone.store(true, SeqCst);
                if core.own {
                    core.target.exposed.fetch_sub(1, SeqCst);
                }
            }
        }
        if let (true, Some(tag)) = (slots.is_empty(), group.tag) {
            lock(&self.groups).remove(&tag);
        }
    }
}

impl CommunicationManager for Communication {
    fn name(&self) -> &'static str {
        self.name
    }

    fn supports(&self, capability: Capability) -> bool {
        matches!(capability, Capability::GlobalCopies | Capability::Promote | Capability::Lock)
    }

    fn claims(&self, to: &str, from: &str) -> bool {
        self.origins.contains(&to) && self.origins.contains(&from)
    }

    fn copy(&self, to: At<'_, LocalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error> {
        self.reaches(&to.slot.core, to.slot.origin())?;
        self.reaches(&from.slot.core, from.slot.origin())?;
        Self::transfer((&to.slot.core, to.offset, None), (&from.slot.core, from.offset, None), size)
    }

    fn put(&self, to: At<'_, GlobalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error> {
        self.reaches(&from.slot.core, from.slot.origin())?;
        self.global(to.slot)?;
        let target = &to.slot.core;
        let far = self.inner.control.put((target, to.offset), (&from.slot.core, from.offset), size);
        if let Some(begun) = far {
            return begun;
        }
        Self::transfer(
            (&target.target, to.offset, own_header(target)),
            (&from.slot.core, from.offset, None),
            size,
        )
    }

    fn signal(&self, to: &GlobalSlot, from: &LocalSlot) -> Result<(), Error> {
        self.reaches(&from.core, from.origin())?;
        self.global(to)?;
        let far = self.inner.control.signal(&to.core, &from.core);
        far.unwrap_or_else(|| self.put(At { slot: to, offset: 0 }, At { slot: from, offset: 0 }, 0))
    }

    fn get(&self, to: At<'_, LocalSlot>, from: At<'_, GlobalSlot>, size: usize) -> Result<(), Error> {
        self.reaches(&to.slot.core, to.slot.origin())?;
        self.global(from.slot)?;
        let source = &from.slot.core;
        let far = self.inner.control.get((&to.slot.core, to.offset), (source, from.offset), size);
        if let Some(begun) = far {
            return begun;
        }
        Self::transfer(
            (&to.slot.core, to.offset, None),
            (&source.target, from.offset, own_header(source)),
            size,
        )
    }

    fn counts(&self, slot: Slot<'_>) -> Counts {
        self.inner.control.progress();
        slot.counts()
    }

    fn fence(&self, slot: Slot<'_>, sent: u64, received: u64) -> Result<Wait<()>, Error> {
        Ok(Wait::new(Fence::begin(slot, sent, received, self.inner.control.losses())?))
    }

    fn fence_tag(&self, tag: Tag) -> Result<Wait<()>, Error> {
        let group = lock(&self.inner.groups).get(&tag).cloned();
        let group = group.ok_or_else(|| Error::Gone(format!("tag {tag}")))?;
        let round = {
            let mut round = lock(&group.round);
            *round += 1;
            *round
        };
        let entries = lock(&group.doomed).iter().map(|key| (*key, Vec::new())).collect();
        let call = Call { tag, group: group.members.clone(), round: Some(round), entries, in_use: None };
        let inner = Arc::clone(&self.inner);
        Ok(self.inner.control.gather(call).map(move |agreed| {
            inner.destroyed(&group, agreed.into_iter().map(|(key, ..)| key));
            Ok(())
        }))
    }

    fn exchange(
        &self,
        group: &[InstanceId],
        tag: Tag,
        slots: &[(Key, &LocalSlot)],
    ) -> Result<Wait<BTreeMap<Key, GlobalSlot>>, Error> {
        let me = self.inner.control.me();
        if !group.is_sorted_by(|one, next| one < next) {
            return Err(Error::misuse("exchange", "the group is not sorted or contains an Instance twice"));
        }
        if !group.contains(&me) {
            return Err(Error::misuse(
                "exchange",
                format!("this Instance, {me}, is not in the group; add it"),
            ));
        }
        for (_, slot) in slots {
            self.reaches(&slot.core, slot.origin())?;
        }
        let mut entries = Vec::new();
        let mut ours = BTreeMap::new();
        for (key, slot) in slots {
            entries.push((*key, self.inner.expose(slot)?));
            ours.insert(*key, Arc::clone(&slot.core));
        }
        let exposed = Exposed(slots.iter().map(|(_, slot)| Arc::clone(&slot.core)).collect());
        let in_use = match &*self.inner.control {
            control if control.knows_all_tags() => None,
            _ => lock(&self.inner.groups).get(&tag).map(|group| group.members.clone()),
        };
        let call = Call { tag, group: group.to_vec(), round: None, entries, in_use };
        let (inner, group) = (Arc::clone(&self.inner), group.to_vec());
        Ok(self.inner.control.gather(call).map(move |agreed| {
            let slots = inner.agreed(tag, group, &ours, agreed)?;
            exposed.keep();
            Ok(slots)
        }))
    }

    fn destroy(&self, slot: GlobalSlot) -> Result<(), Error> {
        let GlobalSlot { core } = slot;
        core.alive()?;
        let Some(tag) = core.group.tag else {
            core.gone.store(true, SeqCst);
            if core.own {
                core.target.header().drop_secret();
                self.inner.control.revoke(&core.target);
                core.target.exposed.fetch_sub(1, SeqCst);
            }
            return Ok(());
        };
        let losses = self.inner.control.losses();
        if core.group.members.iter().any(|member| losses.is_lost(*member)) {
            self.inner.control.release(tag, core.key);
            self.inner.destroyed(&core.group, [core.key]);
        } else {
            lock(&core.group.doomed).insert(core.key);
        }
        Ok(())
    }

    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error> {
        self.reaches(&slot.core, slot.origin())?;
        if slot.core.header().secret[0].load(SeqCst) != 0 {
            let why = format!("{} is already promoted; destroy that global slot first", slot.core);
            return Err(Error::misuse("promote", why));
        }
        let owner = self.inner.control.me();
        let key = Key(self.inner.promoted.fetch_add(1, SeqCst));
        let place = self.inner.expose(slot)?;
        let secret = slot.core.header().renew_secret().map_err(|error| Error::system("promote", error))?;
        let bytes = postcard::to_stdvec(&Promoted { owner, key, secret, place });
        let bytes = bytes.map_err(|error| Error::system("promote", error))?;
        let group = Arc::new(Group::alone(owner));
        let mut core = self.inner.global(&group, key, owner, Arc::clone(&slot.core), secret);
        Arc::get_mut(&mut core).expect("it was made in the line before").bytes = Some(bytes);
        Ok(GlobalSlot { core })
    }

    fn to_bytes(&self, slot: &GlobalSlot) -> Result<Vec<u8>, Error> {
        slot.core.alive()?;
        slot.core.bytes.clone().ok_or_else(|| {
            Error::misuse(
                "serialize a slot",
                format!("only its group can reach {}; promote the slot", slot.core),
            )
        })
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<GlobalSlot, Error> {
        let gone = || Error::Gone("the promoted slot".into());
        let promoted: Promoted = postcard::from_bytes(bytes).map_err(|_| gone())?;
        let Promoted { owner, key, secret, place } = promoted;
        if self.inner.control.losses().is_lost(owner) {
            return Err(Error::PeerLost(owner));
        }
        let target =
            self.inner.control.open_promoted(owner, &place, secret).map_err(|error| match error {
                Error::PeerLost(_) => error,
                _ => gone(),
            })?;
        let group = Arc::new(Group::alone(owner));
        let mut core = self.inner.global(&group, key, owner, target, secret);
        Arc::get_mut(&mut core).expect("it was made in the line before").bytes = Some(bytes.to_vec());
        Ok(GlobalSlot { core })
    }

    fn try_lock(&self, slot: &GlobalSlot) -> Result<Option<LockGuard>, Error> {
        self.global(slot)?;
        let (core, me) = (Arc::clone(&slot.core), self.inner.control.me());
        if let Some(locked) = self.inner.control.try_lock(&core) {
            let control = Arc::clone(&self.inner.control);
            return Ok(locked?.then(|| {
                let far = Arc::clone(&core);
                LockGuard { core, me, far: Some(Box::new(move || control.unlock(&far))) }
            }));
        }
        let lock = &core.target.header().lock;
        let locked = match lock.compare_exchange(0, me.0, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(holder) => {
                let lost = self.inner.control.losses().is_lost(InstanceId(holder));
                lost && lock.compare_exchange(holder, me.0, SeqCst, SeqCst).is_ok()
            }
        };
        Ok(locked.then(|| LockGuard { core, me, far: None }))
    }
}

impl Drop for Communication {
    fn drop(&mut self) {
        self.inner.control.flush();
    }
}

impl Group {
    /// The group of a promoted slot, which consists of its owner.
    fn alone(owner: InstanceId) -> Self {
        let (slots, doomed, round) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { tag: None, members: vec![owner], slots, doomed, round }
    }
}

/// Slots about to become global; dropping this without agreement reverts them.
struct Exposed(Vec<Arc<SlotCore>>);

impl Exposed {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        for core in &self.0 {
            core.exposed.fetch_sub(1, SeqCst);
        }
    }
}
