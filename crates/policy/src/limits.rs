//! Limits of a policy, which bound stack, memory and time of whatever reads it.

use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

/// The maximum length of a text, in bytes.
pub(crate) const MAX_BYTES: usize = 64 << 10;

/// The maximum nesting of terms, in which each operation counts; it bounds recursion over the syntax tree.
pub(crate) const MAX_NESTING: usize = 50;

/// The maximum number of elements of a body, and of literals of a condition; it bounds the recursion of joins.
pub(crate) const MAX_ELEMENTS: usize = 64;

/// The maximum number of tokens of a statement.
pub(crate) const MAX_TOKENS: usize = 2_000;

/// The maximum number of statements with a body.
pub(crate) const MAX_RULES: usize = 500;

/// The maximum number of statements without a body.
pub(crate) const MAX_FACTS: usize = 5_000;

/// Parser and checks give up after this many faults: the text is not a policy.
pub(crate) const MAX_FAULTS: usize = 50;

/// The maximum number of numbers, strings, constants and functions in one computed term.
pub(crate) const MAX_PARTS: u32 = 1_000;

/// The work that the first step includes: evaluating a few small terms.
const WORK_IN_FIRST_STEP: usize = 16;
/// The work that counts as one extra step.
const WORK_PER_STEP: usize = 4;

/// The steps that some work takes beyond the first one.
pub(crate) fn extra_steps(work: usize) -> u64 {
    (work.saturating_sub(WORK_IN_FIRST_STEP) / WORK_PER_STEP) as u64
}

/// The stack of a thread that parses or grounds, in bytes: several times what the limits above allow.
const STACK: usize = 16 << 20;

/// Runs `work` on a thread whose stack does not depend on the caller's.
pub(crate) fn on_known_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    let run = || {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.expect("it is run once")()
    };
    thread::scope(|scope| match thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run) {
        Ok(thread) => thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)),
        // Without another thread the limits alone bound the stack.
        Err(_) => run(),
    })
}
