//! A ring of one producer. Each record is one copy: the consumer counts received copies, and the producer counts pops by
//! the copies of size 0 that it gets back.

use std::collections::VecDeque;

use super::shape::{HEAD, PushError, Setup, Shape, record, ring_bell};
use crate::model::{CommunicationManager, Error, GlobalSlot, InstanceId, LocalSlot, Memcpy};

/// Marker in place of a length: the rest of the ring is unused.
const SKIP: u64 = u64::MAX;

/// The producer's endpoint.
pub(super) struct Sender<'a> {
    communication: &'a dyn CommunicationManager,
    ring: GlobalSlot,
    /// A mirror of the ring: a range is free here if it is free there.
    staging: LocalSlot,
    /// Counts pops.
    credit: LocalSlot,
    bell: Option<GlobalSlot>,
    shape: Shape,
    /// Offset of the next record.
    at: usize,
    /// Sizes of records not known to be popped.
    records: VecDeque<usize>,
    used: usize,
    popped: u64,
    /// Number of consecutive failed pushes.
    full: u32,
    /// Whether the consumer is lost.
    lost: Option<InstanceId>,
}

/// Number of failed pushes after which a producer checks for the loss of the consumer.
const IN_VAIN: u32 = 64;

impl<'a> Sender<'a> {
    pub(super) fn new(
        setup: Setup<'a>,
        ring: GlobalSlot,
        credit: LocalSlot,
        bell: Option<GlobalSlot>,
        shape: Shape,
    ) -> Result<Self, Error> {
        let staging = setup.slot(shape.bytes())?;
        let records = VecDeque::new();
        let communication = setup.communication;
        let (at, used, popped, full, lost) = (0, 0, 0, 0, None);
        Ok(Self { communication, ring, staging, credit, bell, shape, at, records, used, popped, full, lost })
    }

    /// Accounts for records popped in the meantime.
    fn refresh(&mut self) {
        let popped = self.communication.counts((&self.credit).into()).received;
        while self.popped < popped {
            self.popped += 1;
            self.used -= self.records.pop_front().unwrap_or(0);
        }
    }

    pub(super) fn depth(&mut self) -> usize {
        self.refresh();
        self.records.len()
    }

    /// Reserves a contiguous range of `bytes`.
    fn make_room(&mut self, bytes: usize) -> Result<(), PushError> {
        let capacity = self.shape.bytes();
        let rest = capacity - self.at;
        if self.full == 0 {
            // Prefetches during the check for room.
            self.ring.prefetch_bytes(self.at);
        }
        let skip = if bytes > rest { rest } else { 0 };
        if self.used + skip + bytes > capacity {
            self.refresh();
        }
        if self.used + skip + bytes > capacity {
            return Err(self.full());
        }
        self.full = 0;
        if skip > 0 {
            self.staging.write(self.at, &SKIP.to_le_bytes())?;
            self.communication.memcpy(&self.ring, self.at, &self.staging, self.at, HEAD)?;
            self.pushed(skip);
        }
        Ok(())
    }

    /// The ring is full. A fence that consumes nothing detects the loss of the consumer.
    fn full(&mut self) -> PushError {
        self.full += 1;
        if self.full.is_multiple_of(IN_VAIN) && self.lost.is_none() {
            let fence = self.communication.fence((&self.credit).into(), 0, u64::MAX / 2);
            if let Ok(Some(Err(Error::PeerLost(id)))) = fence.map(|mut fence| fence.try_take()) {
                self.lost = Some(id);
            }
        }
        self.lost.map_or(PushError::Full, |id| PushError::Failed(Error::PeerLost(id)))
    }

    fn pushed(&mut self, bytes: usize) {
        self.records.push_back(bytes);
        self.used += bytes;
        self.at = (self.at + bytes) % self.shape.bytes();
    }

