//! Tasks: order, suspension, locks, callbacks and traces, on every back-end that runs them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use runtime::{
    ComputeManager, ExecutionUnit, TopologyManager,
    backends::{Coroutines, Futures, Threads, host::HostTopology},
    frontends::tasking::{
        Scope, Task, TaskCondvar,
        TaskEvent::{self, Execute, Finish, Suspend, Sync},
        TaskMutex, Tasking,
    },
    hicr::ComputeResource,
};

/// Resources for `count` workers, not bound to processors, which they may share.
fn resources(count: usize) -> Vec<ComputeResource> {
    let topology = HostTopology::new().unwrap().query().unwrap();
    let mut one = topology.devices[0].compute_resources[0].clone();
    one.more.remove("Logical Processor Id");
    vec![one; count]
}

fn each(workers: usize, body: impl Fn(Tasking)) {
    let tasks: [Arc<dyn ComputeManager>; 2] = [Arc::new(Coroutines::new()), Arc::new(Threads::new())];
    for tasks in tasks {
        body(Tasking::new(Arc::new(Threads::new()), tasks, &resources(workers)).unwrap());
    }
}

fn run(tasking: &Tasking) {
    tasking.run().unwrap().unwrap();
}

fn fibonacci(scope: &mut Scope<'_>, n: u64, name: &Arc<str>, counted: &Arc<AtomicU64>) -> u64 {
    counted.fetch_add(1, SeqCst);
    if n < 2 {
        return n;
    }
    let results = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let children = [0, 1].map(|which: u64| {
        let (results, name, counted) = (Arc::clone(&results), Arc::clone(name), Arc::clone(counted));
        let child = move |scope: &mut Scope<'_>| {
            let result = fibonacci(scope, n - 1 - which, &name, &counted);
            results[usize::try_from(which).unwrap()].store(result, SeqCst);
        };
        scope.spawn(name_of(scope), child).unwrap()
    });
    scope.wait_for(&children);
    results[0].load(SeqCst) + results[1].load(SeqCst)
}

fn name_of<'a>(_: &Scope<'_>) -> &'a Arc<str> {
    static NAME: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "fibonacci".into());
    &NAME
}

#[test]
fn tasks_that_wait_for_children_compute_correct_results() {
    for workers in [1, 3] {
        each(workers, |tasking| {
            let (result, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let (end, count) = (Arc::clone(&result), Arc::clone(&counted));
            let work = move |scope: &mut Scope<'_>| {
                let name = Arc::clone(name_of(scope));
                end.store(fibonacci(scope, 12, &name, &count), SeqCst);
            };
            let root = tasking.task("root", None, None, work).unwrap();
            tasking.spawn(&root).unwrap();
            run(&tasking);
            assert_eq!((result.load(SeqCst), counted.load(SeqCst)), (144, 465));
        });
    }
}

#[test]
fn tasks_start_after_their_dependencies() {
    each(2, |tasking| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let task = |name: &'static str| {
            let order = Arc::clone(&order);
            tasking.task(name, None, None, move |_: &mut Scope<'_>| order.lock().unwrap().push(name)).unwrap()
        };
        let [first, second, third] = ["first", "second", "third"].map(task);
        third.depends_on(&second).unwrap();
        third.depends_on(&first).unwrap();
        second.depends_on(&first).unwrap();
        for task in [&third, &second, &first] {
            tasking.spawn(task).unwrap();
        }
        assert!(tasking.spawn(&first).is_err() && first.depends_on(&second).is_err());
        run(&tasking);
        assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
    });
}

#[test]
fn callbacks_report_task_events_in_order() {
    each(1, |tasking| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&seen);
        let callback = Arc::new(move |event: TaskEvent, task: &Task| {
            assert_eq!(task.name(), "watched");
            recorded.lock().unwrap().push(event);
        });
        let work = |scope: &mut Scope<'_>| {
            let child = scope.spawn(&"child".into(), |_| ()).unwrap();
            scope.wait_for(&[child]);
        };
        let task = tasking.task("watched", Some(0), Some(callback), work).unwrap();
        tasking.spawn(&task).unwrap();
        run(&tasking);
        assert_eq!(*seen.lock().unwrap(), [Execute, Suspend, Sync, Execute, Finish]);
    });
}

