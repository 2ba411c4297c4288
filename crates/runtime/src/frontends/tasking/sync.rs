//! A mutex and a condition variable for tasks: a waiting task is suspended and its worker runs others.

use std::sync::Mutex;

use super::task::{Queue, Scope};
use crate::model::wait::lock;

/// A fair mutex, handed to waiting tasks in order of arrival.
#[derive(Default)]
pub struct TaskMutex(Mutex<Queue>);

impl TaskMutex {
    /// Locks, suspending the task until the mutex is free.
    pub fn lock(&self, scope: &mut Scope<'_>) {
        // `unlock` hands the mutex over without freeing it.
        scope.wait_in(&self.0, |queue| !std::mem::replace(&mut queue.taken, true));
    }

    /// Locks if the mutex is free.
    pub fn try_lock(&self) -> bool {
        !std::mem::replace(&mut lock(&self.0).taken, true)
    }

    /// Hands the mutex to the next task, or frees it.
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

/// A condition variable for tasks.
#[derive(Default)]
pub struct TaskCondvar(Mutex<Queue>);

impl TaskCondvar {
    /// Releases `mutex`, waits for a notification, and locks again.
    pub fn wait(&self, mutex: &TaskMutex, scope: &mut Scope<'_>) {
        // Enqueue before unlocking, so that a notifier that holds the mutex finds the task. A wake-up before the suspension
        // only decrements the counter.
        scope.enqueue(&self.0);
        mutex.unlock(scope);
        scope.suspend_queued();
        mutex.lock(scope);
    }

    /// Wakes the task that has waited longest.
    pub fn notify_one(&self, scope: &Scope<'_>) {
        let next = lock(&self.0).waiting.pop_front();
        if let Some(next) = next {
            scope.release(&next);
        }
    }

    /// Wakes all waiting tasks.
    pub fn notify_all(&self, scope: &Scope<'_>) {
        let all = std::mem::take(&mut lock(&self.0).waiting);
        for next in all {
            scope.release(&next);
        }
    }
}
