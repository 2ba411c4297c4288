//! Functions on their own stacks, switched in user space.
//!
//! A stack in use stays on the thread that started it, since its contents may be bound to that thread. So stacks are
//! never sent; a started execution is a key into its thread's table.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

use super::body;
use crate::model::{
    Capability, Context, Error, Format, Status, Value,
    compute::{Body, Execution, StateCore, Step},
    wait::lock,
};

/// Stack size; untouched pages take no memory.
const STACK: usize = 256 << 10;
/// Maximum number of idle stacks kept by a thread.
const KEPT: usize = 1_024;

/// The coroutine engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine;

impl super::Engine for Engine {
    const NAME: &'static str = "coroutines";

    fn supports(capability: Capability) -> bool {
        matches!(capability, Capability::Functions | Capability::Suspend)
    }

    fn takes(format: &Format) -> bool {
        matches!(format, Format::Function(_))
    }

    fn prepare(format: &Format, arguments: Value) -> Option<Box<dyn Execution>> {
        let Format::Function(function) = format else { return None };
        Some(Box::new(OnStack::New(Some(body(function, arguments)))))
    }
}

type Routine = Coroutine<(), (), Result<Value, Error>, DefaultStack>;

/// A thread's stacks: those in use by key, and the idle ones.
#[derive(Default)]
struct Stacks {
    routines: RefCell<Vec<Option<Routine>>>,
    free: RefCell<Vec<usize>>,
    idle: RefCell<Vec<DefaultStack>>,
    home: Arc<Home>,
}

/// The part of a thread's table that other threads can reach.
struct Home {
    number: u64,
    /// Keys of executions that were dropped on other threads.
    orphans: Mutex<Vec<usize>>,
}

impl Default for Home {
    fn default() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self { number: NUMBERS.fetch_add(1, SeqCst), orphans: Mutex::default() }
    }
}

thread_local! {
    static STACKS: Stacks = Stacks::default();
}

enum OnStack {
    New(Option<Body>),
    Begun(Place),
    Ended,
}

/// The location of a started execution.
struct Place {
    home: Arc<Home>,
    index: usize,
}

/// Fails if the state was started on another thread.
pub(super) fn home(state: &StateCore) -> Result<(), Error> {
    if state.status() == Status::Suspended
        && state.home() != 0
        && state.home() != STACKS.with(|it| it.home.number)
    {
        let is = "started on another thread";
        return Err(Error::state(
            state,
            "run it",
            is,
            "run by the thread of its first run, which owns its stack",
        ));
    }
    Ok(())
}

struct OnYielder<'a> {
    yielder: &'a Yielder<(), ()>,
    /// Weak: the contents of a stack must not keep it alive.
    state: Weak<StateCore>,
}

impl Context for OnYielder<'_> {
    fn suspend(&mut self) {
        self.yielder.suspend(());
    }

    fn checkpoint(&mut self) {
        let state = self.state.upgrade();
        if state.is_some_and(|state| state.suspend_asked.swap(false, SeqCst)) {
            self.suspend();
        }
    }
}

impl Stacks {
    fn begin(&self, body: Body, state: &Arc<StateCore>) -> Result<Routine, Error> {
        let idle = self.idle.borrow_mut().pop();
        let stack = idle.map_or_else(|| DefaultStack::new(STACK), Ok);
        let stack = stack.map_err(|error| Error::system("make a stack", error))?;
        let state = Arc::downgrade(state);
        Ok(Coroutine::with_stack(stack, move |yielder, ()| body(&mut OnYielder { yielder, state })))
    }

    /// Resumes, and returns whether the function has returned.
    fn resume(&self, mut routine: Routine) -> Result<Routine, Result<Value, Error>> {
        match routine.resume(()) {
            CoroutineResult::Yield(()) => Ok(routine),
            CoroutineResult::Return(outcome) => {
                let mut idle = self.idle.borrow_mut();
                if idle.len() < KEPT {
                    idle.push(routine.into_stack());
                }
                Err(outcome)
            }
        }
    }

    fn keep(&self, routine: Routine) -> usize {
        let free = self.free.borrow_mut().pop();
        let mut routines = self.routines.borrow_mut();
        let place = free.unwrap_or(routines.len());
        if place == routines.len() {
            routines.push(None);
        }
        routines[place] = Some(routine);
        place
    }

    fn remove(&self, place: usize) -> Option<Routine> {
        let routine = self.routines.borrow_mut().get_mut(place).and_then(Option::take);
        if routine.is_some() {
            self.free.borrow_mut().push(place);
        }
        routine
    }

    fn drop_orphans(&self) {
        let orphans = std::mem::take(&mut *lock(&self.home.orphans));
        for place in orphans {
            drop(self.remove(place));
        }
    }
}

impl Execution for OnStack {
    fn step(&mut self, state: &Arc<StateCore>) -> Step {
        STACKS.with(|stacks| {
            let routine = match self {
                Self::New(body) => {
                    stacks.drop_orphans();
                    match body.take().map(|body| stacks.begin(body, state)) {
                        Some(Err(error)) => return Step::Finished(Err(error)),
                        routine => routine.and_then(Result::ok),
                    }
                }
                Self::Begun(place) if Arc::ptr_eq(&place.home, &stacks.home) => stacks.remove(place.index),
                Self::Begun(_) | Self::Ended => None,
            };
            let Some(routine) = routine else {
                return Step::Finished(Err(Error::state(state, "run it", "on another thread", "on its own")));
            };
            *self = Self::Ended;
            match stacks.resume(routine) {
                Ok(routine) => {
                    let index = stacks.keep(routine);
                    state.set_home(stacks.home.number);
                    *self = Self::Begun(Place { home: Arc::clone(&stacks.home), index });
                    Step::Suspended
                }
                Err(outcome) => Step::Finished(outcome),
            }
        })
    }

    fn take_function(&mut self) -> Option<Body> {
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let here = STACKS.try_with(|stacks| {
            let own = Arc::ptr_eq(&self.home, &stacks.home);
            // Dropping a stack unwinds its contents. A stack that is being resumed is not in the table.
            own.then(|| stacks.remove(self.index)).is_some()
        });
        if here == Ok(false) {
            lock(&self.home.orphans).push(self.index);
        }
    }
}
