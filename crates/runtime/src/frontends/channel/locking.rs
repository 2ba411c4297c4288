//! A ring shared by several producers, each of which locks it to push. Two words before the ring count the bytes pushed
//! and popped in total.

use super::shape::{PushError, Setup, Shape, record};
use crate::model::{CommunicationManager, Error, GlobalSlot, LocalSlot, Memcpy};

/// The two counters, each in bytes and in messages.
pub(super) const WORDS: usize = 32;
const TAIL: usize = 0;
const HEAD: usize = 16;

/// The producer's endpoint.
pub(super) struct LockedProducer<'a> {
    communication: &'a dyn CommunicationManager,
    ring: GlobalSlot,
    staging: LocalSlot,
    shape: Shape,
}

/// Total bytes and messages.
type Mark = [u64; 2];

impl<'a> LockedProducer<'a> {
    pub(super) fn new(setup: Setup<'a>, ring: GlobalSlot, shape: Shape) -> Result<Self, Error> {
        let staging = setup.slot(WORDS + shape.bytes())?;
        Ok(Self { communication: setup.communication, ring, staging, shape })
    }

    /// Reads the totals pushed and popped by all members.
    fn marks(&self) -> Result<(Mark, Mark), Error> {
        self.communication.memcpy(&self.staging, 0, &self.ring, 0, WORDS)?;
        self.communication.fence((&self.staging).into(), 0, 1)?.done()?;
        let marks = self.staging.read_values::<Mark>(0, 2)?;
        Ok((marks[0], marks[1]))
    }

    pub(super) fn depth(&self) -> Result<usize, Error> {
        let (tail, head) = self.marks()?;
        Ok(usize::try_from(tail[1].saturating_sub(head[1])).unwrap_or(usize::MAX))
    }

    /// Pushes as many messages as fit.
    pub(super) fn push(&mut self, messages: &[&[u8]]) -> Result<usize, PushError> {
        messages.iter().try_for_each(|message| self.shape.fits(message.len()))?;
        let Some(_guard) = self.communication.try_lock(&self.ring)? else { return Err(PushError::Locked) };
        let (mut tail, head) = self.marks()?;
        let capacity = self.shape.bytes();
        let mut pushed = 0;
        for message in messages {
            let bytes = record_of(self.shape, message.len());
            let used = usize::try_from(tail[0].saturating_sub(head[0])).unwrap_or(capacity);
            if used + bytes > capacity {
                break;
            }
            let mut framed = Vec::with_capacity(bytes);
            if let Shape::Variable { .. } = self.shape {
                framed.extend((message.len() as u64).to_le_bytes());
            }
            framed.extend(*message);
            self.put(usize::try_from(tail[0] % capacity as u64).unwrap_or(0), &framed)?;
            tail = [tail[0] + bytes as u64, tail[1] + 1];
            pushed += 1;
        }
        if pushed == 0 && !messages.is_empty() {
            return Err(PushError::Full);
        }
        // The tail comes last: copies to one slot take effect in order, so a visible tail implies visible messages.
        self.staging.write(TAIL, bytemuck::bytes_of(&tail))?;
        self.communication.memcpy(&self.ring, TAIL, &self.staging, TAIL, 16)?;
        // Only after arrival may the staging slot be overwritten and the lock be released.
        self.arrived()?;
        Ok(pushed)
    }

    /// Copies bytes to the ring, in two parts if they wrap around.
    fn put(&self, at: usize, bytes: &[u8]) -> Result<(), Error> {
        let (first, second) = bytes.split_at(bytes.len().min(self.shape.bytes() - at));
        for (at, part) in [(at, first), (0, second)] {
            if !part.is_empty() {
                self.staging.write(WORDS + at, part)?;
                self.communication.memcpy(&self.ring, WORDS + at, &self.staging, WORDS + at, part.len())?;
            }
        }
        Ok(())
    }

    /// A get after the puts awaits them, since copies take effect in program order.
    fn arrived(&self) -> Result<(), Error> {
        self.marks().map(drop)
    }
}

fn record_of(shape: Shape, message: usize) -> usize {
    match shape {
        Shape::Fixed { size, .. } => size,
        Shape::Variable { .. } => record(message),
    }
}

/// The consumer's endpoint.
pub(super) struct LockedRing {
    pub(super) slot: LocalSlot,
    shape: Shape,
    head: Mark,
}

impl LockedRing {
    pub(super) fn new(slot: LocalSlot, shape: Shape) -> Self {
        Self { slot, shape, head: [0; 2] }
    }

    fn tail(&self) -> Mark {
        self.slot.read_values::<Mark>(TAIL, 1).map_or(self.head, |marks| marks[0])
    }

    pub(super) fn depth(&self) -> usize {
        usize::try_from(self.tail()[1].saturating_sub(self.head[1])).unwrap_or(usize::MAX)
    }

    pub(super) fn next(&mut self, take: bool) -> Result<Option<Vec<u8>>, Error> {
        if self.depth() == 0 {
            return Ok(None);
        }
        let capacity = self.shape.bytes();
        let at = usize::try_from(self.head[0] % capacity as u64).unwrap_or(0);
        let length = match self.shape {
            Shape::Fixed { size, .. } => size,
            // Records are aligned to 8 bytes, so a length never wraps around.
            Shape::Variable { .. } => {
                let length = self.slot.read_values::<u64>(WORDS + at, 1)?[0];
                usize::try_from(length).unwrap_or(usize::MAX)
            }
        };
        let bytes = record_of(self.shape, length);
        if bytes > capacity {
            return Err(Error::misuse("pop", "a producer wrote a message that does not fit the ring"));
        }
        let skip = if let Shape::Variable { .. } = self.shape { 8 } else { 0 };
        let mut message = vec![0; length];
        let begin = (at + skip) % capacity;
        let (first, second) = message.split_at_mut(length.min(capacity - begin));
        self.slot.read(WORDS + begin, first)?;
        self.slot.read(WORDS, second)?;
        if take {
            self.head = [self.head[0] + bytes as u64, self.head[1] + 1];
            self.slot.write(HEAD, bytemuck::bytes_of(&self.head))?;
        }
        Ok(Some(message))
    }
}
