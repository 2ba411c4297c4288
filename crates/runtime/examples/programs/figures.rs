//! The paper's programs on the traits alone (hicr.txt, Figs. 5 to 7), and two more of upstream's.

use runtime::{
    CommunicationManager, ComputeManager, Error, ExecutionState, ExecutionUnit, Instance, InstanceManager,
    LocalSlot, Memcpy, MemoryManager, Refused, TopologyManager, Value, hicr::Topology,
};

/// Fig. 5: copies a message to all memory spaces and waits for completion.
pub fn broadcast(
    topology: &dyn TopologyManager,
    memory: &dyn MemoryManager,
    communication: &dyn CommunicationManager,
    message: &LocalSlot,
) -> Result<Vec<LocalSlot>, Error> {
    let mut copies = Vec::new();
    for device in &topology.query()?.devices {
        for space in &device.memory_spaces {
            let copy = memory.allocate(space, message.size())?;
            communication.memcpy(&copy, 0, message, 0, message.size())?;
            copies.push(copy);
        }
    }
    for copy in &copies {
        communication.fence(copy.into(), 0, 1)?.done()?;
    }
    Ok(copies)
}

/// Fig. 6: runs a function on all compute resources at once, each with its own argument.
pub fn everywhere(
    topology: &dyn TopologyManager,
    compute: &dyn ComputeManager,
    unit: &ExecutionUnit,
    mut argument: impl FnMut(usize) -> Value,
) -> Result<Vec<ExecutionState>, Error> {
    let mut running = Vec::new();
    for device in &topology.query()?.devices {
        for resource in &device.compute_resources {
            let processing = compute.create_processing_unit(resource)?;
            let state = compute.create_execution_state(unit, argument(running.len()))?;
            compute.initialize(&processing)?;
            compute.start(&processing, &state)?;
            running.push((processing, state));
        }
    }
    for (_, state) in &running {
        compute.wait(state).done()?;
    }
    let mut states = Vec::new();
    for (processing, state) in running {
        // The state has finished; the unit is Ready a moment later.
        while let Err(Error::State { .. }) = compute.finalize(&processing) {
            std::thread::yield_now();
        }
        states.push(state);
    }
    Ok(states)
}

/// Fig. 7: creates missing Instances up to the desired number; for the root only.
pub fn ensure(
    instances: &dyn InstanceManager,
    desired: usize,
    needs: &Topology,
) -> Vec<Result<Instance, Refused>> {
    if !instances.current().is_root() {
        return Vec::new();
    }
    let missing = desired.saturating_sub(instances.instances().len());
    let template = instances.create_template(needs, serde_json::Value::Null);
    instances.create_instances(missing, &template)
}

/// A telephone game: the message is copied from each memory space to the next, and the last copy is returned.
pub fn telephone(
    topology: &dyn TopologyManager,
    memory: &dyn MemoryManager,
    communication: &dyn CommunicationManager,
    message: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut last: Option<LocalSlot> = None;
    for device in &topology.query()?.devices {
        for space in &device.memory_spaces {
            // Three slots per space, so that a single space has copies too.
            for _ in 0..3 {
                let next = memory.allocate(space, message.len())?;
                match &last {
                    None => next.write(0, message)?,
                    Some(last) => {
                        communication.memcpy(&next, 0, last, 0, message.len())?;
                        communication.fence((&next).into(), 0, 1)?.done()?;
                    }
                }
                last = Some(next);
            }
        }
    }
    last.map_or(Ok(Vec::new()), |last| last.read_values(0, message.len()))
}
