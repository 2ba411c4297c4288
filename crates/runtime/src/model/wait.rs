//! Pending outcomes: polled, blocked on with a deadline, or awaited under any executor.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use super::error::Error;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A pending outcome.
///
/// A time-out ends nothing: the wait can be repeated. Dropping it withdraws a fence or an exchange, and nothing else.
#[must_use = "nothing waits for this unless it is taken, blocked on or awaited"]
pub struct Wait<T> {
    source: Box<dyn Source<T>>,
}

/// The back-end side of a [`Wait`].
pub trait Source<T>: Send {
    /// Takes the outcome if it is ready; possible once.
    fn try_take(&mut self) -> Option<Result<T, Error>>;
    /// Blocks until the outcome is ready or the deadline has passed, without using processor time.
    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>>;
    /// As `try_take`, but registers `waker` to be called when polling again may succeed.
    fn poll(&mut self, waker: &Waker) -> Option<Result<T, Error>>;
    /// The awaited operation, as in "the fence of slot 3".
    fn what(&self) -> String;
}

impl<T> Wait<T> {
    /// Waits for the outcome of `source`.
    pub fn new(source: impl Source<T> + 'static) -> Self {
        Self { source: Box::new(source) }
    }

    /// A wait that is already complete.
    pub fn ready(outcome: Result<T, Error>) -> Self
    where
        T: Send + 'static,
    {
        let (promise, wait) = promise("it", || {});
        promise.keep(outcome);
        wait
    }

    /// Takes the outcome if it is ready; possible once.
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        self.source.try_take()
    }

    /// Blocks until the outcome is ready or `deadline` has passed; [`Error::TimedOut`] ends nothing.
    pub fn block(&mut self, deadline: impl Into<Option<Instant>>) -> Result<T, Error> {
        let outcome = self.source.block(deadline.into());
        outcome.unwrap_or_else(|| Err(Error::TimedOut(self.source.what())))
    }

    /// Blocks without a deadline.
    pub fn done(mut self) -> Result<T, Error> {
        self.block(None)
    }
}

impl<T> Future for Wait<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.source.poll(cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> std::fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wait").field(&self.source.what()).finish()
    }
}

/// Locks a mutex and ignores poisoning: state under the locks of this crate is consistent between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared<T> {
    state: Mutex<State<T>>,
    kept: Condvar,
}

struct State<T> {
    outcome: Option<Result<T, Error>>,
    waker: Option<Waker>,
    taken: bool,
}

impl<T> Shared<T> {
    fn keep(&self, outcome: Result<T, Error>) {
        let mut state = lock(&self.state);
        if state.outcome.is_none() && !state.taken {
            state.outcome = Some(outcome);
            let waker = state.waker.take();
            drop(state);
            self.kept.notify_all();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// The completing side of a [`Wait`].
pub struct Promise<T>(Arc<Shared<T>>);

impl<T> Promise<T> {
    /// Completes the wait; later calls have no effect.
    pub fn keep(&self, outcome: Result<T, Error>) {
        self.0.keep(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // The wait can no longer complete: end it with an error instead of blocking for ever.
        self.0.keep(Err(Error::Gone("the awaited operation".into())));
    }
}

/// A wait and the promise that completes it. `withdraw` is called if the wait is dropped without an outcome.
pub fn promise<T: Send + 'static>(
    what: &'static str,
    withdraw: impl FnOnce() + Send + 'static,
) -> (Promise<T>, Wait<T>) {
    let state = State { outcome: None, waker: None, taken: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), kept: Condvar::new() });
    let promised = Promised { shared: Arc::clone(&shared), what, withdraw: Some(withdraw) };
    (Promise(shared), Wait::new(promised))
}

struct Promised<T, F: FnOnce()> {
    shared: Arc<Shared<T>>,
    what: &'static str,
    withdraw: Option<F>,
}

impl<T, F: FnOnce()> Promised<T, F> {
    fn take(&self, state: &mut State<T>) -> Option<Result<T, Error>> {
        if state.taken {
            return Some(Err(Error::state(self.what, "take it", "already taken", "not taken yet")));
        }
        let outcome = state.outcome.take();
        state.taken = outcome.is_some();
        outcome
    }
}

impl<T: Send, F: FnOnce() + Send> Source<T> for Promised<T, F> {
    fn try_take(&mut self) -> Option<Result<T, Error>> {
        self.take(&mut lock(&self.shared.state))
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>> {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(outcome) = self.take(&mut state) {
                return Some(outcome);
            }
            state = match deadline {
                None => self.shared.kept.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    let waited = self.shared.kept.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn poll(&mut self, waker: &Waker) -> Option<Result<T, Error>> {
        let mut state = lock(&self.shared.state);
        let outcome = self.take(&mut state);
        if outcome.is_none() {
            state.waker = Some(waker.clone());
        }
        outcome
    }

    fn what(&self) -> String {
        self.what.to_owned()
    }
}

impl<T, F: FnOnce()> Drop for Promised<T, F> {
    fn drop(&mut self) {
        let ended = {
            let state = lock(&self.shared.state);
            state.taken || state.outcome.is_some()
        };
        if let (false, Some(withdraw)) = (ended, self.withdraw.take()) {
            withdraw();
        }
    }
}

/// A wait whose outcome is mapped when it is taken.
struct Mapped<T, F> {
    before: Wait<T>,
    make: Option<F>,
}

impl<T, F> Mapped<T, F> {
    fn make<U>(&mut self, outcome: Result<T, Error>) -> Result<U, Error>
    where
        F: FnOnce(T) -> Result<U, Error>,
    {
        let make = self
            .make
            .take()
            .ok_or_else(|| Error::state("the outcome", "take it", "already taken", "not taken yet"))?;
        make(outcome?)
    }
}

impl<T, U, F: FnOnce(T) -> Result<U, Error> + Send> Source<U> for Mapped<T, F> {
    fn try_take(&mut self) -> Option<Result<U, Error>> {
        let outcome = self.before.source.try_take()?;
        Some(self.make(outcome))
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<U, Error>> {
        let outcome = self.before.source.block(deadline)?;
        Some(self.make(outcome))
    }

    fn poll(&mut self, waker: &Waker) -> Option<Result<U, Error>> {
        let outcome = self.before.source.poll(waker)?;
        Some(self.make(outcome))
    }

    fn what(&self) -> String {
        self.before.source.what()
    }
}

impl<T: 'static> Wait<T> {
    /// Maps the outcome of a wait with `make` when it is taken.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> Result<U, Error> + Send + 'static) -> Wait<U> {
        Wait::new(Mapped { before: self, make: Some(make) })
    }
}
