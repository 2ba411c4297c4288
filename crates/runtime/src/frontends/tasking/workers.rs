//! Workers: each pulls and runs tasks, and parks when there are none.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use super::{
    parking::Parking,
    task::{self, Callback, Core, NOWHERE, Scope, Task, TaskEvent},
    trace::Trace,
};
use crate::{
    hicr::ComputeResource,
    model::{Capability, ComputeManager, Error, ExecutionUnit, ProcessingUnit, Status, wait::lock},
};

/// Selects the next task for a worker by its number; none if none is available.
pub type Pull = Arc<dyn Fn(usize) -> Option<Task> + Send + Sync>;

/// A service polled by idle workers; returns whether it made progress.
type Service = Box<dyn Fn() -> bool + Send + Sync>;

/// Deadlock: tasks that can never become ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tasks are deadlocked: {}; no other task is ready or running", names.join(", "))]
pub struct Blocked {
    /// The names of the tasks, sorted.
    pub names: Vec<String>,
}

pub(super) struct Shared {
    pub(super) tasks: Arc<dyn ComputeManager>,
    pub(super) unit: ExecutionUnit,
    /// Whether a suspended task may resume on any worker.
    anywhere: bool,
    queues: Vec<Mutex<VecDeque<Task>>>,
    /// Tasks bound to this worker.
    bound: Vec<Mutex<VecDeque<Task>>>,
    next: AtomicUsize,
    /// Spawned tasks that have not finished.
    unfinished: AtomicUsize,
    waiting: Mutex<BTreeMap<usize, Task>>,
    parking: Parking,
    pull: Option<Pull>,
    paused: Vec<AtomicBool>,
    services: Vec<Service>,
    trace: Option<Trace>,
}

/// How long a worker with services parks between polls.
const SERVICE: std::time::Duration = std::time::Duration::from_millis(1);
/// How often a worker searches for a task before it parks.
const POLLS: usize = 200;

impl Shared {
    /// Registers a task, and makes it ready if it has no dependencies.
    pub(super) fn spawn(&self, task: &Task, worker: Option<usize>) -> Result<(), Error> {
        if task.0.spawned.swap(true, SeqCst) {
            return Err(Error::state(format!("{task:?}"), "spawn it", "already spawned", "new"));
        }
        self.unfinished.fetch_add(1, SeqCst);
        if task.0.waits.load(SeqCst) > 1 {
            self.keep(task);
        }
        self.release_to(task, worker);
        Ok(())
    }

    /// Records a suspended task for the deadlock report.
    fn keep(&self, task: &Task) {
        task.0.kept.store(true, SeqCst);
        lock(&self.waiting).insert(Arc::as_ptr(&task.0).addr(), task.clone());
    }

    /// Removes one dependency.
    pub(super) fn release(&self, task: &Task) {
        self.release_to(task, None);
    }

    fn release_to(&self, task: &Task, worker: Option<usize>) {
        if task.0.waits.fetch_sub(1, SeqCst) == 1 {
            self.is_ready(task.clone(), worker);
        }
    }

    fn is_ready(&self, task: Task, worker: Option<usize>) {
        if task.0.kept.swap(false, SeqCst) {
            self.forget(&task.0);
        }
        if task.0.state.status() == Status::Suspended {
            task.call(TaskEvent::Sync);
        }
        let home = task.0.home.load(SeqCst);
        let begun = home != NOWHERE && !self.anywhere;
        if let Some(bound) = task.0.affinity.or(begun.then_some(home)) {
            lock(&self.bound[bound]).push_back(task);
        } else {
            let worker = worker.filter(|worker| *worker != NOWHERE);
            let worker = worker.unwrap_or_else(|| self.next.fetch_add(1, SeqCst) % self.queues.len());
            lock(&self.queues[worker]).push_back(task);
        }
        self.parking.ready();
    }

    /// The next task: bound to this worker, own (last in first out), or stolen (first in first out).
    fn take(&self, worker: usize) -> Option<Task> {
        if let Some(task) = lock(&self.bound[worker]).pop_front() {
            return Some(task);
        }
        if let Some(task) = lock(&self.queues[worker]).pop_back() {
            return Some(task);
        }
        let count = self.queues.len();
        (1..count).find_map(|step| lock(&self.queues[(worker + step) % count]).pop_front())
    }

    /// The main loop of a worker's thread.
    fn work(self: &Arc<Self>, worker: usize) {
        let mut polls = 0;
        loop {
            if self.parking.has_ended() {
                return;
            }
            let seen = self.parking.epoch();
            let paused = self.paused[worker].load(SeqCst);
            let pulled = || self.pull.as_ref().and_then(|pull| pull(worker));
            let next = if paused { None } else { pulled().or_else(|| self.take(worker)) };
            if let Some(task) = next {
                polls = 0;
                self.run(worker, &task);
                continue;
            }
            let served = !paused && self.services.iter().filter(|service| service()).count() > 0;
            polls += 1;
            if served || (!paused && polls < POLLS) {
                std::hint::spin_loop();
                continue;
            }
            polls = 0;
            self.park(worker, seen);
        }
    }

