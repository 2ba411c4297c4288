//! The [`Control`] of the TCP back-end: collectives, remote slots, copies and locks.

use std::{
    any::Any,
    sync::{Arc, Mutex, Weak, atomic::Ordering::SeqCst},
};

use super::{
    bulk::{Remote, remote},
    mesh::Mesh,
    wire::{PeerMessage, Place},
};
use crate::{
    backends::shared::{
        Control, Far, Near,
        arbiter::{Agreed, Call},
    },
    model::{
        Error, InstanceId, Key, Tag, Wait, communication::GlobalCore, fence::Losses, memory::SlotCore,
        promise, wait::lock,
    },
};

/// Enters a fence of a tag when dropped, that is when all earlier copies have arrived.
struct EnterOnDrop {
    mesh: Weak<Mesh>,
    call: Mutex<Option<Call>>,
}

impl Drop for EnterOnDrop {
    fn drop(&mut self) {
        if let (Some(mesh), Some(call)) = (self.mesh.upgrade(), lock(&self.call).take()) {
            mesh.enter(call);
        }
    }
}

impl Mesh {
    fn enter(&self, call: Call) {
        let mut state = lock(&self.state);
        // If withdrawn while copies were in flight, the peers must still be informed.
        let (which, withdrawn) =
            ((call.tag, call.round), !state.waiting.contains_key(&(call.tag, call.round)));
        let (messages, outcomes) = state.collectives.enter(call);
        state.deliver(self.me, messages, outcomes);
        if withdrawn {
            let (messages, outcomes) = state.collectives.withdraw(which.0, which.1);
            state.deliver(self.me, messages, outcomes);
        }
    }
}

impl Control for Arc<Mesh> {
    fn me(&self) -> InstanceId {
        self.me
    }

    fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    fn gather(&self, call: Call) -> Wait<Agreed> {
        let (tag, round, group) = (call.tag, call.round, call.group.clone());
        let mesh = Arc::downgrade(self);
        let (kept, wait) = promise("the collective", move || {
            let Some(mesh) = mesh.upgrade() else { return };
            let mut state = lock(&mesh.state);
            state.waiting.remove(&(tag, round));
            let (messages, outcomes) = state.collectives.withdraw(tag, round);
            state.deliver(mesh.me, messages, outcomes);
        });
        lock(&self.state).waiting.insert((tag, round), kept);
        let entry = EnterOnDrop { mesh: Arc::downgrade(self), call: Mutex::new(Some(call)) };
        let entry: Arc<dyn Any + Send + Sync> = Arc::new(entry);
        if round.is_some() {
            let state = lock(&self.state);
            let copies: Vec<_> = group.iter().filter_map(|id| state.peers.get(id)?.copies.clone()).collect();
            drop(state);
            for copies in copies {
                copies.mark(Arc::clone(&entry));
            }
        }
        drop(entry);
        wait
    }

    fn release(&self, tag: Tag, key: Key) {
        let mut state = lock(&self.state);
        let _ = state.collectives.handle(self.me, PeerMessage::Release { tag, key });
        for id in state.peers.keys().copied().collect::<Vec<_>>() {
            state.send(id, &PeerMessage::Release { tag, key });
        }
    }

    fn describe(&self, core: &Arc<SlotCore>) -> Result<Vec<u8>, Error> {
        let size = core.host("exchange")?.size() as u64;
        let slot = self.next.fetch_add(1, SeqCst);
        let mut slots = lock(&self.slots);
        slots.retain(|_, core| core.strong_count() > 0);
        slots.insert(slot, Arc::downgrade(core));
        let place = Place { slot, size, secret: [0; 2] };
        postcard::to_stdvec(&place).map_err(|error| Error::system("exchange", error))
    }

    fn open(&self, owner: InstanceId, bytes: &[u8]) -> Result<Arc<SlotCore>, Error> {
        let gone = || Error::Gone("the slot".into());
        let place: Place = postcard::from_bytes(bytes).map_err(|_| gone())?;
        if owner == self.me {
            return self.find(place.slot, 0).ok_or_else(gone);
        }
        self.remote_slot(owner, place)
    }

    fn open_promoted(
        &self,
        owner: InstanceId,
        bytes: &[u8],
        secret: [u64; 2],
    ) -> Result<Arc<SlotCore>, Error> {
        let gone = || Error::Gone("the slot".into());
        let place: Place = postcard::from_bytes(bytes).map_err(|_| gone())?;
        let place = Place { secret, ..place };
        if owner == self.me {
            let core = self.find(place.slot, secret[0]).filter(|core| core.header().has_secret(secret));
            return core.ok_or_else(gone);
        }
        let slot = self.remote_slot(owner, place)?;
        // Before the request, so that a revocation after the answer finds it.
        lock(&self.state).promoted.push((owner, place.slot, Arc::downgrade(&slot)));
        let exists = self.ask(owner, |request| PeerMessage::Check { request, place })?;
        if exists { Ok(slot) } else { Err(gone()) }
    }

    fn knows_all_tags(&self) -> bool {
        false
    }

    fn put(&self, to: Far<'_>, from: Near<'_>, size: usize) -> Option<Result<(), Error>> {
        let Remote { copies, place } = remote(&to.0.target)?;
        Some(copies.put(to, from, size, place))
    }

    fn signal(&self, to: &Arc<GlobalCore>, from: &Arc<SlotCore>) -> Option<Result<(), Error>> {
        let Remote { copies, place } = remote(&to.target)?;
        Some(copies.signal(to, from, place))
    }

    fn progress(&self) {
        Mesh::poll(self);
    }

    fn flush(&self) {
        Mesh::flush(self);
    }

    fn get(&self, to: Near<'_>, from: Far<'_>, size: usize) -> Option<Result<(), Error>> {
        let Remote { copies, place } = remote(&from.0.target)?;
        Some(copies.get(to, from, size, place))
    }

    fn try_lock(&self, slot: &Arc<GlobalCore>) -> Option<Result<bool, Error>> {
        let Remote { copies, place } = remote(&slot.target)?;
        Some(self.ask(copies.peer, |request| PeerMessage::Lock { request, place: *place }))
    }

    fn unlock(&self, slot: &GlobalCore) {
        if let Some(Remote { copies, place }) = remote(&slot.target) {
            lock(&self.state).send(copies.peer, &PeerMessage::Unlock { place: *place });
        }
    }

    fn revoke(&self, core: &Arc<SlotCore>) {
        let numbers: Vec<_> = {
            let slots = lock(&self.slots);
            let it = |other: &Weak<SlotCore>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(core));
            slots.iter().filter(|(_, other)| it(other)).map(|(number, _)| *number).collect()
        };
        let mut state = lock(&self.state);
        for id in state.peers.keys().copied().collect::<Vec<_>>() {
            for slot in &numbers {
                state.send(id, &PeerMessage::Revoked { slot: *slot });
            }
        }
    }
}