    pub(super) fn push(&mut self, message: &[u8]) -> Result<(), PushError> {
        self.shape.fits(message.len())?;
        let (bytes, copied) = match self.shape {
            Shape::Fixed { size, .. } => (size, size),
            Shape::Variable { .. } => (record(message.len()), HEAD + message.len()),
        };
        self.make_room(bytes)?;
        let mut at = self.at;
        if let Shape::Variable { .. } = self.shape {
            self.staging.write(at, &(message.len() as u64).to_le_bytes())?;
            at += HEAD;
        }
        self.staging.write(at, message)?;
        self.communication.memcpy(&self.ring, self.at, &self.staging, self.at, copied)?;
        self.pushed(bytes);
        self.ring()
    }

    pub(super) fn push_slot(&mut self, slot: &LocalSlot, offset: usize) -> Result<(), PushError> {
        let Shape::Fixed { size, .. } = self.shape else {
            let instead = "push the bytes";
            return Err(Error::unsupported("a channel of any sizes", "push from a slot", instead).into());
        };
        self.make_room(size)?;
        self.communication.memcpy(&self.ring, self.at, slot, offset, size)?;
        self.pushed(size);
        self.ring()
    }

    fn ring(&self) -> Result<(), PushError> {
        let Some(bell) = &self.bell else { return Ok(()) };
        Ok(ring_bell(self.communication, bell, &self.staging)?)
    }
}

/// The consumer's endpoint.
pub(super) struct Ring<'a> {
    communication: &'a dyn CommunicationManager,
    pub(super) slot: LocalSlot,
    credit: GlobalSlot,
    /// The source of the copies of size 0.
    token: LocalSlot,
    shape: Shape,
    at: usize,
    popped: u64,
    producer: InstanceId,
}

impl<'a> Ring<'a> {
    pub(super) fn new(
        setup: Setup<'a>,
        slot: LocalSlot,
        credit: GlobalSlot,
        shape: Shape,
        producer: InstanceId,
    ) -> Result<Self, Error> {
        let token = setup.slot(1)?;
        Ok(Self {
            communication: setup.communication,
            slot,
            credit,
            token,
            shape,
            at: 0,
            popped: 0,
            producer,
        })
    }

    pub(super) fn depth(&self) -> usize {
        let received = self.communication.counts((&self.slot).into()).received;
        usize::try_from(received.saturating_sub(self.popped)).unwrap_or(usize::MAX)
    }

    fn popped(&mut self, bytes: usize) -> Result<(), Error> {
        self.at = (self.at + bytes) % self.shape.bytes();
        self.popped += 1;
        match self.communication.signal(&self.credit, &self.token) {
            // The producer is lost and needs no credit any more.
            Ok(()) | Err(Error::PeerLost(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn pop_into(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        let Shape::Fixed { size, .. } = self.shape else {
            return Err(Error::unsupported("a channel of any sizes", "pop into a buffer", "pop a message"));
        };
        if bytes.len() != size {
            return Err(Error::misuse(
                "pop",
                format!("the buffer has {} bytes; a message has {size}", bytes.len()),
            ));
        }
        if self.depth() == 0 {
            return Ok(false);
        }
        // Prefetches while the message is copied.
        self.credit.prefetch_counter();
        self.slot.read(self.at, bytes)?;
        self.popped(size)?;
        Ok(true)
    }

    pub(super) fn next(&mut self, take: bool) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if self.depth() == 0 {
                return Ok(None);
            }
            self.credit.prefetch_counter();
            let (at, length, bytes) = match self.shape {
                Shape::Fixed { size, .. } => (self.at, size, size),
                Shape::Variable { capacity } => {
                    let length = self.slot.read_values::<u64>(self.at, 1)?[0];
                    if length == SKIP {
                        self.popped(capacity - self.at)?;
                        continue;
                    }
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if record(length) > capacity - self.at {
                        let why =
                            format!("Instance {} wrote a message that does not fit its ring", self.producer);
                        return Err(Error::misuse("pop", why));
                    }
                    (self.at + HEAD, length, record(length))
                }
            };
            let message = self.slot.read_values::<u8>(at, length)?;
            if take {
                self.popped(bytes)?;
            }
            return Ok(Some(message));
        }
    }
}