    /// Parks until a task becomes ready. Ends all workers if no task can become ready any more.
    fn park(&self, worker: usize, seen: u64) {
        let paused = || self.paused[worker].load(SeqCst);
        // Services and pull functions send no wake-ups, so they are polled.
        let polled = !self.services.is_empty() || (self.pull.is_some() && !paused());
        let last = |parked| parked == self.queues.len() && self.is_deadlocked();
        self.parking.park(seen, polled.then_some(SERVICE), paused, last);
    }

    /// Whether no task is ready and none can become so, as all wait for each other.
    fn is_deadlocked(&self) -> bool {
        let any = |queues: &[Mutex<VecDeque<Task>>]| queues.iter().any(|queue| !lock(queue).is_empty());
        let waiting = lock(&self.waiting);
        self.unfinished.load(SeqCst) == waiting.len()
            && !waiting.is_empty()
            && self.pull.is_none()
            && self.services.is_empty()
            && !any(&self.queues)
            && !any(&self.bound)
            && waiting
                .values()
                .all(|task| task.0.waits.load(SeqCst) > 0 && !task.0.woken_externally.load(SeqCst))
    }

    fn run(self: &Arc<Self>, worker: usize, task: &Task) {
        task.0.home.store(worker, SeqCst);
        task.call(TaskEvent::Execute);
        let begin = self.trace.is_some().then(Instant::now);
        let status = self.tasks.run(&task.0.state);
        if let (Some(trace), Some(begin)) = (&self.trace, begin) {
            trace.ran(worker, &task.0.name, begin);
        }
        match status {
            Ok(Status::Suspended) => {
                task.call(TaskEvent::Suspend);
                if task.0.woken_externally.load(SeqCst) {
                    self.until_woken(task);
                } else {
                    if task.0.waits.load(SeqCst) > 1 {
                        self.keep(task);
                    }
                    // Dependencies that the function added before it suspended.
                    self.release_to(task, None);
                }
            }
            Ok(_) | Err(_) => self.finish(worker, task),
        }
    }

    /// Resumes the task when its future is woken.
    fn until_woken(self: &Arc<Self>, task: &Task) {
        task.0.waits.fetch_add(1, SeqCst);
        // The callback owns the task until then and releases it once, since a waker may be called repeatedly.
        let (shared, waiting) = (Arc::downgrade(self), Mutex::new(Some(task.clone())));
        task.0.state.core().on_wake(Arc::new(move || {
            let woken = lock(&waiting).take();
            if let (Some(task), Some(shared)) = (woken, shared.upgrade()) {
                shared.release(&task);
            }
        }));
    }

    fn finish(&self, worker: usize, task: &Task) {
        let dependents = lock(&task.0.dependents).take().unwrap_or_default();
        task.call(TaskEvent::Finish);
        for dependent in &dependents {
            if dependent.0.waits.fetch_sub(1, SeqCst) == 1 {
                self.is_ready(dependent.clone(), Some(worker));
            }
        }
        if self.unfinished.fetch_sub(1, SeqCst) == 1 {
            self.parking.end();
        }
    }

    /// Removes a task that became ready from the suspended ones.
    fn forget(&self, core: &Arc<Core>) {
        lock(&self.waiting).remove(&Arc::as_ptr(core).addr());
    }
}

/// Spawns tasks from anywhere.
#[derive(Clone)]
pub struct Spawner(Weak<Shared>);

impl Spawner {
    /// Spawns a task of any function that the tasks' manager runs.
    pub fn spawn(
        &self,
        name: &Arc<str>,
        unit: &ExecutionUnit,
        argument: crate::Value,
    ) -> Result<Task, Error> {
        let shared = self.0.upgrade().ok_or_else(|| Error::Gone("the workers".into()))?;
        let state = shared.tasks.create_execution_state(unit, argument)?;
        let task = Task::of_state(&shared, Arc::clone(name), state);
        shared.spawn(&task, None)?;
        Ok(task)
    }
}

/// The workers, tasks and queues of one runtime.
pub struct Tasking {
    shared: Arc<Shared>,
    workers: Arc<dyn ComputeManager>,
    resources: Vec<ComputeResource>,
}

