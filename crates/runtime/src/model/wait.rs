//! What waits: taken when it is there, waited for with a deadline, or awaited under any executor.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use super::error::Error;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something that will be there later.
///
/// A time-out ends nothing: wait again. A drop withdraws a fence or an exchange, and nothing else.
#[must_use = "nothing waits for this unless it is taken, blocked on or awaited"]
pub struct Wait<T> {
    source: Box<dyn Source<T>>,
}

/// What a back-end implements, so that its operations can be waited for.
pub trait Source<T>: Send {
    /// The outcome, once, if it is there.
    fn try_take(&mut self) -> Option<Result<T, Error>>;
    /// Waits until the outcome is there, or the deadline has passed. Costs no processor time while it lasts.
    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>>;
    /// As `try_take`; otherwise wakes `waker` when it is worth asking again.
    fn poll(&mut self, waker: &Waker) -> Option<Result<T, Error>>;
    /// What is waited for, as in "the fence of slot 3".
    fn what(&self) -> String;
}

impl<T> Wait<T> {
    /// Something that `source` brings.
    pub fn new(source: impl Source<T> + 'static) -> Self {
        Self { source: Box::new(source) }
    }

    /// Something that is there already.
    pub fn ready(outcome: Result<T, Error>) -> Self
    where
        T: Send + 'static,
    {
        let (promise, wait) = promise("it", || {});
        promise.keep(outcome);
        wait
    }

    /// The outcome, once, if it is there.
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        self.source.try_take()
    }

    /// Waits until the outcome is there, or `deadline` has passed, which is [`Error::TimedOut`] and ends nothing.
    pub fn block(&mut self, deadline: impl Into<Option<Instant>>) -> Result<T, Error> {
        let outcome = self.source.block(deadline.into());
        outcome.unwrap_or_else(|| Err(Error::TimedOut(self.source.what())))
    }

    /// Waits as long as it takes.
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

/// Locks, whoever panicked while holding it: what is kept under the locks of this crate is whole between any two lines.
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

/// The other end of a [`Wait`]: whoever holds it brings the outcome.
pub struct Promise<T>(Arc<Shared<T>>);

impl<T> Promise<T> {
    /// Brings the outcome. Only the first counts.
    pub fn keep(&self, outcome: Result<T, Error>) {
        self.0.keep(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // Whoever could bring the outcome is gone: nobody waits for ever.
        self.0.keep(Err(Error::Gone("what was waited for".into())));
    }
}

/// A wait and the promise that ends it. `withdraw` is called when the wait is dropped without an outcome.
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
            return Some(Err(Error::state(self.what, "take it", "taken already", "there")));
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

/// A wait whose outcome is made into something else by who takes it.
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
            .ok_or_else(|| Error::state("the outcome", "take it", "taken already", "there"))?;
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
    /// The same wait, whose outcome `make` changes when it is taken.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> Result<U, Error> + Send + 'static) -> Wait<U> {
        Wait::new(Mapped { before: self, make: Some(make) })
    }
}
