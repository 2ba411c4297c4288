//! A program with only host and threads, to measure its size: stripped, compared with [`weight_without`](weight_without.rs).

use runtime::{
    ComputeManager, Error, ExecutionUnit, MemoryManager, TopologyManager,
    backends::{Threads, host},
};

fn main() -> Result<(), Error> {
    let (it, compute) = (host::alone()?, Threads::new());
    let topology = it.topology.query()?;
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.clone().find(|space| it.memory.claims(space));
    let slot = it.memory.allocate(space.ok_or_else(|| Error::misuse("weigh", "there is no memory"))?, 5)?;
    slot.write(0, b"hello")?;
    let sum =
        ExecutionUnit::function(|_, bytes: Vec<u8>| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    let unit = compute.create_processing_unit(&topology.devices[0].compute_resources[0])?;
    let state = compute.create_execution_state(&sum, Box::new(slot.read_values::<u8>(0, 5)?))?;
    compute.initialize(&unit)?;
    compute.start(&unit, &state)?;
    compute.wait(&state).done()?;
    println!("{:?}", state.take::<u32>());
    Ok(())
}
