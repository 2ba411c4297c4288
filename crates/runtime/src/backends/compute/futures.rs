//! Asynchronous functions, polled where they are run; what they wait for wakes their state.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::caught;
use crate::model::{
    Capability, Format, Value,
    compute::{Execution, StateCore, Step},
    function::Pending,
};

/// Futures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine;

impl super::Engine for Engine {
    const NAME: &'static str = "futures";

    fn supports(capability: Capability) -> bool {
        matches!(capability, Capability::AsyncFunctions | Capability::ResumeAnywhere)
    }

    fn takes(format: &Format) -> bool {
        matches!(format, Format::Async(_))
    }

    fn prepare(format: &Format, arguments: Value) -> Option<Box<dyn Execution>> {
        let Format::Async(function) = format else { return None };
        let function = function.clone();
        // Called when it is first polled, so that its panic is the state's.
        Some(Box::new(OnPoll(Box::pin(async move { function(arguments).await }))))
    }
}

struct OnPoll(Pending);

impl Execution for OnPoll {
    fn step(&mut self, state: &Arc<StateCore>) -> Step {
        let waker = Waker::from(Arc::clone(state));
        let mut context = Context::from_waker(&waker);
        match caught(|| self.0.as_mut().poll(&mut context)) {
            Ok(Poll::Pending) => Step::Pending,
            Ok(Poll::Ready(value)) => Step::Finished(Ok(value)),
            Err(error) => Step::Finished(Err(error)),
        }
    }
}
