//! Fine-grained tasks (hicr.txt 5.3): F(n) by tasks that each spawn two more and wait for them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use runtime::{
    Error, ExecutionUnit, Promise,
    frontends::tasking::{Scope, Spawner, Tasking},
};

/// State shared by all tasks of a run.
struct Run {
    name: Arc<str>,
    /// Number of tasks.
    tasks: AtomicU64,
}

fn fibonacci(scope: &mut Scope<'_>, n: u64, run: &Arc<Run>) -> u64 {
    run.tasks.fetch_add(1, Relaxed);
    if n < 2 {
        return n;
    }
    let results = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let children = [1, 2].map(|less: u64| {
        let (results, shared) = (Arc::clone(&results), Arc::clone(run));
        let child = move |scope: &mut Scope<'_>| {
            let result = fibonacci(scope, n - less, &shared);
            results[usize::from(less == 2)].store(result, Relaxed);
        };
        scope.spawn(&run.name, child).expect("a task of this kind was made before")
    });
    scope.wait_for(&children);
    results[0].load(Relaxed) + results[1].load(Relaxed)
}

/// F(n) and the number of tasks, with tasks as functions.
pub fn by_functions(tasking: &Tasking, n: u64) -> Result<(u64, u64), Error> {
    let run = Arc::new(Run { name: "fibonacci".into(), tasks: AtomicU64::new(0) });
    let result = Arc::new(AtomicU64::new(0));
    let (shared, end) = (Arc::clone(&run), Arc::clone(&result));
    let root = tasking.task("fibonacci", None, None, move |scope: &mut Scope<'_>| {
        end.store(fibonacci(scope, n, &shared), Relaxed);
    })?;
    tasking.spawn(&root)?;
    tasking.run()?.map_err(|blocked| Error::misuse("run", blocked))?;
    Ok((result.load(Relaxed), run.tasks.load(Relaxed)))
}

/// The argument of a task that is a future.
struct Part {
    n: u64,
    promise: Promise<u64>,
    run: Arc<Run>,
    spawner: Spawner,
    unit: Arc<std::sync::OnceLock<ExecutionUnit>>,
}

async fn future(part: Part) {
    part.run.tasks.fetch_add(1, Relaxed);
    if part.n < 2 {
        part.promise.keep(Ok(part.n));
        return;
    }
    let mut sum = 0;
    let waits = [1, 2].map(|less| {
        let (promise, wait) = runtime::promise("a number", || {});
        let unit = part.unit.get().expect("set before the first task");
        let (run, spawner, units) = (Arc::clone(&part.run), part.spawner.clone(), Arc::clone(&part.unit));
        let child = Part { n: part.n - less, promise, run, spawner, unit: units };
        part.spawner
            .spawn(&part.run.name, unit, Box::new(child))
            .expect("a task of this kind was made before");
        wait
    });
    for wait in waits {
        sum += wait.await.unwrap_or(0);
    }
    part.promise.keep(Ok(sum));
}

/// F(n) and the number of tasks, with tasks as futures.
pub fn by_futures(tasking: &Tasking, n: u64) -> Result<(u64, u64), Error> {
    let run = Arc::new(Run { name: "fibonacci".into(), tasks: AtomicU64::new(0) });
    let unit = Arc::new(std::sync::OnceLock::new());
    let function = ExecutionUnit::asynchronous(future);
    let _ = unit.set(function.clone());
    let (promise, wait) = runtime::promise("a number", || {});
    let part = Part { n, promise, run: Arc::clone(&run), spawner: tasking.spawner(), unit };
    tasking.spawn(&tasking.task_of("fibonacci", &function, Box::new(part))?)?;
    tasking.run()?.map_err(|blocked| Error::misuse("run", blocked))?;
    Ok((wait.done()?, run.tasks.load(Relaxed)))
}
