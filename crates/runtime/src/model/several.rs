//! Composite managers that dispatch to the first manager that claims the space, slots or resource.

use std::collections::BTreeMap;

use raw::Memory;

use super::{
    capability::Capability,
    communication::{At, CommunicationManager, GlobalSlot, Key, LockGuard, Slot, Tag},
    compute::{ComputeManager, ExecutionState, ProcessingUnit, Status},
    error::{Error, Rejected},
    function::{ExecutionUnit, Value},
    id::InstanceId,
    memory::{LocalSlot, MemoryManager},
    topology::TopologyManager,
    wait::Wait,
};
use hicr::{ComputeResource, MemorySpace, Topology};

/// Merged topologies without duplicate devices.
pub struct SeveralTopologies<'a>(pub Vec<&'a dyn TopologyManager>);

impl TopologyManager for SeveralTopologies<'_> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn supports(&self, capability: Capability) -> bool {
        self.0.iter().any(|manager| manager.supports(capability))
    }

    fn query(&self) -> Result<Topology, Error> {
        let mut all = Topology::default();
        for manager in &self.0 {
            for device in manager.query()?.devices {
                if !all.devices.contains(&device) {
                    all.devices.push(device);
                }
            }
        }
        Ok(all)
    }
}

/// Memory managers; the first that claims a space handles it.
pub struct SeveralMemories<'a>(pub Vec<&'a dyn MemoryManager>);

impl SeveralMemories<'_> {
    fn of(&self, space: &MemorySpace) -> Result<&dyn MemoryManager, Error> {
        self.0.iter().find(|manager| manager.claims(space)).copied().ok_or_else(|| {
            let why =
                format!("no memory manager manages this {} space; use one from the topology", space.type_);
            Error::misuse("allocate", why)
        })
    }

    fn made(&self, slot: &LocalSlot) -> Result<&dyn MemoryManager, Error> {
        let made = self.0.iter().find(|manager| manager.name() == slot.origin()).copied();
        made.ok_or_else(|| {
            Error::misuse("use a slot", format!("its manager, {}, is not one of these", slot.origin()))
        })
    }
}

impl MemoryManager for SeveralMemories<'_> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn supports(&self, capability: Capability) -> bool {
        self.0.iter().any(|manager| manager.supports(capability))
    }

    fn claims(&self, space: &MemorySpace) -> bool {
        self.0.iter().any(|manager| manager.claims(space))
    }

    fn allocate(&self, space: &MemorySpace, size: usize) -> Result<LocalSlot, Error> {
        self.of(space)?.allocate(space, size)
    }

    fn register_memory(&self, space: &MemorySpace, memory: Memory) -> Result<LocalSlot, Rejected<Memory>> {
        match self.of(space) {
            Ok(manager) => manager.register_memory(space, memory),
            Err(error) => Err(Rejected { error, value: memory }),
        }
    }

    fn fill(&self, slot: &LocalSlot, offset: usize, byte: u8, length: usize) -> Result<(), Error> {
        self.made(slot)?.fill(slot, offset, byte, length)
    }

    fn free(&self, slot: LocalSlot) -> Result<(), Rejected<LocalSlot>> {
        match self.made(&slot) {
            Ok(manager) => manager.free(slot),
            Err(error) => Err(Rejected { error, value: slot }),
        }
    }
}

/// Communication managers: the first that claims both ends copies, the first capable one exchanges.
pub struct SeveralCommunications<'a>(pub Vec<&'a dyn CommunicationManager>);

impl SeveralCommunications<'_> {
    fn of(&self, to: &str, from: &str) -> Result<&dyn CommunicationManager, Error> {
        self.0.iter().find(|manager| manager.claims(to, from)).copied().ok_or_else(|| {
            let why = format!(
                "no communication manager copies from a slot of {from} to one of {to}; copy through the host"
            );
            Error::misuse("copy", why)
        })
    }

    fn global(&self) -> Result<&dyn CommunicationManager, Error> {
        let able = |manager: &&&dyn CommunicationManager| manager.supports(Capability::GlobalCopies);
        self.0.iter().find(able).copied().ok_or_else(|| {
            Error::unsupported(
                "communication",
                "make slots global",
                "add the manager of the Instances' connection",
            )
        })
    }
}

