//! What Instances say to each other over a control connection, and the headers of copies over a bulk connection.

use serde::{Deserialize, Serialize};

use crate::{
    backends::shared::arbiter::{Agreed, Call},
    model::{Error, InstanceId, Key, Tag},
};

/// What the back-end is called.
pub(crate) const NAME: &str = "tcp";

/// Over a control connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    /// `from` comes to a collective, which the receiver decides.
    Gather { from: InstanceId, call: Call },
    /// `from` goes without waiting for the outcome.
    Withdraw { from: InstanceId, tag: Tag, round: Option<u64> },
    /// Somebody came to an exchange that names the receiver, and that the sender decides.
    Begun { tag: Tag, group: Vec<InstanceId> },
    /// The receiver's exchange overlaps one that `to`, a smaller id, decides; it is to decide both.
    Yield { tag: Tag, to: InstanceId },
    /// A collective's outcome.
    Decided { tag: Tag, round: Option<u64>, result: Result<Agreed, Error> },
    /// An exchange that the sender decided has failed, and everybody in it was told.
    Settled { tag: Tag },
    /// The sender destroyed a slot without a fence.
    Release { tag: Tag, key: Key },
    /// The sender wants a slot's lock.
    Lock { request: u64, place: Place },
    /// Whether it has it.
    Locked { request: u64, result: Result<bool, Error> },
    /// It gives it back.
    Unlock { place: Place },
    /// Whether a promoted slot is still there.
    Check { request: u64, place: Place },
    /// It is.
    Checked { request: u64, there: bool },
    /// A promoted slot of the sender is no more.
    Revoked { slot: u64 },
}

/// How a slot is reached at its owner.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Which slot.
    pub slot: u64,
    /// How many bytes it has.
    pub size: u64,
    /// What was given with a promoted slot, or zeroes.
    pub secret: [u64; 2],
}

/// Over a bulk connection: what follows, or what became of what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// So many bytes for a place of a slot follow.
    Put(Range),
    /// These bytes are asked for.
    Get(Range),
    /// The oldest so many puts have arrived.
    Done(u64),
    /// The bytes of the oldest get, of which there are so many, follow.
    Data(u64),
    /// The oldest copy is not possible: the slot is gone.
    Failed,
}

/// A piece of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which slot.
    pub slot: u64,
    /// Half of its secret, which is 0 for one that was exchanged.
    pub secret: u64,
    /// Where the piece begins.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

/// How many bytes a header has.
pub const HEAD: usize = 40;

impl Head {
    /// As it goes over the connection: five numbers of 8 bytes, the lowest first.
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

    /// How many bytes follow the header.
    pub fn follows(self) -> u64 {
        match self {
            Self::Put(range) => range.size,
            Self::Data(size) => size,
            Self::Get(_) | Self::Done(_) | Self::Failed => 0,
        }
    }

    /// What the bytes say, if it is one of these.
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
            let _ = receive::<Say>(&mut &framed[..]);
            let _ = receive::<Say>(&mut &bytes[..]);
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
