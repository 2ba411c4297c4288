//! Where workers rest until something is ready.

use std::time::Duration;

use crate::{
    model::wait::lock,
    sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering::SeqCst, PoisonError, sequenced},
};

/// How many rest, and what wakes them.
#[derive(Default)]
pub(super) struct Rest {
    resting: Mutex<usize>,
    rested: Condvar,
    /// Changed whenever something becomes ready.
    ready: AtomicU64,
    sleepers: AtomicUsize,
    ended: AtomicBool,
}

impl Rest {
    /// What was ready up to now. Read it before looking for something: a change after that is not slept through.
    pub(super) fn seen(&self) -> u64 {
        self.ready.load(SeqCst)
    }

    /// Whether it is the end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Something became ready.
    pub(super) fn ready(&self) {
        self.ready.fetch_add(1, SeqCst);
        sequenced();
        if self.sleepers.load(SeqCst) > 0 {
            self.wake();
        }
    }

    /// It is the end for all.
    pub(super) fn end(&self) {
        self.ended.store(true, SeqCst);
        self.wake();
    }

    /// Not yet, or not any more.
    pub(super) fn begin(&self) {
        self.ended.store(false, SeqCst);
    }

    fn wake(&self) {
        drop(lock(&self.resting));
        self.rested.notify_all();
    }

    /// Rests until something becomes ready after `seen`, or for `most`, or until the end. Who `stays` rests on when it
    /// is woken. `last` says, given how many rest, whether nobody is left who could make anything ready: then it is the
    /// end.
    pub(super) fn rest(
        &self,
        seen: u64,
        most: Option<Duration>,
        stays: impl Fn() -> bool,
        last: impl Fn(usize) -> bool,
    ) {
        self.sleepers.fetch_add(1, SeqCst);
        sequenced();
        let mut resting = lock(&self.resting);
        *resting += 1;
        while self.seen() == seen && !self.has_ended() {
            if last(*resting) {
                self.ended.store(true, SeqCst);
                self.rested.notify_all();
                break;
            }
            if let Some(most) = most {
                let rested = self.rested.wait_timeout(resting, most);
                resting = rested.unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            resting = self.rested.wait(resting).unwrap_or_else(PoisonError::into_inner);
            if !stays() {
                break;
            }
        }
        *resting -= 1;
        drop(resting);
        self.sleepers.fetch_sub(1, SeqCst);
    }
}
