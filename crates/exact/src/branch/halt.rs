//! What ends a search early.

/// Why a part of the search ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// `stop` said so, or `found` did.
    Stopped,
    /// It takes more work, or more room, than it is worth.
    TooMuch,
}
