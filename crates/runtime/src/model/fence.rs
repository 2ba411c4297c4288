//! Fences of slots: waits for completed copies and for the loss of peers.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::Waker,
    time::Instant,
};

use raw::Header;

use super::{
    communication::{Counts, GlobalCore, Slot},
    error::Error,
    id::InstanceId,
    memory::{LocalSlot, SlotCore, Tally},
    wait::{Source, Wait, lock},
};

/// The holder of copy counters: a local slot, or this Instance's view of a peer's slot.
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

/// The lost peers, and the slots whose waiting fences must be woken at a loss.
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

    /// Wakes the fences of an exchanged slot when a peer is lost.
    fn watch(&self, counted: &Counted) {
        let watched = match counted {
            // Slots that may still be lent are exempt: a weak reference would prevent lending.
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

    /// The first lost peer of the slot that no fence has reported yet.
    fn unreported(&self, tally: &Tally) -> Option<InstanceId> {
        if self.count.load(SeqCst) == 0 {
            return None;
        }
        let (lost, peers, mut reported) = (lock(&self.lost), lock(&tally.peers), lock(&tally.reported));
        let first = peers.iter().find(|peer| lost.contains(peer) && !reported.contains(peer)).copied();
        reported.extend(first);
        first
    }
}

/// A pending fence of one slot.
pub(crate) struct Fence {
    counted: Counted,
    wanted: (u64, u64),
    losses: Arc<Losses>,
    watched: bool,
    /// The waker to call, once a helper thread waits on behalf of the task.
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
            return Err(Error::state(name, "fence it", "already being fenced", "free of fences"));
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

    /// Whether the counts suffice; consumes nothing.
    fn satisfied(counted: &Counted, wanted: (u64, u64)) -> bool {
        let (counts, consumed) = (counted.counts(), lock(&counted.tally().consumed));
        counts.sent.wrapping_sub(consumed.0) >= wanted.0
            && counts.received.wrapping_sub(consumed.1) >= wanted.1
    }

    fn check(&self) -> Option<Result<(), Error>> {
        let tally = self.counted.tally();
        if let Some(failure) = lock(&tally.failure).take() {
            return Some(Err(failure));
        }
        if Self::satisfied(&self.counted, self.wanted) {
            let mut consumed = lock(&tally.consumed);
            *consumed = (consumed.0.wrapping_add(self.wanted.0), consumed.1.wrapping_add(self.wanted.1));
            return Some(Ok(()));
        }
        self.losses.unreported(tally).map(|lost| Err(Error::PeerLost(lost)))
    }

    fn watch(&mut self) {
        if !std::mem::replace(&mut self.watched, true) {
            self.losses.watch(&self.counted);
        }
    }
}

impl Source<()> for Fence {
    fn try_take(&mut self) -> Option<Result<(), Error>> {
        self.check()
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<(), Error>> {
        self.watch();
        self.counted.header().wait(deadline, || self.check())
    }

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), Error>> {
        self.watch();
        let outcome = self.check();
        if outcome.is_none() {
            let already = lock(&self.helped).replace(waker.clone()).is_some();
            if !already {
                // Counts may arrive from another process, which can only wake a thread.
                let (counted, wanted) = (self.counted.clone(), self.wanted);
                let (helped, ended) = (Arc::clone(&self.helped), Arc::clone(&self.ended));
                let losses = Arc::clone(&self.losses);
                std::thread::spawn(move || {
                    let lost = losses.count.load(SeqCst);
                    counted.header().wait(None, || {
                        let changed = ended.load(SeqCst)
                            || lock(&counted.tally().failure).is_some()
                            || losses.count.load(SeqCst) != lost
                            || Self::satisfied(&counted, wanted);
                        changed.then_some(())
                    });
                    lock(&helped).take().into_iter().for_each(Waker::wake);
                });
            }
            // Check again: counts may have arrived before the waker was registered.
            return self.check();
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
