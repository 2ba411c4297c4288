//! Loom's models of what parks and counts, under the names that the sources have for the real ones.

use std::time::Duration;

pub use loom::{
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    },
};
pub use std::sync::{PoisonError, atomic::Ordering};

/// One look is enough to try it.
pub const LOOKS: u32 = 1;

/// A word that threads wait at, as the kernel's futex does: compared and slept on in one step.
#[derive(Debug, Default)]
pub struct Word {
    value: AtomicU32,
    sleepers: Mutex<()>,
    woken: Condvar,
}

impl Word {
    pub fn load(&self) -> u32 {
        self.value.load(Ordering::SeqCst)
    }

    pub fn change(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
    }

    pub fn wait(&self, seen: u32, _left: Option<Duration>) {
        let guard = self.sleepers.lock().unwrap();
        if self.load() == seen {
            drop(self.woken.wait(guard).unwrap());
        }
    }

    pub fn wake(&self) {
        drop(self.sleepers.lock().unwrap());
        self.woken.notify_all();
    }
}

/// Loom takes sequentially consistent accesses for acquiring and releasing ones; with this between them they are what
/// the processor makes of them.
pub fn sequenced() {
    fence(Ordering::SeqCst);
}
