//! Several Instances within one process, each with its own managers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use super::{
    Control,
    arbiter::{Agreed, Arbiter, Call, Decision},
};
use crate::model::{
    Error, InstanceId, Key, Tag, Wait,
    fence::Losses,
    memory::SlotCore,
    wait::{Promise, lock, promise},
};

type Waiting = BTreeMap<(InstanceId, Tag, Option<u64>), Promise<Agreed>>;

/// The shared state of the Instances of a process.
#[derive(Default)]
pub(crate) struct Hub {
    arbiter: Mutex<Arbiter>,
    waiting: Mutex<Waiting>,
    members: Mutex<BTreeMap<InstanceId, Arc<Losses>>>,
    slots: Mutex<BTreeMap<u64, Weak<SlotCore>>>,
    next: AtomicU64,
}

impl Hub {
    /// Adds an Instance.
    pub(crate) fn join(self: &Arc<Self>, id: InstanceId) -> Arc<Member> {
        let losses = Arc::<Losses>::default();
        lock(&self.members).insert(id, Arc::clone(&losses));
        Arc::new(Member { id, losses, hub: Arc::clone(self) })
    }

    /// Marks an Instance as lost for all others.
    pub(crate) fn lose(&self, id: InstanceId) {
        let decisions = lock(&self.arbiter).lose(id);
        for losses in lock(&self.members).values() {
            losses.lose(id);
        }
        self.deliver(decisions);
    }

    fn deliver(&self, decisions: Vec<Decision>) {
        for decision in decisions {
            for to in decision.to {
                let promise = lock(&self.waiting).remove(&(to, decision.tag, decision.round));
                if let Some(promise) = promise {
                    promise.keep(decision.result.clone());
                }
            }
        }
    }
}

/// The control endpoint of one Instance.
pub(crate) struct Member {
    id: InstanceId,
    losses: Arc<Losses>,
    hub: Arc<Hub>,
}

impl Control for Member {
    fn me(&self) -> InstanceId {
        self.id
    }

    fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    fn gather(&self, call: Call) -> Wait<Agreed> {
        let (me, tag, round) = (self.id, call.tag, call.round);
        let hub = Arc::downgrade(&self.hub);
        let (promise, wait) = promise("the collective", move || {
            if let Some(hub) = hub.upgrade() {
                lock(&hub.waiting).remove(&(me, tag, round));
                let decisions = lock(&hub.arbiter).withdraw(me, tag, round);
                hub.deliver(decisions);
            }
        });
        lock(&self.hub.waiting).insert((me, tag, round), promise);
        let decisions = lock(&self.hub.arbiter).enter(me, call);
        self.hub.deliver(decisions);
        wait
    }

    fn release(&self, tag: Tag, key: Key) {
        lock(&self.hub.arbiter).release(self.id, tag, key);
    }

    fn describe(&self, core: &Arc<SlotCore>) -> Result<Vec<u8>, Error> {
        let number = self.hub.next.fetch_add(1, SeqCst);
        let mut slots = lock(&self.hub.slots);
        slots.retain(|_, slot| slot.strong_count() > 0);
        slots.insert(number, Arc::downgrade(core));
        Ok(number.to_le_bytes().to_vec())
    }

    fn open(&self, _owner: InstanceId, bytes: &[u8]) -> Result<Arc<SlotCore>, Error> {
        let number = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let found = lock(&self.hub.slots).get(&number).and_then(Weak::upgrade);
        found.ok_or_else(|| Error::Gone("the slot".into()))
    }
}
