//! Channels: rings in the consumer's memory, made beforehand, for small messages that come often.
//!
//! A push is one copy, and the copy itself tells the consumer: what has arrived is what is counted at the ring. A pop
//! is told to the producer by a copy of size 0. Neither ever waits.

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
    /// One ring, which a producer locks while it pushes.
    Locking,
    /// A ring for each, read in turn.
    NonLocking,
}

/// A producer's end.
pub struct Producer<'a>(Kind<'a>);

enum Kind<'a> {
    Own(Sender<'a>),
    Shared(LockedProducer<'a>),
}

/// The consumer's end.
pub struct Consumer<'a> {
    communication: &'a dyn CommunicationManager,
    rings: Rings<'a>,
    /// Where producers ring who share the consumer, each having a ring of its own.
    bell: Option<LocalSlot>,
    /// How many copies earlier waits took.
    fenced: u64,
    /// How often it looks before it sleeps: less when looking was of no use, as when the producer shares its processor.
    looks: usize,
    /// Who is lost, of those whose rings may still hold something.
    lost: Vec<InstanceId>,
}

enum Rings<'a> {
    Own(Vec<Ring<'a>>, usize),
    Shared(LockedRing),
}

/// Opens a channel from `producers` to `consumer`, under a tag of its own: collective over all of them. Each gets the
/// ends that are its own; one Instance may have both, for two of its threads.
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
        || Error::misuse("open a channel", "a member named other producers, or another consumer or mode");
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
            looks: LOOKS,
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
    /// Pushes a message, or says at once why not.
    pub fn push(&mut self, message: &[u8]) -> Result<(), PushError> {
        match &mut self.0 {
            Kind::Own(sender) => sender.push(message),
            Kind::Shared(producer) => producer.push(&[message]).map(drop),
        }
    }

    /// Pushes a message that is in a slot, from `offset` on, without copying it first; fixed size, own ring.
    ///
    /// The slot may be overwritten when a fence says that it was sent.
    pub fn push_slot(&mut self, slot: &LocalSlot, offset: usize) -> Result<(), PushError> {
        match &mut self.0 {
            Kind::Own(sender) => sender.push_slot(slot, offset),
            Kind::Shared(_) => {
                Err(Error::unsupported("a locking channel", "push from a slot", "push the bytes").into())
            }
        }
    }

    /// Pushes as many of these as there is room for, in order, and says how many; an error if it is none.
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

    /// How many messages of this producer's ring are not popped yet; of a shared ring, of all.
    pub fn depth(&mut self) -> Result<usize, Error> {
        match &mut self.0 {
            Kind::Own(sender) => Ok(sender.depth()),
            Kind::Shared(producer) => producer.depth(),
        }
    }
}

impl Consumer<'_> {
    /// How many messages are there.
    pub fn depth(&self) -> usize {
        match &self.rings {
            Rings::Own(rings, _) => rings.iter().map(Ring::depth).sum(),
            Rings::Shared(ring) => ring.depth(),
        }
    }

    /// The next message, which stays; none if there is none. Of a lost producer, an error once its ring is empty.
    pub fn peek(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.next(false)
    }

    /// Takes the next message.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.next(true)
    }

    /// Takes the next message into `bytes`, which have its size; fixed size, one producer.
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

    /// Takes the next message, waiting for it until `deadline`.
    pub fn wait(&mut self, deadline: impl Into<Option<Instant>>) -> Result<Vec<u8>, Error> {
        let deadline = deadline.into();
        loop {
            if let Some(message) = self.pop()? {
                return Ok(message);
            }
            self.until_some(deadline)?;
        }
    }

    /// Waits until something may be there.
    pub fn until_some(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let seen = self.bell_count();
        for _ in 0..self.looks {
            if self.depth() > 0 {
                self.looks = (self.looks * 2).min(LOOKS);
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.looks = (self.looks / 2).max(LEAST_LOOKS);
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
            // Told when its ring is empty.
            Err(Error::PeerLost(id)) => {
                self.lost.push(id);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// How many copies have come to what this waits at.
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

    /// Nothing is there: whoever is lost is told of now.
    fn nothing(&mut self) -> Result<(), Error> {
        self.lost.pop().map_or(Ok(()), |id| Err(Error::PeerLost(id)))
    }
}

/// How often a consumer looks before it sleeps, at most and at least.
const LOOKS: usize = 4_000;
const LEAST_LOOKS: usize = 16;
