//! Messages on control connections, and headers of copies on bulk connections.

use serde::{Deserialize, Serialize};

use crate::{
    backends::shared::arbiter::{Agreed, Call},
    model::{Error, InstanceId, Key, Tag},
};

/// The name of the back-end.
pub(crate) const NAME: &str = "tcp";

/// A message on a control connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// `from` enters a collective that the recipient decides.
    Gather { from: InstanceId, call: Call },
    /// `from` withdraws from a collective.
    Withdraw { from: InstanceId, tag: Tag, round: Option<u64> },
    /// A member entered an exchange that includes the recipient and that the sender decides.
    Begun { tag: Tag, group: Vec<InstanceId> },
    /// The recipient's exchange overlaps one of the smaller id `to`, which is to decide both.
    Yield { tag: Tag, to: InstanceId },
    /// The outcome of a collective.
    Decided { tag: Tag, round: Option<u64>, result: Result<Agreed, Error> },
    /// A failed exchange is settled: the sender has informed all its members.
    Settled { tag: Tag },
    /// The sender destroyed a slot without a fence.
    Release { tag: Tag, key: Key },
    /// Requests the lock of a slot.
    Lock { request: u64, place: Place },
    /// Whether the lock was acquired.
    Locked { request: u64, result: Result<bool, Error> },
    /// Releases the lock of a slot.
    Unlock { place: Place },
    /// Asks whether a promoted slot still exists.
    Check { request: u64, place: Place },
    /// Whether the promoted slot exists.
    Checked { request: u64, exists: bool },
    /// A promoted slot of the sender was destroyed.
    Revoked { slot: u64 },
}

/// The descriptor of a slot at its owner.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The number of the slot.
    pub slot: u64,
    /// The size in bytes.
    pub size: u64,
    /// The secret of a promoted slot, or zeroes.
    pub secret: [u64; 2],
}

/// A header on a bulk connection: a request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A put; the bytes for this range follow.
    Put(Range),
    /// A get of this range.
    Get(Range),
    /// Acknowledges this number of oldest puts.
    Done(u64),
    /// Answers the oldest get; this number of bytes follows.
    Data(u64),
    /// Fails the oldest copy: the slot does not exist any more.
    Failed,
}

/// A range of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The number of the slot.
    pub slot: u64,
    /// Half of its secret; 0 for an exchanged slot.
    pub secret: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Size of a header in bytes.
pub const HEAD: usize = 40;

impl Head {
    /// Encodes five little-endian 64-bit numbers.
    pub fn to_bytes(self) -> [u8; HEAD] {
        let numbers = match self {
            Self::Put(range) => [1, range.slot, range.secret, range.offset, range.size],
            Self::Get(range) => [2, range.slot, range.secret, range.offset, range.size],
            Self::Done(count) => [3, count, 0, 0, 0],
            Self::Data(size) => [4, size, 0, 0, 0],
            Self::Failed => [5, 0, 0, 0, 0],
        };
        let mut bytes = [0; HEAD];
        bytes
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(to, number)| to.copy_from_slice(&number.to_le_bytes()));
        bytes
    }

    /// Number of bytes that follow the header.
    pub fn follows(self) -> u64 {
        match self {
            Self::Put(range) => range.size,
            Self::Data(size) => size,
            Self::Get(_) | Self::Done(_) | Self::Failed => 0,
        }
    }

    /// Decodes a header, if it is valid.
    pub fn from_bytes(bytes: &[u8; HEAD]) -> Option<Self> {
        let mut numbers = [0; 5];
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [kind, slot, secret, offset, size] = numbers;
        let range = Range { slot, secret, offset, size };
        match kind {
            1 => Some(Self::Put(range)),
            2 => Some(Self::Get(range)),
            3 => Some(Self::Done(slot)),
            4 => Some(Self::Data(slot)),
            5 => Some(Self::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backends::shared::frame::receive;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            let _ = receive::<PeerMessage>(&mut &framed[..]);
            let _ = receive::<PeerMessage>(&mut &bytes[..]);
        }

        #[test]
        fn a_header_is_read_as_it_was_written(kind in 0_u8..8, numbers: [u64; 4]) {
            let mut bytes = [0; HEAD];
            bytes[0] = kind;
            bytes[8..].copy_from_slice(bytemuck::cast_slice(&numbers));
            if let Some(head) = Head::from_bytes(&bytes) {
                prop_assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
            } else {
                prop_assert!(!(1..=5).contains(&kind));
            }
        }
    }
}
