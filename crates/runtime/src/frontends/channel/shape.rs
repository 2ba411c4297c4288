//! What all rings have in common: what fits, what a record of any size takes, and what they are made with.

use crate::{
    hicr::MemorySpace,
    model::{CommunicationManager, Error, GlobalSlot, InstanceId, LocalSlot, Memcpy, MemoryManager},
};

/// What messages there are room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `capacity` messages of `size` bytes each.
    Fixed {
        /// How many messages.
        capacity: usize,
        /// Bytes of each.
        size: usize,
    },
    /// Messages of any size, together with 8 bytes for each, rounded up to 8, at most this many bytes.
    Variable {
        /// Bytes of the ring.
        capacity: usize,
    },
}

/// Why a message was not pushed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no room until the consumer pops.
    #[error("the channel is full; push again when the consumer has popped")]
    Full,
    /// Another producer is pushing.
    #[error("another producer holds the channel; push again")]
    Locked,
    /// It will not be pushed.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// With what, and where, an Instance makes its ends of channels.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Makes the rings.
    pub memory: &'a dyn MemoryManager,
    /// Copies into them.
    pub communication: &'a dyn CommunicationManager,
    /// Where the rings are.
    pub space: &'a MemorySpace,
    /// This Instance.
    pub me: InstanceId,
}

impl Setup<'_> {
    pub(super) fn slot(&self, size: usize) -> Result<LocalSlot, Error> {
        self.memory.allocate(self.space, size)
    }
}

impl Shape {
    pub(super) fn checked(self) -> Result<Self, Error> {
        let wrong = |why| Err(Error::misuse("open a channel", why));
        match self {
            Self::Fixed { capacity, size }
                if capacity == 0 || size == 0 || capacity.checked_mul(size).is_none() =>
            {
                wrong("a ring has at least one message of at least one byte")
            }
            Self::Variable { capacity } if capacity < 64 => {
                wrong("a ring of any messages has at least 64 bytes")
            }
            Self::Variable { capacity } => Ok(Self::Variable { capacity: capacity / 8 * 8 }),
            fixed @ Self::Fixed { .. } => Ok(fixed),
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Fixed { capacity, size } => capacity * size,
            Self::Variable { capacity } => capacity,
        }
    }

    /// Refused when a message has not the size, or never fits.
    pub(super) fn fits(self, message: usize) -> Result<(), Error> {
        match self {
            Self::Fixed { size, .. } if message != size => Err(Error::misuse(
                "push",
                format!("the message has {message} bytes; in this channel each has {size}"),
            )),
            // So that one always fits once the ring is empty, wherever its next byte is.
            Self::Variable { capacity } if record(message) > capacity / 2 => {
                let most = capacity / 2 / 8 * 8 - 8;
                Err(Error::misuse(
                    "push",
                    format!("the message has {message} bytes; this channel takes up to {most}"),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// What precedes a message of a ring of any size: its length.
pub(super) const HEAD: usize = 8;

/// How many bytes of a ring a message of any size takes.
pub(super) fn record(message: usize) -> usize {
    HEAD.saturating_add(message).checked_next_multiple_of(8).unwrap_or(usize::MAX)
}

/// A copy of size 0, which says something by being counted.
pub(super) fn ring_bell(
    communication: &dyn CommunicationManager,
    bell: &GlobalSlot,
    from: &LocalSlot,
) -> Result<(), Error> {
    communication.memcpy(bell, 0, from, 0, 0)
}
