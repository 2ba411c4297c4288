//! Groups that were measured in windows which are no longer kept.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Groups that were measured before the kept windows, if nothing started, stopped or moved since.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredBefore {
    /// Those whose messages were.
    pub messages: BTreeSet<Arc<str>>,
    /// Those whose work was.
    work: BTreeSet<Arc<str>>,
}

impl MeasuredBefore {
    /// Adds a group if its messages and its work are measured.
    pub fn add(&mut self, group: &Arc<str>, [messages, work]: [bool; 2]) {
        self.messages.extend(messages.then(|| group.clone()));
        self.work.extend(work.then(|| group.clone()));
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.work.is_empty()
    }
}
