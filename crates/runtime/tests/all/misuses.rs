//! Error messages of misuse name the object, its state, the required state and the remedy.

use std::fmt::Display;

use runtime::{
    CommunicationManager, ComputeManager, Context, Error, ExecutionUnit, InstanceId, InstanceManager, Kernel,
    Key, Memcpy, MemoryManager, Register, Registry, SeveralCommunications, SeveralComputes, SeveralMemories,
    Tag, TopologyManager,
    backends::{Coroutines, Futures, Threads, host, processes},
    frontends::{
        channel::{Mode, Setup, Shape, open},
        data_object::DataObjects,
        rpc::Rpc,
        tasking::Tasking,
    },
    hicr::{ComputeResource, MemorySpace},
};

/// Error messages, with varying numbers redacted.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    fn record<T, E: Display>(&mut self, result: Result<T, E>) {
        let error = result.err().map_or_else(|| "NOT REFUSED".into(), |error| error.to_string());
        let mut words = Vec::new();
        for word in error.split(' ') {
            let bare = word.trim_end_matches(&[',', ';', ':'][..]);
            let id = bare.len() == 16 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
            let after =
                words.last().is_some_and(|last| matches!(*last, "slot" | "state" | "processor" | "worker"));
            let number = after && bare.bytes().all(|byte| byte.is_ascii_digit()) && !bare.is_empty();
            words.push(if id || number { "…" } else { word });
        }
        self.0.push(words.join(" "));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn each_misuse_has_its_error_message() {
    let it = host::alone().unwrap();
    let topology = it.topology.query().unwrap();
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.clone().find(|space| it.memory.claims(space)).unwrap().clone();
    let me = it.instances.current().id();
    let (memory, communication) = (&it.memory, &it.communication);
    let mut errors = Errors::default();

    // Instances.
    errors.record(it.instances.terminate(me));
    errors.record(it.instances.terminate(InstanceId(1)));
    errors.record(it.instances.add_instance(InstanceId(1)));
    let template = it.instances.create_template(&topology, serde_json::Value::Null);
    errors.record(it.instances.create_instances(1, &template).pop().unwrap());
    if !processes::launched() {
        errors.record(processes::join());
    }

    // Memory.
    let foreign = MemorySpace { type_: "HBM".into(), size: 64, more: serde_json::Map::new() };
    errors.record(memory.allocate(&space, 0));
    errors.record(memory.allocate(&foreign, 8));
    errors.record(memory.register(&space, Vec::<u64>::new()).map_err(|rejected| rejected.error));
    errors.record(memory.register(&foreign, vec![1_u8]).map_err(|rejected| rejected.error));
    let segments = processes::Segments::new(&topology);
    errors.record(segments.register(&space, vec![1_u8]).map_err(|rejected| rejected.error));
    let slot = memory.allocate(&space, 8).unwrap();
    errors.record(slot.write(4, &[0; 5]));
    errors.record(slot.read(usize::MAX, &mut [0]));
    errors.record(memory.fill(&slot, 9, 0, 0));
    let mut odd = memory.allocate(&space, 9).unwrap();
    errors.record(odd.values_mut::<u64>().map(|_| ()));
    errors.record(memory.deregister::<u8>(odd).map_err(|rejected| rejected.error));

    // Copies, fences, exchanges.
    let other = memory.allocate(&space, 16).unwrap();
    errors.record(communication.memcpy(&slot, 0, &other, 0, 9));
    errors.record(communication.memcpy(&slot, 0, &other, 12, 5));
    errors.record(communication.memcpy(&other, 0, &other, 4, 8));
    let fence = communication.fence((&slot).into(), 0, 1).unwrap();
    errors.record(communication.fence((&slot).into(), 0, 1));
    let mut fence = fence;
    errors.record(fence.block(std::time::Instant::now()));
    drop(fence);
    errors.record(communication.exchange(&[me, me], Tag(1), &[]));
    errors.record(communication.exchange(&[InstanceId(1)], Tag(1), &[]));
    errors.record(communication.fence_tag(Tag(9)));
    let twice = communication.exchange(&[me], Tag(1), &[(Key(1), &slot), (Key(1), &other)]).unwrap();
    errors.record(twice.done());
    let mut global = communication.exchange(&[me], Tag(1), &[(Key(1), &slot)]).unwrap().done().unwrap();
    errors.record(communication.exchange(&[me], Tag(1), &[(Key(1), &other)]).unwrap().done());
    let global = global.remove(&Key(1)).unwrap();
    errors.record(communication.to_bytes(&global));
    errors.record(communication.memcpy(&global, 8, &other, 0, 1));
    let mut slot = slot;
    errors.record(slot.bytes_mut().map(|_| ()));
    let slot = memory.free(slot).map_err(|rejected| {
        errors.record::<(), _>(Err(rejected.error));
        rejected.value
    });
    let slot = slot.unwrap_err();
    errors.record(communication.from_bytes(b"forged"));
    let promoted = communication.promote(&other).unwrap();
    errors.record(communication.promote(&other));
    let bytes = communication.to_bytes(&promoted).unwrap();
    communication.destroy(promoted).unwrap();
    errors.record(communication.from_bytes(&bytes));
    communication.destroy(global).unwrap();
    communication.fence_tag(Tag(1)).unwrap().done().unwrap();
    errors.record(communication.fence_tag(Tag(1)));
    errors.record(SeveralCommunications(Vec::new()).memcpy(&slot, 0, &other, 0, 1));
    errors.record(SeveralCommunications(Vec::new()).promote(&slot));
    errors.record(SeveralMemories(Vec::new()).allocate(&space, 1));
    errors.record(SeveralMemories(Vec::new()).free(slot).map_err(|rejected| rejected.error));

    // Functions.
    let (threads, coroutines, futures) = (Threads::new(), Coroutines::new(), Futures::new());
    let function = ExecutionUnit::function(|context: &mut dyn Context, (): ()| context.suspend());
    errors.record(threads.create_execution_state(&function, Box::new(7_u8)));
    errors.record(futures.create_execution_state(&function, Box::new(())));
    errors.record(
        coroutines.create_execution_state(&ExecutionUnit::asynchronous(async |(): ()| ()), Box::new(())),
    );
    let kernel = Kernel { source: String::new(), name: "none".into(), range: [1; 3] };
    errors.record(threads.create_execution_state(&ExecutionUnit::kernel(kernel), Box::new(())));
    let gpu = ComputeResource { type_: "GPU core".into(), count: 1, more: serde_json::Map::new() };
    errors.record(threads.create_processing_unit(&gpu));
    let mut resource = topology.devices[0].compute_resources[0].clone();
    let mut nowhere = resource.clone();
    nowhere.more.insert("Logical Processor Id".into(), 1_000_000.into());
    errors.record(threads.initialize(&threads.create_processing_unit(&nowhere).unwrap()));
    resource.more.remove("Logical Processor Id");
    let unit = coroutines.create_processing_unit(&resource).unwrap();
    let state = coroutines.create_execution_state(&function, Box::new(())).unwrap();
    errors.record(coroutines.start(&unit, &state));
    errors.record(coroutines.resume(&unit));
    errors.record(futures.suspend(&unit));
    coroutines.initialize(&unit).unwrap();
    errors.record(coroutines.initialize(&unit));
    errors.record(coroutines.suspend(&unit));
    errors.record(threads.start(&unit, &state));
    errors.record(state.take::<()>());
    coroutines.run(&state).unwrap();
    errors.record(coroutines.start(&unit, &state));
    coroutines.run(&state).unwrap();
    errors.record(coroutines.run(&state));
    errors.record(state.take::<u8>());
    errors.record(state.take::<()>());
    coroutines.finalize(&unit).unwrap();
    errors.record(coroutines.finalize(&unit));
    errors.record(SeveralComputes(Vec::new()).create_processing_unit(&gpu));
    errors.record(SeveralComputes(Vec::new()).create_execution_state(&function, Box::new(())));
    errors.record(Registry::default().register(function.clone()));
    errors.record(Registry::default().from_bytes(b"unknown"));

    // Frontends.
    let setup = Setup { memory, communication, space: &space, me };
    let opened = |shape| open(setup, Tag(5), &[me], me, Mode::NonLocking, shape).map(|_| ());
    errors.record(opened(Shape::Fixed { capacity: 0, size: 8 }));
    errors.record(opened(Shape::Variable { capacity: 8 }));
    let shape = Shape::Variable { capacity: 128 };
    let (producer, consumer) = open(setup, Tag(6), &[me], me, Mode::NonLocking, shape).unwrap();
    let (mut producer, mut consumer) = (producer.unwrap(), consumer.unwrap());
    errors.record(producer.push(&[0; 100]));
    errors.record(consumer.pop_into(&mut [0; 8]));
    let (mut fixed, fixed_end) =
        open(setup, Tag(7), &[me], me, Mode::NonLocking, Shape::Fixed { capacity: 1, size: 4 }).unwrap();
    let fixed = fixed.as_mut().unwrap();
    errors.record(fixed.push(b"too long"));
    fixed.push(b"some").unwrap();
    errors.record(fixed.push(b"more"));
    errors.record(fixed_end.unwrap().pop_into(&mut [0; 3]));
    let mut objects = DataObjects::new(memory, communication);
    let id = objects.publish(memory.allocate(&space, 8).unwrap()).unwrap();
    objects.destroy(&id).unwrap();
    errors.record(objects.destroy(&id));
    errors.record(objects.get_handle(&id));
    let mut rpc = Rpc::new(setup, Tag(8), &[me]).unwrap();
    errors.record(rpc.call(InstanceId(1), "f", b"", None));
    rpc.register("f", |_| Ok(Vec::new())).unwrap();
    errors.record(rpc.register("f", |_| Ok(Vec::new())));
    let tasks = || std::sync::Arc::new(Coroutines::new());
    errors.record(Tasking::new(tasks(), tasks(), &[]).map(|_| ()));
    let mut tasking = Tasking::new(tasks(), tasks(), &[resource]).unwrap();
    let task = tasking.task("task", None, None, |_| ()).unwrap();
    errors.record(tasking.task("far", Some(1), None, |_| ()));
    errors.record(tasking.record());
    tasking.spawn(&task).unwrap();
    errors.record(tasking.spawn(&task));
    errors.record(task.depends_on(&task));

    assert!(errors.0.len() >= 40, "{}", errors.0.len());
    let lost: Result<(), _> = Err(Error::PeerLost(me));
    errors.record(lost);
    insta::assert_snapshot!(errors.0.join("\n"));
}
