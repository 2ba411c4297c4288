//! Locks of commits and repairs.

use tokio::sync::{Mutex, MutexGuard};

/// Plans are made concurrently but committed one at a time. Conflicting plans are also repaired one at a time, or each would
/// take what another just had judged.
#[derive(Default)]
pub struct CommitLocks {
    /// Held during a commit.
    pub commit: Mutex<()>,
    /// Held while a plan is repaired, judged and committed.
    pub repair: Mutex<()>,
}

/// The commit lock, and the repair lock of a repaired plan; released once the Placement is written.
pub type CommitGuard<'a> = (MutexGuard<'a, ()>, Option<MutexGuard<'a, ()>>);
