//! A mutex and a condition variable for tasks: who waits is suspended, and its worker runs others.

use std::sync::Mutex;

use super::task::{Queue, Scope};
use crate::model::wait::lock;

/// Held by one task at a time; given to those who wait in the order in which they came.
#[derive(Default)]
pub struct TaskMutex(Mutex<Queue>);

impl TaskMutex {
    /// Takes it, suspended until it is free.
    pub fn lock(&self, scope: &mut Scope<'_>) {
        // Whoever unlocks gives it to the next without its being free between.
        scope.wait_in(&self.0, |queue| !std::mem::replace(&mut queue.taken, true));
    }

    /// Takes it if it is free.
    pub fn try_lock(&self) -> bool {
        !std::mem::replace(&mut lock(&self.0).taken, true)
    }

    /// Gives it to the next, or frees it.
    pub fn unlock(&self, scope: &Scope<'_>) {
        let next = {
            let mut queue = lock(&self.0);
            let next = queue.waiting.pop_front();
            queue.taken = next.is_some();
            next
        };
        if let Some(next) = next {
            scope.release(&next);
        }
    }
}

/// What tasks wait at until another one says that something has changed.
#[derive(Default)]
pub struct TaskCondvar(Mutex<Queue>);

impl TaskCondvar {
    /// Gives `mutex` up, waits to be notified, and takes it again.
    pub fn wait(&self, mutex: &TaskMutex, scope: &mut Scope<'_>) {
        // In the queue before the mutex is free, so that whoever takes it and notifies finds the task there. Being woken
        // before it is suspended only counts down.
        scope.enqueue(&self.0);
        mutex.unlock(scope);
        scope.suspend_queued();
        mutex.lock(scope);
    }

    /// Wakes the one that has waited longest.
    pub fn notify_one(&self, scope: &Scope<'_>) {
        let next = lock(&self.0).waiting.pop_front();
        if let Some(next) = next {
            scope.release(&next);
        }
    }

    /// Wakes all.
    pub fn notify_all(&self, scope: &Scope<'_>) {
        let all = std::mem::take(&mut lock(&self.0).waiting);
        for next in all {
            scope.release(&next);
        }
    }
}
