//! The paper's programs on all available devices (hicr.txt, Figs. 5 to 7): `figures`, or `cairn-run -n 3 figures`.

#[path = "programs/figures.rs"]
mod figures;

use runtime::{
    CommunicationManager, Error, ExecutionUnit, InstanceManager, MemoryManager, TopologyManager,
    backends::{Coroutines, host, processes},
    hicr::Topology,
};

fn main() -> Result<(), Error> {
    if processes::launched() {
        let it = processes::join()?;
        show(&it.instances, &it.topology, &it.memory, &it.communication)
    } else {
        let it = host::alone()?;
        show(&it.instances, &it.topology, &it.memory, &it.communication)
    }
}

fn show(
    instances: &dyn InstanceManager,
    topology: &dyn TopologyManager,
    memory: &dyn MemoryManager,
    communication: &dyn CommunicationManager,
) -> Result<(), Error> {
    let me = instances.current().id();
    let received = figures::telephone(topology, memory, communication, b"hello")?;
    println!("{me}: {} is the end of the telephone game", String::from_utf8_lossy(&received));
    let there = topology.query()?;
    let spaces = there.devices.iter().flat_map(|device| &device.memory_spaces);
    if let Some(space) = spaces.clone().find(|space| memory.claims(space)) {
        let message = memory.allocate(space, received.len())?;
        message.write(0, &received)?;
        let copies = figures::broadcast(topology, memory, communication, &message)?;
        println!("{me}: copied to {} memory spaces", copies.len());
    }
    let double = ExecutionUnit::function(|_, number: usize| number * 2);
    let states = figures::everywhere(topology, &Coroutines::new(), &double, |index| Box::new(index))?;
    let doubled = states.iter().map(runtime::ExecutionState::take::<usize>).collect::<Result<Vec<_>, _>>()?;
    println!("{me}: results of its processing units: {doubled:?}");
    if me == instances.root_id() {
        let anything = Topology::default();
        for refused in figures::ensure(instances, 1, &anything).into_iter().filter_map(Result::err) {
            println!("{me}: {refused}");
        }
    }
    Ok(())
}
