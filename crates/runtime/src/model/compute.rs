//! Executions of functions, and what executes them.

use std::{
    any::{Any, type_name},
    fmt,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    time::Instant,
};

use super::{
    capability::Capability,
    error::Error,
    function::{Context, ExecutionUnit, Value},
    wait::{Source, Wait, lock},
};
use hicr::ComputeResource;

/// Where an execution state is in its life: Initialized → Executing ⇄ Suspended → Finished, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Not begun.
    Initialized,
    /// Under way.
    Executing,
    /// Stopped where the function asked for it.
    Suspended,
    /// Over: there is a result, or it panicked.
    Finished,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where a processing unit is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStatus {
    /// Created.
    Uninitialized,
    /// It can start a state.
    Ready,
    /// It executes one.
    Executing,
    /// What it executes is suspended.
    Suspended,
    /// It is over.
    Terminated,
}

impl fmt::Display for UnitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A part of an execution: up to where it stops.
pub enum Step {
    /// It stopped where the function asked for it.
    Suspended,
    /// It waits for something, which will wake the state.
    Pending,
    /// It is over.
    Finished(Result<Value, Error>),
}

/// What a back-end implements: a function on its way.
pub trait Execution: Send {
    /// Goes on, on the caller's thread, until it stops.
    fn step(&mut self, state: &Arc<StateCore>) -> Step;
    /// The function itself, where whoever asks may as well call it: it has not begun.
    fn take_function(&mut self) -> Option<Body> {
        None
    }
}

/// A function with its argument.
pub type Body = Box<dyn FnOnce(&mut dyn Context) -> Result<Value, Error> + Send>;

/// An execution state itself, which its handle and what executes it share.
pub struct StateCore {
    number: u64,
    origin: &'static str,
    status: AtomicU8,
    /// Whether somebody asked for it to suspend at its next checkpoint.
    pub(crate) suspend_asked: AtomicBool,
    woken: AtomicBool,
    /// The thread whose stack it is on; 0 for none.
    home: AtomicU64,
    execution: Mutex<Option<Box<dyn Execution>>>,
    end: Mutex<End>,
    finished: Condvar,
}

#[derive(Default)]
struct End {
    outcome: Option<Result<Value, Error>>,
    wakers: Vec<Waker>,
    on_wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl StateCore {
    /// Its status, now.
    pub fn status(&self) -> Status {
        match self.status.load(SeqCst) {
            0 => Status::Initialized,
            1 => Status::Executing,
            2 => Status::Suspended,
            _ => Status::Finished,
        }
    }

    /// Goes from `Initialized`, or from `Suspended` if `again`, to `Executing`; refused otherwise.
    pub fn begin(&self, again: bool) -> Result<(), Error> {
        let (executing, what) = (Status::Executing as u8, if again { "run it" } else { "start it" });
        let from =
            |status: Status| self.status.compare_exchange(status as u8, executing, SeqCst, SeqCst).is_ok();
        if from(Status::Initialized) || again && from(Status::Suspended) {
            return Ok(());
        }
        let must =
            if again { "Initialized or Suspended" } else { "Initialized; make a new one for each execution" };
        Err(Error::state(self, what, self.status(), must))
    }

    /// Goes on until it stops. Only after [`begin`](Self::begin), or while executing.
    pub fn step(self: &Arc<Self>) -> Status {
        self.woken.store(false, SeqCst);
        self.status.store(Status::Executing as u8, SeqCst);
        let step = match lock(&self.execution).as_mut() {
            Some(execution) => execution.step(self),
            None => return Status::Finished,
        };
        match step {
            Step::Suspended | Step::Pending => {
                self.status.store(Status::Suspended as u8, SeqCst);
                Status::Suspended
            }
            Step::Finished(outcome) => {
                self.finish(outcome);
                Status::Finished
            }
        }
    }

    pub(crate) fn take_function(&self) -> Option<Body> {
        lock(&self.execution).as_mut()?.take_function()
    }

    pub(crate) fn home(&self) -> u64 {
        self.home.load(SeqCst)
    }

    pub(crate) fn set_home(&self, home: u64) {
        self.home.store(home, SeqCst);
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u8, SeqCst);
    }

    /// It is over.
    pub fn finish(&self, outcome: Result<Value, Error>) {
        *lock(&self.execution) = None;
        let mut end = lock(&self.end);
        end.outcome = Some(outcome);
        end.on_wake = None;
        self.status.store(Status::Finished as u8, SeqCst);
        let wakers = std::mem::take(&mut end.wakers);
        drop(end);
        self.finished.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Has `callback` called when what the state waits for is there; at once, if it is.
    pub(crate) fn on_wake(&self, callback: Arc<dyn Fn() + Send + Sync>) {
        let again = Arc::clone(&callback);
        lock(&self.end).on_wake = Some(callback);
        if self.woken.load(SeqCst) {
            again();
        }
    }
}

impl Wake for StateCore {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, SeqCst) {
            let callback = lock(&self.end).on_wake.clone();
            if let Some(callback) = callback {
                callback();
            }
        }
    }
}

impl fmt::Display for StateCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "execution state {} ({})", self.number, self.origin)
    }
}

/// One execution of a function (hicr.txt 3.1.5). It is used once.
pub struct ExecutionState {
    pub(crate) core: Arc<StateCore>,
}

