//! Execution states of functions, and the processing units that run them.

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

/// Status of an execution state: Initialized → Executing ⇄ Suspended → Finished, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Not started.
    Initialized,
    /// Running.
    Executing,
    /// Suspended by the function.
    Suspended,
    /// Completed with a result or a panic.
    Finished,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Status of a processing unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStatus {
    /// Created.
    Uninitialized,
    /// Ready to start a state.
    Ready,
    /// Executing a state.
    Executing,
    /// Its state is suspended.
    Suspended,
    /// Terminated.
    Terminated,
}

impl fmt::Display for UnitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The result of one step of an execution.
pub enum Step {
    /// The function suspended itself.
    Suspended,
    /// The function waits for an event that will wake the state.
    Pending,
    /// The function returned or panicked.
    Finished(Result<Value, Error>),
}

/// The execution of one function; implemented by back-ends.
pub trait Execution: Send {
    /// Runs on the caller's thread until the function suspends, waits or finishes.
    fn step(&mut self, state: &Arc<StateCore>) -> Step;
    /// Takes the function out if it has not started, so that the caller can call it directly.
    fn take_function(&mut self) -> Option<Body> {
        None
    }
}

/// A function bound to its argument.
pub type Body = Box<dyn FnOnce(&mut dyn Context) -> Result<Value, Error> + Send>;

/// The shared part of an execution state, held by its handle and its executor.
pub struct StateCore {
    number: u64,
    origin: &'static str,
    status: AtomicU8,
    /// Whether a suspension at the next checkpoint was requested.
    pub(crate) suspend_asked: AtomicBool,
    woken: AtomicBool,
    /// The thread that owns its stack; 0 for none.
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
    /// The current status.
    pub fn status(&self) -> Status {
        match self.status.load(SeqCst) {
            0 => Status::Initialized,
            1 => Status::Executing,
            2 => Status::Suspended,
            _ => Status::Finished,
        }
    }

    /// Changes `Initialized`, or `Suspended` if `again`, to `Executing`; an error in other states.
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

    /// Runs one step. Call only after [`begin`](Self::begin) or while executing.
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

    /// Marks the state as finished.
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

    /// Calls `callback` when the event that the state waits for occurs; immediately if it already has.
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

/// One execution of a function (hicr.txt 3.1.5); used once.
pub struct ExecutionState {
    pub(crate) core: Arc<StateCore>,
}

impl fmt::Debug for ExecutionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.core, self.core.status())
    }
}

impl ExecutionState {
    /// For back-ends: a new execution in status Initialized.
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

    /// The name of the manager that created it.
    pub fn origin(&self) -> &'static str {
        self.core.origin
    }

    /// The shared part, for the thread or device that executes it.
    pub fn core(&self) -> &Arc<StateCore> {
        &self.core
    }

    /// The current status.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Takes the result of a finished state; possible once.
    pub fn take<R: 'static>(&self) -> Result<R, Error> {
        let not = |is: &dyn fmt::Display, must| Err(Error::state(&self.core, "take its result", is, must));
        if self.status() != Status::Finished {
            return not(&self.status(), "Finished");
        }
        let Some(outcome) = lock(&self.core.end).outcome.take() else {
            return not(&"Finished with its result already taken", "Finished with its result not yet taken");
        };
        outcome?.downcast().map(|result| *result).map_err(|_| {
            Error::misuse("take a result", format!("{} has none of type {}", self.core, type_name::<R>()))
        })
    }
}

/// Waits for completion of a state.
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

/// The back-end's part of a processing unit.
pub trait UnitBody: Send + Sync {
    /// For downcasting to the back-end's own type.
    fn as_any(&self) -> &dyn Any;
    /// The current status.
    fn status(&self) -> UnitStatus;
}

/// A compute resource that has been set up for execution (hicr.txt 3.1.5).
pub struct ProcessingUnit {
    origin: &'static str,
    resource: ComputeResource,
    body: Box<dyn UnitBody>,
}

impl ProcessingUnit {
    /// For back-ends: wraps `body`.
    pub fn new(origin: &'static str, resource: ComputeResource, body: Box<dyn UnitBody>) -> Self {
        Self { origin, resource, body }
    }

    /// The name of the manager that created it.
    pub fn origin(&self) -> &'static str {
        self.origin
    }

    /// The underlying compute resource.
    pub fn resource(&self) -> &ComputeResource {
        &self.resource
    }

    /// The current status.
    pub fn status(&self) -> UnitStatus {
        self.body.status()
    }

    /// The back-end's part.
    pub fn body(&self) -> &dyn UnitBody {
        &*self.body
    }
}

impl fmt::Debug for ProcessingUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a processing unit ({}), {}", self.origin, self.status())
    }
}

/// Runs functions on processing units (hicr.txt 3.1.5).
pub trait ComputeManager: Send + Sync {
    /// The manager's name in errors, units and states.
    fn name(&self) -> &'static str;
    /// Whether the manager supports this capability.
    fn supports(&self, capability: Capability) -> bool;
    /// Whether it can create a processing unit of this resource.
    fn claims(&self, resource: &ComputeResource) -> bool;
    /// Whether it runs functions of this format.
    fn takes(&self, unit: &ExecutionUnit) -> bool;
    /// Creates a processing unit of a resource, not yet initialized.
    fn create_processing_unit(&self, resource: &ComputeResource) -> Result<ProcessingUnit, Error>;
    /// Creates an execution of a function with this argument, not yet started.
    fn create_execution_state(&self, unit: &ExecutionUnit, arguments: Value)
    -> Result<ExecutionState, Error>;
    /// Initializes a unit, which becomes Ready.
    fn initialize(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Starts an Initialized state on a Ready unit; non-blocking.
    fn start(&self, unit: &ProcessingUnit, state: &ExecutionState) -> Result<(), Error>;
    /// Executes on the caller's thread until the state suspends or finishes.
    fn run(&self, state: &ExecutionState) -> Result<Status, Error>;
    /// Requests that the unit's state suspends at its next checkpoint.
    fn suspend(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Resumes a Suspended unit.
    fn resume(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Terminates an idle unit.
    fn finalize(&self, unit: &ProcessingUnit) -> Result<(), Error>;
    /// Whether a state has finished.
    fn is_finished(&self, state: &ExecutionState) -> bool {
        state.status() == Status::Finished
    }
    /// Waits until a state has finished.
    fn wait(&self, state: &ExecutionState) -> Wait<()> {
        Wait::new(Ended(Arc::clone(&state.core)))
    }
}
