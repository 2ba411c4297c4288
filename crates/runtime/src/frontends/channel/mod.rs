//! Channels: preallocated rings in the consumer's memory, for small and frequent messages.
//!
//! A push is one copy, which the ring's counter makes visible to the consumer. A pop is signalled to the producer by a
//! copy of size 0. Both are non-blocking.

mod locking;
mod ring;
mod shape;

use std::{collections::BTreeMap, time::Instant};

use locking::{LockedProducer, LockedRing};
use ring::{Ring, Sender};
pub use shape::{PushError, Setup, Shape};

use crate::model::{CommunicationManager, Error, InstanceId, Key, LocalSlot, Tag};

/// How several producers share a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One shared ring, locked for each push.
    Locking,
    /// One ring per producer, read round-robin.
    NonLocking,
}

/// The producer's endpoint.
pub struct Producer<'a>(Kind<'a>);

enum Kind<'a> {
    Own(Sender<'a>),
    Shared(LockedProducer<'a>),
}

/// The consumer's endpoint.
pub struct Consumer<'a> {
    communication: &'a dyn CommunicationManager,
    rings: Rings<'a>,
    /// The doorbell of producers with a ring each.
    bell: Option<LocalSlot>,
    /// The doorbell count that earlier waits consumed.
    fenced: u64,
    /// Number of polls before sleeping. It shrinks when polling is useless, as on a processor shared with the producer.
    polls: usize,
    /// Lost producers whose rings may still contain messages.
    lost: Vec<InstanceId>,
}

enum Rings<'a> {
    Own(Vec<Ring<'a>>, usize),
    Shared(LockedRing),
}

/// Collective: opens a channel from `producers` to `consumer` under its own tag. Each member gets its endpoints; one
/// Instance may have both, for two of its threads.
pub fn open<'a>(
    setup: Setup<'a>,
    tag: Tag,
    producers: &[InstanceId],
    consumer: InstanceId,
    mode: Mode,
    shape: Shape,
) -> Result<(Option<Producer<'a>>, Option<Consumer<'a>>), Error> {
    let shape = shape.checked()?;
    let mut group: Vec<_> = producers.iter().copied().chain([consumer]).collect();
    group.sort_unstable();
    group.dedup();
    let shared = mode == Mode::Locking;
    let bell_key = Key(2 * producers.len() as u64);
    let ring_key = |index: usize| Key(2 * index as u64);
    let credit_key = |index: usize| Key(2 * index as u64 + 1);
    let mut bring: Vec<(Key, LocalSlot)> = Vec::new();
    if setup.me == consumer {
        let rings = if shared { 1 } else { producers.len() };
        let size = shape.bytes() + if shared { locking::WORDS } else { 0 };
        for index in 0..rings {
            bring.push((ring_key(index), setup.slot(size)?));
        }
        bring.push((bell_key, setup.slot(8)?));
    }
    let mine = producers.iter().position(|id| *id == setup.me);
    if let (Some(index), false) = (mine, shared) {
        bring.push((credit_key(index), setup.slot(8)?));
    }
    let offer: Vec<_> = bring.iter().map(|(key, slot)| (*key, slot)).collect();
    let mut global = setup.communication.exchange(&group, tag, &offer)?.done()?;
    let mut local: BTreeMap<Key, LocalSlot> = bring.into_iter().collect();
    let (local, global) = (&mut local, &mut global);
    let missing =
        || Error::misuse("open a channel", "a member passed other producers, or another consumer or mode");
    let mut own = |key: Key| local.remove(&key).ok_or_else(missing);
    let end = if setup.me == consumer {
        let bell = own(bell_key)?;
        let rings = if shared {
            Rings::Shared(LockedRing::new(own(ring_key(0))?, shape))
        } else {
            let mut rings = Vec::new();
            for (index, producer) in producers.iter().enumerate() {
                let credit = global.remove(&credit_key(index)).ok_or_else(missing)?;
                rings.push(Ring::new(setup, own(ring_key(index))?, credit, shape, *producer)?);
            }
            Rings::Own(rings, 0)
        };
        let bell = (!shared && producers.len() != 1).then_some(bell);
        Some(Consumer {
            communication: setup.communication,
            rings,
            bell,
            fenced: 0,
            polls: MAX_POLLS,
            lost: Vec::new(),
        })
    } else {
        None
    };
    let producer = match mine {
        None => None,
        Some(_) if shared => {
            let ring = global.remove(&ring_key(0)).ok_or_else(missing)?;
            Some(Producer(Kind::Shared(LockedProducer::new(setup, ring, shape)?)))
        }
        Some(index) => {
            let ring = global.remove(&ring_key(index)).ok_or_else(missing)?;
            let bell = if producers.len() > 1 { global.remove(&bell_key) } else { None };
            Some(Producer(Kind::Own(Sender::new(setup, ring, own(credit_key(index))?, bell, shape)?)))
        }
    };
    Ok((producer, end))
}

