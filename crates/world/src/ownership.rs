//! Whose an object is: only the chain of controller uids says so, pod → Instance → application.
//!
//! Names, labels and annotations are claims, and anybody can write them.

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<T> {
    /// Ours: it was made for this.
    Of(T),
    /// Its controller is gone, and the garbage collector takes it away.
    Leaving,
    /// Somebody else's, whatever it says of itself.
    Another,
}
