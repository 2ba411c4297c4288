//! Kernels. A processing unit is an in-order queue of a device and a thread that waits for its commands.

use std::{
    any::Any,
    cell::RefCell,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use opencl3::{
    command_queue::CommandQueue,
    error_codes::ClError,
    kernel::{ExecuteKernel, Kernel as Compiled},
    program::Program,
};
use runtime::{
    Capability, ComputeManager, Error, Execution, ExecutionState, ExecutionUnit, Format, Kernel, LocalSlot,
    Pending, ProcessingUnit, StateCore, Status, Step, UnitBody, UnitStatus, Value, hicr::ComputeResource,
};

use crate::device::{NAME, PROCESSING_UNIT, Place, lock, new_queue, wrong};
use crate::memory::held;

/// A kernel argument; an execution state takes a `Vec` of these, in the kernel's order.
pub enum Argument {
    /// A device buffer, made by [`Argument::slot`].
    Slot(Pending),
    /// A number of the type in the kernel's source.
    U32(u32),
    /// A number of the type in the kernel's source.
    F32(f32),
}

impl Argument {
    /// The bytes of a device slot, which is in use until the kernel has finished.
    pub fn slot(slot: &LocalSlot) -> Result<Self, Error> {
        let pending = Pending::begin(slot, 0, slot.size())?;
        if held(pending.bytes()).is_none() {
            let why = format!("{slot:?} is not a slot of {NAME}; copy it to one");
            return Err(Error::misuse("pass a slot to a kernel", why));
        }
        Ok(Self::Slot(pending))
    }
}

/// Runs kernels.
pub struct Kernels {
    places: Arc<Vec<Place>>,
}

impl Place {
    fn program(&self, source: &str) -> Result<Arc<Program>, Error> {
        let mut programs = lock(&self.programs);
        if let Some(program) = programs.get(source) {
            return Ok(Arc::clone(program));
        }
        let built = Program::create_and_build_from_source(&self.context, source, "");
        let program = Arc::new(built.map_err(|log| Error::misuse("build a kernel", log.trim()))?);
        programs.insert(source.to_owned(), Arc::clone(&program));
        Ok(program)
    }
}

/// One execution of a kernel, on the queue of the current unit's thread.
struct Launch {
    kernel: Arc<Kernel>,
    arguments: Vec<Argument>,
    places: Arc<Vec<Place>>,
}

thread_local! {
    /// The device and queue of the unit that owns this thread.
    static UNIT: RefCell<Option<(usize, Arc<CommandQueue>)>> = const { RefCell::new(None) };
}

impl Execution for Launch {
    fn step(&mut self, _state: &Arc<StateCore>) -> Step {
        let unit = UNIT.with(|unit| unit.borrow().clone());
        Step::Finished(match unit {
            Some((place, queue)) => self.launch(place, &queue).map(|()| Box::new(()) as Value),
            None => Err(Error::misuse(
                "run a kernel",
                "this thread is not a processing unit; start the state on one",
            )),
        })
    }
}

impl Launch {
    fn launch(&self, place: usize, queue: &CommandQueue) -> Result<(), Error> {
        let failed = |error: ClError| wrong(&format!("run the kernel {}", self.kernel.name), &error);
        let program = self.places[place].program(&self.kernel.source)?;
        let compiled = Compiled::create(&program, &self.kernel.name).map_err(failed)?;
        let takes = compiled.num_args().map_err(failed)? as usize;
        if takes != self.arguments.len() {
            let why = format!("it takes {takes} arguments, but got {}", self.arguments.len());
            return Err(Error::misuse(&format!("run the kernel {}", self.kernel.name), why));
        }
        for (at, argument) in (0..).zip(&self.arguments) {
            // SAFETY: OpenCL checks argument sizes against the kernel; `self` holds the buffers and outlives the wait below.
            // Accesses stay within the buffers if the kernel is correct; its source is the program's own, like
            // a function's.
            let set = unsafe {
                match argument {
                    Argument::U32(number) => compiled.set_arg(at, number),
                    Argument::F32(number) => compiled.set_arg(at, number),
                    Argument::Slot(pending) => match held(pending.bytes()) {
                        Some(held) if held.place == place => compiled.set_arg(at, &held.handle()),
                        _ => {
                            let why = format!("its argument {at} is a slot of another device");
                            let what = format!("run the kernel {}", self.kernel.name);
                            return Err(Error::misuse(&what, why));
                        }
                    },
                }
            };
            set.map_err(failed)?;
        }
        // SAFETY: all arguments are set, as checked above; the three sizes are those of the range.
        let event = unsafe { queue_range(&compiled, queue, &self.kernel.range) };
        event.and_then(|event| event.wait()).map_err(failed)
    }
}

/// # Safety
/// All arguments of the kernel must be set.
unsafe fn queue_range(
    kernel: &Compiled,
    queue: &CommandQueue,
    range: &[usize; 3],
) -> Result<opencl3::event::Event, ClError> {
    let mut execute = ExecuteKernel::new(kernel);
    execute.set_global_work_sizes(range);
    // The builder only counts arguments set through itself; these were set before.
    execute.num_args = 0;
    // SAFETY: by the caller's contract.
    unsafe { execute.enqueue_nd_range(queue) }
}

/// Work for a unit's thread, and the thread.
type Work = (Sender<Arc<StateCore>>, JoinHandle<()>);

/// The activity of a unit.
struct Doing {
    status: UnitStatus,
    state: Option<Arc<StateCore>>,
}

impl Doing {
    /// A unit is Ready as soon as its state has finished, even before its thread notices, so that waiters can go on at once.
    fn status(&self) -> UnitStatus {
        let is_over = self.state.as_ref().is_some_and(|state| state.status() == Status::Finished);
        if self.status == UnitStatus::Executing && is_over { UnitStatus::Ready } else { self.status }
    }

    /// The thread has finished a state; the unit may have the next one already, or be finalized.
    fn through(&mut self, state: &Arc<StateCore>) {
        if self.state.as_ref().is_some_and(|next| Arc::ptr_eq(next, state)) {
            self.state = None;
            if self.status == UnitStatus::Executing {
                self.status = UnitStatus::Ready;
            }
        }
    }
}

struct Unit {
    place: usize,
    places: Arc<Vec<Place>>,
    shared: Arc<Mutex<Doing>>,
    work: Mutex<Option<Work>>,
}

impl Unit {
    fn refuse(&self, what: &str, is: UnitStatus, must: &str) -> Error {
        Error::state(format!("the processing unit of device {} ({NAME})", self.place), what, is, must)
    }
}

impl UnitBody for Unit {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status(&self) -> UnitStatus {
        lock(&self.shared).status()
    }
}

impl Kernels {
    pub(crate) fn new(places: Arc<Vec<Place>>) -> Self {
        Self { places }
    }

    fn own(unit: &ProcessingUnit) -> Result<&Unit, Error> {
        unit.body().as_any().downcast_ref().ok_or_else(|| {
            let why = format!(
                "the unit was created by {}, not by {NAME}; use the manager that created it",
                unit.origin()
            );
            Error::misuse("execute", why)
        })
    }

    fn never<T>(what: &str) -> Result<T, Error> {
        Err(Error::unsupported(NAME, what, "kernels run to completion; split it into several"))
    }
}

impl ComputeManager for Kernels {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, capability: Capability) -> bool {
        capability == Capability::Kernels
    }

    fn claims(&self, resource: &ComputeResource) -> bool {
        self.places.iter().any(|place| place.described.compute_resources.contains(resource))
    }

    fn takes(&self, unit: &ExecutionUnit) -> bool {
        matches!(unit.format(), Format::Kernel(_))
    }

    fn create_processing_unit(&self, resource: &ComputeResource) -> Result<ProcessingUnit, Error> {
        let here = |place: &Place| place.described.compute_resources.contains(resource);
        let place = self.places.iter().position(here).ok_or_else(|| {
            let why = format!("{NAME} needs an {PROCESSING_UNIT} of its own, not a {}", resource.type_);
            Error::misuse("create a processing unit", why)
        })?;
        let shared = Arc::new(Mutex::new(Doing { status: UnitStatus::Uninitialized, state: None }));
        let body = Unit { place, places: Arc::clone(&self.places), shared, work: Mutex::default() };
        Ok(ProcessingUnit::new(NAME, resource.clone(), Box::new(body)))
    }

    fn create_execution_state(
        &self,
        unit: &ExecutionUnit,
        arguments: Value,
    ) -> Result<ExecutionState, Error> {
        let Format::Kernel(kernel) = unit.format() else {
            return Err(Error::unsupported(NAME, "run functions", "use a manager that `takes` it"));
        };
        let arguments = arguments.downcast::<Vec<Argument>>().map_err(|_| {
            Error::misuse("create an execution state", "a kernel takes a Vec<opencl::Argument>")
        })?;
        let launch =
            Launch { kernel: Arc::clone(kernel), arguments: *arguments, places: Arc::clone(&self.places) };
        Ok(ExecutionState::new(NAME, Box::new(launch)))
    }

    fn initialize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        let unit = Self::own(unit)?;
        let mut doing = lock(&unit.shared);
        if doing.status() != UnitStatus::Uninitialized {
            return Err(unit.refuse("initialize it", doing.status(), "Uninitialized"));
        }
        let at = &unit.places[unit.place];
        let queue = new_queue(&at.context, &at.device).map_err(|error| wrong("make a queue", &error))?;
        let (queue, place, shared) = (Arc::new(queue), unit.place, Arc::clone(&unit.shared));
        let (work, jobs) = channel::<Arc<StateCore>>();
        let thread = std::thread::Builder::new().name(format!("cairn-device-{place}")).spawn(move || {
            UNIT.with(|unit| *unit.borrow_mut() = Some((place, queue)));
            for state in jobs {
                let _ = state.step();
                lock(&shared).through(&state);
            }
        });
        let thread = thread.map_err(|error| Error::system("start a thread", error))?;
        *lock(&unit.work) = Some((work, thread));
        doing.status = UnitStatus::Ready;
        Ok(())
    }

    fn start(&self, unit: &ProcessingUnit, state: &ExecutionState) -> Result<(), Error> {
        let unit = Self::own(unit)?;
        if state.origin() != NAME {
            let why = format!(
                "the state was created by {}, not by {NAME}; use the manager that created it",
                state.origin()
            );
            return Err(Error::misuse("execute", why));
        }
        let mut doing = lock(&unit.shared);
        if doing.status() != UnitStatus::Ready {
            return Err(unit.refuse("start a state on it", doing.status(), "Ready"));
        }
        state.core().begin(false)?;
        *doing = Doing { status: UnitStatus::Executing, state: Some(Arc::clone(state.core())) };
        if let Some((work, _)) = &*lock(&unit.work) {
            // The thread lives as long as the unit.
            let _ = work.send(Arc::clone(state.core()));
        }
        Ok(())
    }

    fn run(&self, _state: &ExecutionState) -> Result<Status, Error> {
        Self::never("run a kernel on the caller's thread")
    }

    fn suspend(&self, _unit: &ProcessingUnit) -> Result<(), Error> {
        Self::never("suspend a unit")
    }

    fn resume(&self, _unit: &ProcessingUnit) -> Result<(), Error> {
        Self::never("resume a unit")
    }

    fn finalize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        let unit = Self::own(unit)?;
        {
            let mut doing = lock(&unit.shared);
            if !matches!(doing.status(), UnitStatus::Ready | UnitStatus::Uninitialized) {
                return Err(unit.refuse("finalize it", doing.status(), "Ready; wait for its state first"));
            }
            doing.status = UnitStatus::Terminated;
        }
        if let Some((work, thread)) = lock(&unit.work).take() {
            drop(work);
            let _ = thread.join();
        }
        Ok(())
    }
}