impl Tasking {
    /// One worker per resource, created by `workers`; tasks by `tasks`, which must run on the caller's thread.
    pub fn new(
        workers: Arc<dyn ComputeManager>,
        tasks: Arc<dyn ComputeManager>,
        resources: &[ComputeResource],
    ) -> Result<Self, Error> {
        if resources.is_empty() {
            return Err(Error::misuse("make workers", "no compute resource is given"));
        }
        if !tasks.supports(Capability::Run) {
            let instead = "choose threads, coroutines or futures for tasks";
            return Err(Error::unsupported(tasks.name(), "run states on a worker's thread", instead));
        }
        let each = || resources.iter().map(|_| Mutex::default()).collect();
        let shared = Arc::new(Shared {
            anywhere: tasks.supports(Capability::ResumeAnywhere),
            tasks,
            unit: task::unit(),
            queues: each(),
            bound: each(),
            next: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            waiting: Mutex::default(),
            parking: Parking::default(),
            pull: None,
            paused: resources.iter().map(|_| AtomicBool::new(false)).collect(),
            services: Vec::new(),
            trace: None,
        });
        Ok(Self { shared, workers, resources: resources.to_vec() })
    }

    fn change(&mut self, change: impl FnOnce(&mut Shared)) -> Result<(), Error> {
        let shared = Arc::get_mut(&mut self.shared);
        shared.map(change).ok_or_else(|| Error::state("tasking", "change it", "running, or has tasks", "new"))
    }

    /// Enables recording of a trace; call before creating tasks.
    pub fn record(&mut self) -> Result<(), Error> {
        let workers = self.resources.len();
        self.change(|shared| shared.trace = Some(Trace::new(workers)))
    }

    /// Sets a pull function that workers call before using the ready queues; call before creating tasks.
    pub fn pull(&mut self, pull: Pull) -> Result<(), Error> {
        self.change(|shared| shared.pull = Some(pull))
    }

    /// Adds a service that idle workers poll, again at once after progress; call before creating
    /// tasks.
    pub fn serve(&mut self, service: impl Fn() -> bool + Send + Sync + 'static) -> Result<(), Error> {
        self.change(|shared| shared.services.push(Box::new(service)))
    }

    /// Creates a task, to be [spawned](Self::spawn), for any worker or the one of `affinity`.
    pub fn task(
        &self,
        name: &str,
        affinity: Option<usize>,
        callback: Option<Callback>,
        work: impl FnOnce(&mut Scope<'_>) + Send + 'static,
    ) -> Result<Task, Error> {
        if let Some(worker) = affinity.filter(|worker| *worker >= self.resources.len()) {
            let why =
                format!("worker {worker} does not exist; workers are 0 to {}", self.resources.len() - 1);
            return Err(Error::misuse("make a task", why));
        }
        Task::new(&self.shared, name.into(), affinity, callback, Box::new(work))
    }

    /// Creates a task of any function that the tasks' manager runs, such as an asynchronous one.
    pub fn task_of(&self, name: &str, unit: &ExecutionUnit, argument: crate::Value) -> Result<Task, Error> {
        let state = self.shared.tasks.create_execution_state(unit, argument)?;
        Ok(Task::of_state(&self.shared, name.into(), state))
    }

    /// Spawns tasks from within futures, which have no scope.
    pub fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.shared))
    }

    /// Makes a task run as soon as its dependencies have finished.
    pub fn spawn(&self, task: &Task) -> Result<(), Error> {
        self.shared.spawn(task, None)
    }

    /// Stops a worker from taking further tasks.
    pub fn pause(&self, worker: usize) {
        self.shared.paused[worker].store(true, SeqCst);
    }

    /// Resumes a paused worker.
    pub fn resume(&self, worker: usize) {
        self.shared.paused[worker].store(false, SeqCst);
        self.shared.parking.ready();
    }

    /// Runs until all spawned tasks have finished or are deadlocked. The trace is complete afterwards.
    pub fn run(&self) -> Result<Result<(), Blocked>, Error> {
        if self.shared.unfinished.load(SeqCst) == 0 {
            return Ok(Ok(()));
        }
        self.shared.parking.begin();
        let loop_unit =
            ExecutionUnit::function(|_, (shared, worker): (Arc<Shared>, usize)| shared.work(worker));
        let mut running: Vec<(ProcessingUnit, crate::ExecutionState)> = Vec::new();
        for (worker, resource) in self.resources.iter().enumerate() {
            let unit = self.workers.create_processing_unit(resource)?;
            self.workers.initialize(&unit)?;
            let argument = Box::new((Arc::clone(&self.shared), worker));
            let state = self.workers.create_execution_state(&loop_unit, argument)?;
            running.push((unit, state));
        }
        for (unit, state) in &running {
            self.workers.start(unit, state)?;
        }
        for (_, state) in &running {
            self.workers.wait(state).done()?;
        }
        let waiting = std::mem::take(&mut *lock(&self.shared.waiting));
        let is_deadlocked = waiting.values().filter(|task| task.0.state.status() != Status::Finished);
        let mut names: Vec<_> = is_deadlocked.map(|task| task.name().to_owned()).collect();
        names.sort_unstable();
        Ok(if names.is_empty() || self.shared.unfinished.load(SeqCst) == 0 {
            Ok(())
        } else {
            Err(Blocked { names })
        })
    }

    /// The recorded trace, if enabled.
    pub fn trace(&self) -> Option<&Trace> {
        self.shared.trace.as_ref()
    }
}
