//! Edges of the model `work`.

/// What a task sends to a successor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkEdge {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// What is sent.
    pub bytes: f64,
    /// The receiver waits for it; false where a data-store is read before it is last written, which would be a cycle.
    pub ordering: bool,
}