#[test]
fn a_task_mutex_is_exclusive_and_a_condvar_wakes_waiting_tasks() {
    each(3, |tasking| {
        let (mutex, condvar) = (Arc::new(TaskMutex::default()), Arc::new(TaskCondvar::default()));
        let number = Arc::new(AtomicU64::new(0));
        for _ in 0..20 {
            let (mutex, condvar, number) = (Arc::clone(&mutex), Arc::clone(&condvar), Arc::clone(&number));
            let work = move |scope: &mut Scope<'_>| {
                for _ in 0..10 {
                    mutex.lock(scope);
                    let seen = number.load(SeqCst);
                    // Held while others run.
                    scope.yield_now();
                    number.store(seen + 1, SeqCst);
                    mutex.unlock(scope);
                }
                condvar.notify_all(scope);
            };
            tasking.spawn(&tasking.task("adds", None, None, work).unwrap()).unwrap();
        }
        let (mutex, condvar, seen) = (Arc::clone(&mutex), Arc::clone(&condvar), Arc::clone(&number));
        let work = move |scope: &mut Scope<'_>| {
            mutex.lock(scope);
            while seen.load(SeqCst) < 200 {
                condvar.wait(&mutex, scope);
            }
            mutex.unlock(scope);
            condvar.notify_one(scope);
        };
        tasking.spawn(&tasking.task("waits", None, None, work).unwrap()).unwrap();
        run(&tasking);
        assert_eq!(number.load(SeqCst), 200);
    });
}

#[test]
fn deadlocked_tasks_are_named() {
    each(2, |tasking| {
        let nothing = |_: &mut Scope<'_>| ();
        let chicken = tasking.task("chicken", None, None, nothing).unwrap();
        let egg = tasking.task("egg", None, None, nothing).unwrap();
        chicken.depends_on(&egg).unwrap();
        egg.depends_on(&chicken).unwrap();
        for task in [&chicken, &egg] {
            tasking.spawn(task).unwrap();
        }
        let blocked = tasking.run().unwrap().unwrap_err();
        assert_eq!(
            blocked.to_string(),
            "tasks are deadlocked: chicken, egg; no other task is ready or running"
        );
    });
}

#[test]
fn a_task_runs_on_the_worker_that_it_is_bound_to() {
    each(3, |mut tasking| {
        tasking.record().unwrap();
        for worker in [0, 2, 2, 1, 2] {
            let name = format!("on {worker}");
            tasking
                .spawn(
                    &tasking
                        .task(&name, Some(worker), None, |scope: &mut Scope<'_>| {
                            scope.yield_now();
                        })
                        .unwrap(),
                )
                .unwrap();
        }
        assert!(tasking.task("nowhere", Some(3), None, |_| ()).is_err());
        run(&tasking);
        let trace: Vec<serde_json::Value> =
            serde_json::from_str(&tasking.trace().unwrap().to_json()).unwrap();
        let stretches: Vec<_> = trace.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!((stretches.len(), trace.len()), (10, 13));
        assert!(stretches.iter().all(|event| event["name"] == format!("on {}", event["tid"])));
        assert!(stretches.iter().all(|event| event["ts"].is_number() && event["dur"].is_number()));
    });
}

#[test]
fn a_panic_ends_its_task_and_not_the_workers() {
    each(1, |tasking| {
        let panics = tasking.task("panics", None, None, |_| panic!("no")).unwrap();
        let after = tasking.task("after", None, None, |_| ()).unwrap();
        after.depends_on(&panics).unwrap();
        tasking.spawn(&panics).unwrap();
        tasking.spawn(&after).unwrap();
        run(&tasking);
        assert_eq!(panics.state().take::<()>().unwrap_err().to_string(), "the function panicked: no");
        after.state().take::<()>().unwrap();
    });
}

#[test]
fn tasks_may_be_futures() {
    let tasking = Tasking::new(Arc::new(Threads::new()), Arc::new(Futures::new()), &resources(2)).unwrap();
    let (promise, wait) = runtime::promise::<u32>("a number", || {});
    let reads = ExecutionUnit::asynchronous(async |wait: runtime::Wait<u32>| wait.await.unwrap());
    let keeps = ExecutionUnit::asynchronous(async |promise: runtime::Promise<u32>| promise.keep(Ok(7)));
    let reads = tasking.task_of("reads", &reads, Box::new(wait)).unwrap();
    let keeps = tasking.task_of("keeps", &keeps, Box::new(promise)).unwrap();
    tasking.spawn(&keeps).unwrap();
    tasking.spawn(&reads).unwrap();
    run(&tasking);
    assert_eq!(reads.state().take::<u32>().unwrap(), 7);
}

#[test]
fn workers_use_the_pull_function_and_run_services() {
    each(2, |mut tasking| {
        let waiting = Arc::new(Mutex::new(Vec::<Task>::new()));
        let (pulled, served) = (Arc::clone(&waiting), Arc::new(AtomicU64::new(0)));
        tasking.pull(Arc::new(move |_| pulled.lock().unwrap().pop())).unwrap();
        let count = Arc::clone(&served);
        tasking.serve(move || count.fetch_add(1, SeqCst) < 3).unwrap();
        let until = Arc::clone(&served);
        let work = move |scope: &mut Scope<'_>| {
            while until.load(SeqCst) < 3 {
                scope.yield_now();
            }
        };
        let task = tasking.task("own", Some(0), None, work).unwrap();
        tasking.spawn(&task).unwrap();
        tasking.pause(1);
        tasking.resume(1);
        run(&tasking);
        assert!(served.load(SeqCst) >= 3 && waiting.lock().unwrap().is_empty());
    });
}
