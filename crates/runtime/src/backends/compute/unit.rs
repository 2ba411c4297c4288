//! A processing unit as a kernel thread pinned to its processor.

use std::{
    any::Any,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
    thread::JoinHandle,
};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::model::{
    Context, Error, Status, UnitStatus,
    compute::{StateCore, UnitBody},
    wait::lock,
};

/// The unit. When dropped, its thread ends after the current state.
pub(super) struct ThreadUnit {
    shared: Arc<Shared>,
    processor: Option<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    name: &'static str,
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    status: UnitStatus,
    job: Option<Arc<StateCore>>,
    go_on: bool,
    stop: bool,
}

impl Inner {
    /// A unit is Ready as soon as its state has finished, even before its thread notices, so that waiters can go on at once.
    fn status(&self) -> UnitStatus {
        let is_over = self.job.as_ref().is_some_and(|job| job.status() == Status::Finished);
        if self.status == UnitStatus::Executing && is_over { UnitStatus::Ready } else { self.status }
    }
}

impl Shared {
    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
    }

    /// The main loop of the unit's thread.
    fn serve(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        loop {
            if let Some(job) = inner.job.clone() {
                drop(inner);
                self.execute(&job);
                inner = lock(&self.inner);
                // The unit may have the next state already, or be finalized.
                if inner.job.as_ref().is_some_and(|next| Arc::ptr_eq(next, &job)) {
                    inner.job = None;
                    if inner.status != UnitStatus::Terminated {
                        inner.status = UnitStatus::Ready;
                    }
                }
                self.changed.notify_all();
            } else if inner.stop {
                return;
            } else {
                inner = self.wait(inner);
            }
        }
    }

    fn execute(self: &Arc<Self>, job: &Arc<StateCore>) {
        if let Some(function) = job.take_function() {
            let outcome = function(&mut OnUnit { unit: self, job });
            job.finish(outcome);
            return;
        }
        let waked = Arc::downgrade(self);
        while job.step() != Status::Finished {
            let waked = waked.clone();
            let mut inner = lock(&self.inner);
            inner.status = UnitStatus::Suspended;
            self.changed.notify_all();
            drop(inner);
            job.on_wake(Arc::new(move || {
                if let Some(unit) = waked.upgrade() {
                    lock(&unit.inner).go_on = true;
                    unit.changed.notify_all();
                }
            }));
            self.until_resumed();
        }
    }

    /// Waits, suspended, until the unit is resumed.
    fn until_resumed(&self) {
        let mut inner = lock(&self.inner);
        inner.status = UnitStatus::Suspended;
        self.changed.notify_all();
        while !inner.go_on {
            inner = self.wait(inner);
        }
        inner.go_on = false;
        inner.status = UnitStatus::Executing;
    }
}

/// The context of a function on a unit's thread.
struct OnUnit<'a> {
    unit: &'a Arc<Shared>,
    job: &'a Arc<StateCore>,
}

impl Context for OnUnit<'_> {
    fn suspend(&mut self) {
        self.job.set_status(Status::Suspended);
        self.unit.until_resumed();
        self.job.set_status(Status::Executing);
    }

    fn checkpoint(&mut self) {
        if self.job.suspend_asked.swap(false, SeqCst) {
            self.suspend();
        }
    }
}

impl ThreadUnit {
    pub(super) fn new(name: &'static str, processor: Option<u64>) -> Self {
        let inner = Inner { status: UnitStatus::Uninitialized, job: None, go_on: false, stop: false };
        let shared = Arc::new(Shared { name, inner: Mutex::new(inner), changed: Condvar::new() });
        Self { shared, processor, thread: Mutex::default() }
    }

    fn wrong_state(&self, what: &str, is: UnitStatus, must: &str) -> Error {
        let processor = self.processor.map_or_else(String::new, |number| format!(" of processor {number}"));
        Error::state(format!("the processing unit{processor} ({})", self.shared.name), what, is, must)
    }

    pub(super) fn initialize(&self) -> Result<(), Error> {
        let mut inner = lock(&self.shared.inner);
        if inner.status != UnitStatus::Uninitialized {
            return Err(self.wrong_state("initialize it", inner.status, "Uninitialized"));
        }
        let (shared, processor) = (Arc::clone(&self.shared), self.processor);
        let (pinned, was_pinned) = std::sync::mpsc::channel();
        let name = processor.map_or_else(|| "cairn-unit".into(), |number| format!("cairn-unit-{number}"));
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            if pinned.send(pin(processor)).is_ok() {
                shared.serve();
            }
        });
        let thread = thread.map_err(|error| Error::system("start a thread", error))?;
        was_pinned.recv().unwrap_or(Ok(()))?;
        *lock(&self.thread) = Some(thread);
        inner.status = UnitStatus::Ready;
        Ok(())
    }

    pub(super) fn start(&self, state: &Arc<StateCore>) -> Result<(), Error> {
        let mut inner = lock(&self.shared.inner);
        if inner.status() != UnitStatus::Ready {
            return Err(self.wrong_state("start a state on it", inner.status(), "Ready"));
        }
        state.begin(false)?;
        inner.status = UnitStatus::Executing;
        inner.job = Some(Arc::clone(state));
        self.shared.changed.notify_all();
        Ok(())
    }

    pub(super) fn suspend(&self) -> Result<(), Error> {
        let inner = lock(&self.shared.inner);
        match (&inner.job, inner.status()) {
            (Some(job), UnitStatus::Executing) => {
                job.suspend_asked.store(true, SeqCst);
                Ok(())
            }
            (_, status) => Err(self.wrong_state("suspend it", status, "Executing")),
        }
    }

    pub(super) fn resume(&self) -> Result<(), Error> {
        let mut inner = lock(&self.shared.inner);
        if inner.status != UnitStatus::Suspended {
            return Err(self.wrong_state("resume it", inner.status, "Suspended"));
        }
        inner.status = UnitStatus::Executing;
        inner.go_on = true;
        self.shared.changed.notify_all();
        Ok(())
    }

    pub(super) fn finalize(&self) -> Result<(), Error> {
        let mut inner = lock(&self.shared.inner);
        if !matches!(inner.status(), UnitStatus::Ready | UnitStatus::Uninitialized) {
            return Err(self.wrong_state("finalize it", inner.status(), "Ready; wait for its state first"));
        }
        inner.status = UnitStatus::Terminated;
        inner.stop = true;
        self.shared.changed.notify_all();
        drop(inner);
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        Ok(())
    }
}

fn pin(processor: Option<u64>) -> Result<(), Error> {
    let Some(number) = processor.and_then(|number| usize::try_from(number).ok()) else { return Ok(()) };
    if number >= CpuSet::MAX_CPU {
        return Err(Error::misuse("pin a thread", format!("processor {number} does not exist")));
    }
    let mut set = CpuSet::new();
    set.set(number);
    sched_setaffinity(None, &set)
        .map_err(|error| Error::system(&format!("pin a thread to processor {number}"), error))
}

impl UnitBody for ThreadUnit {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status(&self) -> UnitStatus {
        lock(&self.shared.inner).status()
    }
}

impl Drop for ThreadUnit {
    fn drop(&mut self) {
        lock(&self.shared.inner).stop = true;
        self.shared.changed.notify_all();
    }
}
