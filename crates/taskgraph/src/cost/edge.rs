//! Edges of the model `work`.

/// A message from a task to a successor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkEdge {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// Message size.
    pub bytes: f64,
    /// Whether the receiver waits for it; false for a data store that is read before its last write, which would be a cycle.
    pub ordering: bool,
}
