//! Primitives of the header, which the loom tests replace by models of the same names.

use std::time::Duration;
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::{io::Errno, thread::futex};

/// Number of polls before a wait sleeps: some microseconds, in which a running peer answers.
pub const POLLS: u32 = 100;

/// A futex for threads of this and other processes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Word(AtomicU32);

impl Word {
    /// The current value.
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Changes the value.
    pub fn change(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps until woken or for the remaining time; returns at once if the value is not `seen`.
    pub fn wait(&self, seen: u32, left: Option<Duration>) {
        let left = left.and_then(|left| left.try_into().ok());
        // Without `PRIVATE`, because wakers may be in other processes.
        match futex::wait(&self.0, futex::Flags::empty(), seen, left.as_ref()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // Impossible: every kernel supports futexes in mapped memory.
            Err(_) => std::thread::yield_now(),
        }
    }

    /// Wakes all sleeping threads.
    pub fn wake(&self) {
        // Cannot fail: the address is valid.
        let _ = futex::wake(&self.0, futex::Flags::empty(), i32::MAX.unsigned_abs());
    }
}

/// Orders a store before a later load of another variable; both are sequentially consistent, so nothing is needed
/// here. Loom lacks such accesses and uses a fence.
pub fn sequenced() {}
