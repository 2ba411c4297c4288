//! Functions run, suspend, resume and finish on every back-end that supports them.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use runtime::{
    Capability, ComputeManager, Context, Error, ExecutionUnit, ProcessingUnit, Registry, Status,
    TopologyManager, UnitStatus,
    backends::{Coroutines, Futures, Threads, host::HostTopology},
    hicr::ComputeResource,
};

use crate::ranks::soon;

/// The back-ends for ordinary functions, and those for any functions.
fn those(capability: Capability) -> Vec<Box<dyn ComputeManager>> {
    let all: [Box<dyn ComputeManager>; 3] =
        [Box::new(Threads::new()), Box::new(Coroutines::new()), Box::new(Futures::new())];
    let able: Vec<_> = all.into_iter().filter(|manager| manager.supports(capability)).collect();
    assert!(!able.is_empty());
    able
}

fn resource() -> ComputeResource {
    let topology = HostTopology::new().unwrap().query().unwrap();
    topology.devices.iter().flat_map(|device| &device.compute_resources).next().unwrap().clone()
}

/// Adds one, in the format that the manager runs.
fn add_one(manager: &dyn ComputeManager) -> ExecutionUnit {
    if manager.supports(Capability::Functions) {
        ExecutionUnit::function(|_, number: u32| number + 1)
    } else {
        ExecutionUnit::asynchronous(async |number: u32| number + 1)
    }
}

fn ready(manager: &dyn ComputeManager) -> ProcessingUnit {
    let unit = manager.create_processing_unit(&resource()).unwrap();
    assert_eq!(unit.status(), UnitStatus::Uninitialized);
    manager.initialize(&unit).unwrap();
    assert_eq!(unit.status(), UnitStatus::Ready);
    unit
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn a_unit_executes_states_in_sequence_and_each_once() {
    for manager in those(Capability::Run) {
        let unit = ready(&*manager);
        for number in 0..3_u32 {
            let state = manager.create_execution_state(&add_one(&*manager), Box::new(number)).unwrap();
            assert_eq!((state.status(), manager.is_finished(&state)), (Status::Initialized, false));
            manager.start(&unit, &state).unwrap();
            soon(manager.wait(&state)).unwrap();
            assert_eq!(state.take::<u32>().unwrap(), number + 1);
            let again = manager.start(&unit, &state);
            until(|| unit.status() == UnitStatus::Ready);
            assert!(again.is_err() && manager.start(&unit, &state).is_err() && state.take::<u32>().is_err());
        }
        manager.finalize(&unit).unwrap();
        assert_eq!(unit.status(), UnitStatus::Terminated);
        assert!(matches!(manager.initialize(&unit), Err(Error::State { .. })));
    }
}

#[test]
fn a_unit_is_ready_once_its_state_has_finished() {
    for manager in those(Capability::Run) {
        for _ in 0..50 {
            let unit = ready(&*manager);
            for number in 0..20_u32 {
                let state = manager.create_execution_state(&add_one(&*manager), Box::new(number)).unwrap();
                manager.start(&unit, &state).unwrap();
                soon(manager.wait(&state)).unwrap();
            }
            assert_eq!(unit.status(), UnitStatus::Ready);
            manager.finalize(&unit).unwrap();
            assert_eq!(unit.status(), UnitStatus::Terminated);
        }
    }
}

#[test]
fn a_suspended_function_resumes_where_it_stopped() {
    for manager in those(Capability::Suspend) {
        let steps = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&steps);
        let unit = ExecutionUnit::function(move |context: &mut dyn Context, (): ()| {
            let mut sum = 0;
            for number in 1..=3_u32 {
                sum += number;
                seen.fetch_add(1, SeqCst);
                context.suspend();
            }
            sum
        });
        // Under `run`, on this thread.
        let state = manager.create_execution_state(&unit, Box::new(())).unwrap();
        for step in 1..=3 {
            assert_eq!(manager.run(&state).unwrap(), Status::Suspended);
            assert_eq!((steps.load(SeqCst), state.status()), (step, Status::Suspended));
        }
        assert_eq!(manager.run(&state).unwrap(), Status::Finished);
        assert_eq!(state.take::<u32>().unwrap(), 6);
        assert!(matches!(manager.run(&state), Err(Error::State { .. })));
        // On a unit.
        let worker = ready(&*manager);
        let state = manager.create_execution_state(&unit, Box::new(())).unwrap();
        manager.start(&worker, &state).unwrap();
        for _ in 0..3 {
            until(|| worker.status() == UnitStatus::Suspended);
            manager.resume(&worker).unwrap();
        }
        soon(manager.wait(&state)).unwrap();
        assert_eq!(state.take::<u32>().unwrap(), 6);
    }
}

#[test]
fn a_unit_is_suspended_at_the_functions_next_checkpoint() {
    for manager in those(Capability::Suspend) {
        let go = Arc::new(AtomicU32::new(0));
        let flag = Arc::clone(&go);
        let endless = ExecutionUnit::function(move |context: &mut dyn Context, (): ()| {
            while flag.load(SeqCst) == 0 {
                context.checkpoint();
                std::thread::yield_now();
            }
        });
        let unit = ready(&*manager);
        let refused = manager.suspend(&unit).unwrap_err();
        assert!(refused.to_string().contains("is Ready; to suspend it it must be Executing"), "{refused}");
        let state = manager.create_execution_state(&endless, Box::new(())).unwrap();
        manager.start(&unit, &state).unwrap();
        manager.suspend(&unit).unwrap();
        until(|| unit.status() == UnitStatus::Suspended);
        assert!(manager.finalize(&unit).is_err() && manager.start(&unit, &state).is_err());
        go.store(1, SeqCst);
        manager.resume(&unit).unwrap();
        soon(manager.wait(&state)).unwrap();
    }
}