impl CommunicationManager for SeveralCommunications<'_> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn supports(&self, capability: Capability) -> bool {
        self.0.iter().any(|manager| manager.supports(capability))
    }

    fn claims(&self, to: &str, from: &str) -> bool {
        self.0.iter().any(|manager| manager.claims(to, from))
    }

    fn copy(&self, to: At<'_, LocalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error> {
        self.of(to.slot.origin(), from.slot.origin())?.copy(to, from, size)
    }

    fn put(&self, to: At<'_, GlobalSlot>, from: At<'_, LocalSlot>, size: usize) -> Result<(), Error> {
        self.global()?.put(to, from, size)
    }

    fn signal(&self, to: &GlobalSlot, from: &LocalSlot) -> Result<(), Error> {
        self.global()?.signal(to, from)
    }

    fn get(&self, to: At<'_, LocalSlot>, from: At<'_, GlobalSlot>, size: usize) -> Result<(), Error> {
        self.global()?.get(to, from, size)
    }

    fn fence(&self, slot: Slot<'_>, sent: u64, received: u64) -> Result<Wait<()>, Error> {
        match slot {
            Slot::Local(local) => self.of(local.origin(), local.origin())?.fence(slot, sent, received),
            Slot::Global(_) => self.global()?.fence(slot, sent, received),
        }
    }

    fn fence_tag(&self, tag: Tag) -> Result<Wait<()>, Error> {
        self.global()?.fence_tag(tag)
    }

    fn exchange(
        &self,
        group: &[InstanceId],
        tag: Tag,
        slots: &[(Key, &LocalSlot)],
    ) -> Result<Wait<BTreeMap<Key, GlobalSlot>>, Error> {
        self.global()?.exchange(group, tag, slots)
    }

    fn destroy(&self, slot: GlobalSlot) -> Result<(), Error> {
        self.global()?.destroy(slot)
    }

    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error> {
        self.global()?.promote(slot)
    }

    fn to_bytes(&self, slot: &GlobalSlot) -> Result<Vec<u8>, Error> {
        self.global()?.to_bytes(slot)
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<GlobalSlot, Error> {
        self.global()?.from_bytes(bytes)
    }

    fn try_lock(&self, slot: &GlobalSlot) -> Result<Option<LockGuard>, Error> {
        self.global()?.try_lock(slot)
    }
}

/// Compute managers; the first that claims a resource or function format handles it.
pub struct SeveralComputes<'a>(pub Vec<&'a dyn ComputeManager>);

impl SeveralComputes<'_> {
    fn made(&self, origin: &str) -> Result<&dyn ComputeManager, Error> {
        let made = self.0.iter().find(|manager| manager.name() == origin).copied();
        made.ok_or_else(|| Error::misuse("execute", format!("the manager {origin} is not one of these")))
    }
}

impl ComputeManager for SeveralComputes<'_> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn supports(&self, capability: Capability) -> bool {
        self.0.iter().any(|manager| manager.supports(capability))
    }

    fn claims(&self, resource: &ComputeResource) -> bool {
        self.0.iter().any(|manager| manager.claims(resource))
    }

    fn takes(&self, unit: &ExecutionUnit) -> bool {
        self.0.iter().any(|manager| manager.takes(unit))
    }

    fn create_processing_unit(&self, resource: &ComputeResource) -> Result<ProcessingUnit, Error> {
        let claims = self.0.iter().find(|manager| manager.claims(resource)).ok_or_else(|| {
            Error::misuse(
                "create a processing unit",
                format!("no compute manager supports a {}", resource.type_),
            )
        })?;
        claims.create_processing_unit(resource)
    }

    fn create_execution_state(
        &self,
        unit: &ExecutionUnit,
        arguments: Value,
    ) -> Result<ExecutionState, Error> {
        let takes = self.0.iter().find(|manager| manager.takes(unit)).ok_or_else(|| {
            let instead = "add the manager of this kind of function";
            Error::unsupported("compute", &format!("take {}", unit.name()), instead)
        })?;
        takes.create_execution_state(unit, arguments)
    }

    fn initialize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        self.made(unit.origin())?.initialize(unit)
    }

    fn start(&self, unit: &ProcessingUnit, state: &ExecutionState) -> Result<(), Error> {
        self.made(unit.origin())?.start(unit, state)
    }

    fn run(&self, state: &ExecutionState) -> Result<Status, Error> {
        self.made(state.origin())?.run(state)
    }

    fn suspend(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        self.made(unit.origin())?.suspend(unit)
    }

    fn resume(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        self.made(unit.origin())?.resume(unit)
    }

    fn finalize(&self, unit: &ProcessingUnit) -> Result<(), Error> {
        self.made(unit.origin())?.finalize(unit)
    }
}