impl Producer<'_> {
    /// Pushes a message or fails immediately.
    pub fn push(&mut self, message: &[u8]) -> Result<(), PushError> {
        match &mut self.0 {
            Kind::Own(sender) => sender.push(message),
            Kind::Shared(producer) => producer.push(&[message]).map(drop),
        }
    }

    /// Pushes a message from a slot at `offset` without staging it; for fixed sizes and non-locking rings.
    ///
    /// The slot may be overwritten after a fence for the sent copy.
    pub fn push_slot(&mut self, slot: &LocalSlot, offset: usize) -> Result<(), PushError> {
        match &mut self.0 {
            Kind::Own(sender) => sender.push_slot(slot, offset),
            Kind::Shared(_) => {
                Err(Error::unsupported("a locking channel", "push from a slot", "push the bytes").into())
            }
        }
    }

    /// Pushes a prefix of these messages, as long as there is room, and returns its length; an error if it is 0.
    pub fn push_n(&mut self, messages: &[&[u8]]) -> Result<usize, PushError> {
        match &mut self.0 {
            Kind::Own(sender) => {
                for (index, message) in messages.iter().enumerate() {
                    match sender.push(message) {
                        Ok(()) => {}
                        Err(PushError::Full) if index > 0 => return Ok(index),
                        Err(error) => return Err(error),
                    }
                }
                Ok(messages.len())
            }
            Kind::Shared(producer) => producer.push(messages),
        }
    }

    /// Number of messages in this producer's ring, or in the shared ring, that are not popped yet.
    pub fn depth(&mut self) -> Result<usize, Error> {
        match &mut self.0 {
            Kind::Own(sender) => Ok(sender.depth()),
            Kind::Shared(producer) => producer.depth(),
        }
    }
}

impl Consumer<'_> {
    /// Number of messages available.
    pub fn depth(&self) -> usize {
        match &self.rings {
            Rings::Own(rings, _) => rings.iter().map(Ring::depth).sum(),
            Rings::Shared(ring) => ring.depth(),
        }
    }

    /// Reads the next message without removing it. Loss of a producer is an error once its ring is empty.
    pub fn peek(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.next(false)
    }

    /// Removes and returns the next message.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.next(true)
    }

    /// Pops the next message into `bytes` of its size; for fixed sizes and one producer.
    pub fn pop_into(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match &mut self.rings {
            Rings::Own(rings, _) if rings.len() == 1 => {
                let popped = rings[0].pop_into(bytes)?;
                if popped { Ok(true) } else { self.nothing().map(|()| false) }
            }
            _ => Err(Error::unsupported(
                "a channel of several producers",
                "pop into a buffer",
                "pop a message",
            )),
        }
    }

    /// Pops the next message, waiting for it until `deadline`.
    pub fn wait(&mut self, deadline: impl Into<Option<Instant>>) -> Result<Vec<u8>, Error> {
        let deadline = deadline.into();
        loop {
            if let Some(message) = self.pop()? {
                return Ok(message);
            }
            self.until_some(deadline)?;
        }
    }

    /// Waits until a message may be available.
    pub fn until_some(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let seen = self.bell_count();
        for _ in 0..self.polls {
            if self.depth() > 0 {
                self.polls = (self.polls * 2).min(MAX_POLLS);
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.polls = (self.polls / 2).max(MIN_POLLS);
        let more = (seen + 1).saturating_sub(self.fenced);
        let slot = match (&self.bell, &self.rings) {
            (Some(bell), _) => bell,
            (None, Rings::Own(rings, _)) => &rings[0].slot,
            (None, Rings::Shared(ring)) => &ring.slot,
        };
        match self.communication.fence(slot.into(), 0, more)?.block(deadline) {
            Ok(()) => {
                self.fenced += more;
                Ok(())
            }
            // Report a loss only once the ring is empty.
            Err(Error::PeerLost(id)) => {
                self.lost.push(id);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Number of copies counted at the slot that this waits on.
    fn bell_count(&self) -> u64 {
        let slot = match (&self.bell, &self.rings) {
            (Some(bell), _) => bell,
            (None, Rings::Own(rings, _)) => &rings[0].slot,
            (None, Rings::Shared(ring)) => &ring.slot,
        };
        self.communication.counts(slot.into()).received
    }

    fn next(&mut self, take: bool) -> Result<Option<Vec<u8>>, Error> {
        match &mut self.rings {
            Rings::Shared(ring) => {
                if let Some(message) = ring.next(take)? {
                    return Ok(Some(message));
                }
            }
            Rings::Own(rings, turn) => {
                for step in 0..rings.len() {
                    let index = (*turn + step) % rings.len();
                    if let Some(message) = rings[index].next(take)? {
                        *turn = if take { (index + 1) % rings.len() } else { index };
                        return Ok(Some(message));
                    }
                }
            }
        }
        self.nothing().map(|()| None)
    }

    /// All rings are empty: report pending losses.
    fn nothing(&mut self) -> Result<(), Error> {
        self.lost.pop().map_or(Ok(()), |id| Err(Error::PeerLost(id)))
    }
}

/// Maximum and minimum number of polls before a consumer sleeps.
const MAX_POLLS: usize = 4_000;
const MIN_POLLS: usize = 16;
