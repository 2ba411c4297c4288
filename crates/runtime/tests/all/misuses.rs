//! What is misused is refused in words: the object, its state, the one that it must have, and what to do.

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

/// Sentences, without the numbers that differ from run to run.
#[derive(Default)]
struct Said(Vec<String>);

impl Said {
    fn of<T, E: Display>(&mut self, result: Result<T, E>) {
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
fn each_misuse_has_its_sentence() {
    let it = host::alone().unwrap();
    let topology = it.topology.query().unwrap();
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.clone().find(|space| it.memory.claims(space)).unwrap().clone();
    let me = it.instances.current().id();
    let (memory, communication) = (&it.memory, &it.communication);
    let mut said = Said::default();

    // Instances.
    said.of(it.instances.terminate(me));
    said.of(it.instances.terminate(InstanceId(1)));
    said.of(it.instances.add_instance(InstanceId(1)));
    let template = it.instances.create_template(&topology, serde_json::Value::Null);
    said.of(it.instances.create_instances(1, &template).pop().unwrap());
    if !processes::launched() {
        said.of(processes::join());
    }

    // Memory.
    let foreign = MemorySpace { type_: "HBM".into(), size: 64, more: serde_json::Map::new() };
    said.of(memory.allocate(&space, 0));
    said.of(memory.allocate(&foreign, 8));
    said.of(memory.register(&space, Vec::<u64>::new()).map_err(|rejected| rejected.error));
    said.of(memory.register(&foreign, vec![1_u8]).map_err(|rejected| rejected.error));
    let segments = processes::Segments::new(&topology);
    said.of(segments.register(&space, vec![1_u8]).map_err(|rejected| rejected.error));
    let slot = memory.allocate(&space, 8).unwrap();
    said.of(slot.write(4, &[0; 5]));
    said.of(slot.read(usize::MAX, &mut [0]));
    said.of(memory.fill(&slot, 9, 0, 0));
    let mut odd = memory.allocate(&space, 9).unwrap();
    said.of(odd.values_mut::<u64>().map(|_| ()));
    said.of(memory.deregister::<u8>(odd).map_err(|rejected| rejected.error));

    // Copies, fences, exchanges.
    let other = memory.allocate(&space, 16).unwrap();
    said.of(communication.memcpy(&slot, 0, &other, 0, 9));
    said.of(communication.memcpy(&slot, 0, &other, 12, 5));
    said.of(communication.memcpy(&other, 0, &other, 4, 8));
    let fence = communication.fence((&slot).into(), 0, 1).unwrap();
    said.of(communication.fence((&slot).into(), 0, 1));
    let mut fence = fence;
    said.of(fence.block(std::time::Instant::now()));
    drop(fence);
    said.of(communication.exchange(&[me, me], Tag(1), &[]));
    said.of(communication.exchange(&[InstanceId(1)], Tag(1), &[]));
    said.of(communication.fence_tag(Tag(9)));
    let twice = communication.exchange(&[me], Tag(1), &[(Key(1), &slot), (Key(1), &other)]).unwrap();
    said.of(twice.done());
    let mut global = communication.exchange(&[me], Tag(1), &[(Key(1), &slot)]).unwrap().done().unwrap();
    said.of(communication.exchange(&[me], Tag(1), &[(Key(1), &other)]).unwrap().done());
    let global = global.remove(&Key(1)).unwrap();
    said.of(communication.to_bytes(&global));
    said.of(communication.memcpy(&global, 8, &other, 0, 1));
    let mut slot = slot;
    said.of(slot.bytes_mut().map(|_| ()));
    let slot = memory.free(slot).map_err(|rejected| {
        said.of::<(), _>(Err(rejected.error));
        rejected.value
    });
    let slot = slot.unwrap_err();
    said.of(communication.from_bytes(b"forged"));
    let promoted = communication.promote(&other).unwrap();
    said.of(communication.promote(&other));
    let bytes = communication.to_bytes(&promoted).unwrap();
    communication.destroy(promoted).unwrap();
    said.of(communication.from_bytes(&bytes));
    communication.destroy(global).unwrap();
    communication.fence_tag(Tag(1)).unwrap().done().unwrap();
    said.of(communication.fence_tag(Tag(1)));
    said.of(SeveralCommunications(Vec::new()).memcpy(&slot, 0, &other, 0, 1));
    said.of(SeveralCommunications(Vec::new()).promote(&slot));
    said.of(SeveralMemories(Vec::new()).allocate(&space, 1));
    said.of(SeveralMemories(Vec::new()).free(slot).map_err(|rejected| rejected.error));

    // Functions.
    let (threads, coroutines, futures) = (Threads::new(), Coroutines::new(), Futures::new());
    let function = ExecutionUnit::function(|context: &mut dyn Context, (): ()| context.suspend());
    said.of(threads.create_execution_state(&function, Box::new(7_u8)));
    said.of(futures.create_execution_state(&function, Box::new(())));
    said.of(coroutines.create_execution_state(&ExecutionUnit::asynchronous(async |(): ()| ()), Box::new(())));
    let kernel = Kernel { source: String::new(), name: "none".into(), range: [1; 3] };
    said.of(threads.create_execution_state(&ExecutionUnit::kernel(kernel), Box::new(())));
    let gpu = ComputeResource { type_: "GPU core".into(), count: 1, more: serde_json::Map::new() };
    said.of(threads.create_processing_unit(&gpu));
    let mut resource = topology.devices[0].compute_resources[0].clone();
    let mut nowhere = resource.clone();
    nowhere.more.insert("Logical Processor Id".into(), 1_000_000.into());
    said.of(threads.initialize(&threads.create_processing_unit(&nowhere).unwrap()));
    resource.more.remove("Logical Processor Id");
    let unit = coroutines.create_processing_unit(&resource).unwrap();
    let state = coroutines.create_execution_state(&function, Box::new(())).unwrap();
    said.of(coroutines.start(&unit, &state));
    said.of(coroutines.resume(&unit));
    said.of(futures.suspend(&unit));
    coroutines.initialize(&unit).unwrap();
    said.of(coroutines.initialize(&unit));
    said.of(coroutines.suspend(&unit));
    said.of(threads.start(&unit, &state));
    said.of(state.take::<()>());
    coroutines.run(&state).unwrap();
    said.of(coroutines.start(&unit, &state));
    coroutines.run(&state).unwrap();
    said.of(coroutines.run(&state));
    said.of(state.take::<u8>());
    said.of(state.take::<()>());
    coroutines.finalize(&unit).unwrap();
    said.of(coroutines.finalize(&unit));
    said.of(SeveralComputes(Vec::new()).create_processing_unit(&gpu));
    said.of(SeveralComputes(Vec::new()).create_execution_state(&function, Box::new(())));
    said.of(Registry::default().register(function.clone()));
    said.of(Registry::default().from_bytes(b"unknown"));

    // Frontends.
    let setup = Setup { memory, communication, space: &space, me };
    let opened = |shape| open(setup, Tag(5), &[me], me, Mode::NonLocking, shape).map(|_| ());
    said.of(opened(Shape::Fixed { capacity: 0, size: 8 }));
    said.of(opened(Shape::Variable { capacity: 8 }));
    let shape = Shape::Variable { capacity: 128 };
    let (producer, consumer) = open(setup, Tag(6), &[me], me, Mode::NonLocking, shape).unwrap();
    let (mut producer, mut consumer) = (producer.unwrap(), consumer.unwrap());
    said.of(producer.push(&[0; 100]));
    said.of(consumer.pop_into(&mut [0; 8]));
    let (mut fixed, fixed_end) =
        open(setup, Tag(7), &[me], me, Mode::NonLocking, Shape::Fixed { capacity: 1, size: 4 }).unwrap();
    let fixed = fixed.as_mut().unwrap();
    said.of(fixed.push(b"too long"));
    fixed.push(b"some").unwrap();
    said.of(fixed.push(b"more"));
    said.of(fixed_end.unwrap().pop_into(&mut [0; 3]));
    let mut objects = DataObjects::new(memory, communication);
    let id = objects.publish(memory.allocate(&space, 8).unwrap()).unwrap();
    objects.destroy(&id).unwrap();
    said.of(objects.destroy(&id));
    said.of(objects.get_handle(&id));
    let mut rpc = Rpc::new(setup, Tag(8), &[me]).unwrap();
    said.of(rpc.call(InstanceId(1), "f", b"", None));
    rpc.register("f", |_| Ok(Vec::new())).unwrap();
    said.of(rpc.register("f", |_| Ok(Vec::new())));
    let tasks = || std::sync::Arc::new(Coroutines::new());
    said.of(Tasking::new(tasks(), tasks(), &[]).map(|_| ()));
    let mut tasking = Tasking::new(tasks(), tasks(), &[resource]).unwrap();
    let task = tasking.task("task", None, None, |_| ()).unwrap();
    said.of(tasking.task("far", Some(1), None, |_| ()));
    said.of(tasking.record());
    tasking.spawn(&task).unwrap();
    said.of(tasking.spawn(&task));
    said.of(task.depends_on(&task));

    assert!(said.0.len() >= 40, "{}", said.0.len());
    let lost: Result<(), _> = Err(Error::PeerLost(me));
    said.of(lost);
    insta::assert_snapshot!(said.0.join("\n"));
}
