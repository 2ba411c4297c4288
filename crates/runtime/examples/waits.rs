//! The cost of long waits: `waits [SECONDS]` within a process, `cairn-run -n 2 [--tcp] waits …` between two.
//!
//! For each kind of wait of this length (2 s), prints the processor time of all threads of the process.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::{
    CommunicationManager, Error, InstanceManager, MemoryManager, Tag, TopologyManager,
    backends::{Coroutines, Threads, host, processes, tcp},
    frontends::{
        channel::{Mode, Setup, Shape, open},
        rpc::Rpc,
        tasking::Tasking,
    },
};

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(2);
    let lasts = Duration::from_secs(seconds);
    if tcp::launched() {
        let it = tcp::join()?;
        wait(&it.instances, &it.topology, &it.memory, &it.communication, lasts)
    } else if processes::launched() {
        let it = processes::join()?;
        wait(&it.instances, &it.topology, &it.memory, &it.communication, lasts)
    } else {
        // The second one stays idle.
        let all = host::inside(2)?;
        let it = &all[0];
        wait(&it.instances, &it.topology, &it.memory, &it.communication, lasts)
    }
}

fn wait(
    instances: &dyn InstanceManager,
    topology: &dyn TopologyManager,
    memory: &dyn MemoryManager,
    communication: &dyn CommunicationManager,
    lasts: Duration,
) -> Result<(), Error> {
    let me = instances.current().id();
    if me != instances.root_id() {
        // Idle until the root ends all.
        std::thread::park();
        return Ok(());
    }
    let topology = topology.query()?;
    let mut spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.find(|space| memory.claims(space));
    let space = space.ok_or_else(|| Error::misuse("wait", "there is no memory space"))?;
    let setup = Setup { memory, communication, space, me };
    let slot = memory.allocate(space, 8)?;
    let until = || Instant::now() + lasts;

    let mut fence = communication.fence((&slot).into(), 0, 1)?;
    cost("a fence of a slot", lasts, || drop(fence.block(until())));
    let mut group: Vec<_> = instances.instances().iter().map(runtime::Instance::id).collect();
    group.sort_unstable();
    if group.len() > 1 {
        let mut exchange = communication.exchange(&group, Tag(1), &[])?;
        cost("an exchange", lasts, || drop(exchange.block(until())));
    }
    let shape = Shape::Fixed { capacity: 1, size: 8 };
    let (_producer, consumer) = open(setup, Tag(2), &[me], me, Mode::NonLocking, shape)?;
    if let Some(mut consumer) = consumer {
        cost("a consumer", lasts, || drop(consumer.wait(until())));
    }
    let mut rpc = Rpc::new(setup, Tag(3), &[me])?;
    cost("an RPC listener", lasts, || drop(rpc.listen(until())));
    let mut unit = topology.devices[0].compute_resources[0].clone();
    unit.more.remove("Logical Processor Id");
    let tasking = Tasking::new(Arc::new(Threads::new()), Arc::new(Coroutines::new()), &vec![unit; 4])?;
    // Run by the fourth worker while the others are idle.
    let sleep = move || cost("three idle workers", lasts, || std::thread::sleep(lasts));
    tasking.spawn(&tasking.task("sleep", None, None, move |_| sleep())?)?;
    tasking.run()?.map_err(|blocked| Error::misuse("wait", blocked))?;
    instances.finalize()
}

fn cost(what: &str, lasts: Duration, wait: impl FnOnce()) {
    let before = processor_seconds();
    wait();
    let spent = processor_seconds() - before;
    let share = spent / lasts.as_secs_f64();
    println!("{what}: {:.3} ms in {} s, {:.4} % of a processor", spent * 1e3, lasts.as_secs(), share * 1e2);
}

/// Processor time of all current threads of this process, as counted by the kernel's scheduler.
fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    spent.sum::<f64>() / 1e9
}
