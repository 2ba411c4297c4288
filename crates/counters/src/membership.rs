//! Whether windows are settled.

use std::collections::BTreeSet;

/// Detects starts, stops and moves of actors between observations, which are half a window apart.
///
/// A window is settled if nothing of the application changed in it, nor in the half window before.
#[derive(Clone, Debug, Default)]
pub struct MembershipTracker {
    /// The actors at the last observation, each with what changes when it restarts or moves.
    members: Option<BTreeSet<(String, String)>>,
    /// Observations since the last change.
    unchanged: u32,
    has_changed: bool,
}

/// Half windows that must pass without a change: the window, and the half window before.
const SETTLED_AFTER: u32 = 3;

impl MembershipTracker {
    /// Observes the actors: name, and what changes when the actor restarts, stops or moves.
    pub fn observe(&mut self, members: BTreeSet<(String, String)>) {
        self.unchanged = match &self.members {
            Some(last) if *last == members => self.unchanged.saturating_add(1),
            last => {
                self.has_changed |= last.is_some();
                0
            }
        };
        self.members = Some(members);
    }

    /// Whether a change was observed since the first observation.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether a window that ends at the last observation is settled.
    pub fn is_settled(&self) -> bool {
        self.unchanged >= SETTLED_AFTER
    }
}
