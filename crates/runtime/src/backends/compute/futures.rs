//! Asynchronous functions, polled on the running thread; their wakers wake the state.

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

/// The future engine.
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
        // Called at the first poll, so that a panic is caught with the state.
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
