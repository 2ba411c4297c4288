//! Common parts of all rings: capacity, record sizes and set-up.

use crate::{
    hicr::MemorySpace,
    model::{CommunicationManager, Error, GlobalSlot, InstanceId, LocalSlot, Memcpy, MemoryManager},
};

/// The capacity of a ring and the form of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `capacity` messages of `size` bytes each.
    Fixed {
        /// Number of messages.
        capacity: usize,
        /// Bytes per message.
        size: usize,
    },
    /// Messages of any size; each occupies its size plus 8 bytes, rounded up to a multiple of 8.
    Variable {
        /// Size of the ring in bytes.
        capacity: usize,
    },
}

/// Why a push failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The ring is full until the consumer pops.
    #[error("the channel is full; push again after the consumer has popped")]
    Full,
    /// Another producer holds the lock.
    #[error("another producer holds the channel; push again")]
    Locked,
    /// A permanent failure.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The managers and memory space with which an Instance creates its endpoints.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Allocates the rings.
    pub memory: &'a dyn MemoryManager,
    /// Copies messages.
    pub communication: &'a dyn CommunicationManager,
    /// The memory space of the rings.
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
                wrong("a ring needs room for at least one message of at least one byte")
            }
            Self::Variable { capacity } if capacity < 64 => {
                wrong("a ring for messages of any size needs at least 64 bytes")
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

    /// Fails if a message has the wrong size or can never fit.
    pub(super) fn fits(self, message: usize) -> Result<(), Error> {
        match self {
            Self::Fixed { size, .. } if message != size => Err(Error::misuse(
                "push",
                format!("the message has {message} bytes; this channel takes messages of {size}"),
            )),
            // Half of the ring, so that a message fits into an empty ring at every offset.
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

/// The length header of a message in a ring of any size.
pub(super) const HEAD: usize = 8;

/// Bytes that a message of any size occupies in a ring.
pub(super) fn record(message: usize) -> usize {
    HEAD.saturating_add(message).checked_next_multiple_of(8).unwrap_or(usize::MAX)
}

/// Signals a peer by a counted copy of size 0.
pub(super) fn ring_bell(
    communication: &dyn CommunicationManager,
    bell: &GlobalSlot,
    from: &LocalSlot,
) -> Result<(), Error> {
    communication.memcpy(bell, 0, from, 0, 0)
}
