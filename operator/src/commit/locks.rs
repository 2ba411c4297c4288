//! Who commits, and who comes first of those that collided.

use tokio::sync::{Mutex, MutexGuard};

/// Whose turn it is: plans are made side by side and committed one at a time, and so are mended those that collided, or each would take
/// what another just had judged.
#[derive(Default)]
pub struct CommitLocks {
    /// Who commits.
    pub commit: Mutex<()>,
    /// Who is mended, judged and committed.
    pub repair: Mutex<()>,
}

/// The lock of the commits, and the turn of who was mended: both are given back when the decision is written.
pub type CommitGuard<'a> = (MutexGuard<'a, ()>, Option<MutexGuard<'a, ()>>);
