//! Ownership of objects, by the chain of controller uids only: pod → Instance → application.
//!
//! Names, labels and annotations are not trusted, as any user can write them.

/// Ownership of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership<T> {
    /// Owned by this.
    OwnedBy(T),
    /// The controller no longer exists; the garbage collector will delete the object.
    Orphaned,
    /// Owned by another party.
    Foreign,
}
