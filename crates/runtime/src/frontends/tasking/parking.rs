//! Parking of idle workers until a task becomes ready.

use std::time::Duration;

use crate::{
    model::wait::lock,
    sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering::SeqCst, PoisonError, sequenced},
};

/// The number of parked workers and their wake-up.
#[derive(Default)]
pub(super) struct Parking {
    parked: Mutex<usize>,
    wakeup: Condvar,
    /// Incremented whenever a task becomes ready.
    ready: AtomicU64,
    sleepers: AtomicUsize,
    ended: AtomicBool,
}

impl Parking {
    /// The current epoch. Read it before searching for tasks: a later change prevents parking.
    pub(super) fn epoch(&self) -> u64 {
        self.ready.load(SeqCst)
    }

    /// Whether all work has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Announces a ready task.
    pub(super) fn ready(&self) {
        self.ready.fetch_add(1, SeqCst);
        sequenced();
        if self.sleepers.load(SeqCst) > 0 {
            self.wake();
        }
    }

    /// Ends all workers.
    pub(super) fn end(&self) {
        self.ended.store(true, SeqCst);
        self.wake();
    }

    /// Resets the end flag for a new run.
    pub(super) fn begin(&self) {
        self.ended.store(false, SeqCst);
    }

    fn wake(&self) {
        drop(lock(&self.parked));
        self.wakeup.notify_all();
    }

    /// Parks until a task becomes ready after `seen`, `most` has passed, or the end. With `stays`, the worker keeps
    /// counting as parked after a wake-up. Given the number of parked workers, `last` decides whether no worker is left
    /// that could make a task ready, which ends all.
    pub(super) fn park(
        &self,
        seen: u64,
        most: Option<Duration>,
        stays: impl Fn() -> bool,
        last: impl Fn(usize) -> bool,
    ) {
        self.sleepers.fetch_add(1, SeqCst);
        sequenced();
        let mut parked = lock(&self.parked);
        *parked += 1;
        while self.epoch() == seen && !self.has_ended() {
            if last(*parked) {
                self.ended.store(true, SeqCst);
                self.wakeup.notify_all();
                break;
            }
            if let Some(most) = most {
                let wakeup = self.wakeup.wait_timeout(parked, most);
                parked = wakeup.unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            parked = self.wakeup.wait(parked).unwrap_or_else(PoisonError::into_inner);
            if !stays() {
                break;
            }
        }
        *parked -= 1;
        drop(parked);
        self.sleepers.fetch_sub(1, SeqCst);
    }
}
