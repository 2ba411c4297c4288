//! Compute managers for the processor, which differ in how functions suspend: on their own thread, on their own stack, or
//! as a future.

mod coroutines;
mod futures;
mod threads;
mod unit;

use std::{any::Any, marker::PhantomData, panic::AssertUnwindSafe, sync::Arc};

use unit::ThreadUnit;

use crate::{
    hicr::ComputeResource,
    model::{
        Capability, ComputeManager, Context, Error, ExecutionState, ExecutionUnit, Format, ProcessingUnit,
        Status, Value,
        compute::{Body, Execution, StateCore, Step},
        function::Function,
    },
};

/// An execution mechanism for functions.
pub trait Engine: Send + Sync + 'static {
    /// The manager's name.
    const NAME: &'static str;
    /// Whether it supports this capability.
    fn supports(capability: Capability) -> bool;
    /// Whether it runs functions of this format.
    fn takes(format: &Format) -> bool;
    /// A new execution, not yet started; `None` for unsupported formats.
    fn prepare(format: &Format, arguments: Value) -> Option<Box<dyn Execution>>;
}

/// A compute manager for the processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compute<E>(PhantomData<E>);

/// A pinned kernel thread per unit; under `run`, a pooled thread per state.
pub type Threads = Compute<threads::Engine>;
/// A pooled stack per state, resumed only on the thread of its first `run`.
pub type Coroutines = Compute<coroutines::Engine>;
/// Asynchronous functions.
pub type Futures = Compute<futures::Engine>;

impl<E> Compute<E> {
    /// Creates the stateless manager.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// The type of compute resource for these units.
pub const PROCESSING_UNIT: &str = "Processing Unit";

/// Binds a function to its argument and catches panics.
fn body(function: &Function, arguments: Value) -> Body {
    let function = function.clone();
    Box::new(move |context: &mut dyn Context| caught(|| function(context, arguments)))
}

/// A function that never suspends, called directly.
struct Called(Option<Box<dyn FnOnce() -> Result<Value, Error> + Send>>);

impl Execution for Called {
    fn step(&mut self, state: &Arc<StateCore>) -> Step {
        let call = self.0.take();
        Step::Finished(call.map_or_else(
            || Err(Error::state(state, "run it", "started on a unit", "not started on one")),
            |call| call(),
        ))
    }

    fn take_function(&mut self) -> Option<Body> {
        let call = self.0.take()?;
        Some(Box::new(|_: &mut dyn Context| call()))
    }
}

/// The result of a call, or its panic message.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Result<R, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(call))
        .map_err(|panic| Error::Panicked { what: "the function".into(), message: message(&*panic) })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

impl<E: Engine> Compute<E> {
    fn own(unit: &ProcessingUnit) -> Result<&ThreadUnit, Error> {
        let own = (unit.origin() == E::NAME).then(|| unit.body().as_any().downcast_ref()).flatten();
        own.ok_or_else(|| Self::foreign("the unit", unit.origin()))
    }

    /// Whether the engine calls this function directly on the running thread.
    fn calls(format: &Format) -> bool {
        matches!(format, Format::Uninterrupted(_)) && E::supports(Capability::Functions)
    }

    fn owns(state: &ExecutionState) -> Result<(), Error> {
        if state.origin() == E::NAME { Ok(()) } else { Err(Self::foreign("the state", state.origin())) }
    }

    fn foreign(what: &str, origin: &str) -> Error {
        Error::misuse(
            "execute",
            format!("{what} was created by {origin}, not by {}; use the manager that created it", E::NAME),
        )
    }
}

impl<E: Engine> ComputeManager for Compute<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn supports(&self, capability: Capability) -> bool {
        capability == Capability::Run || E::supports(capability)
    }

    fn claims(&self, resource: &ComputeResource) -> bool {
        resource.type_ == PROCESSING_UNIT
    }

    fn takes(&self, unit: &ExecutionUnit) -> bool {
        E::takes(unit.format()) || Self::calls(unit.format())
    }

    fn create_processing_unit(&self, resource: &ComputeResource) -> Result<ProcessingUnit, Error> {
        if !self.claims(resource) {
            let why = format!("{} needs a {PROCESSING_UNIT}, not a {}", E::NAME, resource.type_);
            return Err(Error::misuse("create a processing unit", why));
        }
        let processor = resource.more.get("Logical Processor Id").and_then(serde_json::Value::as_u64);
        let body = Box::new(ThreadUnit::new(E::NAME, processor));
        Ok(ProcessingUnit::new(E::NAME, resource.clone(), body))
    }

    fn create_execution_state(
        &self,
        unit: &ExecutionUnit,
        arguments: Value,
    ) -> Result<ExecutionState, Error> {
        unit.check(&arguments)?;
        if let Format::Uninterrupted(function) = unit.format()
            && Self::calls(unit.format())
        {
            let function = Arc::clone(function);
            let call = Box::new(move || caught(|| function(arguments)));
            return Ok(ExecutionState::new(E::NAME, Box::new(Called(Some(call)))));
        }
        let execution = E::prepare(unit.format(), arguments).ok_or_else(|| {
            let form = match unit.format() {
                Format::Function(_) | Format::Uninterrupted(_) => "run ordinary functions",
                Format::Async(_) => "run asynchronous functions",
                Format::Kernel(_) => "run kernels",
            };
            Error::unsupported(E::NAME, form, "use a manager that `takes` it")
        })?;
        Ok(ExecutionState::new(E::NAME, execution))
    }

    fn initialize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        Self::own(unit)?.initialize()
    }

    fn start(&self, unit: &ProcessingUnit, state: &ExecutionState) -> Result<(), Error> {
        Self::owns(state)?;
        Self::own(unit)?.start(&state.core)
    }

    fn run(&self, state: &ExecutionState) -> Result<Status, Error> {
        Self::owns(state)?;
        coroutines::home(&state.core)?;
        state.core.begin(true)?;
        Ok(state.core.step())
    }

    fn suspend(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        if !E::supports(Capability::Suspend) {
            let instead = "an asynchronous function suspends where it awaits";
            return Err(Error::unsupported(E::NAME, "suspend a unit", instead));
        }
        Self::own(unit)?.suspend()
    }

    fn resume(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        Self::own(unit)?.resume()
    }

    fn finalize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        Self::own(unit)?.finalize()
    }
}
