//! Functions on kernel threads. Under `run` each state has a pooled thread, and the caller waits for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering::SeqCst};

use super::body;
use crate::model::{
    Capability, Context, Error, Format, Value,
    compute::{Body, Execution, StateCore, Step},
    wait::lock,
};

/// The kernel-thread engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine;

impl super::Engine for Engine {
    const NAME: &'static str = "threads";

    fn supports(capability: Capability) -> bool {
        matches!(capability, Capability::Functions | Capability::Suspend | Capability::ResumeAnywhere)
    }

    fn takes(format: &Format) -> bool {
        matches!(format, Format::Function(_))
    }

    fn prepare(format: &Format, arguments: Value) -> Option<Box<dyn Execution>> {
        let Format::Function(function) = format else { return None };
        Some(Box::new(OnThread::New(Some(body(function, arguments)))))
    }
}

enum OnThread {
    New(Option<Body>),
    Begun(Arc<Guest>),
}

/// Maximum number of idle threads kept.
const KEPT: usize = 256;

static IDLE: Mutex<Vec<Arc<Guest>>> = Mutex::new(Vec::new());

/// A thread that executes on behalf of a waiting host thread; only one of the two runs at a time.
struct Guest {
    turn: Mutex<Turn>,
    guests: Condvar,
    hosts: Condvar,
}

enum Turn {
    Begin(Body, Arc<StateCore>),
    Resume,
    /// The guest runs.
    Taken,
    Suspended,
    Finished(Result<Value, Error>),
    Idle,
}

impl Guest {
    fn new() -> Result<Arc<Self>, Error> {
        let guest =
            Arc::new(Self { turn: Mutex::new(Turn::Idle), guests: Condvar::new(), hosts: Condvar::new() });
        let served = Arc::clone(&guest);
        let thread = std::thread::Builder::new().name("cairn-task".into()).stack_size(256 << 10);
        thread.spawn(move || served.serve()).map_err(|error| Error::system("start a thread", error))?;
        Ok(guest)
    }

    fn serve(self: &Arc<Self>) {
        loop {
            let (body, state) = {
                let mut turn = lock(&self.turn);
                loop {
                    if let Turn::Begin(..) = &*turn {
                        let Turn::Begin(body, state) = std::mem::replace(&mut *turn, Turn::Taken) else {
                            unreachable!("it was `Begin` in the line before, under the lock")
                        };
                        break (body, state);
                    }
                    turn = self.guests.wait(turn).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let outcome = body(&mut OnGuest { guest: self, state: &state });
            *lock(&self.turn) = Turn::Finished(outcome);
            self.hosts.notify_one();
        }
    }

    /// Passes the turn and waits until it returns.
    fn go(&self, given: Turn) -> Step {
        let mut turn = lock(&self.turn);
        *turn = given;
        self.guests.notify_one();
        loop {
            match std::mem::replace(&mut *turn, Turn::Taken) {
                Turn::Suspended => {
                    *turn = Turn::Suspended;
                    return Step::Suspended;
                }
                Turn::Finished(outcome) => {
                    *turn = Turn::Idle;
                    return Step::Finished(outcome);
                }
                other => *turn = other,
            }
            turn = self.hosts.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct OnGuest<'a> {
    guest: &'a Guest,
    state: &'a StateCore,
}

impl Context for OnGuest<'_> {
    fn suspend(&mut self) {
        let mut turn = lock(&self.guest.turn);
        *turn = Turn::Suspended;
        self.guest.hosts.notify_one();
        while !matches!(*turn, Turn::Resume) {
            turn = self.guest.guests.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        *turn = Turn::Taken;
    }

    fn checkpoint(&mut self) {
        if self.state.suspend_asked.swap(false, SeqCst) {
            self.suspend();
        }
    }
}

impl Execution for OnThread {
    fn step(&mut self, state: &Arc<StateCore>) -> Step {
        let (guest, turn) = match self {
            Self::New(body) => {
                let Some(body) = body.take() else {
                    let error = Error::state(state, "run it", "started on a unit", "not started on one");
                    return Step::Finished(Err(error));
                };
                let idle = lock(&IDLE).pop();
                let guest = match idle.map_or_else(Guest::new, Ok) {
                    Ok(guest) => guest,
                    Err(error) => return Step::Finished(Err(error)),
                };
                *self = Self::Begun(Arc::clone(&guest));
                (guest, Turn::Begin(body, Arc::clone(state)))
            }
            Self::Begun(guest) => (Arc::clone(guest), Turn::Resume),
        };
        let step = guest.go(turn);
        if let Step::Finished(_) = step {
            let mut idle = lock(&IDLE);
            if idle.len() < KEPT {
                idle.push(guest);
            }
        }
        step
    }

    fn take_function(&mut self) -> Option<Body> {
        match self {
            Self::New(body) => body.take(),
            Self::Begun(_) => None,
        }
    }
}