#[test]
fn a_panic_ends_the_state_and_not_the_unit() {
    for manager in those(Capability::Run) {
        let unit = ready(&*manager);
        let panics = if manager.supports(Capability::Functions) {
            ExecutionUnit::function(|_, (): ()| panic!("no more {}", "paper"))
        } else {
            ExecutionUnit::asynchronous(async |(): ()| panic!("no more {}", "paper"))
        };
        let state = manager.create_execution_state(&panics, Box::new(())).unwrap();
        manager.start(&unit, &state).unwrap();
        soon(manager.wait(&state)).unwrap();
        assert_eq!(state.take::<()>().unwrap_err().to_string(), "the function panicked: no more paper");
        let next = manager.create_execution_state(&add_one(&*manager), Box::new(1_u32)).unwrap();
        until(|| unit.status() == UnitStatus::Ready);
        manager.start(&unit, &next).unwrap();
        soon(manager.wait(&next)).unwrap();
        assert_eq!(next.take::<u32>().unwrap(), 2);
    }
}

#[test]
fn a_started_stack_is_never_resumed_by_another_thread() {
    let manager = Coroutines::new();
    assert!(!manager.supports(Capability::ResumeAnywhere));
    let unit = ExecutionUnit::function(|context: &mut dyn Context, kept: Arc<()>| {
        context.suspend();
        drop(kept);
    });
    let kept = Arc::new(());
    let state = manager.create_execution_state(&unit, Box::new(Arc::clone(&kept))).unwrap();
    manager.run(&state).unwrap();
    let state = std::thread::spawn(move || {
        let error = Coroutines::new().run(&state).unwrap_err();
        assert!(error.to_string().contains("started on another thread"), "{error}");
        state
    });
    let state = state.join().unwrap();
    assert_eq!(manager.run(&state).unwrap(), Status::Finished);
    // A stack dropped on another thread is unwound here, when the next one starts.
    let state = manager.create_execution_state(&unit, Box::new(Arc::clone(&kept))).unwrap();
    manager.run(&state).unwrap();
    std::thread::spawn(move || drop(state)).join().unwrap();
    assert_eq!(Arc::strong_count(&kept), 2);
    let next = manager.create_execution_state(&unit, Box::new(Arc::new(()))).unwrap();
    manager.run(&next).unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_pending_future_is_woken() {
    let manager = Futures::new();
    let unit = ExecutionUnit::asynchronous(async |wait: runtime::Wait<u32>| wait.await.unwrap() * 2);
    let (promise, wait) = runtime::promise::<u32>("a number", || {});
    let worker = ready(&manager);
    let state = manager.create_execution_state(&unit, Box::new(wait)).unwrap();
    manager.start(&worker, &state).unwrap();
    until(|| worker.status() == UnitStatus::Suspended);
    promise.keep(Ok(21));
    soon(manager.wait(&state)).unwrap();
    assert_eq!(state.take::<u32>().unwrap(), 42);
}

#[test]
fn functions_are_sent_by_name() {
    let mut registry = Registry::default();
    let named = ExecutionUnit::function(|_, number: u32| number * 2).named("double");
    registry.register(named.clone()).unwrap();
    let received = registry.from_bytes(&registry.to_bytes(&named).unwrap()).unwrap();
    let manager = Coroutines::new();
    let state = manager.create_execution_state(&received, Box::new(4_u32)).unwrap();
    manager.run(&state).unwrap();
    assert_eq!(state.take::<u32>().unwrap(), 8);
    let nameless = ExecutionUnit::function(|_, (): ()| ());
    insta::assert_snapshot!(registry.to_bytes(&nameless).unwrap_err(), @"cannot send a function: it has no name; give it one with `named`, and register it at both ends");
    insta::assert_snapshot!(registry.register(named).unwrap_err(), @r#"cannot register a function: "double" is already registered; choose another name"#);
    insta::assert_snapshot!(registry.from_bytes(b"triple").unwrap_err(), @r#"cannot receive a function: "triple" is not registered here; register it first"#);
}

#[test]
fn an_uninterrupted_function_runs_on_the_calling_thread() {
    let here = std::thread::current().id();
    for manager in those(Capability::Functions) {
        let where_it_is = ExecutionUnit::uninterrupted(|number: u32| (number, std::thread::current().id()));
        assert!(manager.takes(&where_it_is));
        let state = manager.create_execution_state(&where_it_is, Box::new(7_u32)).unwrap();
        assert_eq!(manager.run(&state).unwrap(), Status::Finished);
        assert_eq!(state.take::<(u32, std::thread::ThreadId)>().unwrap(), (7, here), "{}", manager.name());
        // On a unit it runs on the unit's thread.
        let unit = ready(&*manager);
        let state = manager.create_execution_state(&where_it_is, Box::new(8_u32)).unwrap();
        manager.start(&unit, &state).unwrap();
        soon(manager.wait(&state)).unwrap();
        let (number, there) = state.take::<(u32, std::thread::ThreadId)>().unwrap();
        assert!(number == 8 && there != here, "{}", manager.name());
        let panics = ExecutionUnit::uninterrupted(|(): ()| panic!("on purpose"));
        let state = manager.create_execution_state(&panics, Box::new(())).unwrap();
        manager.run(&state).unwrap();
        let error = state.take::<()>().unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{}: {error}", manager.name());
    }
    let number = ExecutionUnit::uninterrupted(|number: u32| number);
    assert!(!Futures::new().takes(&number));
}
