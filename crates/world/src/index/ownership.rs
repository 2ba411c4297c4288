//! Whose an object is: only the chain of controller uids says so, pod → Instance → application.
//!
//! Names, labels and annotations are claims, and anybody can write them.

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership<T> {
    /// Ours: it was made for this.
    OwnedBy(T),
    /// Its controller is gone, and the garbage collector takes it away.
    Orphaned,
    /// Somebody else's, whatever it says of itself.
    Foreign,
}
