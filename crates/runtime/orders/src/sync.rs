//! Loom's models of the synchronization primitives, under the names used in the sources.

use std::time::Duration;

pub use loom::{
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    },
};
pub use std::sync::{PoisonError, atomic::Ordering};

/// One poll is enough for a test.
pub const POLLS: u32 = 1;

/// A model of the futex: comparison and sleep are one step.
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

/// Loom treats sequentially consistent accesses as acquire and release; a fence between them restores
/// the semantics of the processor.
pub fn sequenced() {
    fence(Ordering::SeqCst);
}