impl fmt::Debug for ExecutionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.core, self.core.status())
    }
}

impl ExecutionState {
    /// For back-ends: an execution that has not begun.
    pub fn new(origin: &'static str, execution: Box<dyn Execution>) -> Self {
        let core = StateCore {
            number: NUMBERS.fetch_add(1, SeqCst),
            origin,
            status: AtomicU8::new(Status::Initialized as u8),
            suspend_asked: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            home: AtomicU64::new(0),
            execution: Mutex::new(Some(execution)),
            end: Mutex::default(),
            finished: Condvar::new(),
        };
        Self { core: Arc::new(core) }
    }

    /// The name of the manager that made it.
    pub fn origin(&self) -> &'static str {
        self.core.origin
    }

    /// What back-ends share with the thread or device that executes it.
    pub fn core(&self) -> &Arc<StateCore> {
        &self.core
    }

    /// Where it is in its life.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// The result, once, of a finished state.
    pub fn take<R: 'static>(&self) -> Result<R, Error> {
        let not = |is: &dyn fmt::Display, must| Err(Error::state(&self.core, "take its result", is, must));
        if self.status() != Status::Finished {
            return not(&self.status(), "Finished");
        }
        let Some(outcome) = lock(&self.core.end).outcome.take() else {
            return not(&"Finished and its result taken", "Finished with its result there");
        };
        outcome?.downcast().map(|result| *result).map_err(|_| {
            Error::misuse("take a result", format!("{} has none of type {}", self.core, type_name::<R>()))
        })
    }
}

/// A wait for a state's end.
struct Ended(Arc<StateCore>);

impl Source<()> for Ended {
    fn try_take(&mut self) -> Option<Result<(), Error>> {
        (self.0.status() == Status::Finished).then_some(Ok(()))
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<(), Error>> {
        let mut end = lock(&self.0.end);
        while self.0.status() != Status::Finished {
            end = match deadline {
                None => self.0.finished.wait(end).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    let waited = self.0.finished.wait_timeout(end, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Some(Ok(()))
    }

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), Error>> {
        let mut end = lock(&self.0.end);
        let outcome = (self.0.status() == Status::Finished).then_some(Ok(()));
        if outcome.is_none() {
            end.wakers.push(waker.clone());
        }
        outcome
    }

    fn what(&self) -> String {
        format!("the end of {}", self.0)
    }
}

/// What a back-end keeps of a processing unit.
pub trait UnitBody: Send + Sync {
    /// For the back-end to find its own type again.
    fn as_any(&self) -> &dyn Any;
    /// Where it is in its life.
    fn status(&self) -> UnitStatus;
}

/// A compute resource that can be made to execute (hicr.txt 3.1.5).
pub struct ProcessingUnit {
    origin: &'static str,
    resource: ComputeResource,
    body: Box<dyn UnitBody>,
}

impl ProcessingUnit {
    /// For back-ends.
    pub fn new(origin: &'static str, resource: ComputeResource, body: Box<dyn UnitBody>) -> Self {
        Self { origin, resource, body }
    }

    /// The name of the manager that made it.
    pub fn origin(&self) -> &'static str {
        self.origin
    }

    /// What it is a unit of.
    pub fn resource(&self) -> &ComputeResource {
        &self.resource
    }

    /// Where it is in its life.
    pub fn status(&self) -> UnitStatus {
        self.body.status()
    }

    /// What its back-end keeps of it.
    pub fn body(&self) -> &dyn UnitBody {
        &*self.body
    }
}

impl fmt::Debug for ProcessingUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a processing unit ({}), {}", self.origin, self.status())
    }
}

/// Runs functions (hicr.txt 3.1.5).
pub trait ComputeManager: Send + Sync {
    /// Its name, as errors, units and states have it.
    fn name(&self) -> &'static str;
    /// Whether it can do this.
    fn supports(&self, capability: Capability) -> bool;
    /// Whether it can make a processing unit of this.
    fn claims(&self, resource: &ComputeResource) -> bool;
    /// Whether it takes functions of this form.
    fn takes(&self, unit: &ExecutionUnit) -> bool;
    /// A processing unit of a resource, not yet initialized.
    fn create_processing_unit(&self, resource: &ComputeResource) -> Result<ProcessingUnit, Error>;
    /// An execution of a function with these arguments, not yet begun.
    fn create_execution_state(&self, unit: &ExecutionUnit, arguments: Value)
    -> Result<ExecutionState, Error>;
    /// Makes a unit Ready.
    fn initialize(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Has a Ready unit execute an Initialized state; returns at once.
    fn start(&self, unit: &ProcessingUnit, state: &ExecutionState) -> Result<(), Error>;
    /// Executes on the caller's thread until the state is suspended or finished.
    fn run(&self, state: &ExecutionState) -> Result<Status, Error>;
    /// Asks what a unit executes to suspend at its next checkpoint.
    fn suspend(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Has a Suspended unit go on.
    fn resume(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Ends a unit that executes nothing.
    fn finalize(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Whether a state is over.
    fn is_finished(&self, state: &ExecutionState) -> bool {
        state.status() == Status::Finished
    }
    /// Waits until a state is over.
    fn wait(&self, state: &ExecutionState) -> Wait<()> {
        Wait::new(Ended(Arc::clone(&state.core)))
    }
}
