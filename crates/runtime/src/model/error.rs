//! What can go wrong, in words: the object, what it is, what it would have to be, and what to do.

use serde::{Deserialize, Serialize};

use super::id::InstanceId;

/// Why an operation was refused, or did not end well.
///
/// All members of a collective get the same value, so it can be compared and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Error {
    /// The manager cannot do this at all; [`supports`](super::MemoryManager::supports) says so beforehand.
    #[error("{manager} does not {what}; {instead}")]
    Unsupported {
        /// Which manager.
        manager: String,
        /// What was asked of it.
        what: String,
        /// What to do instead.
        instead: String,
    },
    /// An object is in another state than the operation needs.
    #[error("{object} is {is}; to {what} it must be {must}")]
    State {
        /// Which object.
        object: String,
        /// The operation.
        what: String,
        /// Its state.
        is: String,
        /// The state, or the states, in which the operation is possible.
        must: String,
    },
    /// What was given makes no sense.
    #[error("cannot {what}: {why}")]
    Misuse {
        /// The operation.
        what: String,
        /// What is wrong with what was given, and what would be right.
        why: String,
    },
    /// A copy reaches beyond a slot.
    #[error("bytes {offset} to {end} are not within {slot}, which has {size} bytes")]
    OutOfBounds {
        /// Which slot.
        slot: String,
        /// The first byte of the copy.
        offset: u64,
        /// The first byte that the copy does not touch.
        end: u128,
        /// How many bytes the slot has.
        size: u64,
    },
    /// There is not enough room left in a memory space.
    #[error("{asked} bytes do not fit into {space}, which has {free} bytes free; free slots or ask for less")]
    NoRoom {
        /// Which memory space.
        space: String,
        /// How many bytes were asked for.
        asked: u64,
        /// How many are free.
        free: u64,
    },
    /// A slot cannot be given up, or lent, yet or any more.
    #[error("{slot} is in use: {by}")]
    InUse {
        /// Which slot.
        slot: String,
        /// By what, and until when.
        by: String,
    },
    /// An Instance ended while something was expected of it.
    #[error("Instance {0} is lost: its process has ended or its connection is broken")]
    PeerLost(InstanceId),
    /// A collective did not come about; every member gets this.
    #[error("the {what} of tag {tag} failed: {why}")]
    Collective {
        /// `exchange` or `fence`.
        what: String,
        /// The tag of the collective.
        tag: u64,
        /// What did not agree, with the owners, or who is missing.
        why: String,
    },
    /// What is meant existed once, or never.
    #[error("{0} is gone: it was destroyed, its owner restarted, or it never was")]
    Gone(String),
    /// The time is over; what was waited for goes on.
    #[error("{0} has not happened before the deadline; it may still happen, wait again or drop the wait")]
    TimedOut(String),
    /// A function panicked; what ran it goes on.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// What panicked.
        what: String,
        /// What it said.
        message: String,
    },
    /// A call answered with an error of its own.
    #[error("{0}")]
    Remote(String),
    /// The operating system refused.
    #[error("cannot {what}: {why}")]
    System {
        /// The operation.
        what: String,
        /// The system's words.
        why: String,
    },
}

#[expect(clippy::needless_pass_by_value, reason = "objects, states and texts, given as they are")]
impl Error {
    /// An operation on an object that is in another state.
    pub fn state(object: impl ToString, what: &str, is: impl ToString, must: &str) -> Self {
        Self::State { object: object.to_string(), what: what.into(), is: is.to_string(), must: must.into() }
    }

    /// An operation with what makes no sense.
    pub fn misuse(what: &str, why: impl ToString) -> Self {
        Self::Misuse { what: what.into(), why: why.to_string() }
    }

    /// An operation that a manager cannot do.
    pub fn unsupported(manager: &str, what: &str, instead: &str) -> Self {
        Self::Unsupported { manager: manager.into(), what: what.into(), instead: instead.into() }
    }

    /// An operation that the operating system refused.
    pub fn system(what: &str, why: impl ToString) -> Self {
        Self::System { what: what.into(), why: why.to_string() }
    }
}

/// An operation that takes an object and was refused: the error, and the object back.
#[derive(Debug)]
pub struct Rejected<T> {
    /// Why.
    pub error: Error,
    /// What was given, as it was.
    pub value: T,
}

impl<T> From<Rejected<T>> for Error {
    fn from(rejected: Rejected<T>) -> Self {
        rejected.error
    }
}
