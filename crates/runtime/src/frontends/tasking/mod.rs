//! Tasking: building blocks of a task-based runtime. Tasks have callbacks and a dependency counter; workers pull and run
//! tasks; a ready queue is last-in-first-out for its owner and first-in-first-out for thieves.
//!
//! Workers and tasks are created by two compute managers, which may differ.

mod parking;
mod sync;
mod task;
mod trace;
mod workers;

pub use sync::{TaskCondvar, TaskMutex};
pub use task::{Callback, Scope, Task, TaskEvent};
pub use trace::Trace;
pub use workers::{Blocked, Pull, Spawner, Tasking};
