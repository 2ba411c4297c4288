//! What the header is made of. Its test under loom has models of the same names.

use std::time::Duration;
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::{io::Errno, thread::futex};

/// How often a wait looks before it sleeps: some microseconds, in which a peer that is running answers.
pub const LOOKS: u32 = 100;

/// A word that threads wait at, of this process and of others.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Word(AtomicU32);

impl Word {
    /// What it is.
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Makes it another one.
    pub fn change(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps until it is woken, or for as long as is left; not at all if the word is not what was seen.
    pub fn wait(&self, seen: u32, left: Option<Duration>) {
        let left = left.and_then(|left| left.try_into().ok());
        // Without `PRIVATE`, because wakers may be in other processes.
        match futex::wait(&self.0, futex::Flags::empty(), seen, left.as_ref()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // The kernel has no futex for this memory, which no kernel says of memory that is mapped.
            Err(_) => std::thread::yield_now(),
        }
    }

    /// Wakes all who sleep.
    pub fn wake(&self) {
        // It cannot fail: the address is ours.
        let _ = futex::wake(&self.0, futex::Flags::empty(), i32::MAX.unsigned_abs());
    }
}

/// Between a change and a look at something else, both sequentially consistent, which needs nothing here. Loom has no
/// such accesses, and puts a fence there.
pub fn sequenced() {}
