//! Tasks: executions with dependencies.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use super::workers::Shared;
use crate::model::{Context, Error, ExecutionState, ExecutionUnit, wait::lock};

/// Lifecycle events of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// A worker starts or resumes the task.
    Execute,
    /// The task is suspended.
    Suspend,
    /// The task is ready to resume.
    Sync,
    /// The task has finished.
    Finish,
}

/// Called at lifecycle events of a task.
pub type Callback = Arc<dyn Fn(TaskEvent, &Task) + Send + Sync>;

/// The work of a task.
type Work = Box<dyn FnOnce(&mut Scope<'_>) + Send>;

/// A task handle; clones refer to the same task.
#[derive(Clone)]
pub struct Task(pub(super) Arc<Core>);

/// No worker yet.
pub(super) const NOWHERE: usize = usize::MAX;

pub(super) struct Core {
    pub(super) name: Arc<str>,
    pub(super) state: ExecutionState,
    /// Number of outstanding dependencies; ready at 0.
    pub(super) waits: AtomicUsize,
    pub(super) dependents: Mutex<Option<Vec<Task>>>,
    /// The worker that it is bound to.
    pub(super) affinity: Option<usize>,
    /// The worker that started it.
    pub(super) home: AtomicUsize,
    pub(super) callback: Option<Callback>,
    pub(super) spawned: AtomicBool,
    /// Whether it is in the set of suspended tasks.
    pub(super) kept: AtomicBool,
    /// Woken by an external event, so it is exempt from deadlock detection.
    pub(super) woken_externally: AtomicBool,
    pub(super) shared: Weak<Shared>,
}

/// The interface of a task's function to the runtime.
pub struct Scope<'a> {
    context: &'a mut dyn Context,
    task: Task,
    shared: Arc<Shared>,
}

/// The argument of a task's execution.
struct Argument {
    work: Work,
    task: Arc<std::sync::OnceLock<Weak<Core>>>,
}

/// All tasks are executions of one function, which calls its argument.
pub(super) fn unit() -> ExecutionUnit {
    ExecutionUnit::function(|context: &mut dyn Context, argument: Argument| {
        let task = argument.task.get().and_then(Weak::upgrade);
        let Some(core) = task else { return };
        let Some(shared) = core.shared.upgrade() else { return };
        let mut scope = Scope { context, task: Task(core), shared };
        (argument.work)(&mut scope);
    })
    .named("task")
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} ({})", self.0.name, self.0.state.status())
    }
}

impl Task {
    pub(super) fn new(
        shared: &Arc<Shared>,
        name: Arc<str>,
        affinity: Option<usize>,
        callback: Option<Callback>,
        work: Work,
    ) -> Result<Self, Error> {
        let cell = Arc::new(std::sync::OnceLock::new());
        let argument = Box::new(Argument { work, task: Arc::clone(&cell) });
        let state = shared.tasks.create_execution_state(&shared.unit, argument)?;
        Ok(Self::of(shared, name, affinity, callback, state, &cell))
    }

    fn of(
        shared: &Arc<Shared>,
        name: Arc<str>,
        affinity: Option<usize>,
        callback: Option<Callback>,
        state: ExecutionState,
        cell: &std::sync::OnceLock<Weak<Core>>,
    ) -> Self {
        let core = Arc::new(Core {
            name,
            state,
            // One until it is spawned.
            waits: AtomicUsize::new(1),
            dependents: Mutex::new(Some(Vec::new())),
            affinity,
            home: AtomicUsize::new(NOWHERE),
            callback,
            spawned: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            woken_externally: AtomicBool::new(false),
            shared: Arc::downgrade(shared),
        });
        let _ = cell.set(Arc::downgrade(&core));
        Self(core)
    }

    /// A task around another execution, such as an asynchronous function or a kernel.
    pub(super) fn of_state(shared: &Arc<Shared>, name: Arc<str>, state: ExecutionState) -> Self {
        let task = Self::of(shared, name, None, None, state, &std::sync::OnceLock::new());
        task.0.woken_externally.store(true, SeqCst);
        task
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The execution, which holds the result or panic.
    pub fn state(&self) -> &ExecutionState {
        &self.0.state
    }

    /// Makes it depend on `other`; call before it is spawned.
    pub fn depends_on(&self, other: &Self) -> Result<(), Error> {
        if self.0.spawned.load(SeqCst) {
            return Err(Error::state(format!("{self:?}"), "add a dependency", "spawned", "not spawned yet"));
        }
        self.await_end(other);
        Ok(())
    }

    /// Adds `other` to the dependencies unless it has finished.
    fn await_end(&self, other: &Self) {
        if let Some(dependents) = lock(&other.0.dependents).as_mut() {
            self.0.waits.fetch_add(1, SeqCst);
            dependents.push(self.clone());
        }
    }

    pub(super) fn call(&self, event: TaskEvent) {
        if let Some(callback) = &self.0.callback {
            callback(event, self);
        }
    }
}

impl Scope<'_> {
    /// The current task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Creates a task, to be [started](Self::start).
    pub fn create(
        &self,
        name: &Arc<str>,
        work: impl FnOnce(&mut Scope<'_>) + Send + 'static,
    ) -> Result<Task, Error> {
        Task::new(&self.shared, Arc::clone(name), None, None, Box::new(work))
    }

    /// Makes a task run as soon as its dependencies have finished.
    pub fn start(&self, task: &Task) -> Result<(), Error> {
        self.shared.spawn(task, Some(self.task.0.home.load(SeqCst)))
    }

    /// Creates and starts a task.
    pub fn spawn(
        &self,
        name: &Arc<str>,
        work: impl FnOnce(&mut Scope<'_>) + Send + 'static,
    ) -> Result<Task, Error> {
        let task = self.create(name, work)?;
        self.start(&task)?;
        Ok(task)
    }

    /// Suspends until all of these have finished; the worker runs others meanwhile.
    pub fn wait_for(&mut self, tasks: &[Task]) {
        self.task.0.waits.fetch_add(1, SeqCst);
        for task in tasks {
            self.task.await_end(task);
        }
        // Once suspended, the worker resumes with the task that was added first.
        if self.task.0.waits.load(SeqCst) > 1 {
            self.context.suspend();
        } else {
            self.task.0.waits.fetch_sub(1, SeqCst);
        }
    }

    /// Suspends until `queue` releases the task; `unless` is evaluated under the queue's lock.
    pub(super) fn wait_in(&mut self, queue: &Mutex<Queue>, unless: impl FnOnce(&mut Queue) -> bool) {
        {
            let mut queue = lock(queue);
            if unless(&mut queue) {
                return;
            }
            self.task.0.waits.fetch_add(2, SeqCst);
            queue.waiting.push_back(self.task.clone());
        }
        self.context.suspend();
    }

    /// Adds the task to `queue`; [`Self::suspend_queued`] follows.
    pub(super) fn enqueue(&self, queue: &Mutex<Queue>) {
        self.task.0.waits.fetch_add(2, SeqCst);
        lock(queue).waiting.push_back(self.task.clone());
    }

    /// Suspends an enqueued task.
    pub(super) fn suspend_queued(&mut self) {
        self.context.suspend();
    }

    /// Yields to other ready tasks.
    pub fn yield_now(&mut self) {
        self.task.0.waits.fetch_add(1, SeqCst);
        self.context.suspend();
    }

    pub(super) fn release(&self, task: &Task) {
        self.shared.release(task);
    }
}

/// A queue of waiting tasks, and whether the awaited resource is taken.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) taken: bool,
    pub(super) waiting: VecDeque<Task>,
}
