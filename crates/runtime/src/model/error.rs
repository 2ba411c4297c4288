//! The error type. Messages name the object, its state, the expected state and the remedy.

use serde::{Deserialize, Serialize};

use super::id::InstanceId;

/// Why an operation failed.
///
/// All members of a collective get the same value, so it can be compared and serialized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Error {
    /// The manager lacks this capability; query it with [`supports`](super::MemoryManager::supports).
    #[error("{manager} does not {what}; {instead}")]
    Unsupported {
        /// The manager.
        manager: String,
        /// The requested operation.
        what: String,
        /// What to do instead.
        instead: String,
    },
    /// An object is in the wrong state for the operation.
    #[error("{object} is {is}; to {what} it must be {must}")]
    State {
        /// The object.
        object: String,
        /// The operation.
        what: String,
        /// Its state.
        is: String,
        /// The state or states that the operation requires.
        must: String,
    },
    /// Invalid arguments.
    #[error("cannot {what}: {why}")]
    Misuse {
        /// The operation.
        what: String,
        /// What is invalid, and what would be valid.
        why: String,
    },
    /// A copy exceeds the bounds of a slot.
    #[error("bytes {offset} to {end} are not within {slot}, which has {size} bytes")]
    OutOfBounds {
        /// The slot.
        slot: String,
        /// Offset of the first byte.
        offset: u64,
        /// Offset after the last byte.
        end: u128,
        /// Size of the slot in bytes.
        size: u64,
    },
    /// A memory space has too little free memory.
    #[error("{asked} bytes do not fit into {space}, which has {free} bytes free; free slots or request less")]
    NoRoom {
        /// The memory space.
        space: String,
        /// Requested bytes.
        asked: u64,
        /// Free bytes.
        free: u64,
    },
    /// A slot cannot be freed or lent while it is in use.
    #[error("{slot} is in use: {by}")]
    InUse {
        /// The slot.
        slot: String,
        /// What uses it, and how that ends.
        by: String,
    },
    /// A peer was lost during the operation.
    #[error("Instance {0} is lost: its process has ended or its connection is broken")]
    PeerLost(InstanceId),
    /// A collective failed; every member gets the same error.
    #[error("the {what} of tag {tag} failed: {why}")]
    Collective {
        /// `exchange` or `fence`.
        what: String,
        /// The tag of the collective.
        tag: u64,
        /// The inconsistent arguments with their owners, or the missing members.
        why: String,
    },
    /// The object does not exist any more, or never did.
    #[error("{0} does not exist: it was destroyed, its owner restarted, or it never existed")]
    Gone(String),
    /// The deadline has passed; the operation is still pending.
    #[error("timed out waiting for {0}, which is still pending; wait again or drop the wait")]
    TimedOut(String),
    /// A function panicked; its executor continues.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// The function.
        what: String,
        /// The panic message.
        message: String,
    },
    /// A remote call returned an error.
    #[error("{0}")]
    Remote(String),
    /// The operating system reported an error.
    #[error("cannot {what}: {why}")]
    System {
        /// The operation.
        what: String,
        /// The system's message.
        why: String,
    },
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass values of many types")]
impl Error {
    /// An operation on an object in the wrong state.
    pub fn state(object: impl ToString, what: &str, is: impl ToString, must: &str) -> Self {
        Self::State { object: object.to_string(), what: what.into(), is: is.to_string(), must: must.into() }
    }

    /// An operation with invalid arguments.
    pub fn misuse(what: &str, why: impl ToString) -> Self {
        Self::Misuse { what: what.into(), why: why.to_string() }
    }

    /// An operation that the manager does not support.
    pub fn unsupported(manager: &str, what: &str, instead: &str) -> Self {
        Self::Unsupported { manager: manager.into(), what: what.into(), instead: instead.into() }
    }

    /// An operation that failed in the operating system.
    pub fn system(what: &str, why: impl ToString) -> Self {
        Self::System { what: what.into(), why: why.to_string() }
    }
}

/// A failed operation that consumes an object: the error and the object.
#[derive(Debug)]
pub struct Rejected<T> {
    /// The error.
    pub error: Error,
    /// The unchanged object.
    pub value: T,
}

impl<T> From<Rejected<T>> for Error {
    fn from(rejected: Rejected<T>) -> Self {
        rejected.error
    }
}
