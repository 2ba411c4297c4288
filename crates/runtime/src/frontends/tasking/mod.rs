//! Tasking: what a task-based runtime is built of. Tasks have callbacks and a dependency counter; workers pull the next
//! task and run it; a ready queue serves its owner last in first out, and thieves first in first out.
//!
//! Two compute managers, which may differ: one makes the workers, the other one the tasks.

mod rest;
mod sync;
mod task;
mod trace;
mod workers;

pub use sync::{TaskCondvar, TaskMutex};
pub use task::{Callback, Scope, Task, TaskEvent};
pub use trace::Trace;
pub use workers::{Blocked, Pull, Spawner, Tasking};
